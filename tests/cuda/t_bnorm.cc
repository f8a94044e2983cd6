/* The kernels of batch normalisation on shapes that no model has: compared with sums in double, and
 * bit by bit in several orders of threads and blocks. */
#include "cuda/kernels/bnorm.h"
#include "tests/cuda/emu_rig.h"

/* x + x2 with ReLU. */
typedef struct {
  ct_dtype_t type;
  int64_t rows, channels;
  int sms;     /* for which the work is shared out */
  int off;     /* elements by which activations are not aligned */
  double mean; /* of x, whose deviation is 1 */
} shape_t;

static const shape_t shapes[] = {
    {CT_F32, 1, 1, 4, 0, 0},         {CT_F16, 7, 8, 132, 0, 0},     {CT_F32, 5000, 1, 132, 0, 3},
    {CT_BF16, 9000, 16, 8, 0, -1},   {CT_F32, 6, 2049, 16, 0, 0},   {CT_F16, 40, 2048, 132, 0, 0.5},
    {CT_F16, 100, 20, 16, 0, 1},     {CT_F32, 300, 64, 132, 1, 0},  {CT_F16, 300, 264, 132, 3, 0},
    {CT_BF16, 1000, 24, 132, 0, 10}, {CT_F32, 4097, 12, 1, 0, 1000}};

enum { X, X2, DY, DY2, Y, DX, DX2, TENSORS, OUTPUTS = TENSORS - Y };

typedef struct {
  const shape_t *s;
  gpu__bn_grid_t g;
  int64_t n;
  char *tensor[TENSORS];
  float *param[6]; /* weight, bias, running mean and variance, their gradients */
  float *norm, *slopes, *partial;
  unsigned char *kept;
} rig_t;

static void *device(size_t bytes)
{
  void *p = NULL;
  CT_ASSERT_INT(cudaMalloc(&p, bytes + 1), cudaSuccess);
  return p;
}

static double noise(uint64_t i, uint64_t stream)
{
  uint64_t v = (i + 1) * 0x9e3779b97f4a7c15u + stream * 0xbf58476d1ce4e5b9u;
  double sum = 0;
  for (int k = 0; k < 4; k++) {
    v = (v ^ v >> 30) * 0x94d049bb133111ebu;
    sum += (double)(v >> 40) / (1 << 24) - 0.5;
  }
  return sum * 1.732;
}

static float get(const rig_t *r, int tensor, int64_t i)
{
  GPU_BY_TYPE(r->s->type, T, return gpu_load((const T *)r->tensor[tensor] + i))
  return 0;
}

static cudaError_t put(const rig_t *r, int tensor, int64_t i, double v)
{
  GPU_BY_TYPE(r->s->type, T, gpu_store((T *)r->tensor[tensor] + i, (float)v))
  return cudaSuccess;
}

static void rig_open(rig_t *r, const shape_t *s)
{
  size_t size = s->type == CT_F32 ? 4 : 2, c = (size_t)s->channels * sizeof(float);
  *r = {};
  r->s = s;
  r->g = gpu__bn_share(s->type, s->rows, s->channels, s->sms);
  r->n = s->rows * s->channels;
  for (int t = 0; t < TENSORS; t++)
    r->tensor[t] = (char *)device((size_t)(r->n + s->off) * size) + (size_t)s->off * size;
  for (int64_t i = 0; i < r->n; i++) {
    put(r, X, i, noise((uint64_t)i, 1) + s->mean);
    for (int t = X2; t <= DY2; t++)
      put(r, t, i, noise((uint64_t)i, (uint64_t)t + 1));
  }
  for (int k = 0; k < 6; k++) {
    r->param[k] = (float *)device(c);
    for (int64_t i = 0; i < s->channels; i++)
      r->param[k][i] = (float)(1 + 0.2 * noise((uint64_t)i, 10 + (uint64_t)k));
  }
  r->norm = (float *)device(2 * c);
  r->slopes = (float *)device(2 * c);
  r->partial = (float *)device(2 * c * (size_t)r->g.splits);
  r->kept = (unsigned char *)device((size_t)(r->n / r->g.width));
}

