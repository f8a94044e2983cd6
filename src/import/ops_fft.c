/* Rules: Fourier transforms.  A transform along a dim is a product with a constant matrix, of which
 * only the rows of elements that are not zero and the columns of elements that are used are made.
 * Neural operators use few of the frequencies, so such a product is fast, and its gradient is
 * another product.  Complex tensors have a last dim of 2 (ct_pt2.h). */
#include <math.h>
#include <string.h>

#include "base/ct_mem.h"
#include "import/import.h"

enum {
  FFT_NESTED = 64,      /* concats of concats that are searched for zeros */
  FFT_MATRIX = 1 << 24, /* elements of a matrix */
};

/* One transform along a dim. */
struct ct__im_fft {
  int from, layer; /* its input and its result */
  int dim;
  int64_t n;                      /* its length */
  int real_in, real_out, forward; /* real_out: of the first half of a spectrum */
  int part;                       /* 0, 1: only the real or imaginary part; -1: both */
  int64_t rows;                   /* elements of the input along the dim */
  const int64_t *row;             /* [rows]: their indices; NULL: 0, 1, ... */
  int64_t first, columns, step;   /* elements of the result: first, first + step, ... */
  double scale;
};

/* ---- matrices ---- */

/* Returns the constant for a matrix, or an equal one that was made before. */
static int fft_constant(ct__im_t *t, const ct_shape_t *s, const float *data, int *out)
{
  size_t bytes = (size_t)ct_shape_count(s) * sizeof *data;
  for (int i = 0; i < t->ffts; i++) {
    int k = t->layer[t->fft[i].layer].kind ? t->fft_matrix[i] : -1;
    if (k < 0 || !ct__im_same(&t->layer[k].shape, s)) continue;
    *out = k;
    if (memcmp(t->layer[k].data, data, bytes) == 0) return CT_OK;
  }
  return ct__im_constant(t, s, data, out);
}

/* Element (row, column) of exp(+-2 pi i row column / n). */
static void fft_element(const ct__im_fft_t *f, int64_t row, int64_t column, double *re, double *im)
{
  const double circle = 6.283185307179586476925;
  int64_t k = (int64_t)((__int128)row * column % f->n);
  double angle = circle * (double)k / (double)f->n;
  int twice = f->real_out && row > 0 && 2 * row != f->n; /* it stands for two frequencies */
  *re = f->scale * (twice + 1) * cos(angle);
  *im = f->scale * (twice + 1) * (f->forward ? -sin(angle) : sin(angle));
  if (4 * k == f->n || 4 * k == 3 * f->n) *re = 0;
  if (2 * k == f->n || k == 0) *im = 0;
}

/* Makes the matrix of a transform: the pairs of the input times it are those of the result. */
static int fft_matrix(ct__im_t *t, const ct__im_fft_t *f, int *out)
{
  int in = f->real_in ? 1 : 2, pair = f->real_out || f->part >= 0 ? 1 : 2;
  int only = f->real_out ? 0 : f->part;
  const ct_shape_t s = ct_shape(2, f->rows * in, f->columns * pair);
  if (s.dim[0] > FFT_MATRIX / s.dim[1])
    return ct__im_refuse("transforms %lld elements, of which too many are used", (long long)f->n);
  float *data = ct__im_alloc(t, ct_shape_count(&s), sizeof *data);
  if (!data) return CT_ERR_NOMEM;
  for (int64_t i = 0; i < f->rows; i++)
    for (int64_t k = 0; k < f->columns; k++) {
      double e[2][2];
      fft_element(f, f->row ? f->row[i] : i, f->first + k * f->step, &e[0][0], &e[0][1]);
      e[1][0] = -e[0][1];
      e[1][1] = e[0][0];
      for (int a = 0; a < in; a++)
        for (int b = 0; b < pair; b++)
          data[(i * in + a) * s.dim[1] + k * pair + b] = (float)e[a][only < 0 ? b : only];
    }
  return fft_constant(t, &s, data, out);
}

/* ---- one transform ---- */

