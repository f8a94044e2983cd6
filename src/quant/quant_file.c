/* Quantized models as named arrays: /quant/weight/NAME (int8), /quant/scale/NAME (per output
 * channel), /quant/range/LAYER, and all other parameters under /model/NAME, as in a checkpoint. */
#include "quant/ct_quant_file.h"

#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"

#define RANGE_END ".quant.range"

enum { NAME_MAX_BYTES = 160 };

static int name_of(const char *group, const char *param, char out[NAME_MAX_BYTES])
{
  size_t end = strlen(param), tail = strlen(RANGE_END);
  if (end > tail && strcmp(param + end - tail, RANGE_END) == 0) end -= tail;
  return ct_text_format(out, NAME_MAX_BYTES, "/%s/%.*s", group, (int)end, param);
}

int ct_quant_file_has_bits(const ct_graph_t *g, int param, int dynamic, int64_t *channels)
{
  ct_op_kind_t kind = g->layer[g->param[param].layer].ops->op;
  return ct_quant_is_weight(g, param, channels) && !(dynamic && kind == CT_OP_CONV);
}

int ct_quant_file_is(const ct_store_ops_t *ops, const ct_store_t *s)
{
  ct_shape_t shape;
  for (int i = 0, n = ops->count(s); i < n; i++)
    if (strncmp(ops->item(s, i, &shape), "/quant/", 7) == 0) return 1;
  return 0;
}

/* ---- int8 weights ---- */

typedef struct bits {
  ct_shape_t shape, per_channel;
  int64_t channels, each;
  int8_t *q;
  float *scale;
} bits_t;

static int bits_open(const ct_graph_t *g, int param, int64_t channels, bits_t *b)
{
  const ct_param_t *p = &g->param[param];
  *b = (bits_t){.shape = p->spec.shape, .channels = channels, .each = p->count / channels};
  b->shape.dtype = CT_I8;
  b->per_channel = ct_shape(1, channels);
  b->q = ct_mem_array(p->count, sizeof *b->q, "int8 weights");
  b->scale = ct_mem_array(channels, sizeof *b->scale, "int8 weights");
  return b->q && b->scale ? CT_OK : CT_ERR_NOMEM;
}

static void bits_close(bits_t *b)
{
  ct_mem_free(b->q);
  ct_mem_free(b->scale);
}

static int put_bits(const ct_store_ops_t *ops, ct_store_t *s, const ct_graph_t *g, int param,
                    int64_t channels, const float *w)
{
  int rc = CT_OK;
  bits_t b;
  char name[NAME_MAX_BYTES];
  CT_TRY(bits_open(g, param, channels, &b));
  ct_quant_weights(channels, b.each, w, b.q, b.scale);
  CT_TRY(name_of("quant/weight", g->param[param].name, name));
  CT_TRY(ops->put(s, name, &b.shape, b.q));
  CT_TRY(name_of("quant/scale", g->param[param].name, name));
  CT_TRY(ops->put(s, name, &b.per_channel, b.scale));
out:
  bits_close(&b);
  return rc;
}

static int get_bits(const ct_store_ops_t *ops, ct_store_t *s, const ct_graph_t *g, int param,
                    int64_t channels, float *w)
{
  int rc = CT_OK;
  bits_t b;
  char name[NAME_MAX_BYTES];
  CT_TRY(bits_open(g, param, channels, &b));
  CT_TRY(name_of("quant/weight", g->param[param].name, name));
  CT_TRY(ops->get(s, name, &b.shape, b.q));
  CT_TRY(name_of("quant/scale", g->param[param].name, name));
  CT_TRY(ops->get(s, name, &b.per_channel, b.scale));
  for (int64_t c = 0; c < channels; c++)
    if (!(b.scale[c] > 0)) CT_FAIL(CT_ERR_FORMAT, "%s: a scale is not above 0", name);
  ct_quant_weights_back(channels, b.each, b.q, b.scale, w);
out:
  bits_close(&b);
  return rc;
}

/* ---- all parameters ---- */

static int put_param(const ct_store_ops_t *ops, ct_store_t *s, const ct_graph_t *g, int i,
                     int dynamic, const float *value)
{
  int rc = CT_OK;
  int64_t channels;
  char name[NAME_MAX_BYTES];
  const ct_param_t *p = &g->param[i];
  int range = ct_observed_is_range(g, i);
  if (range && dynamic) return CT_OK;
  if (ct_quant_file_has_bits(g, i, dynamic, &channels))
    return put_bits(ops, s, g, i, channels, value);
  CT_TRY(name_of(range ? "quant/range" : "model", p->name, name));
  CT_TRY(ops->put(s, name, &p->spec.shape, value));
out:
  return rc;
}

int ct_quant_file_write(const ct_store_ops_t *ops, const char *path, const ct_graph_t *g,
                        const float *const value[], const char *config, const char *how)
{
  int rc = CT_OK, dynamic = strncmp(how, "dynamic", 7) == 0;
  ct_store_t *s = NULL;
  CT_TRY(ops->create(path, &s));
  for (int i = 0; i < g->params; i++)
    CT_TRY(put_param(ops, s, g, i, dynamic, value[i]));
  CT_TRY(ops->put_text(s, "/meta/config", config));
  CT_TRY(ops->put_text(s, "/meta/quant", how));
  ct_store_t *whole = s;
  s = NULL;
  CT_TRY(ops->commit(whole));
out:
  ops->discard(s);
  return rc;
}

static int get_param(const ct_store_ops_t *ops, ct_store_t *s, const ct_graph_t *g, int i,
                     int dynamic, float *value)
{
  int rc = CT_OK;
  int64_t channels;
  char name[NAME_MAX_BYTES];
  const ct_param_t *p = &g->param[i];
  int range = ct_observed_is_range(g, i);
  if (range) value[0] = value[1] = 0;
  if (range && dynamic) return CT_OK;
  if (ct_quant_file_has_bits(g, i, dynamic, &channels))
    return get_bits(ops, s, g, i, channels, value);
  CT_TRY(name_of(range ? "quant/range" : "model", p->name, name));
  CT_TRY(ops->get(s, name, &p->spec.shape, value));
  if (range && !(value[0] <= 0 && value[1] >= 0))
    CT_FAIL(CT_ERR_FORMAT, "%s is from %g to %g, expected a range with 0 in it", name, value[0],
            value[1]);
out:
  return rc;
}

int ct_quant_file_read(const ct_store_ops_t *ops, ct_store_t *s, const ct_graph_t *g,
                       float *const value[], int *dynamic)
{
  int rc = CT_OK;
  char *how = NULL;
  CT_TRY(ops->get_text(s, "/meta/quant", &how));
  *dynamic = strncmp(how, "dynamic", 7) == 0;
  for (int i = 0; i < g->params; i++)
    CT_TRY(get_param(ops, s, g, i, *dynamic, value[i]));
out:
  ct_mem_free(how);
  return rc;
}
