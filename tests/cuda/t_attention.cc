/* The kernels of attention in every type, on shapes that no model has: compared with sums in
 * double, and bit by bit in several orders of threads and blocks. */
#include "cuda/kernels/attention.h"
#include "tests/cuda/emu_rig.h"

typedef struct {
  ct_dtype_t type;
  int64_t n, t, heads, wide;
  int off; /* elements by which tensors are not aligned */
} shape_t;

/* Tiles have 32 or 64 tokens, chunks 32 or 64 features. */
static const shape_t shapes[] = {
    {CT_F32, 1, 1, 1, 1, 0},   {CT_BF16, 2, 7, 3, 8, 0},   {CT_F32, 1, 197, 2, 16, 0},
    {CT_F16, 2, 33, 1, 32, 0}, {CT_BF16, 1, 64, 2, 33, 0}, {CT_F32, 1, 70, 1, 64, 0},
    {CT_F16, 1, 96, 1, 64, 1}, {CT_F32, 3, 5, 2, 5, 3},    {CT_BF16, 1, 40, 1, 64, 0},
    {CT_F32, 1, 65, 1, 80, 0}, {CT_F16, 1, 34, 2, 130, 0}, {CT_BF16, 0, 7, 2, 8, 0}};

enum { QKV, C, DC, DQKV, TENSORS };

typedef struct {
  const shape_t *s;
  gpu__attention_t a;
  int64_t n[TENSORS], rows; /* elements; queries of all heads */
  char *tensor[TENSORS];
  float *stats, *sums;
  double *p, *want; /* probabilities of a head; what DQKV should be */
} rig_t;

static void *device(size_t bytes)
{
  void *p = NULL;
  CT_ASSERT_INT(cudaMalloc(&p, bytes + 1), cudaSuccess);
  return p;
}

/* Uniform, of mean 0 and variance 1. */
static double noise(uint64_t i)
{
  uint64_t v = (i + 1) * 0x9e3779b97f4a7c15u;
  v = (v ^ v >> 30) * 0xbf58476d1ce4e5b9u;
  return ((double)(v >> 40) / (1 << 24) - 0.5) * 3.46;
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
  size_t size = s->type == CT_F32 ? 4 : 2;
  *r = {};
  r->s = s;
  r->a.n = s->n;
  r->a.t = s->t;
  r->a.heads = s->heads;
  r->a.wide = s->wide;
  r->rows = s->n * s->t * s->heads;
  for (int k = 0; k < TENSORS; k++) {
    r->n[k] = r->rows * s->wide * (k == QKV || k == DQKV ? 3 : 1);
    r->tensor[k] = (char *)device((size_t)(r->n[k] + s->off) * size) + (size_t)s->off * size;
  }
  for (int64_t i = 0; i < r->n[QKV]; i++)
    put(r, QKV, i, noise((uint64_t)i));
  for (int64_t i = 0; i < r->n[DC]; i++)
    put(r, DC, i, noise((uint64_t)i + 1000000));
  r->stats = (float *)device((size_t)r->rows * sizeof(float));
  r->sums = (float *)device((size_t)r->rows * sizeof(float));
  r->p = (double *)calloc((size_t)(s->t * s->t), sizeof(double));
  r->want = (double *)calloc((size_t)r->n[DQKV] + 1, sizeof(double));
}

static void rig_close(rig_t *r)
{
  free(r->p);
  free(r->want);
  fake_cuda_reset(); /* frees the device's memory */
}

