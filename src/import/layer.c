/* The list of layers that grows during a translation, and its memory. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_mem.h"
#include "import/import.h"

/* ---- memory ---- */

struct ct__im_block {
  struct ct__im_block *next;
};

void *ct__im_alloc(ct__im_t *t, int64_t n, size_t size)
{
  size_t bytes;
  if (n < 1) n = 1;
  if (__builtin_mul_overflow((size_t)n, size, &bytes) || bytes > SIZE_MAX / 2) bytes = SIZE_MAX / 2;
  ct__im_block_t *b = ct_mem_alloc(64 + bytes, "translation of a program");
  if (!b) return NULL;
  b->next = t->blocks;
  t->blocks = b;
  return (char *)b + 64;
}

static const char *layer_vformat(ct__im_t *t, const char *fmt, va_list args)
{
  va_list again;
  va_copy(again, args);
  int n = vsnprintf(NULL, 0, fmt, args);
  char *text = ct__im_alloc(t, (int64_t)n + 1, 1);
  if (text) vsnprintf(text, (size_t)n + 1, fmt, again);
  va_end(again);
  return text;
}

const char *ct__im_format(ct__im_t *t, const char *fmt, ...)
{
  va_list args;
  va_start(args, fmt);
  const char *text = layer_vformat(t, fmt, args);
  va_end(args);
  return text;
}

void ct__im_free(ct__im_t *t)
{
  while (t->blocks) {
    ct__im_block_t *next = t->blocks->next;
    ct_mem_free(t->blocks);
    t->blocks = next;
  }
  ct_mem_free(t->layer);
  ct_mem_free(t->fft);
  ct_mem_free(t->fft_matrix);
  ct_str_clear(&t->text);
}

/* ---- layers ---- */

static int layer_append(ct__im_t *t, int *out, const char *kind, const ct_shape_t *shape, int ins,
                        const int *in)
{
  int rc = CT_OK;
  void *list = t->layer;
  int *copy = ct__im_alloc(t, ins, sizeof *copy);
  if (!copy) return CT_ERR_NOMEM;
  if (ins) memcpy(copy, in, (size_t)ins * sizeof *in);
  CT_TRY(ct_mem_grow(&list, &t->layer_cap, t->layers + 1, sizeof *t->layer));
  t->layer = list;
  t->layer[t->layers] = (ct__im_layer_t){
      .kind = kind, .opts = "", .text = "", .shape = *shape, .in = copy, .ins = ins, .value = -1};
  t->layer[t->layers].node = t->at;
  *out = t->layers++;
out:
  return rc;
}

int ct__im_add(ct__im_t *t, int *out, const char *kind, const ct_shape_t *shape, int ins,
               const int *in, const char *opts, ...)
{
  int rc = CT_OK;
  const char *text = "";
  ct_shape_t s = *shape; /* it may lie in the list, which grows */
  if (opts) {
    va_list args;
    va_start(args, opts);
    text = layer_vformat(t, opts, args);
    va_end(args);
    if (!text) return CT_ERR_NOMEM;
  }
  CT_TRY(layer_append(t, out, kind, &s, ins, in));
  t->layer[*out].opts = text;
out:
  return rc;
}

int ct__im_one(ct__im_t *t, int *out, const char *kind, const ct_shape_t *shape, int in,
               const char *opts, ...)
{
  int rc = CT_OK;
  const char *text = "";
  ct_shape_t s = *shape;
  if (opts) {
    va_list args;
    va_start(args, opts);
    text = layer_vformat(t, opts, args);
    va_end(args);
    if (!text) return CT_ERR_NOMEM;
  }
  CT_TRY(layer_append(t, out, kind, &s, 1, &in));
  t->layer[*out].opts = text;
out:
  return rc;
}

void ct__im_weight(ct__im_t *t, int layer, const char *suffix, int value)
{
  ct__im_layer_t *l = &t->layer[layer];
  if (l->weights == CT_LAYER_PARAMS) return;
  l->suffix[l->weights] = suffix;
  l->weight[l->weights++] = ct__im_root(t, value);
}

const ct__im_layer_t *ct__im_layer(const ct__im_t *t, int layer)
{
  return &t->layer[layer];
}

int ct__im_is(const ct__im_t *t, int layer, const char *kind)
{
  const char *is = t->layer[layer].kind;
  return is && strcmp(is, kind) == 0;
}

const char *ct__im_list(ct__im_t *t, int n, const int64_t *v, int one)
{
  const char *text = "";
  int equal = n > 0;
  for (int i = 1; i < n; i++)
    equal &= v[i] == v[0];
  if (one && equal) return ct__im_format(t, "%" PRId64, v[0]);
  for (int i = 0; i < n && text; i++)
    text = ct__im_format(t, "%s%s%" PRId64, text, i ? ", " : "", v[i]);
  return text ? ct__im_format(t, "[%s]", text) : NULL;
}

int ct__im_root(const ct__im_t *t, int value)
{
  int tied = value >= 0 ? t->g->value[value].tied : -1;
  return tied >= 0 ? tied : value;
}

int ct__im_same(const ct_shape_t *a, const ct_shape_t *b)
{
  return ct_shape_same(a, b) && a->batch == b->batch;
}
