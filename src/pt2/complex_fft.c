/* Fourier transforms: brings the many ops of torch.fft into one form.
 *
 * The node keeps its name and gets the arguments
 *   self      pairs, or real if real_in is 1
 *   dim       the dims in the order in which they are transformed, counted from the front
 *   n         the length of the transform along each of them.  Where self has fewer elements, it is
 *             as if followed by zeros; it never has more
 *   forward   1: exp(-2 pi i k / n), 0: exp(2 pi i k / n)
 *   scale     factor of the result
 *   real_in   1: self is real
 *   half      1: of the dim that is transformed first (real_in) or last (real_out) only the
 *             elements 0 ... n / 2 are in the spectrum
 *   real_out  1: the result is real
 * and the result has the shape that the program says. */
#include <math.h>
#include <string.h>

#include "pt2/complex.h"

typedef struct fft {
  int n; /* dims */
  int dim[CT__PT2_DIMS];
  int64_t length[CT__PT2_DIMS];
  int real_in, real_out, half, forward;
  double scale;
} fft_t;

/* What the ops are, by their names. */
typedef struct kind {
  const char *op;
  int real_in, real_out, forward;
  int all; /* 1: without dims, all of them */
} kind_t;

static const kind_t kinds[] = {{"aten.fft_fft", 0, 0, 1, 0},   {"aten.fft_ifft", 0, 0, 0, 0},
                               {"aten.fft_rfft", 1, 0, 1, 0},  {"aten.fft_irfft", 0, 1, 0, 0},
                               {"aten.fft_fft2", 0, 0, 1, 0},  {"aten.fft_ifft2", 0, 0, 0, 0},
                               {"aten.fft_rfft2", 1, 0, 1, 0}, {"aten.fft_irfft2", 0, 1, 0, 0},
                               {"aten.fft_fftn", 0, 0, 1, 1},  {"aten.fft_ifftn", 0, 0, 0, 1},
                               {"aten.fft_rfftn", 1, 0, 1, 1}, {"aten.fft_irfftn", 0, 1, 0, 1},
                               {"aten._fft_r2c", 1, 0, 1, 0},  {"aten._fft_c2r", 0, 1, 0, 0},
                               {"aten._fft_c2c", 0, 0, 1, 0},  {NULL, 0, 0, 0, 0}};

/* ---- arguments ---- */

/* Reads the list of dims; without it, the last ones. */
static int fft_dims(const ct__complex_t *c, const kind_t *k, int ndim, int sizes, fft_t *f)
{
  const ct_pt2_arg_t *a = ct_pt2_arg(c->node, "dim");
  int given = a && a->dim;
  f->n = given ? a->n : sizes ? sizes : k->all ? ndim : 1;
  if (f->n < 1 || f->n > ndim) return 0;
  for (int i = 0; i < f->n; i++) {
    int64_t d = given ? a->dim[i].n : ndim - f->n + i;
    if (d < 0) d += ndim;
    if (d < 0 || d >= ndim) return 0;
    f->dim[i] = (int)d;
  }
  return 1;
}

/* Reads the lengths; without them, those of the tensor. */
static int fft_lengths(const ct__complex_t *c, int x, const ct_pt2_arg_t *sizes, fft_t *f)
{
  for (int i = 0; i < f->n; i++) {
    const ct_pt2_dim_t *is = &c->p->value[x].dim[f->dim[i]];
    int64_t given = sizes && sizes->dim && i < sizes->n ? sizes->dim[i].n : -1;
    if (sizes && sizes->dim && i < sizes->n && sizes->dim[i].batch != is->batch) return 0;
    f->length[i] = given > 0 ? given : i == f->n - 1 && f->real_out ? 2 * (is->n - 1) : is->n;
    if (f->length[i] < 1 || f->length[i] > INT32_MAX) return 0;
  }
  return 1;
}

