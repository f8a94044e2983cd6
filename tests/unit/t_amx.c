/* The CPU backend on AMX: GEMMs of drawn sizes against sums in double, and SDPA on several blocks
 * of queries and keys against the same op in float32.  Results are equal for any number of
 * threads. */
#include <math.h>
#include <string.h>

#include "base/ct_mem.h"
#include "base/ct_rng.h"
#include "cpu/ct_cpu.h"
#include "cpu/gemm/gemm_amx.h"
#include "cpu/tile/amx.h"
#include "cpu/team.h"
#include "tests/harness/ct_test.h"

enum { THREADS = 3 };

static ct_dev_t *dev;
static ct_queue_t *queue;
static uint64_t draws;

static int64_t draw(int64_t most)
{
  return (int64_t)(ct_rng_u64(11, CT_RNG_TEST, 1, draws++) % (uint64_t)most);
}

static float draw_value(void)
{
  return ct_rng_uniform(11, CT_RNG_TEST, 2, draws++) - 0.5f;
}

static int open_device(void)
{
  ct_dev_opts_t opts = {.threads = THREADS};
  CT_ASSERT_OK(ct_backend_cpu.open(&opts, &dev));
  CT_ASSERT_OK(ct_backend_cpu.queue->create(dev, &queue));
  if (cpu__amx_is_there()) return 1;
  ct_test_skip("the processor has no AMX");
  return 0;
}

static void close_device(void)
{
  ct_backend_cpu.queue->destroy(queue);
  ct_backend_cpu.close(dev);
}

static void *take(int64_t count)
{
  return ct_mem_array(count, sizeof(float), "test");
}

/* ---- GEMM ---- */

/* A drawn operand of rows x columns: its values as AMX sees them, and its memory. */
static float *draw_side(cpu__amx_side_t *side, int64_t rows, int64_t columns)
{
  float *value = take(rows * columns);
  void *mem = take(rows * columns);
  side->ld = side->turned ? rows : columns;
  side->at = mem;
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++) {
      float v = draw_value();
      int64_t at = side->turned ? j * rows + i : i * columns + j;
      value[i * columns + j] = ct_bf16_float(ct_bf16_of(v));
      if (side->floats)
        ((float *)mem)[at] = v;
      else
        ((uint16_t *)mem)[at] = ct_bf16_of(v);
    }
  return value;
}

static void free_side(cpu__amx_side_t *side, float *value)
{
  ct_mem_free((void *)(uintptr_t)side->at);
  ct_mem_free(value);
}

static double wanted(const cpu__amx_gemm_t *g, const float *a, const float *b, double before,
                     int64_t i, int64_t j)
{
  double sum = g->add ? before : 0;
  for (int64_t p = 0; p < g->k; p++)
    sum += (double)a[i * g->k + p] * b[p * g->n + j];
  if (g->bias) sum += g->bias[j];
  return g->relu && sum < 0 ? 0 : sum;
}

/* Runs the GEMM; sums: of the rows of a, if it is turned. */
static void run(const cpu__amx_gemm_t *g, const float *before, void *c, float *sums, int threads)
{
  void *scratch = ct_mem_alloc(cpu__amx_gemm_scratch(g, threads), "test");
  cpu__amx_gemm_t own = *g;
  own.c = c;
  own.sums = g->a.turned ? sums : NULL;
  memcpy(sums, before, (size_t)g->m * sizeof *sums);
  memcpy(c, before, (size_t)(g->m * g->n) * sizeof(float));
  dev->threads = threads;
  cpu__team_use(threads);
  cpu__amx_gemm(dev, &own, scratch);
  ct_mem_free(scratch);
}

