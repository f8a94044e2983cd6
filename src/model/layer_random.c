/* Random numbers, drawn for each sample in each step, in training and in evaluation: torch.randn,
 * torch.rand, torch.bernoulli.  They depend on the seed, the step and the sample's index in the
 * global batch only, so they are identical for any number of ranks. */
#include "model/layer_usual.h"

#include <string.h>

#include "base/ct_err.h"
#include "base/ct_text.h"

typedef struct {
  int kind;
  double p;
  ct_opt_texts_t shape;
} random_t;

static const ct_opt_t random_rows[] = {
    CT_OPT_CHOICE(random_t, kind, "normal", "normal|uniform|bernoulli", "distribution"),
    CT_OPT_DOUBLE(random_t, p, "0.5", 0, 1, "bernoulli: probability of 1"),
    CT_OPT_TEXTS(random_t, shape, NULL, "its shape, such as [N, 3, 8, 8]; N: the batch"),
    CT_OPT_END};

/* Reads a dim: a whole number, or for the first dim N or a whole number and N. */
static int read_dim(const char *text, int first, int64_t *dim)
{
  int rc = CT_OK;
  char digits[24];
  size_t n = strlen(text);
  int batch = n > 0 && text[n - 1] == 'N';
  CT_TRY(ct_text_format(digits, sizeof digits, "%.*s", (int)(n - (size_t)batch), text));
  *dim = 1;
  if (batch != first)
    CT_FAIL(CT_ERR_SHAPE,
            first ? "shape: the first dim must be N or a multiple such as 4N, not %s"
                  : "shape: only the first dim can grow with the batch, not %s",
            text);
  if (batch && n == 1) return CT_OK;
  if (ct_text_int(digits, dim) != CT_OK || *dim < 1 || *dim > INT32_MAX)
    CT_FAIL(CT_ERR_SHAPE, "shape: expected a whole number of at least 1, not %s", text);
out:
  return rc;
}

static int random_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK;
  const random_t *o = opts;
  int64_t dim[CT_MAX_DIMS] = {0};
  (void)in;
  if (o->shape.n < 1 || o->shape.n > CT_MAX_DIMS)
    CT_FAIL(CT_ERR_SHAPE, "shape: expected 1 to %d dims, not %d", CT_MAX_DIMS, o->shape.n);
  for (int i = 0; i < o->shape.n; i++)
    CT_TRY(read_dim(o->shape.v[i], i == 0, &dim[i]));
  *out = ct_shape_dims(o->shape.n, dim);
  out->batch = 1;
out:
  return rc;
}

static void random_attributes(const void *opts, ct_op_desc_t *d)
{
  const random_t *o = opts;
  d->u.random.kind = (ct_random_t)o->kind;
  if (o->kind == CT_RANDOM_BERNOULLI) d->u.random.p = o->p;
}

const ct_layer_ops_t ct__layer_random = {
    .kind = "random",
    .help = "random numbers for each sample",
    .opts_bytes = sizeof(random_t),
    .opts = random_rows,
    .general = 1,
    .infer = random_infer,
    .op = CT_OP_RANDOM,
    .attributes = random_attributes,
};