/* The factor of a norm: by its name, or by the number of the core ops. */
static int fft_scale(const ct__complex_t *c, fft_t *f)
{
  const ct_pt2_arg_t *a = ct_pt2_arg(c->node, "norm"), *b = ct_pt2_arg(c->node, "normalization");
  double all = 1;
  for (int i = 0; i < f->n; i++)
    all *= (double)f->length[i];
  f->scale = 1;
  if (b) {
    if (b->kind != CT_PT2_INT) return 0;
    f->scale = b->dim[0].n == 0 ? 1 : b->dim[0].n == 1 ? 1 / sqrt(all) : 1 / all;
    return 1;
  }
  const char *word = a && a->kind == CT_PT2_STRING ? a->text : "backward";
  if (strcmp(word, "ortho") == 0)
    f->scale = 1 / sqrt(all);
  else if (strcmp(word, f->forward ? "forward" : "backward") == 0)
    f->scale = 1 / all;
  else
    return strcmp(word, "forward") == 0 || strcmp(word, "backward") == 0;
  return 1;
}

/* What the core ops say about themselves. */
static int fft_core(const ct__complex_t *c, fft_t *f, ct_pt2_arg_t *length)
{
  const ct_pt2_arg_t *onesided = ct_pt2_arg(c->node, "onesided");
  const ct_pt2_arg_t *forward = ct_pt2_arg(c->node, "forward");
  const ct_pt2_arg_t *last = ct_pt2_arg(c->node, "last_dim_size");
  if (onesided && onesided->dim) f->half = f->half && onesided->dim[0].n;
  if (forward && forward->dim) f->forward = forward->dim[0].n != 0;
  if (last && last->dim) *length = *last;
  return !last || last->dim;
}

static int fft_read(const ct__complex_t *c, int x, int ndim, fft_t *f)
{
  const kind_t *k = kinds;
  const ct_pt2_arg_t *sizes = ct_pt2_arg(c->node, "s"), *one = ct_pt2_arg(c->node, "n");
  ct_pt2_arg_t length = {0};
  while (k->op && !ct_pt2_is(c->node, k->op))
    k++;
  if (!k->op) return 0;
  *f = (fft_t){.real_in = !ct__complex_is(c, x), .real_out = k->real_out, .forward = k->forward};
  if (k->real_in && !f->real_in) return 0;
  f->half = k->real_in || k->real_out;
  if (!sizes) sizes = one;
  if (!fft_core(c, f, &length)) return 0;
  if (!fft_dims(c, k, ndim, sizes && sizes->dim ? sizes->n : 0, f)) return 0;
  if (!fft_lengths(c, x, sizes, f)) return 0;
  if (length.dim) f->length[f->n - 1] = length.dim[0].n;
  int64_t end = f->length[f->n - 1];
  return end > 0 && end <= INT32_MAX && fft_scale(c, f);
}

/* ---- the node ---- */

/* Drops the elements behind the length of a transform. */
static int fft_cut(ct__complex_t *c, int x, const fft_t *f)
{
  for (int i = 0; i < f->n; i++) {
    ct__complex_shape_t s = ct__complex_shape(c, x);
    int64_t most = i == f->n - 1 && f->real_out ? f->length[i] / 2 + 1 : f->length[i];
    if (s.dim[f->dim[i]].n <= most) continue;
    ct__pt2_make_t m = ct__pt2_make("aten.slice.Tensor", c->node);
    ct__pt2_make_tensor(c->p, &m, "self", x);
    ct__pt2_make_int(c->p, &m, "dim", f->dim[i]);
    ct__pt2_make_int(c->p, &m, "end", most);
    s.dim[f->dim[i]].n = most;
    x = ct__complex_add(c, &m, &s);
  }
  return x;
}

static void fft_put_bool(ct__complex_t *c, ct__pt2_make_t *m, const char *name, int value)
{
  int at = m->node.args;
  ct__pt2_make_int(c->p, m, name, value);
  if (!m->failed) m->arg[at].kind = CT_PT2_BOOL;
}

