/* The reader of synthetic data: a sample is a function of the seed and its number.  Benchmarks and
 * tests need learnable data of any size without a download. */
#include "data/readers/ct_reader.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_fault.h"
#include "base/ct_hash.h"
#include "base/ct_mem.h"
#include "base/ct_rng.h"

/* A sample is uniform noise in [-2, 2) plus a plane wave of amplitude 1, whose frequencies (down,
 * across) are its class.  Wave and noise together have mean 0 and a standard deviation near 1.  The
 * wave needs no trigonometry per sample: cos(u + v) comes from tables of one period in each
 * direction.
 *
 * Real-valued targets are uniform in [-1, 1); each is the amplitude of its own wave.  The noise is
 * then a quarter as large, so a linear map recovers the targets up to a small error.
 *
 * With a target for each pixel, its label is the class where the wave is positive, and 0 elsewhere;
 * real-valued targets are the waves, each times its amplitude. */
struct ct_reader {
  ct_reader_info_t info;
  uint64_t seed;
  int64_t channels, rows, width;
  int64_t grid; /* class or target k has the frequencies k / grid and k % grid */
  /* one period of cosine and sine, sampled at `rows` points and at `width` points */
  float *row_cos, *row_sin;
  float *col_cos, *col_sin;
};

static const float NOISE_STEP = 4.0f / 65536; /* 16 random bits over [-2, 2) */

static int make_tables(int64_t n, float **cosines, float **sines)
{
  *cosines = ct_mem_array(n, sizeof **cosines, "a wave table");
  *sines = ct_mem_array(n, sizeof **sines, "a wave table");
  if (!*cosines || !*sines) return CT_ERR_NOMEM;
  for (int64_t i = 0; i < n; i++) {
    double angle = 2 * M_PI * (double)i / (double)n;
    (*cosines)[i] = (float)cos(angle);
    (*sines)[i] = (float)sin(angle);
  }
  return CT_OK;
}

static void synthetic_close(ct_reader_t *r)
{
  if (!r) return;
  ct_mem_free(r->row_cos);
  ct_mem_free(r->row_sin);
  ct_mem_free(r->col_cos);
  ct_mem_free(r->col_sin);
  ct_mem_free(r);
}

static int set_shape(const ct_reader_spec_t *spec, ct_shape_t *x)
{
  static const int64_t usual[] = {3, 32, 32};
  const int64_t *dims = spec->shape ? spec->shape : usual;
  int rc = CT_OK, n = spec->shape ? spec->shape_dims : 3;
  if (n < 1 || n > CT_MAX_DIMS - 1)
    CT_FAIL(CT_ERR_USAGE, "synthetic data: a sample has 1 to %d dims, not %d", CT_MAX_DIMS - 1, n);
  *x = (ct_shape_t){.dtype = CT_F32, .layout = CT_PLAIN, .ndim = n + 1, .dim = {1, 1, 1, 1, 1}};
  int64_t elements = 1;
  for (int i = 0; i < n; i++) {
    x->dim[i + 1] = dims[i];
    if (dims[i] < 1 || __builtin_mul_overflow(elements, dims[i], &elements) ||
        elements > INT64_MAX / 64)
      CT_FAIL(CT_ERR_USAGE, "synthetic data: the shape of a sample has a dim that is not possible");
  }
out:
  return rc;
}

static uint64_t fingerprint(const ct_reader_info_t *info, uint64_t seed)
{
  uint64_t h = ct_hash_text("synthetic", seed);
  h = ct_hash_int(info->samples, h);
  h = ct_hash_int(info->classes, h);
  h = ct_hash_int(info->targets, h);
  if (info->dense_target.ndim) h = ct_hash_int(info->dense_target.dim[1], h);
  for (int i = 0; i < info->x.ndim; i++)
    h = ct_hash_int(info->x.dim[i], h);
  return h;
}

/* Describes a target for each pixel: a label, or `targets` real values. */
static int set_pixels(const ct_reader_spec_t *spec, ct_reader_info_t *info)
{
  int rc = CT_OK;
  char shape[80];
  if (info->x.ndim < 4)
    CT_FAIL(CT_ERR_USAGE,
            "data.synthetic_pixels: needs images or volumes, but data.shape makes samples %s",
            ct_shape_text(&info->x, shape, sizeof shape));
  if (!spec->targets && spec->classes > 256)
    CT_FAIL(CT_ERR_USAGE, "data.synthetic_pixels: at most 256 classes, not %lld",
            (long long)spec->classes);
  info->dense_target = info->x;
  info->dense_target.dtype = spec->targets ? CT_F32 : CT_U8;
  info->dense_target.dim[1] = spec->targets ? spec->targets : 1;
out:
  return rc;
}

