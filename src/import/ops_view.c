/* Rules: views, parts and rearrangements of tensors. */
#include <inttypes.h>
#include <string.h>

#include "import/import.h"

/* ---- views of the same elements ---- */

/* All ops whose result is a reshape: the program says its shape. */
static int view_reshape(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x;
  ct_shape_t s;
  (void)data;
  CT_TRY(ct__im_in(t, n, n->arg[0].name, 0, &x));
  CT_TRY(ct__im_result(t, n, &s));
  CT_TRY(ct__im_reshape(t, x, &s, &x));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

static int view_permute(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, dims[CT_MAX_DIMS];
  int64_t list[CT_MAX_DIMS];
  (void)data;
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  int ndim = t->layer[x].shape.ndim;
  CT_TRY(ct_pt2_ints(t->g, n, "dims", ndim, list));
  for (int i = 0; i < ndim; i++)
    dims[i] = (int)(list[i] < 0 ? list[i] + ndim : list[i]);
  CT_TRY(ct__im_permute(t, x, dims, &x));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

/* Swaps two dims; data: the names of their arguments, or NULL: the op has none. */
static int view_transpose(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, a = 0, b = 1, dims[CT_MAX_DIMS];
  const char *const *arg = data;
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  int ndim = t->layer[x].shape.ndim;
  if (!arg && ndim > 2) return ct__im_refuse("of a tensor of %d dims", ndim);
  if (!arg && ndim < 2) return ct__im_done(t, n, x);
  if (arg) CT_TRY(ct__im_dim(t, n, arg[0], ndim, &a));
  if (arg) CT_TRY(ct__im_dim(t, n, arg[1], ndim, &b));
  for (int i = 0; i < ndim; i++)
    dims[i] = i == a ? b : i == b ? a : i;
  CT_TRY(ct__im_permute(t, x, dims, &x));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

/* Moves dims to other positions; the others keep their order. */
static int view_movedim(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, count, more, dims[CT_MAX_DIMS], taken[CT_MAX_DIMS] = {0}, next = 0;
  const ct_pt2_dim_t *from, *to;
  (void)data;
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  int ndim = t->layer[x].shape.ndim;
  CT_TRY(ct_pt2_dims(t->g, n, "source", &count, &from));
  CT_TRY(ct_pt2_dims(t->g, n, "destination", &more, &to));
  for (int i = 0; i < ndim; i++)
    dims[i] = -1;
  for (int i = 0; i < count && i < more; i++) {
    int64_t f = from[i].n + (from[i].n < 0 ? ndim : 0), d = to[i].n + (to[i].n < 0 ? ndim : 0);
    if (f < 0 || f >= ndim || d < 0 || d >= ndim) return ct__im_refuse("a dim does not exist");
    dims[d] = (int)f;
    taken[f] = 1;
  }
  for (int i = 0; i < ndim; i++) {
    if (dims[i] >= 0) continue;
    while (taken[next])
      next++;
    dims[i] = next++;
  }
  CT_TRY(ct__im_permute(t, x, dims, &x));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

static int view_expand(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x;
  ct_shape_t s;
  (void)data;
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  CT_TRY(ct__im_result(t, n, &s));
  CT_TRY(ct__im_expand(t, x, &s, &x));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

/* ---- parts ---- */

/* Removes a dim of one element. */
static int view_drop(ct__im_t *t, int x, int dim, int *out)
{
  ct_shape_t s = ct__im_reduced(&t->layer[x].shape, 1u << dim, 0);
  return ct__im_reshape(t, x, &s, out);
}

/* Takes one element of a dim. */
static int view_element(ct__im_t *t, int x, int dim, int64_t index, int *out)
{
  int rc = CT_OK;
  const ct_shape_t *s = &t->layer[x].shape;
  if (dim == 1 && s->ndim == 3 && s->batch == 1 && s->dim[1] > 1) {
    ct_shape_t y = ct__im_reduced(s, 2, 0);
    int last = index == s->dim[1] - 1 && index > 0;
    return ct__im_one(t, out, "select", &y, x, "index: %" PRId64, last ? -1 : index);
  }
  CT_TRY(ct__im_slice(t, x, dim, index, index + 1, 1, out));
  CT_TRY(view_drop(t, *out, dim, out));
out:
  return rc;
}

static int view_select(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, dim;
  int64_t index;
  (void)data;
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  CT_TRY(ct__im_dim(t, n, "dim", t->layer[x].shape.ndim, &dim));
  CT_TRY(ct_pt2_int(t->g, n, "index", &index));
  if (index < 0) index += t->layer[x].shape.dim[dim];
  CT_TRY(view_element(t, x, dim, index, &x));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

/* Reads a bound of a slice; the batch size as the end of a batch dim is the whole dim. */
static int view_bound(const ct__im_t *t, const ct_pt2_node_t *n, const char *name,
                      const ct_shape_t *s, int dim, int64_t usual, int64_t *out)
{
  int rc = CT_OK, count;
  const ct_pt2_dim_t *d;
  *out = usual;
  if (ct_pt2_is_none(n, name)) return CT_OK;
  CT_TRY(ct_pt2_dims(t->g, n, name, &count, &d));
  int64_t all = s->dim[dim], v = d->n;
  int batch = s->batch >> dim & 1;
  if (d->batch && (!batch || v != all)) return ct__im_refuse("%s depends on the batch size", name);
  if (batch && !d->batch && v != 0 && v < INT32_MAX)
    return ct__im_refuse("takes a part of the batch; this depends on the batch size");
  if (v < 0) v += all;
  *out = v < 0 ? 0 : v > all ? all : v;
out:
  return rc;
}

static int view_slice(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, dim;
  int64_t start, end, step;
  (void)data;
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  const ct_shape_t s = t->layer[x].shape;
  CT_TRY(ct__im_dim(t, n, "dim", s.ndim, &dim));
  CT_TRY(view_bound(t, n, "start", &s, dim, 0, &start));
  CT_TRY(view_bound(t, n, "end", &s, dim, s.dim[dim], &end));
  CT_TRY(ct_pt2_int(t->g, n, "step", &step));
  CT_TRY(ct__im_slice(t, x, dim, start, end, step, &x));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

static int view_narrow(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, dim;
  int64_t start, length;
  (void)data;
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  CT_TRY(ct__im_dim(t, n, "dim", t->layer[x].shape.ndim, &dim));
  CT_TRY(ct_pt2_int(t->g, n, "start", &start));
  CT_TRY(ct_pt2_int(t->g, n, "length", &length));
  if (start < 0) start += t->layer[x].shape.dim[dim];
  CT_TRY(ct__im_slice(t, x, dim, start, start + length, 1, &x));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

/* Splits along a dim: the program says the shapes of the parts. */
static int view_split(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, dim, part;
  int64_t at = 0;
  (void)data;
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  CT_TRY(ct__im_dim(t, n, "dim", t->layer[x].shape.ndim, &dim));
  for (int i = 0; i < n->outs; i++) {
    ct_shape_t s;
    if (n->out[i] < 0) return ct__im_refuse("one of its parts is not in the program");
    CT_TRY(ct__im_shape(t, n->out[i], &s));
    CT_TRY(ct__im_slice(t, x, dim, at, at + s.dim[dim], 1, &part));
    CT_TRY(ct__im_set(t, n, i, part));
    at += s.dim[dim];
  }
out:
  return rc;
}

static int view_unbind(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, dim, part;
  (void)data;
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  CT_TRY(ct__im_dim(t, n, "dim", t->layer[x].shape.ndim, &dim));
  for (int i = 0; i < n->outs; i++) {
    CT_TRY(view_element(t, x, dim, i, &part));
    CT_TRY(ct__im_set(t, n, i, part));
  }
out:
  return rc;
}

/* ---- rearrangements ---- */

/* Reads shifts and dims; without dims, the tensor is flat. */
static int view_roll(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, count, dims;
  int64_t shift[CT_MAX_DIMS], dim[CT_MAX_DIMS];
  const ct_pt2_dim_t *s, *d;
  (void)data;
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  CT_TRY(ct_pt2_dims(t->g, n, "shifts", &count, &s));
  CT_TRY(ct_pt2_dims(t->g, n, "dims", &dims, &d));
  if (dims != count || count > CT_MAX_DIMS) return ct__im_refuse("without dims");
  for (int i = 0; i < count; i++) {
    int ndim = t->layer[x].shape.ndim;
    shift[i] = s[i].n;
    dim[i] = d[i].n < 0 ? d[i].n + ndim : d[i].n;
    if (dim[i] < 0 || dim[i] >= ndim) return ct__im_refuse("there is no dim %d", (int)d[i].n);
    if (t->layer[x].shape.batch >> dim[i] & 1) return ct__im_refuse("moves the samples of a batch");
  }
  const char *a = ct__im_list(t, count, shift, 0), *b = ct__im_list(t, count, dim, 0);
  if (!a || !b) return CT_ERR_NOMEM;
  CT_TRY(ct__im_one(t, &x, "roll", &t->layer[x].shape, x, "shifts: %s, dims: %s", a, b));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

static int view_flip(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, dims, count = 0;
  unsigned bits;
  int64_t dim[CT_MAX_DIMS];
  const ct_pt2_dim_t *given;
  (void)data;
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  CT_TRY(ct_pt2_dims(t->g, n, "dims", &dims, &given));
  if (dims == 0) return ct__im_done(t, n, x); /* no dims are not all dims here */
  CT_TRY(ct__im_dim_bits(t, n, "dims", t->layer[x].shape.ndim, &bits));
  if (t->layer[x].shape.batch & bits) return ct__im_refuse("moves the samples of a batch");
  for (int i = 0; i < CT_MAX_DIMS; i++)
    if (bits >> i & 1) dim[count++] = i;
  const char *list = ct__im_list(t, count, dim, 0);
  if (!list) return CT_ERR_NOMEM;
  CT_TRY(ct__im_one(t, &x, "flip", &t->layer[x].shape, x, "dims: %s", list));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

/* Repeats the first dim as often as the batch is large: a new dim before it that is expanded. */
static int view_repeat_batch(ct__im_t *t, const ct_pt2_node_t *n, int x, const ct_shape_t *s,
                             const int64_t *times, int dim)
{
  int rc = CT_OK;
  ct_shape_t wide = *s, y;
  for (int i = 0; i < s->ndim; i++)
    if (dim != 0 || s->batch || times[i] != 1 || s->ndim == CT_MAX_DIMS)
      return ct__im_refuse("repeats as often as the batch is large");
  memmove(wide.dim + 1, s->dim, (size_t)s->ndim * sizeof *s->dim);
  wide.ndim++;
  wide.dim[0] = 1;
  CT_TRY(ct__im_reshape(t, x, &wide, &x));
  wide.batch = 1;
  CT_TRY(ct__im_expand(t, x, &wide, &x));
  CT_TRY(ct__im_result(t, n, &y));
  CT_TRY(ct__im_reshape(t, x, &y, &x));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

/* repeat and tile; data: the name of the counts. */
static int view_repeat(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, count;
  const ct_pt2_dim_t *by;
  ct_shape_t y, full = ct_shape(1, 1);
  int64_t times[CT_MAX_DIMS];
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  CT_TRY(ct_pt2_dims(t->g, n, data, &count, &by));
  CT_TRY(ct__im_result(t, n, &y));
  const ct_shape_t s = t->layer[x].shape;
  int same = 1, lead = y.ndim - s.ndim, batch = -1;
  full.ndim = y.ndim;
  for (int i = 0; i < y.ndim; i++) {
    full.dim[i] = i < lead ? 1 : s.dim[i - lead];
    if (i >= lead && (s.batch >> (i - lead) & 1)) full.batch |= 1u << i;
    int k = i - (y.ndim - count);
    times[i] = k < 0 ? 1 : by[k].n;
    /* a dim of one element that is repeated is expanded */
    same &= times[i] == 1 || (full.dim[i] == 1 && !(full.batch >> i & 1));
    if (k >= 0 && by[k].batch && (full.dim[i] != 1 || full.batch >> i & 1)) batch = i;
  }
  if (batch >= 0) return view_repeat_batch(t, n, x, &full, times, batch);
  CT_TRY(ct__im_reshape(t, x, &full, &x));
  if (same) {
    CT_TRY(ct__im_expand(t, x, &y, &x));
  } else {
    if (y.batch != full.batch) return ct__im_refuse("repeats as often as the batch is large");
    const char *list = ct__im_list(t, y.ndim, times, 0);
    if (!list) return CT_ERR_NOMEM;
    CT_TRY(ct__im_one(t, &x, "repeat", &y, x, "counts: %s", list));
  }
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

/* Each element `repeats` times along a dim: a new dim after it that is expanded. */
static int view_repeat_interleave(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, dim;
  int64_t times;
  ct_shape_t y;
  (void)data;
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  if (ct_pt2_is_none(n, "dim")) return ct__im_refuse("without a dim");
  CT_TRY(ct__im_dim(t, n, "dim", t->layer[x].shape.ndim, &dim));
  CT_TRY(ct_pt2_int(t->g, n, "repeats", &times));
  CT_TRY(ct__im_result(t, n, &y));
  ct_shape_t s = t->layer[x].shape, wide = s;
  if (s.ndim == CT_MAX_DIMS) return ct__im_refuse("of a tensor of %d dims", s.ndim);
  wide.ndim++;
  wide.batch = 0;
  for (int i = 0; i < wide.ndim; i++) {
    int from = i <= dim ? i : i - 1;
    wide.dim[i] = i == dim + 1 ? 1 : s.dim[from];
    if (i != dim + 1 && (s.batch >> from & 1)) wide.batch |= 1u << i;
  }
  CT_TRY(ct__im_reshape(t, x, &wide, &x));
  wide.dim[dim + 1] = times;
  CT_TRY(ct__im_expand(t, x, &wide, &x));
  CT_TRY(ct__im_reshape(t, x, &y, &x));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

static int view_shuffle(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x;
  int64_t factor;
  int up = strcmp(data, "pixel_shuffle") == 0;
  ct_shape_t y;
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  CT_TRY(ct_pt2_int(t->g, n, up ? "upscale_factor" : "downscale_factor", &factor));
  CT_TRY(ct__im_result(t, n, &y));
  CT_TRY(ct__im_one(t, &x, data, &y, x, "factor: %" PRId64, factor));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

/* ---- padding ---- */

/* Cuts where the padding is negative: circular padding continues what is left. */
static int view_crop(ct__im_t *t, int *x, int count, int64_t *pad)
{
  int rc = CT_OK;
  for (int i = 0; i + 1 < count; i += 2) {
    int dim = t->layer[*x].shape.ndim - 1 - i / 2;
    int64_t start = pad[i] < 0 ? -pad[i] : 0, end = pad[i + 1] < 0 ? pad[i + 1] : 0;
    if (start == 0 && end == 0) continue;
    end += t->layer[*x].shape.dim[dim];
    if (start >= end) return ct__im_refuse("its padding leaves nothing");
    CT_TRY(ct__im_slice(t, *x, dim, start, end, 1, x));
    if (pad[i] < 0) pad[i] = 0;
    if (pad[i + 1] < 0) pad[i + 1] = 0;
  }
out:
  return rc;
}

static int view_pad(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, count, zero = 1;
  const ct_pt2_dim_t *pad;
  const char *mode = data, *list = "", *text = "";
  int64_t v[2 * CT_MAX_DIMS];
  double value = 0;
  char number[40];
  ct_shape_t y;
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  CT_TRY(ct__im_result(t, n, &y));
  if (t->layer[x].shape.ndim != y.ndim) return ct__im_refuse("changes the number of dims");
  if (!mode) CT_TRY(ct_pt2_text(t->g, n, "mode", &mode));
  if (!ct_pt2_is_none(n, "value")) CT_TRY(ct_pt2_number(t->g, n, "value", &value));
  CT_TRY(ct_pt2_dims(t->g, n, "pad", &count, &pad));
  if (count % 2 || count > 2 * y.ndim) return ct__im_refuse("pads more dims than there are");
  for (int i = 0; i < count; i++) {
    v[i] = pad[i].n;
    zero &= v[i] == 0;
    if (pad[i].batch) return ct__im_refuse("pads by the batch size");
    if (v[i] && (y.batch >> (y.ndim - 1 - i / 2) & 1)) return ct__im_refuse("pads the batch");
  }
  if (zero) return ct__im_done(t, n, x);
  if (strcmp(mode, "circular") == 0) CT_TRY(view_crop(t, &x, count, v));
  list = ct__im_list(t, count, v, 0);
  if (strcmp(mode, "constant") != 0) text = ct__im_format(t, ", mode: %s", mode);
  if (value != 0)
    text = ct__im_format(t, "%s, value: %s", text, ct_text_number(value, number, sizeof number));
  if (!list || !text) return CT_ERR_NOMEM;
  CT_TRY(ct__im_one(t, &x, "pad", &y, x, "pad: %s%s", list, text));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

/* A view that is written into: what is before it, src, and what is after it. */
static int view_scatter(ct__im_t *t, int x, int src, int dim, int64_t start, int64_t end, int *out)
{
  int rc = CT_OK, part[3], parts = 0;
  int64_t all = t->layer[x].shape.dim[dim];
  if (start > 0) CT_TRY(ct__im_slice(t, x, dim, 0, start, 1, &part[parts++]));
  part[parts++] = src;
  if (end < all) CT_TRY(ct__im_slice(t, x, dim, end, all, 1, &part[parts++]));
  CT_TRY(ct__im_concat(t, parts, part, dim, out));
out:
  return rc;
}

static int view_slice_scatter(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, src, dim;
  int64_t start, end, step;
  (void)data;
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  CT_TRY(ct__im_in(t, n, "src", 0, &src));
  ct_shape_t s = t->layer[x].shape;
  CT_TRY(ct__im_dim(t, n, "dim", s.ndim, &dim));
  CT_TRY(view_bound(t, n, "start", &s, dim, 0, &start));
  CT_TRY(view_bound(t, n, "end", &s, dim, s.dim[dim], &end));
  CT_TRY(ct_pt2_int(t->g, n, "step", &step));
  if (step != 1) return ct__im_refuse("with a step");
  ct_shape_t part = ct__im_with(&s, dim, end - start);
  CT_TRY(ct__im_expand(t, src, &part, &src));
  CT_TRY(view_scatter(t, x, src, dim, start, end, &x));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

static int view_select_scatter(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, src, dim;
  int64_t index;
  (void)data;
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  CT_TRY(ct__im_in(t, n, "src", 0, &src));
  ct_shape_t s = t->layer[x].shape;
  CT_TRY(ct__im_dim(t, n, "dim", s.ndim, &dim));
  CT_TRY(ct_pt2_int(t->g, n, "index", &index));
  if (index < 0) index += s.dim[dim];
  ct_shape_t part = ct__im_with(&s, dim, 1);
  CT_TRY(ct__im_reshape(t, src, &part, &src));
  CT_TRY(view_scatter(t, x, src, dim, index, index + 1, &x));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

static const char *const dims[2] = {"dim0", "dim1"}, *const axes[2] = {"axis0", "axis1"};

#define RESHAPE(op)                \
  {                                \
    "aten." op, view_reshape, NULL \
  }
#define SPLIT(op)                \
  {                              \
    "aten." op, view_split, NULL \
  }

const ct__im_rule_t ct__im_views[] = {RESHAPE("view"),
                                      RESHAPE("reshape"),
                                      RESHAPE("_unsafe_view"),
                                      RESHAPE("flatten"),
                                      RESHAPE("unflatten"),
                                      RESHAPE("squeeze"),
                                      RESHAPE("unsqueeze"),
                                      RESHAPE("view_as"),
                                      RESHAPE("reshape_as"),
                                      RESHAPE("_reshape_alias"),
                                      RESHAPE("ravel"),
                                      {"aten.permute", view_permute, NULL},
                                      {"aten.transpose", view_transpose, dims},
                                      {"aten.swapaxes", view_transpose, axes},
                                      {"aten.swapdims", view_transpose, dims},
                                      {"aten.t", view_transpose, NULL},
                                      {"aten.numpy_T", view_transpose, NULL},
                                      {"aten.movedim", view_movedim, NULL},
                                      {"aten.expand", view_expand, NULL},
                                      {"aten.expand_as", view_expand, NULL},
                                      {"aten.broadcast_to", view_expand, NULL},
                                      {"aten.slice", view_slice, NULL},
                                      {"aten.select", view_select, NULL},
                                      {"aten.narrow", view_narrow, NULL},
                                      SPLIT("split"),
                                      SPLIT("split_with_sizes"),
                                      SPLIT("chunk"),
                                      SPLIT("tensor_split"),
                                      SPLIT("unsafe_split"),
                                      SPLIT("unsafe_chunk"),
                                      {"aten.unbind", view_unbind, NULL},
                                      {"aten.roll", view_roll, NULL},
                                      {"aten.flip", view_flip, NULL},
                                      {"aten.repeat", view_repeat, "repeats"},
                                      {"aten.tile", view_repeat, "dims"},
                                      {"aten.repeat_interleave", view_repeat_interleave, NULL},
                                      {"aten.pixel_shuffle", view_shuffle, "pixel_shuffle"},
                                      {"aten.pixel_unshuffle", view_shuffle, "pixel_unshuffle"},
                                      {"aten.pad", view_pad, NULL},
                                      {"aten.constant_pad_nd", view_pad, "constant"},
                                      {"aten.slice_scatter", view_slice_scatter, NULL},
                                      {"aten.select_scatter", view_select_scatter, NULL},
                                      {NULL, NULL, NULL}};

/* ---- joining ---- */

static int view_cat(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  enum { MOST = 1024 };
  int rc = CT_OK, count, dim, layers[MOST], stack = data != NULL, parts = 0, ndim;
  const int *list;
  ct_shape_t y;
  CT_TRY(ct_pt2_tensors(t->g, n, "tensors", &count, &list));
  if (count > MOST) return ct__im_refuse("joins more than %d tensors", MOST);
  CT_TRY(ct__im_result(t, n, &y));
  ndim = y.ndim;
  CT_TRY(ct__im_dim(t, n, "dim", ndim, &dim));
  for (int i = 0; i < count; i++) {
    int x;
    if (list[i] < 0) return ct__im_refuse("one of its tensors is None");
    if (ct__im_is_empty(t, list[i])) continue;
    CT_TRY(ct__im_operand(t, list[i], &x));
    ct_shape_t part = ct__im_with(&y, dim, stack ? 1 : t->layer[x].shape.dim[dim]);
    if (stack) CT_TRY(ct__im_reshape(t, x, &part, &x));
    layers[parts++] = x;
  }
  CT_TRY(ct__im_concat(t, parts, layers, dim, &layers[0]));
  CT_TRY(ct__im_done(t, n, layers[0]));
out:
  return rc;
}

/* Differences of neighbours along a dim. */
static int view_diff(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, list[3], count = 0, x, dim, y;
  int64_t times;
  static const char *const arg[3] = {"prepend", "self", "append"};
  (void)data;
  CT_TRY(ct_pt2_int(t->g, n, "n", &times));
  if (times != 1) return ct__im_refuse("with n = %d", (int)times);
  for (int i = 0; i < 3; i++) {
    CT_TRY(ct__im_in(t, n, arg[i], i != 1, &x));
    if (x >= 0) list[count++] = x;
  }
  CT_TRY(ct__im_dim(t, n, "dim", t->layer[list[0]].shape.ndim, &dim));
  CT_TRY(ct__im_concat(t, count, list, dim, &x));
  int64_t all = t->layer[x].shape.dim[dim];
  CT_TRY(ct__im_slice(t, x, dim, 1, all, 1, &y));
  CT_TRY(ct__im_slice(t, x, dim, 0, all - 1, 1, &x));
  CT_TRY(ct__im_binary(t, "sub", y, x, &y));
  CT_TRY(ct__im_done(t, n, y));
out:
  return rc;
}

const ct__im_rule_t ct__im_joins[] = {
    {"aten.cat", view_cat, NULL},         {"aten.concat", view_cat, NULL},
    {"aten.concatenate", view_cat, NULL}, {"aten.stack", view_cat, "stack"},
    {"aten.diff", view_diff, NULL},       {NULL, NULL, NULL}};