static int fft_equal(const ct__im_fft_t *a, const ct__im_fft_t *b)
{
  return a->from == b->from && a->dim == b->dim && a->n == b->n && a->real_in == b->real_in &&
         a->real_out == b->real_out && a->forward == b->forward && a->part == b->part &&
         a->rows == b->rows && a->row == b->row && a->first == b->first &&
         a->columns == b->columns && a->step == b->step && a->scale == b->scale;
}

/* Exchanges two dims. */
static int fft_swap(ct__im_t *t, int x, int a, int b, int *out)
{
  int dims[CT_MAX_DIMS];
  for (int i = 0; i < CT_MAX_DIMS; i++)
    dims[i] = i == a ? b : i == b ? a : i;
  return ct__im_permute(t, x, dims, out);
}

/* Makes the layers of a transform.  The dim goes to the end and back. */
static int fft_layers(ct__im_t *t, const ct__im_fft_t *f, int matrix, int *out)
{
  int rc = CT_OK, x = f->from, pairs = !f->real_in, keeps = !f->real_out;
  int last = t->layer[x].shape.ndim - 1 - pairs;
  ct_shape_t s;
  CT_TRY(fft_swap(t, x, f->dim, last, &x));
  s = t->layer[x].shape;
  ct_shape_t y = s, flat = s;
  flat.ndim = last + 1;
  flat.dim[last] *= pairs ? 2 : 1;
  if (flat.ndim == 1) flat = ct_shape(2, 1, flat.dim[0]);
  CT_TRY(ct__im_reshape(t, x, &flat, &x));
  CT_TRY(ct__im_matmul(t, x, matrix, 0, &x));
  y.ndim = last + 1 + keeps;
  y.dim[last] = f->columns;
  if (keeps) y.dim[last + 1] = f->part < 0 ? 2 : 1;
  CT_TRY(ct__im_reshape(t, x, &y, &x));
  CT_TRY(fft_swap(t, x, f->dim, last, out));
out:
  return rc;
}

/* Makes a transform, or finds an equal one that was made before. */
static int fft_make(ct__im_t *t, ct__im_fft_t f, int *out)
{
  int rc = CT_OK, matrix;
  void *list = t->fft, *matrices = t->fft_matrix;
  for (int i = 0; i < t->ffts; i++)
    if (fft_equal(&t->fft[i], &f)) {
      *out = t->fft[i].layer;
      return CT_OK;
    }
  CT_TRY(fft_matrix(t, &f, &matrix));
  CT_TRY(fft_layers(t, &f, matrix, &f.layer));
  CT_TRY(ct_mem_grow(&list, &t->fft_cap, t->ffts + 1, sizeof *t->fft));
  t->fft = list;
  CT_TRY(ct_mem_grow(&matrices, &t->fft_matrix_cap, t->ffts + 1, sizeof *t->fft_matrix));
  t->fft_matrix = matrices;
  t->fft_matrix[t->ffts] = matrix;
  t->fft[t->ffts++] = f;
  *out = f.layer;
out:
  return rc;
}

/* ---- parts of a result ---- */

static const ct__im_fft_t *fft_find(const ct__im_t *t, int layer)
{
  for (int i = t->ffts - 1; i >= 0; i--)
    if (t->fft[i].layer == layer) return &t->fft[i];
  return NULL;
}

static int fft_slice(ct__im_t *t, int x, int dim, int64_t start, int64_t end, int64_t step,
                     int *out)
{
  int rc = CT_OK;
  const ct__im_fft_t *is = fft_find(t, x);
  *out = -1;
  if (!is) return CT_OK;
  ct__im_fft_t f = *is;
  int pair = !f.real_out && dim == t->layer[x].shape.ndim - 1;
  if (dim == f.dim) {
    f.first += start * f.step;
    f.step *= step;
    f.columns = (end - start + step - 1) / step;
  } else if (pair) {
    if (f.part >= 0 || end - start != 1) return CT_OK;
    f.part = (int)start;
  } else {
    CT_TRY(fft_slice(t, f.from, dim, start, end, step, &f.from));
    if (f.from < 0) return CT_OK;
  }
  CT_TRY(fft_make(t, f, out));
out:
  return rc;
}