static void check_gemm(cpu__amx_gemm_t *g)
{
  float *a = draw_side(&g->a, g->m, g->k), *b = draw_side(&g->b, g->k, g->n);
  float *before = take(g->m * g->n), *one = take(g->m * g->n), *three = take(g->m * g->n);
  float *bias = take(g->n), *sums[2] = {take(g->m), take(g->m)};
  int wrong = 0;
  for (int64_t i = 0; i < g->m * g->n; i++)
    before[i] = draw_value();
  for (int64_t j = 0; j < g->n; j++)
    bias[j] = draw_value();
  if (g->bias) g->bias = bias;
  g->c_row = g->n;
  run(g, before, one, sums[0], 1);
  run(g, before, three, sums[1], THREADS);
  CT_ASSERT_INT(memcmp(sums[0], sums[1], (size_t)g->m * sizeof(float)), 0);
  CT_ASSERT_INT(memcmp(one, three, (size_t)(g->m * g->n) * sizeof *one), 0);
  for (int64_t i = 0; i < g->m; i++)
    for (int64_t j = 0; j < g->n; j++) {
      int64_t at = i * g->n + j;
      double want = wanted(g, a, b, before[at], i, j);
      double got = g->c_floats ? one[at] : ct_bf16_float(((uint16_t *)(void *)one)[at]);
      double tolerance = 1e-6 * sqrt((double)g->k) + (g->c_floats ? 0 : fabs(want) / 256);
      wrong += !(fabs(got - want) <= tolerance);
    }
  for (int64_t i = 0; g->a.turned && i < g->m; i++) {
    double want = g->add ? before[i] : 0;
    for (int64_t p = 0; p < g->k; p++)
      want += a[i * g->k + p];
    wrong += !(fabs(sums[0][i] - want) <= 1e-5);
  }
  if (wrong) printf("# %lld x %lld x %lld\n", (long long)g->m, (long long)g->n, (long long)g->k);
  CT_ASSERT_INT(wrong, 0);
  free_side(&g->a, a);
  free_side(&g->b, b);
  ct_mem_free(before);
  ct_mem_free(one);
  ct_mem_free(three);
  ct_mem_free(bias);
  ct_mem_free(sums[0]);
  ct_mem_free(sums[1]);
}

static void gemms_of_drawn_sizes(void)
{
  static const float some;
  int there = open_device();
  for (int i = 0; there && i < 48; i++) {
    cpu__amx_gemm_t g = {.m = 1 + draw(i % 3 ? 70 : 300), .n = 1 + draw(i % 4 ? 70 : 300)};
    g.k = i % 8 ? 1 + draw(100) : 32 * (1 + draw(90));
    g.a.turned = i % 2;
    g.b.turned = i / 2 % 2;
    g.b.floats = i / 4 % 2;
    g.c_floats = draw(2) > 0;
    g.add = g.c_floats && draw(2) > 0;
    g.bias = draw(2) ? &some : NULL;
    g.relu = draw(2) > 0;
    check_gemm(&g);
  }
  close_device();
}

/* ---- SDPA ---- */

enum { TENSORS = 8 }; /* q, k, v, y, and their gradients */

static void run_sdpa(const ct_op_desc_t *desc, ct_dtype_t type, const float *const in[TENSORS],
                     const int64_t count[4], int threads, float *out[TENSORS])
{
  ct_op_desc_t d = *desc;
  ct_op_info_t info;
  ct_op_t *op = NULL;
  void *at[TENSORS];
  ct_op_desc_type(&d, type);
  dev->threads = threads;
  CT_ASSERT_OK(ct_backend_cpu.op->prepare(dev, &d, NULL, &op, &info));
  for (int i = 0; i < TENSORS; i++) {
    at[i] = take(count[i % 4]);
    for (int64_t j = 0; in[i] && j < count[i % 4]; j++)
      if (type == CT_F32)
        ((float *)at[i])[j] = in[i][j];
      else
        ((uint16_t *)at[i])[j] = ct_bf16_of(in[i][j]);
  }
  void *saved = ct_mem_alloc(info.saved, "test"), *scratch = ct_mem_alloc(info.scratch, "test");
  ct_op_args_t args = {.pass = CT_FWD,
                       .x = at[0],
                       .x2 = at[1],
                       .x3 = at[2],
                       .y = at[3],
                       .saved = saved,
                       .scratch = scratch};
  CT_ASSERT_OK(ct_backend_cpu.op->run(queue, op, &args));
  args.pass = CT_BWD_DATA;
  args.dx = at[4];
  args.dx2 = at[5];
  args.dx3 = at[6];
  args.dy = at[7];
  CT_ASSERT_OK(ct_backend_cpu.op->run(queue, op, &args));
  for (int i = 0; i < TENSORS; i++) {
    out[i] = take(count[i % 4]);
    for (int64_t j = 0; j < count[i % 4]; j++)
      out[i][j] = type == CT_F32 ? ((float *)at[i])[j] : ct_bf16_float(((uint16_t *)at[i])[j]);
    ct_mem_free(at[i]);
  }
  ct_mem_free(saved);
  ct_mem_free(scratch);
  ct_backend_cpu.op->release(op);
}

