/* The class token and the pixels of an image as a sequence, with position embeddings, as vision
 * transformers begin: cat(token, permute(flatten(image))) + places. */
#include <string.h>

#include "import/import.h"

/* Returns 1 if a layer is a parameter that nothing else uses. */
static int tokens_owns(const ct__im_t *t, int x)
{
  return ct__im_is(t, x, "parameter") && t->g->value[t->layer[x].value].uses == 1;
}

/* Returns the image N x D x H x W whose pixels a layer has as a sequence N x HW x D; -1: others. */
static int tokens_image(const ct__im_t *t, int x)
{
  const ct__im_layer_t *l = &t->layer[x];
  if (!ct__im_is(t, x, "permute") || l->shape.ndim != 3) return -1;
  if (l->perm[0] != 0 || l->perm[1] != 2) return -1;
  int flat = l->in[0];
  if (!ct__im_is(t, flat, "reshape")) return -1;
  int image = t->layer[flat].in[0];
  const ct_shape_t *s = &t->layer[image].shape, *f = &t->layer[flat].shape;
  int fits = s->ndim == 4 && s->batch == 1 && s->dim[0] == f->dim[0] && s->dim[1] == f->dim[1];
  return fits ? image : -1;
}

int ct__im_match_tokens(ct__im_t *t, int x, int places, int *out)
{
  int rc = CT_OK;
  const ct__im_layer_t *l = &t->layer[x];
  *out = -1;
  if (!ct__im_is(t, x, "concat") || l->perm[0] != 1 || l->perm[1] != 2) return CT_OK;
  if (!ct__im_is(t, l->in[0], "expand") || !tokens_owns(t, places)) return CT_OK;
  int token = t->layer[l->in[0]].in[0], image = tokens_image(t, l->in[1]);
  if (image < 0 || !tokens_owns(t, token)) return CT_OK;
  const ct_shape_t *s = &t->layer[token].shape, *p = &t->layer[places].shape;
  if (s->ndim != 3 || s->dim[1] != 1 || p->ndim != 3 || p->dim[0] != 1) return CT_OK;
  if (p->dim[1] != l->shape.dim[1]) return CT_OK;
  int values[2] = {t->layer[token].value, t->layer[places].value};
  CT_TRY(ct__im_one(t, out, "tokens", &t->layer[x].shape, image, NULL));
  ct__im_weight(t, *out, "class_token", values[0]);
  ct__im_weight(t, *out, "pos_embedding", values[1]);
out:
  return rc;
}