static void run(const rig_t *r)
{
  int64_t c = r->s->channels;
  gpu__bn_norm_t norm = {r->norm, r->norm + c, NULL, 0, r->param[0], r->param[1]};
  gpu__bn_stats_t dest = {1e-5, 0.1, r->norm, r->norm + c, r->param[2], r->param[3], NULL};
  gpu__bn_gradient_t in = {r->tensor[DY], r->tensor[DY2], GPU_BN_KEPT, r->kept};
  gpu__bn_summed_t sums = {r->param[4], r->param[5], r->slopes, r->slopes + c, NULL};
  gpu__bn_moments(&r->g, r->tensor[X], r->partial, 0);
  gpu__bn_merge(&r->g, r->partial, &dest, 0);
  gpu__bn_normalise(&r->g, &norm, r->tensor[X], r->tensor[X2], 1, r->tensor[Y], r->kept, 0);
  gpu__bn_gradient_sums(&r->g, &norm, r->tensor[X], &in, NULL, r->partial, 0);
  gpu__bn_sum_up(&r->g, r->partial, &norm, &sums, 0);
  gpu__bn_dx(&r->g, &norm, r->tensor[X], &in, sums.middle, sums.slope, r->tensor[DX],
             r->tensor[DX2], 0);
  expect_right();
}

/* ---- what is right ---- */

typedef struct {
  double error, size;
} distance_t;

static void differ(distance_t *d, double got, double want)
{
  d->error += (got - want) * (got - want);
  d->size += want * want;
}

static void check_near(const rig_t *r, const char *what, const distance_t *d, double least)
{
  double tolerance = r->s->type == CT_F32   ? 1e-5 + 1e-7 * fabs(r->s->mean)
                     : r->s->type == CT_F16 ? 1e-3
                                            : 8e-3;
  double error = sqrt(d->error), allowed = tolerance * fmax(sqrt(d->size), least);
  if (!(error <= allowed))
    printf("# %d x %d: %s is %g away, allowed %g\n", (int)r->s->rows, (int)r->s->channels, what,
           error, allowed);
  CU_ASSERT(error <= allowed);
}

/* One channel; the sign of the ReLU is that of the y that was written. */
static void compare_channel(const rig_t *r, int64_t c, distance_t d[OUTPUTS + 2])
{
  double rows = (double)r->s->rows, mean = 0, var = 0, sum = 0, dot = 0;
  for (int64_t i = c; i < r->n; i += r->s->channels)
    mean += get(r, X, i) / rows;
  for (int64_t i = c; i < r->n; i += r->s->channels)
    var += (get(r, X, i) - mean) * (get(r, X, i) - mean) / rows;
  double invstd = 1 / sqrt(var + 1e-5), weight = r->param[0][c];
  for (int64_t i = c; i < r->n; i += r->s->channels) {
    double y = (get(r, X, i) - mean) * invstd * weight + r->param[1][c] + get(r, X2, i);
    double g = get(r, Y, i) > 0 ? (double)get(r, DY, i) + get(r, DY2, i) : 0;
    differ(&d[0], get(r, Y, i), y > 0 ? y : 0);
    differ(&d[2], get(r, DX2, i), g);
    sum += g;
    dot += g * (get(r, X, i) - mean);
  }
  for (int64_t i = c; i < r->n; i += r->s->channels) {
    double g = get(r, Y, i) > 0 ? (double)get(r, DY, i) + get(r, DY2, i) : 0;
    double rest = sum / rows + (get(r, X, i) - mean) * dot * invstd * invstd / rows;
    differ(&d[1], get(r, DX, i), weight * invstd * (g - rest));
  }
  differ(&d[3], r->param[4][c], dot * invstd);
  differ(&d[4], r->param[5][c], sum);
}