static double distance(const float *a, const float *b, int64_t count)
{
  double off = 0, all = 0;
  for (int64_t i = 0; i < count; i++) {
    off += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    all += (double)b[i] * b[i];
  }
  return sqrt(off / all);
}

static void check_sdpa(int causal, int64_t t, int64_t s, int64_t d, int64_t e)
{
  enum { N = 2, HEADS = 4, KV = 2 };
  ct_shape_t q = ct_shape(3, N, t, HEADS * d), k = ct_shape(3, N, s, KV * d);
  ct_shape_t v = ct_shape(3, N, s, KV * e), y = ct_shape(3, N, t, HEADS * e);
  const int64_t count[4] = {ct_shape_count(&q), ct_shape_count(&k), ct_shape_count(&v),
                            ct_shape_count(&y)};
  ct_op_desc_t desc;
  float *in[TENSORS] = {0}, *want[TENSORS], *got[TENSORS], *again[TENSORS];
  ct_op_desc_init(&desc, CT_OP_SDPA, &q, &y);
  desc.passes = CT_FWD | CT_BWD_DATA;
  desc.x2 = k;
  desc.x3 = v;
  desc.u.sdpa.heads = HEADS;
  desc.u.sdpa.kv_heads = KV;
  desc.u.sdpa.causal = causal;
  desc.u.sdpa.scale = 4 / sqrt((double)d);
  for (int i = 0; i < TENSORS; i = i == 2 ? 7 : i + 1) {
    in[i] = take(count[i % 4]);
    for (int64_t j = 0; j < count[i % 4]; j++)
      in[i][j] = ct_bf16_float(ct_bf16_of(4 * draw_value()));
  }
  run_sdpa(&desc, CT_F32, (const float *const *)in, count, THREADS, want);
  run_sdpa(&desc, CT_BF16, (const float *const *)in, count, THREADS, got);
  run_sdpa(&desc, CT_BF16, (const float *const *)in, count, 1, again);
  for (int i = 3; i < 7; i++) {
    CT_ASSERT_NEAR(distance(got[i], want[i], count[i % 4]), 0, 0.01);
    CT_ASSERT_INT(memcmp(got[i], again[i], (size_t)count[i % 4] * sizeof(float)), 0);
  }
  for (int i = 0; i < TENSORS; i++) {
    ct_mem_free(in[i]);
    ct_mem_free(want[i]);
    ct_mem_free(got[i]);
    ct_mem_free(again[i]);
  }
}

static void sdpa_in_several_blocks(void)
{
  if (open_device()) {
    check_sdpa(0, 150, 600, 40, 24);
    check_sdpa(1, 333, 333, 64, 64);
    check_sdpa(1, 65, 270, 32, 72);
    check_sdpa(0, 1, 257, 8, 300);
  }
  close_device();
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(gemms_of_drawn_sizes), CT_TEST(sdpa_in_several_blocks),
                                    CT_TEST_END};
  return ct_test_main("amx", tests, argc, argv);
}