/* ---- zeros in the input ---- */

/* Returns 1 if all elements of a layer are 0. */
static int fft_is_zero(ct__im_t *t, int x)
{
  static const char *const moves[] = {"expand", "slice", "reshape", "flatten", "permute"};
  double number;
  for (;;) {
    int through = 0;
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++)
      through |= ct__im_is(t, x, moves[i]);
    if (!through) break;
    x = t->layer[x].in[0];
  }
  const ct__im_layer_t *l = &t->layer[x];
  return ct__im_is(t, x, "constant") && l->value >= 0 && ct__im_uniform(t, l->value, &number) &&
         number == 0;
}

/* Sets used[i] if element i of a dim may not be 0. */
static void fft_used(ct__im_t *t, int x, int dim, char *used, int depth)
{
  const ct__im_layer_t *l = &t->layer[x];
  if (fft_is_zero(t, x)) return;
  if (depth < FFT_NESTED && ct__im_is(t, x, "concat")) {
    int64_t first = l->perm[0] == dim ? t->layer[l->in[0]].shape.dim[dim] : 0;
    fft_used(t, l->in[0], dim, used, depth + 1);
    fft_used(t, t->layer[x].in[1], dim, used + first, depth + 1);
  } else {
    memset(used, 1, (size_t)l->shape.dim[dim]);
  }
}

/* Takes a part of a dim, from the tensors of which concats along other dims are made. */
static int fft_part(ct__im_t *t, int x, int dim, int64_t start, int64_t end, int depth, int *out)
{
  int rc = CT_OK, part[2];
  const ct__im_layer_t *l = &t->layer[x];
  if (depth == FFT_NESTED || !ct__im_is(t, x, "concat") || l->perm[0] == dim)
    return ct__im_slice(t, x, dim, start, end, 1, out);
  int along = l->perm[0], in[2] = {l->in[0], l->in[1]};
  for (int i = 0; i < 2; i++)
    CT_TRY(fft_part(t, in[i], dim, start, end, depth + 1, &part[i]));
  CT_TRY(ct__im_concat(t, 2, part, along, out));
out:
  return rc;
}

/* Removes the elements of a dim that are 0.  *row: the indices of the others; NULL: all stay. */
static int fft_drop_zeros(ct__im_t *t, int *x, int dim, int64_t *rows, const int64_t **row)
{
  int rc = CT_OK, whole = -1, pair[2];
  int64_t all = t->layer[*x].shape.dim[dim], n = 0;
  char *used = ct__im_alloc(t, all, 1);
  int64_t *list = ct__im_alloc(t, all, sizeof *list);
  if (!used || !list) return CT_ERR_NOMEM;
  fft_used(t, *x, dim, used, 0);
  for (int64_t i = 0; i < all; i++)
    if (used[i]) list[n++] = i;
  *row = n && n < all ? list : NULL;
  *rows = *row ? n : all;
  if (!*row) return CT_OK;
  for (int64_t i = 0, end; i < all; i = end) {
    for (end = i + 1; end < all && used[end] == used[i]; end++)
      ;
    if (!used[i]) continue;
    CT_TRY(fft_part(t, *x, dim, i, end, 0, &pair[1]));
    pair[0] = whole;
    whole = pair[1];
    if (pair[0] >= 0) CT_TRY(ct__im_concat(t, 2, pair, dim, &whole));
  }
  *x = whole;
out:
  return rc;
}

/* ---- the rules ---- */

