#include "backend/ct_op.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "backend/ct_rules.h"

static void copy_shape(ct_shape_t *to, const ct_shape_t *from)
{
  /* field by field: an assignment may carry the padding of `from` along, which breaks memcmp */
  to->dtype = from->dtype;
  to->layout = from->layout;
  to->ndim = from->ndim;
  memcpy(to->dim, from->dim, sizeof to->dim);
}

void ct_op_desc_init(ct_op_desc_t *d, ct_op_kind_t kind, const ct_shape_t *x, const ct_shape_t *y)
{
  memset(d, 0, sizeof *d);
  d->kind = kind;
  d->passes = CT_FWD;
  copy_shape(&d->x, x);
  copy_shape(&d->y, y);
}

const char *ct_op_name(ct_op_kind_t kind)
{
  static const char *const name[CT_OP_KINDS] = {
      [CT_OP_CONV] = "conv",       [CT_OP_LINEAR] = "linear",   [CT_OP_BNORM] = "bnorm",
      [CT_OP_RELU] = "relu",       [CT_OP_POOL] = "pool",       [CT_OP_ADD] = "add",
      [CT_OP_DROPOUT] = "dropout", [CT_OP_REORDER] = "reorder", [CT_OP_XENT] = "xent",
      [CT_OP_UPDATE] = "update",
  };
  return (unsigned)kind < CT_OP_KINDS ? name[kind] : "unknown";
}

/* ---- text ---- */

typedef struct text {
  char *buf;
  size_t cap, len;
} text_t;

