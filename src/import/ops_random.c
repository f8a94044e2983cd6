/* Rules: random numbers and tensors of one number. */
#include <string.h>

#include "import/import.h"

/* Returns 1 if there is one number for each sample: N x 1 x 1. */
static int random_is_draw(const ct_shape_t *s)
{
  if (s->batch != 1 || s->ndim < 2) return 0;
  for (int i = 1; i < s->ndim; i++)
    if (s->dim[i] != 1) return 0;
  return 1;
}

/* randn, rand and their like; data: the kind of numbers. */
static int random_numbers(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x;
  ct_shape_t s;
  CT_TRY(ct__im_result(t, n, &s));
  if (strcmp(data, "uniform") == 0 && random_is_draw(&s)) {
    CT_TRY(ct__im_draw(t, &s, -1, &x));
    return ct__im_done(t, n, x);
  }
  const char *dims = ct__im_dims(t, &s);
  if (!dims) return CT_ERR_NOMEM;
  CT_TRY(ct__im_add(t, &x, "random", &s, 0, NULL, "kind: %s, shape: %s", (const char *)data, dims));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

/* bernoulli with one probability for all elements. */
static int random_bernoulli(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x;
  double p;
  char number[40];
  ct_shape_t s;
  (void)data;
  if (ct_pt2_is_none(n, "p")) return ct__im_refuse("its probabilities are a tensor");
  CT_TRY(ct_pt2_number(t->g, n, "p", &p));
  CT_TRY(ct__im_result(t, n, &s));
  if (random_is_draw(&s)) {
    CT_TRY(ct__im_draw(t, &s, p, &x));
    return ct__im_done(t, n, x);
  }
  const char *dims = ct__im_dims(t, &s);
  if (!dims) return CT_ERR_NOMEM;
  CT_TRY(ct__im_add(t, &x, "random", &s, 0, NULL, "kind: bernoulli, p: %s, shape: %s",
                    ct_text_number(p, number, sizeof number), dims));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

#define RANDOM(op, kind)             \
  {                                  \
    "aten." op, random_numbers, kind \
  }

const ct__im_rule_t ct__im_randoms[] = {RANDOM("randn", "normal"),
                                        RANDOM("randn_like", "normal"),
                                        RANDOM("rand", "uniform"),
                                        RANDOM("rand_like", "uniform"),
                                        {"aten.bernoulli", random_bernoulli, NULL},
                                        {NULL, NULL, NULL}};