/* Appends the node; its result has the shape s. */
static int fft_add(ct__complex_t *c, int x, const fft_t *f, const ct__complex_shape_t *s)
{
  ct__pt2_make_t m = ct__pt2_make(c->node->op, c->node);
  ct_pt2_dim_t dim[CT__PT2_DIMS], length[CT__PT2_DIMS];
  double *scale = ct__pt2_alloc(c->p, 1, sizeof *scale);
  ct_pt2_arg_t *list = ct__pt2_alloc(c->p, CT__PT2_MAKE, sizeof *list);
  int *out = ct__pt2_alloc(c->p, 1, sizeof *out);
  for (int i = 0; i < f->n; i++) {
    /* a real tensor is transformed along the last dim first, as this halves it */
    int k = f->real_in ? f->n - 1 - i : i;
    dim[i] = (ct_pt2_dim_t){f->dim[k], 0};
    length[i] = (ct_pt2_dim_t){f->length[k], 0};
  }
  if (scale) *scale = f->scale;
  ct__pt2_make_tensor(c->p, &m, "self", x);
  ct__pt2_make_dims(c->p, &m, "dim", dim, f->n);
  ct__pt2_make_dims(c->p, &m, "n", length, f->n);
  ct__pt2_make_copy(&m, "scale", &(ct_pt2_arg_t){.kind = CT_PT2_FLOAT, .n = 1, .number = scale});
  fft_put_bool(c, &m, "forward", f->forward);
  fft_put_bool(c, &m, "real_in", f->real_in);
  fft_put_bool(c, &m, "half", f->half);
  fft_put_bool(c, &m, "real_out", f->real_out);
  if (!scale || !list || !out || m.failed) c->rc = CT_ERR_NOMEM;
  int v = ct__complex_value(c, s);
  if (c->rc != CT_OK) return 0;
  memcpy(list, m.arg, sizeof m.arg);
  *out = v;
  m.node.arg = list;
  m.node.out = out;
  m.node.outs = 1;
  c->p->value[v].node = c->p->g.nodes;
  c->rc = ct__pt2_add_node(c->p, &m.node);
  return v;
}

static int fft_rule(ct__complex_t *c, const char *data)
{
  fft_t f;
  int x = ct__complex_arg(c, "self");
  (void)data;
  if (x < 0 || !fft_read(c, x, ct__complex_ndim(c, x) - (ct__complex_is(c, x) ? 1 : 0), &f))
    return 0;
  if (f.real_out && f.real_in) {
    x = ct__complex_of(c, x);
    f.real_in = 0;
  }
  const ct__complex_shape_t s = ct__complex_shape(c, c->node->out[0]);
  return ct__complex_done(c, fft_add(c, fft_cut(c, x, &f), &f, &s));
}

/* ---- spectrograms ---- */

/* Returns a whole number among the arguments; \a other for None. */
static int64_t stft_int(const ct__complex_t *c, const char *name, int64_t other)
{
  const ct_pt2_arg_t *a = ct_pt2_arg(c->node, name);
  return a && a->dim && !a->dim[0].batch ? a->dim[0].n : other;
}

/* The window with zeros at both sides, of n elements; -1: there is none. */
static int stft_window(ct__complex_t *c, int64_t n)
{
  int w = ct__complex_arg(c, "window");
  if (w >= 0 && ct__complex_ndim(c, w) != 1) return -1;
  int64_t all = w < 0 ? n : c->p->value[w].dim[0].n, before = (n - all) / 2;
  if (w < 0 || all == n) return w;
  const ct__complex_shape_t s = {.ndim = 1, .dim = {{n, 0}}};
  const ct_pt2_dim_t pad[2] = {{before, 0}, {n - all - before, 0}};
  ct__pt2_make_t m = ct__pt2_make("aten.constant_pad_nd.default", c->node);
  ct__pt2_make_tensor(c->p, &m, "self", w);
  ct__pt2_make_dims(c->p, &m, "pad", pad, 2);
  return ct__complex_add(c, &m, &s);
}

