/* int8 ops by definition: dequantizes activations, rounds weights, runs the float32 op, and
 * quantizes its result. */
#include "ref/ref.h"

#include <math.h>
#include <string.h>

#include "base/ct_mem.h"

enum { X, X2, Y, FIRST_W, ARRAYS = FIRST_W + CT_OP_PARAMS };

/* float32 copies of activations and parameters of one run. */
typedef struct copies {
  float *at[ARRAYS];
} copies_t;

static int64_t padded(const ct_shape_t *s)
{
  return ct_shape_padded(s);
}

static int int8_widen(const ct_shape_t *s, const ct_quant_params_t *qp, const uint8_t *q,
                      float **out)
{
  int64_t n = padded(s);
  if (!(*out = ct_mem_array(n + 1, sizeof **out, "reference op"))) return CT_ERR_NOMEM;
  for (int64_t i = 0; i < n; i++)
    (*out)[i] = ct_quant_from_u8(qp, q[i]);
  return CT_OK;
}

/* Fake-quantizes x with the range of this batch. */
static int round_batch(const ct_op_desc_t *d, const float *x, float **out)
{
  int64_t n = padded(&d->x);
  float low = 0, high = 0;
  if (!(*out = ct_mem_array(n + 1, sizeof **out, "reference op"))) return CT_ERR_NOMEM;
  for (int64_t i = 0; i < n; i++) {
    if (x[i] < low) low = x[i];
    if (x[i] > high) high = x[i];
  }
  ct_quant_params_t qp = ct_quant_params_of(low, high);
  for (int64_t i = 0; i < n; i++)
    (*out)[i] = ct_quant_from_u8(&qp, ct_quant_to_u8(&qp, x[i]));
  return CT_OK;
}

/* Returns 1 for weight matrices; biases stay float32. */
static int is_rounded(const ct_op_desc_t *d, int param)
{
  return param == 0 || (d->kind == CT_OP_LSTM && param == 1);
}

static int round_weights(const ct_op_desc_t *d, int param, const float *w, float **out)
{
  int64_t n = ct_op_param_count(d, param);
  int64_t channels = d->kind == CT_OP_CONV ? d->y.dim[1] : d->y.dim[d->y.ndim - 1];
  if (d->kind == CT_OP_LSTM) channels *= 4;
  int64_t each = n / channels;
  float *v = *out = ct_mem_array(n, sizeof *v, "reference op");
  if (!v) return CT_ERR_NOMEM;
  for (int64_t c = 0; c < channels; c++) {
    float scale = ct_quant_weight_scale(each, w + c * each);
    for (int64_t i = c * each; i < (c + 1) * each; i++)
      v[i] = scale * rintf(w[i] / scale);
  }
  return CT_OK;
}

static int make_copies(const ct_op_desc_t *d, ct_op_args_t *a, copies_t *c)
{
  int rc = CT_OK;
  ct_shape_t second = ct_op_second(d);
  if (d->x.dtype == CT_U8) CT_TRY(int8_widen(&d->x, &d->q.x, a->x, &c->at[X]));
  if (d->q.dynamic) CT_TRY(round_batch(d, a->x, &c->at[X]));
  if (d->q.x2.scale > 0) CT_TRY(int8_widen(&second, &d->q.x2, a->x2, &c->at[X2]));
  if (d->y.dtype == CT_U8 &&
      !(c->at[Y] = ct_mem_array(padded(&d->y) + 1, sizeof *c->at[Y], "reference op")))
    return CT_ERR_NOMEM;
  for (int i = 0; i < CT_OP_PARAMS; i++)
    if (is_rounded(d, i) && ct_op_param_count(d, i))
      CT_TRY(round_weights(d, i, a->w[i], &c->at[FIRST_W + i]));
  if (c->at[X]) a->x = c->at[X];
  if (c->at[X2]) a->x2 = c->at[X2];
  if (c->at[Y]) a->y = c->at[Y];
  for (int i = 0; i < CT_OP_PARAMS; i++)
    if (c->at[FIRST_W + i]) a->w[i] = c->at[FIRST_W + i];
out:
  return rc;
}

static ct_op_desc_t of_floats(const ct_op_desc_t *d)
{
  ct_op_desc_t wide = *d;
  memset(&wide.q, 0, sizeof wide.q);
  wide.x.dtype = wide.y.dtype = CT_F32;
  return wide;
}

static void int8_needs(const ct_op_desc_t *d, ct_op_info_t *info)
{
  const ct_op_desc_t wide = of_floats(d);
  ct_op_info_t of_wide = ct_op_info_of(&wide, "");
  if (ct__ref_kinds[wide.kind]->needs) ct__ref_kinds[wide.kind]->needs(&wide, &of_wide);
  info->scratch = of_wide.scratch;
  info->saved = of_wide.saved;
}

static int int8_run(const ct_op_desc_t *d, const ct_op_args_t *args)
{
  int rc = CT_OK;
  copies_t c = {{NULL}};
  ct_op_args_t a = *args;
  const ct_op_desc_t wide = of_floats(d);
  CT_TRY(make_copies(d, &a, &c));
  CT_TRY(ct__ref_kinds[wide.kind]->run(&wide, &a));
  uint8_t *y = args->y;
  for (int64_t i = 0, n = c.at[Y] ? padded(&d->y) : 0; i < n; i++)
    y[i] = ct_quant_to_u8(&d->q.y, c.at[Y][i]);
out:
  for (int i = 0; i < ARRAYS; i++)
    ct_mem_free(c.at[i]);
  return rc;
}

const ct__ref_kind_t ct__ref_int8 = {.needs = int8_needs, .run = int8_run};