static int synthetic_open(const ct_reader_spec_t *spec, ct_reader_t **out)
{
  int rc = CT_OK;
  ct_reader_t *r = NULL;
  *out = NULL;
  CT_TRY(ct_fault("reader.open"));
  if (spec->samples < 1 || spec->classes < 0 || spec->targets < 0)
    CT_FAIL(CT_ERR_USAGE,
            "synthetic data: samples must be at least 1, classes and targets not below 0");
  r = ct_mem_alloc(sizeof *r, "the synthetic reader");
  if (!r) CT_TRY(CT_ERR_NOMEM);
  ct_shape_t *x = &r->info.x;
  CT_TRY(set_shape(spec, x));
  r->info.samples = spec->samples;
  r->info.targets = spec->targets;
  if (!spec->targets) r->info.classes = spec->classes > 0 ? spec->classes : 10;
  if (spec->pixels) CT_TRY(set_pixels(spec, &r->info));
  r->info.fingerprint = fingerprint(&r->info, spec->seed);
  r->seed = spec->seed;
  r->channels = x->ndim > 2 ? x->dim[1] : 1;
  r->width = x->dim[x->ndim - 1];
  r->rows = ct_shape_sample(x) / r->channels / r->width;
  int64_t waves = r->info.targets ? r->info.targets : r->info.classes;
  r->grid = (int64_t)ceil(sqrt((double)waves));
  if (r->rows == 1) r->grid = waves; /* all frequencies are along one direction */
  CT_TRY(make_tables(r->rows, &r->row_cos, &r->row_sin));
  CT_TRY(make_tables(r->width, &r->col_cos, &r->col_sin));
  *out = r;
  r = NULL;
out:
  synthetic_close(r);
  return rc;
}

static int synthetic_share(const ct_reader_t *r, void **bytes, size_t *n)
{
  (void)r;
  *bytes = NULL;
  *n = 0;
  return CT_OK;
}

static const char *synthetic_file(const ct_reader_t *r, int i)
{
  (void)r, (void)i;
  return NULL;
}

static int synthetic_move(ct_reader_t *r, int i, const char *path)
{
  (void)r;
  return ct_err_set(CT_ERR_ARG, __FILE__, __LINE__, "synthetic data have no file %d to read at %s",
                    i, path);
}

static const ct_reader_info_t *synthetic_info(const ct_reader_t *r)
{
  return &r->info;
}

/* xorshift64*, much cheaper than a counter-based generator, which only seeds it for each sample. */
static inline uint64_t next_bits(uint64_t *state)
{
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return *state * 0x2545F4914F6CDD1D;
}

/* wave(y, x) = cos(row angle + fx * column angle) */
static void make_row(const ct_reader_t *r, float row_cos, float row_sin, int64_t fx,
                     uint64_t *state, float *to)
{
  int64_t at = 0; /* fx * i modulo the period */
  uint64_t bits = 0;
  for (int64_t i = 0; i < r->width; i++) {
    if (i % 4 == 0) bits = next_bits(state);
    float noise = (float)(bits & 0xffff) * NOISE_STEP - 2;
    bits >>= 16;
    to[i] = noise + row_cos * r->col_cos[at] - row_sin * r->col_sin[at];
    at += fx;
    if (at >= r->width) at -= r->width;
  }
}

static void make_sample(const ct_reader_t *r, int64_t index, int64_t label, float *to)
{
  int64_t fy = label / r->grid % r->rows, fx = label % r->grid % r->width;
  uint64_t state = ct_rng_u64(r->seed, CT_RNG_DATA, 0, (uint64_t)index) | 1;
  for (int64_t c = 0; c < r->channels; c++) {
    for (int64_t y = 0; y < r->rows; y++, to += r->width) {
      int64_t at = fy * y % r->rows;
      make_row(r, r->row_cos[at], r->row_sin[at], fx, &state, to);
    }
  }
}

static float target_of(const ct_reader_t *r, int64_t index, int64_t k)
{
  return 2 * ct_rng_uniform(r->seed, CT_RNG_DATA, 1 + (uint32_t)k, (uint64_t)index) - 1;
}