/* stft of rows that are padded already: windows along the last dim, and their spectra. */
static int fft_windows(ct__complex_t *c, const char *data)
{
  int x = ct__complex_arg(c, "self"), rows = ct__complex_ndim(c, x) == 2;
  int64_t n = stft_int(c, "n_fft", 0), hop = stft_int(c, "hop_length", n / 4);
  int64_t length = stft_int(c, "win_length", n);
  ct__complex_shape_t s = ct__complex_shape(c, x), y = ct__complex_shape(c, c->node->out[0]);
  (void)data;
  if (ct__complex_is(c, x) || s.ndim != 1 + rows || y.ndim != 3 + rows || n < 1 || hop < 1 ||
      n > s.dim[rows].n || hop > INT32_MAX || s.dim[rows].batch || stft_int(c, "center", 0) ||
      (ct__complex_arg(c, "window") < 0 && length != n))
    return 0;
  fft_t f = {.n = 1, .dim = {rows + 1}, .length = {n}, .real_in = 1, .forward = 1};
  f.half = stft_int(c, "onesided", 1) != 0;
  f.scale = stft_int(c, "normalized", 0) ? 1 / sqrt((double)n) : 1;
  ct__pt2_make_t m = ct__pt2_make("aten.unfold.default", c->node);
  ct__pt2_make_tensor(c->p, &m, "self", x);
  ct__pt2_make_int(c->p, &m, "dimension", rows);
  ct__pt2_make_int(c->p, &m, "size", n);
  ct__pt2_make_int(c->p, &m, "step", hop);
  s.dim[rows] = y.dim[rows + 1];
  s.dim[s.ndim++] = (ct_pt2_dim_t){n, 0};
  x = ct__complex_add(c, &m, &s);
  int w = stft_window(c, n);
  if (w >= 0) x = ct__complex_two(c, "aten.mul.Tensor", x, w);
  s = y;
  s.dim[rows] = y.dim[rows + 1];
  s.dim[rows + 1] = y.dim[rows];
  x = fft_add(c, x, &f, &s);
  m = ct__pt2_make("aten.transpose.int", c->node);
  ct__pt2_make_tensor(c->p, &m, "self", x);
  ct__pt2_make_int(c->p, &m, "dim0", rows);
  ct__pt2_make_int(c->p, &m, "dim1", rows + 1);
  return ct__complex_done(c, ct__complex_add(c, &m, &y));
}

/* fftshift and ifftshift: half of each dim goes to its other end; data: 1 if rounded up. */
static int fft_shift(ct__complex_t *c, const char *data)
{
  const ct_pt2_arg_t *dim = ct_pt2_arg(c->node, "dim");
  int x = ct__complex_arg(c, "self"), all = !dim || !dim->dim, ndim = ct__complex_ndim(c, x) - 1;
  int n = all ? ndim : dim->n;
  ct_pt2_dim_t list[CT__PT2_DIMS], shift[CT__PT2_DIMS];
  const ct__complex_shape_t s = ct__complex_shape(c, x);
  for (int i = 0; i < n; i++) {
    int64_t d = all ? i : dim->dim[i].n + (dim->dim[i].n < 0 ? ndim : 0);
    if (d < 0 || d >= ndim || s.dim[d].batch || n > ndim) return 0;
    list[i] = (ct_pt2_dim_t){d, 0};
    shift[i] = (ct_pt2_dim_t){(s.dim[d].n + (data[0] - '0')) / 2, 0};
  }
  ct__pt2_make_t m = ct__pt2_make("aten.roll.default", c->node);
  ct__pt2_make_tensor(c->p, &m, "self", x);
  ct__pt2_make_dims(c->p, &m, "shifts", shift, n);
  ct__pt2_make_dims(c->p, &m, "dims", list, n);
  return ct__complex_done(c, ct__complex_add(c, &m, &s));
}

#define FFT(op)                \
  {                            \
    "aten." op, fft_rule, NULL \
  }

const ct__complex_row_t ct__complex_transforms[] = {FFT("fft_fft"),
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
                                                    {"aten.stft", fft_windows, NULL},
                                                    {"aten.fft_fftshift", fft_shift, "0"},
                                                    {"aten.fft_ifftshift", fft_shift, "1"},
                                                    {NULL, NULL, NULL}};
