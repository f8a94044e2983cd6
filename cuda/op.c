/* The op table of the CUDA backend: checks and bookkeeping common to all kinds, and conversion of
 * parameters between plain and op-specific layout. */
#include <stdio.h>
#include <string.h>

#include "backend/ct_expr_view.h"
#include "backend/ct_strided.h"
#include "base/ct_hash.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "cuda/gpu.h"

static const gpu__kind_t *const kinds[CT_OP_COUNT] = {
#define X(name, word, ...) &gpu__kind_##word,
    CT_OP_LIST(X)
#undef X
};

/* ---- support ---- */

static int is_reduced(ct_dtype_t t)
{
  return t == CT_BF16 || t == CT_F16;
}

static int type_fits(const ct_op_desc_t *d, const gpu__kind_t *k, char why[128])
{
  ct_dtype_t y = d->y.dtype, x = ct_op_is(d->kind, CT_KIND_INDEX) ? y : d->x.dtype;
  if (!is_reduced(x) || k->reduced) return 1;
  snprintf(why, 128, "the CUDA backend has no '%s' op from %s to %s", ct_op_name(d->kind),
           ct_dtype_name(x), ct_dtype_name(y));
  return 0;
}

static int known(const gpu__kind_t *k)
{
  return k->run || k->enqueue;
}

/* Returns from how many dims on a kind with `nhwc` has its channels last. */
static int channel_dims(const ct_op_desc_t *d)
{
  return d->kind == CT_OP_BNORM ? 3 : 4;
}

/* Returns gpu__kind_t.nhwc for an op. A sample of dropout that is not an index of dim 0 is plain,
 * as are some reductions. */
static int nhwc_of(const ct_op_desc_t *d, const gpu__kind_t *k)
{
  int spread = d->kind == CT_OP_DROPOUT && (d->u.dropout.dim || d->u.dropout.rows > 1);
  int fixed = d->kind == CT_OP_REDUCE && !gpu__reduce_nhwc(d);
  if (d->kind == CT_OP_HEAD_LOSS && !d->u.loss.classes_last) return 1;
  return spread || fixed ? -1 : k->nhwc;
}

static int layout_fits(const ct_op_desc_t *d, const gpu__kind_t *k)
{
  ct_layout_t l = d->x.layout;
  if (l != CT_PLAIN && l != CT_NHWC) return 0;
  if (d->x.ndim < channel_dims(d)) return l == CT_PLAIN;
  return nhwc_of(d, k) > 0 ? l == CT_NHWC : nhwc_of(d, k) < 0 ? l == CT_PLAIN : 1;
}

int gpu__cannot(char why[128], const char *reason)
{
  snprintf(why, 128, "%s", reason);
  return 0;
}

static int op_supports(ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  if (!ct_op_check(d, why)) return 0;
  if (ct_op_is_int8(d)) {
    snprintf(why, 128, "the CUDA backend has no int8 ops");
    return 0;
  }
  const gpu__kind_t *k = kinds[d->kind];
  if (!known(k)) {
    snprintf(why, 128, "the CUDA backend has no op '%s'", ct_op_name(d->kind));
    return 0;
  }
  if (!type_fits(d, k, why)) return 0;
  return k->supports ? k->supports(dev, d, why) : 1;
}

static ct_layout_t op_wants(ct_dev_t *dev, const ct_op_desc_t *d)
{
  const gpu__kind_t *k = kinds[d->kind];
  (void)dev;
  if (d->kind == CT_OP_EXPR) return ct_expr_wants(d) == CT_NHWC ? CT_NHWC : CT_PLAIN;
  if (d->kind == CT_OP_STRIDED && k->run && (!layout_fits(d, k) || ct_strided_layout(d) < 0))
    return CT_PLAIN;
  if (!known(k) || d->kind == CT_OP_REORDER || layout_fits(d, k)) return d->x.layout;
  return d->x.ndim >= channel_dims(d) && nhwc_of(d, k) >= 0 ? CT_NHWC : CT_PLAIN;
}

int64_t gpu__rows(const ct_shape_t *s)
{
  int64_t rows = s->dim[0];
  for (int i = 2; i < s->ndim; i++)
    rows *= s->dim[i];
  return rows;
}

void gpu__gradient_kernels(const ct_op_desc_t *d, int bias, ct_op_info_t *info)
{
  int weights = (d->passes & CT_BWD_PARAM) != 0, data = (d->passes & CT_BWD_DATA) != 0;
  int sums = weights && bias, reads = data + weights + sums;
  if (reads == 0) return;
  info->extra_bytes[1] = (reads - 1) * (double)ct_shape_bytes(&d->y);
  info->kernels[1] = reads + sums; /* the sums over rows take two */
}

/* ---- creation and destruction ---- */

static void release(ct_op_t *op)
{
  if (!op) return;
  if (op->kind->clear) op->kind->clear(op);
  ct_mem_free(op);
}

static uint64_t layout_hash(const ct_op_t *op)
{
  uint64_t h = ct_hash_text("cuda", 0);
  for (int i = 0; i < CT_OP_PARAMS; i++) {
    h = ct_hash_int((int64_t)op->param_bytes[i], h);
    h = ct_hash_int(op->turn[i].outer ? op->turn[i].middle : 0, h);
  }
  return h;
}