static void run(const rig_t *r)
{
  ct_dtype_t type = r->s->type;
  gpu__attention_io_t io = gpu__attention_packed(type, &r->a, r->tensor[QKV], r->tensor[DQKV]);
  io.y = r->tensor[C];
  io.dy = r->tensor[DC];
  io.stats = r->stats;
  io.sums = r->sums;
  CT_ASSERT_INT(gpu__attention_forward(type, &r->a, &io, 0), 0);
  CT_ASSERT_INT(gpu__attention_backward(type, &r->a, &io, 0), 0);
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

static void check_near(const rig_t *r, const char *what, const distance_t *d)
{
  double tolerance = r->s->type == CT_F32 ? 2e-6 : r->s->type == CT_F16 ? 1e-3 : 8e-3;
  double error = sqrt(d->error), allowed = tolerance * sqrt(d->size) + 1e-6;
  if (!(error <= allowed))
    printf("# %d tokens, heads of %d: %s is %g away, allowed %g\n", (int)r->s->t, (int)r->s->wide,
           what, error, allowed);
  CU_ASSERT(error <= allowed);
}

/* Index of a feature of a query, key or value (part 0, 1, 2), and of an output. */
static int64_t in(const rig_t *r, int64_t sample, int64_t head, int64_t t, int part, int64_t i)
{
  return (((sample * r->s->t + t) * 3 + part) * r->s->heads + head) * r->s->wide + i;
}
static int64_t out(const rig_t *r, int64_t sample, int64_t head, int64_t t, int64_t i)
{
  return ((sample * r->s->t + t) * r->s->heads + head) * r->s->wide + i;
}

/* Computes the probabilities of one query, and compares its logarithm. */
static void probabilities(const rig_t *r, int64_t n, int64_t h, int64_t q, distance_t *stats)
{
  double *p = r->p + q * r->s->t, most = -INFINITY, sum = 0;
  for (int64_t k = 0; k < r->s->t; k++) {
    p[k] = 0;
    for (int64_t i = 0; i < r->s->wide; i++)
      p[k] += (double)get(r, QKV, in(r, n, h, q, 0, i)) * get(r, QKV, in(r, n, h, k, 1, i));
    p[k] /= sqrt((double)r->s->wide);
    most = fmax(most, p[k]);
  }
  for (int64_t k = 0; k < r->s->t; k++)
    sum += exp(p[k] - most);
  for (int64_t k = 0; k < r->s->t; k++)
    p[k] = exp(p[k] - most) / sum;
  differ(stats, r->stats[(n * r->s->heads + h) * r->s->t + q], most + log(sum));
}

static void outputs(const rig_t *r, int64_t n, int64_t h, int64_t q, distance_t *c)
{
  for (int64_t i = 0; i < r->s->wide; i++) {
    double want = 0;
    for (int64_t k = 0; k < r->s->t; k++)
      want += r->p[q * r->s->t + k] * get(r, QKV, in(r, n, h, k, 2, i));
    differ(c, get(r, C, out(r, n, h, q, i)), want);
  }
}

static void gradients(const rig_t *r, int64_t n, int64_t h, int64_t q)
{
  const double *p = r->p + q * r->s->t, scale = 1 / sqrt((double)r->s->wide);
  double mean = 0;
  for (int64_t i = 0; i < r->s->wide; i++)
    for (int64_t k = 0; k < r->s->t; k++)
      mean += p[k] * get(r, DC, out(r, n, h, q, i)) * get(r, QKV, in(r, n, h, k, 2, i));
  for (int64_t k = 0; k < r->s->t; k++) {
    double dp = 0;
    for (int64_t i = 0; i < r->s->wide; i++)
      dp += (double)get(r, DC, out(r, n, h, q, i)) * get(r, QKV, in(r, n, h, k, 2, i));
    double ds = p[k] * (dp - mean) * scale;
    for (int64_t i = 0; i < r->s->wide; i++) {
      r->want[in(r, n, h, q, 0, i)] += ds * get(r, QKV, in(r, n, h, k, 1, i));
      r->want[in(r, n, h, k, 1, i)] += ds * get(r, QKV, in(r, n, h, q, 0, i));
      r->want[in(r, n, h, k, 2, i)] += p[k] * get(r, DC, out(r, n, h, q, i));
    }
  }
}

static void check_numbers(const rig_t *r)
{
  distance_t stats = {}, c = {}, d = {};
  for (int64_t task = 0; task < r->rows; task++) {
    int64_t q = task % r->s->t, h = task / r->s->t % r->s->heads, n = task / r->s->t / r->s->heads;
    probabilities(r, n, h, q, &stats);
    outputs(r, n, h, q, &c);
    gradients(r, n, h, q);
  }
  for (int64_t i = 0; i < r->n[DQKV]; i++)
    differ(&d, get(r, DQKV, i), r->want[i]);
  check_near(r, "logarithm of sums", &stats);
  check_near(r, "output", &c);
  check_near(r, "gradient", &d);
}

/* A hash of all results. */
static uint64_t fingerprint(const rig_t *r)
{
  uint64_t h = RIG_HASH;
  size_t size = r->s->type == CT_F32 ? 4 : 2;
  for (int k = C; k <= DQKV; k++)
    h = rig_hash(h, r->tensor[k], (size_t)r->n[k] * size);
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
      rig_close(&r);
    }
  }
}

/* As softmax does: a query with a NaN gets NaN alone, a key with a NaN gives NaN to every query. */
static void nan_stays(void)
{
  static const shape_t shape = {CT_F32, 1, 70, 1, 8, 0};
  for (int part = 0; part < 2; part++) {
    rig_t r;
    begin("asc");
    rig_open(&r, &shape);
    put(&r, QKV, in(&r, 0, 0, 35, part, 2), NAN);
    run(&r);
    for (int64_t t = 0; t < shape.t; t++)
      CU_ASSERT(!isnan(get(&r, C, out(&r, 0, 0, t, 3))) == (part == 0 && t != 35));
    rig_close(&r);
  }
}

/* Scores whose exponentials are beyond float32: one key is chosen. */
static void large_scores(void)
{
  static const shape_t shape = {CT_F32, 1, 50, 1, 4, 0};
  rig_t r;
  begin("asc");
  rig_open(&r, &shape);
  for (int64_t t = 0; t < shape.t; t++)
    for (int64_t i = 0; i < shape.wide; i++) {
      put(&r, QKV, in(&r, 0, 0, t, 0, i), 100);
      put(&r, QKV, in(&r, 0, 0, t, 1, i), t == 40 ? 100 : -100);
    }
  run(&r);
  for (int64_t t = 0; t < shape.t; t++)
    CT_ASSERT_NEAR(get(&r, C, out(&r, 0, 0, t, 1)), get(&r, QKV, in(&r, 0, 0, 40, 2, 1)), 0);
  for (int64_t i = 0; i < r.n[DQKV]; i++)
    CU_ASSERT(isfinite(get(&r, DQKV, i)));
  rig_close(&r);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(odd_shapes), CT_TEST(nan_stays), CT_TEST(large_scores),
                                    CT_TEST_END};
  return ct_test_main("kernels of attention", tests, argc, argv);
}