static void check_numbers(const rig_t *r)
{
  static const char *const names[] = {"y", "dx", "dx2", "dweight", "dbias"};
  distance_t d[OUTPUTS + 2] = {};
  for (int64_t c = 0; c < r->s->channels; c++)
    compare_channel(r, c, d);
  for (int k = 0; k < OUTPUTS + 2; k++)
    check_near(r, names[k], &d[k], sqrt((double)r->n));
}

/* The sums of a SyncBN of one rank lead to the same statistics. */
static void check_synced(const rig_t *r)
{
  int64_t c = r->s->channels;
  double *stats = (double *)device((size_t)(2 * c + 1) * sizeof *stats), *count = stats + 2 * c;
  gpu__bn_stats_t dest = {1e-5, 0, r->slopes, r->slopes + c, r->param[2], r->param[3], count};
  distance_t d = {};
  gpu__bn_moments(&r->g, r->tensor[X], r->partial, 0);
  gpu__bn_local(&r->g, r->partial, r->param[2], stats, 0);
  CT_ASSERT_NEAR(*count, (double)r->s->rows, 0);
  gpu__bn_merge_synced(c, stats, &dest, 0);
  expect_right();
  for (int64_t i = 0; i < 2 * c; i++)
    differ(&d, r->slopes[i], r->norm[i]);
  if (!(sqrt(d.error) <= 1e-6 * sqrt(d.size)))
    printf("# %d x %d: statistics of one rank differ by %g of %g\n", (int)r->s->rows, (int)c,
           sqrt(d.error), sqrt(d.size));
  CU_ASSERT(sqrt(d.error) <= 1e-6 * sqrt(d.size));
}

/* A hash of all results. */
static uint64_t fingerprint(const rig_t *r)
{
  uint64_t h = RIG_HASH;
  size_t size = r->s->type == CT_F32 ? 4 : 2;
  for (int t = Y; t < TENSORS; t++)
    h = rig_hash(h, r->tensor[t], (size_t)r->n * size);
  for (int k = 2; k < 6; k++)
    h = rig_hash(h, r->param[k], (size_t)r->s->channels * sizeof(float));
  return h;
}

static void odd_shapes(void)
{
  static const char *const few[] = {"asc", "desc", "random:4"};
  for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
    uint64_t first = 0;
    for (int o = 0; o < 3; o++) {
      rig_t r;
      begin(few[o]);
      rig_open(&r, &shapes[k]);
      run(&r);
      if (o == 0) check_numbers(&r);
      if (o == 0) first = fingerprint(&r);
      CU_ASSERT(fingerprint(&r) == first);
      check_synced(&r);
      fake_cuda_reset(); /* frees */
    }
  }
}

/* ---- shares ---- */

/* Both directions of ResNet-50's extremes and of small things fill the device as far as there are
 * rows. */
static void shares(void)
{
  const int64_t cases[][2] = {{256 * 112 * 112, 64},
                              {32 * 7 * 7, 2048},
                              {256 * 56 * 56, 256},
                              {33000000, 32},
                              {1, 1},
                              {0, 64}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    gpu__bn_grid_t g = gpu__bn_share(CT_F16, cases[i][0], cases[i][1], 132);
    int64_t lines = 256 / g.across;
    CU_ASSERT((int64_t)g.columns * g.across * g.width >= g.channels);
    CU_ASSERT(g.splits <= 65535 && g.spread <= 65535);
    CU_ASSERT((g.splits == 0) == (g.rows == 0) && (g.spread == 0) == (g.rows == 0));
    if (g.rows * g.channels > 1 << 20) {
      CU_ASSERT((int64_t)g.columns * g.splits >= 132);
      CU_ASSERT((int64_t)g.columns * g.spread >= 2 * 132);
      CU_ASSERT(g.rows <= 129 * 4 * lines * g.splits);
    }
  }
  CT_ASSERT_INT(gpu__bn_share(CT_F16, 10, 20, 4).width, 1);
  CT_ASSERT_INT(gpu__bn_share(CT_F32, 10, 20, 4).width, 4);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(odd_shapes), CT_TEST(shares), CT_TEST_END};
  return ct_test_main("kernels of batchnorm", tests, argc, argv);
}