static int op_prepare(ct_dev_t *dev, const ct_op_desc_t *d, const ct_op_t *like, ct_op_t **out,
                      ct_op_info_t *info)
{
  int rc = CT_OK;
  char why[128], text[160];
  const gpu__kind_t *k;
  ct_op_t *op = NULL;
  *out = NULL;
  if (!op_supports(dev, d, why))
    CT_FAIL(CT_ERR_UNSUP, "%s: %s", ct_op_text(d, text, sizeof text), why);
  k = kinds[d->kind];
  if (d->kind != CT_OP_REORDER && !layout_fits(d, k))
    CT_FAIL(CT_ERR_UNSUP, "%s: the CUDA backend does not support the layout %s",
            ct_op_text(d, text, sizeof text), ct_layout_name(d->x.layout));
  op = ct_mem_alloc(k->size, "CUDA op");
  if (!op) return CT_ERR_NOMEM;
  op->kind = k;
  op->dev = dev;
  memcpy(&op->desc, d, sizeof *d);
  *info = ct_op_info_of(d, "kernel");
  op->desc.y.layout = info->y_layout;
  info->reads_reduced = is_reduced(d->x.dtype) ? k->low : 0;
  if (k->prepare) CT_TRY(k->prepare(op, info));
  op->desc.y.layout = info->y_layout;
  memcpy(op->param_bytes, info->param_bytes, sizeof op->param_bytes);
  info->param_layout = layout_hash(op);
  if (like && layout_hash(like) != info->param_layout)
    CT_FAIL(CT_ERR_SHAPE, "%s: its parameters differ from those of the layer's other op",
            ct_op_text(d, text, sizeof text));
  *out = op;
  op = NULL;
out:
  release(op);
  return rc;
}

/* ---- running ---- */

static int op_run(ct_queue_t *q, ct_op_t *op, const ct_op_args_t *a)
{
  int rc = ct_op_check_pass(&op->desc, a->pass);
  if (rc != CT_OK) return rc;
  if (op->kind->enqueue) return op->kind->enqueue(q, op, a);
  if (q->noting) return gpu__note_op(q, op, a);
  return op->kind->run(op, a, NULL, q->stream);
}

/* ---- parameters ---- */

/* Transposes [outer][rows][columns] to [outer][columns][rows]. */
static void turn(const float *from, float *to, int64_t outer, int64_t rows, int64_t columns)
{
  for (int64_t o = 0; o < outer; o++)
    for (int64_t r = 0; r < rows; r++)
      for (int64_t c = 0; c < columns; c++)
        to[(o * columns + c) * rows + r] = from[(o * rows + r) * columns + c];
}

static int transfer(ct_queue_t *q, void *dst, const void *src, size_t bytes)
{
  int rc = CT_OK;
  CT_TRY(gpu__mem_ops.copy(q, dst, src, bytes));
  CT_TRY(gpu__queue_ops.sync(q));
out:
  return rc;
}

static int op_pack(ct_queue_t *q, ct_op_t *op, int param, const float *plain, void *own)
{
  int rc = CT_OK;
  const gpu__turn_t *t = &op->turn[param];
  size_t bytes = op->param_bytes[param];
  if (t->outer == 0) return transfer(q, own, plain, bytes);
  float *turned = ct_mem_alloc(bytes, "weights in the GPU's layout");
  if (!turned) return CT_ERR_NOMEM;
  turn(plain, turned, t->outer, t->middle, t->inner);
  rc = transfer(q, own, turned, bytes);
  ct_mem_free(turned);
  return rc;
}

static int op_unpack(ct_queue_t *q, ct_op_t *op, int param, const void *own, float *plain)
{
  int rc = CT_OK;
  const gpu__turn_t *t = &op->turn[param];
  size_t bytes = op->param_bytes[param];
  if (t->outer == 0) return transfer(q, plain, own, bytes);
  float *turned = ct_mem_alloc(bytes, "weights in the GPU's layout");
  if (!turned) return CT_ERR_NOMEM;
  rc = transfer(q, turned, own, bytes);
  if (rc == CT_OK) turn(turned, plain, t->outer, t->inner, t->middle);
  ct_mem_free(turned);
  return rc;
}

/* ---- autotuning ---- */

static int op_tunes(ct_dev_t *dev)
{
  return dev->autotune;
}

static int op_choices(ct_dev_t *dev, void **out, size_t *bytes)
{
  ct_str_t text = {0};
  gpu__choices_save(dev->choices);
  int rc = gpu__choices_text(dev->choices, &text);
  if (rc != CT_OK) ct_str_clear(&text);
  *out = text.data;
  *bytes = text.len;
  return rc;
}

static int op_adopt(ct_dev_t *dev, const void *choices, size_t bytes)
{
  int rc = gpu__choices_take(dev->choices, choices, bytes);
  if (rc != CT_ERR_DIFFER) return rc;
  ct_log_all(CT_LOG_WARN,
             "this rank times algorithms on its own, since rank 0 has another GPU or other "
             "libraries: here %s",
             dev->describe);
  return CT_OK;
}

const ct_op_ops_t gpu__op_ops = {.supports = op_supports,
                                 .wants = op_wants,
                                 .prepare = op_prepare,
                                 .run = op_run,
                                 .release = release,
                                 .pack = op_pack,
                                 .unpack = op_unpack,
                                 .tunes = op_tunes,
                                 .choices = op_choices,
                                 .adopt = op_adopt};