static void put(text_t *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void put(text_t *t, const char *fmt, ...)
{
  if (t->len + 1 >= t->cap) return;
  va_list ap;
  va_start(ap, fmt);
  int n = vsnprintf(t->buf + t->len, t->cap - t->len, fmt, ap);
  va_end(ap);
  if (n > 0) t->len += (size_t)n; /* may pass cap: then all that follows is dropped */
}

static void put_word(text_t *t, int on, const char *word)
{
  if (on) put(t, " %s", word);
}

/* " s2", or " s2x1" where the two directions differ */
static void put_pair(text_t *t, const char *key, const int v[2])
{
  if (v[0] == v[1]) {
    put(t, " %s%d", key, v[0]);
  } else {
    put(t, " %s%dx%d", key, v[0], v[1]);
  }
}

static void put_window(text_t *t, const int kernel[2], const int stride[2], const int pad[2])
{
  put(t, " k%dx%d", kernel[0], kernel[1]);
  put_pair(t, "s", stride);
  put_pair(t, "p", pad);
}

static void put_conv(text_t *t, const ct_op_desc_t *d)
{
  put_window(t, d->u.conv.kernel, d->u.conv.stride, d->u.conv.pad);
  if (d->u.conv.dilate[0] != 1 || d->u.conv.dilate[1] != 1) put_pair(t, "d", d->u.conv.dilate);
  if (d->u.conv.groups != 1) put(t, " g%d", d->u.conv.groups);
  put_word(t, d->u.conv.bias, "bias");
  put_word(t, d->u.conv.relu, "relu");
}

static void put_pool(text_t *t, const ct_op_desc_t *d)
{
  put_word(t, 1, d->u.pool.global || d->u.pool.average ? "average" : "max");
  if (d->u.pool.global) {
    put_word(t, 1, "global");
  } else {
    put_window(t, d->u.pool.kernel, d->u.pool.stride, d->u.pool.pad);
    put_word(t, d->u.pool.include_pad, "include_pad");
  }
  put_word(t, d->u.pool.relu, "relu");
}

static const char *rule_name(int rule)
{
  static const char *const name[] = {
#define X(id, function, states) #function,
      CT_RULE_LIST(X)
#undef X
  };
  return rule >= 0 && rule < CT_RULE_COUNT ? name[rule] + strlen("ct_rule_") : "unknown";
}

static void put_details(text_t *t, const ct_op_desc_t *d)
{
  switch (d->kind) {
  case CT_OP_CONV:
    put_conv(t, d);
    break;
  case CT_OP_LINEAR:
    put_word(t, d->u.linear.bias, "bias");
    put_word(t, d->u.linear.relu, "relu");
    break;
  case CT_OP_BNORM:
    put_word(t, 1, d->training ? "training" : "inference");
    put_word(t, d->u.bnorm.add, "add");
    put_word(t, d->u.bnorm.relu, "relu");
    break;
  case CT_OP_POOL:
    put_pool(t, d);
    break;
  case CT_OP_ADD:
    put_word(t, d->u.add.relu, "relu");
    break;
  case CT_OP_DROPOUT:
    put(t, " p%g", d->training ? d->u.dropout.p : 0.0);
    break;
  case CT_OP_REORDER:
    put(t, " %s -> %s", ct_layout_name(d->x.layout), ct_layout_name(d->y.layout));
    break;
  case CT_OP_UPDATE:
    put_word(t, 1, rule_name(d->u.update.rule));
    break;
  case CT_OP_RELU:
  case CT_OP_XENT:
  case CT_OP_KINDS:
    break;
  }
}

const char *ct_op_text(const ct_op_desc_t *d, char *buf, size_t cap)
{
  char x[64], y[64];
  text_t t = {buf, cap, 0};

  if (cap > 0) buf[0] = 0;
  put(&t, "%s %s", ct_op_name(d->kind), ct_shape_text(&d->x, x, sizeof x));
  if (d->kind != CT_OP_UPDATE) put(&t, " -> %s", ct_shape_text(&d->y, y, sizeof y));
  put_details(&t, d);
  return buf;
}

/* ---- arithmetic ---- */

/* The bias and ReLU of CONV and LINEAR are left out, as is usual when networks are compared; the
 * small operations count what the textbook formula does to each element. */
static double forward_flops(const ct_op_desc_t *d)
{
  double x = (double)ct_shape_count(&d->x), y = (double)ct_shape_count(&d->y);

  switch (d->kind) {
  case CT_OP_CONV:
    return 2 * y * (double)(d->x.dim[1] / d->u.conv.groups) * d->u.conv.kernel[0] *
           d->u.conv.kernel[1];
  case CT_OP_LINEAR:
    return 2 * y * (double)ct_shape_sample(&d->x);
  case CT_OP_BNORM:
    /* scale and shift; sum and sum of squares when training */
    return x * ((d->training ? 5 : 2) + !!d->u.bnorm.add + !!d->u.bnorm.relu);
  case CT_OP_POOL:
    if (d->u.pool.global) return x;
    return y * d->u.pool.kernel[0] * d->u.pool.kernel[1];
  case CT_OP_ADD:
    return x * (1 + !!d->u.add.relu);
  case CT_OP_XENT:
    return 4 * x; /* maximum, difference, exponential, sum */
  case CT_OP_UPDATE:
    return 6 * x;
  case CT_OP_RELU:
  case CT_OP_DROPOUT:
    return x;
  case CT_OP_REORDER:
  case CT_OP_KINDS:
    break;
  }
  return 0;
}

static double backward_flops(const ct_op_desc_t *d, int pass)
{
  switch (d->kind) {
  case CT_OP_CONV:
  case CT_OP_LINEAR:
    return forward_flops(d);
  case CT_OP_BNORM:
    return (pass == CT_BWD_PARAM ? 4 : 5) * (double)ct_shape_count(&d->x);
  case CT_OP_UPDATE:
    return 0;
  default:
    return pass == CT_BWD_DATA ? forward_flops(d) : 0;
  }
}

double ct_op_flops(const ct_op_desc_t *d, int pass)
{
  double sum = 0;

  if (pass & CT_FWD) sum += forward_flops(d);
  if (pass & CT_BWD_DATA) sum += backward_flops(d, CT_BWD_DATA);
  if (pass & CT_BWD_PARAM) sum += backward_flops(d, CT_BWD_PARAM);
  return sum;
}

int64_t ct_op_window_out(int64_t in, int kernel, int stride, int pad, int dilate)
{
  int64_t room = in + 2 * (int64_t)pad - (int64_t)dilate * (kernel - 1) - 1;

  /* C's division cuts towards zero; a window that does not fit must not give one output */
  if (room < 0) return -((-room + stride - 1) / stride) + 1;
  return room / stride + 1;
}