static void add_wave(const ct_reader_t *r, int64_t wave, int64_t y, float amplitude, float *row)
{
  int64_t down = wave / r->grid % r->rows * y % r->rows, fx = wave % r->grid % r->width, at = 0;
  for (int64_t i = 0; i < r->width; i++) {
    row[i] += amplitude * (r->row_cos[down] * r->col_cos[at] - r->row_sin[down] * r->col_sin[at]);
    at += fx;
    if (at >= r->width) at -= r->width;
  }
}

static void make_target_sample(const ct_reader_t *r, int64_t index, float *to)
{
  uint64_t state = ct_rng_u64(r->seed, CT_RNG_DATA, 0, (uint64_t)index) | 1;
  for (int64_t c = 0; c < r->channels; c++) {
    for (int64_t y = 0; y < r->rows; y++, to += r->width) {
      make_row(r, 0, 0, 0, &state, to);
      for (int64_t i = 0; i < r->width; i++)
        to[i] *= 0.25f;
      for (int64_t k = 0; k < r->info.targets; k++)
        add_wave(r, k, y, target_of(r, index, k), to);
    }
  }
}

static void read_with_targets(const ct_reader_t *r, int64_t index, float *x, float *y)
{
  if (x) make_target_sample(r, index, x);
  for (int64_t k = 0; y && k < r->info.targets; k++)
    y[k] = target_of(r, index, k);
}

/* Writes the label of each pixel of a sample. */
static void make_labels(const ct_reader_t *r, int64_t label, unsigned char *to)
{
  int64_t fy = label / r->grid % r->rows, fx = label % r->grid % r->width;
  for (int64_t y = 0; y < r->rows; y++, to += r->width) {
    int64_t down = fy * y % r->rows, at = 0;
    for (int64_t i = 0; i < r->width; i++) {
      float wave = r->row_cos[down] * r->col_cos[at] - r->row_sin[down] * r->col_sin[at];
      to[i] = (unsigned char)(wave > 0 ? label : 0);
      at += fx;
      if (at >= r->width) at -= r->width;
    }
  }
}

/* Writes the values of each pixel of a sample. */
static void make_values(const ct_reader_t *r, int64_t index, float *to)
{
  for (int64_t k = 0; k < r->info.targets; k++) {
    for (int64_t y = 0; y < r->rows; y++, to += r->width) {
      memset(to, 0, (size_t)r->width * sizeof *to);
      add_wave(r, k, y, target_of(r, index, k), to);
    }
  }
}

/* Writes the target of each pixel of sample \a index, the i-th of those that are read. */
static void make_pixels(const ct_reader_t *r, int64_t index, int i, void *y)
{
  int64_t values = i * ct_shape_sample(&r->info.dense_target);
  if (r->info.targets)
    make_values(r, index, (float *)y + values);
  else
    make_labels(r, index % r->info.classes, (unsigned char *)y + values);
}

static int synthetic_read(ct_reader_t *r, int n, const int64_t index[], void *x, void *y)
{
  int rc = CT_OK;
  int64_t elements = ct_shape_sample(&r->info.x);
  for (int i = 0; i < n; i++) {
    if (index[i] < 0 || index[i] >= r->info.samples)
      CT_FAIL(CT_ERR_ARG, "synthetic sample %lld is out of range: there are %lld",
              (long long)index[i], (long long)r->info.samples);
    float *sample = x ? (float *)x + i * elements : NULL;
    int by_pixel = r->info.dense_target.ndim > 0, one = y && !by_pixel;
    if (y && by_pixel) make_pixels(r, index[i], i, y);
    if (r->info.targets) {
      read_with_targets(r, index[i], sample, one ? (float *)y + i * r->info.targets : NULL);
      continue;
    }
    int64_t label = index[i] % r->info.classes;
    if (x) make_sample(r, index[i], label, sample);
    if (one) ((int64_t *)y)[i] = label;
  }
out:
  return rc;
}

static void synthetic_location(const ct_reader_t *r, int64_t index, char *buf, size_t cap)
{
  (void)r;
  snprintf(buf, cap, "synthetic sample %lld", (long long)index);
}

const ct_reader_ops_t ct_reader_synthetic = {
    .format = {.name = "synthetic"},
    .open = synthetic_open,
    .share = synthetic_share,
    .file = synthetic_file,
    .move = synthetic_move,
    .info = synthetic_info,
    .read = synthetic_read,
    .location = synthetic_location,
    .close = synthetic_close,
};