/* All transforms of torch.fft, with the arguments that pt2/complex_fft.c gives them. */
static int fft_rule(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, count, lengths, forward, real_in, half, real_out;
  const ct_pt2_dim_t *dim, *length;
  const int64_t *row[CT_MAX_DIMS];
  int64_t rows[CT_MAX_DIMS];
  double scale;
  ct_shape_t y;
  (void)data;
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  CT_TRY(ct_pt2_dims(t->g, n, "dim", &count, &dim));
  CT_TRY(ct_pt2_dims(t->g, n, "n", &lengths, &length));
  CT_TRY(ct_pt2_number(t->g, n, "scale", &scale));
  CT_TRY(ct_pt2_bool(t->g, n, "forward", &forward));
  CT_TRY(ct_pt2_bool(t->g, n, "real_in", &real_in));
  CT_TRY(ct_pt2_bool(t->g, n, "half", &half));
  CT_TRY(ct_pt2_bool(t->g, n, "real_out", &real_out));
  CT_TRY(ct__im_result(t, n, &y));
  if (count > CT_MAX_DIMS || lengths != count) return ct__im_refuse("transforms %d dims", count);
  for (int i = 0; i < count; i++)
    if (t->layer[x].shape.dim[dim[i].n] > FFT_MATRIX || length[i].n > FFT_MATRIX)
      return ct__im_refuse("transforms %lld elements", (long long)length[i].n);
  for (int i = 0; i < count; i++)
    if (t->layer[x].shape.batch >> dim[i].n & 1)
      return ct__im_refuse("transforms along the batch (dim %d)", (int)dim[i].n);
  for (int i = 0; i < count; i++)
    CT_TRY(fft_drop_zeros(t, &x, (int)dim[i].n, &rows[i], &row[i]));
  for (int i = 0; i < count; i++) {
    ct__im_fft_t f = {.from = x,
                      .dim = (int)dim[i].n,
                      .n = length[i].n,
                      .rows = rows[i],
                      .row = row[i],
                      .forward = forward,
                      .part = -1,
                      .step = 1};
    f.real_in = real_in && i == 0;
    f.real_out = real_out && i == count - 1;
    f.columns = half && f.real_in ? f.n / 2 + 1 : f.n;
    f.scale = i == 0 ? scale : 1;
    CT_TRY(fft_make(t, f, &x));
  }
  t->fft_slice = fft_slice;
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

/* fftshift and ifftshift of real tensors; data: "1" if rounded up. */
static int fft_shift(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, count = 0;
  unsigned bits;
  int64_t dims[CT_MAX_DIMS], shifts[CT_MAX_DIMS];
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  const ct_shape_t s = t->layer[x].shape;
  CT_TRY(ct__im_dim_bits(t, n, "dim", s.ndim, &bits));
  if (s.batch & bits) return ct__im_refuse("moves the samples of a batch");
  for (int i = 0; i < s.ndim; i++) {
    if (!(bits >> i & 1)) continue;
    dims[count] = i;
    shifts[count++] = (s.dim[i] + (data != NULL)) / 2;
  }
  const char *a = ct__im_list(t, count, shifts, 0), *b = ct__im_list(t, count, dims, 0);
  if (!a || !b) return CT_ERR_NOMEM;
  CT_TRY(ct__im_one(t, &x, "roll", &s, x, "shifts: %s, dims: %s", a, b));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

#define FFT(op)                \
  {                            \
    "aten." op, fft_rule, NULL \
  }

const ct__im_rule_t ct__im_ffts[] = {FFT("fft_fft"),
                                     FFT("fft_ifft"),
                                     FFT("fft_rfft"),
                                     FFT("fft_irfft"),
                                     FFT("fft_fft2"),
                                     FFT("fft_ifft2"),
                                     FFT("fft_rfft2"),
                                     FFT("fft_irfft2"),
                                     FFT("fft_fftn"),
                                     FFT("fft_ifftn"),
                                     FFT("fft_rfftn"),
                                     FFT("fft_irfftn"),
                                     FFT("_fft_r2c"),
                                     FFT("_fft_c2r"),
                                     FFT("_fft_c2c"),
                                     FFT("stft"),
                                     {"aten.fft_fftshift", fft_shift, NULL},
                                     {"aten.fft_ifftshift", fft_shift, "1"},
                                     {NULL, NULL, NULL}};
