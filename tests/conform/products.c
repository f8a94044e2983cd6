/* Tests the CPU backend's own GEMM (cpu/gemm/gemm_blocked.h): every storage order, odd sizes,
 * blocks and tails, compared with sums in double; and the same bits for any number of threads. */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "cpu/ct_cpu.h"
#include "cpu/gemm/gemm_blocked.h"
#include "tests/harness/ct_test.h"

enum { THREADS = 5, MOST = 1200 * 400, ARRAYS = 8 };

static ct_dev_t *dev;
/* a, b, c, the initial c, bias, expected sums; c and sums of another trial. */
static float *memory[ARRAYS];

/* Storage order of a matrix. */
typedef enum { ROWS, COLUMNS, PANELS, PANELS_COLUMNS, LAYOUTS } layout_t;

static const char *const names[] = {"rows", "columns", "panels", "panels of columns"};

static cpu__matrix_t matrix(layout_t layout, float *at, int64_t rows, int64_t columns)
{
  if (layout == ROWS) return cpu__row_major(at, columns + 5);
  if (layout == COLUMNS) return cpu__transposed(cpu__row_major(at, rows + 5));
  if (layout == PANELS) return cpu__panels(at, (rows + 15) / 16 * 16);
  return cpu__transposed(cpu__panels(at, (columns + 15) / 16 * 16));
}

static float *element(const cpu__matrix_t *m, int64_t i, int64_t j)
{
  return &m->at[i / 16 * m->row16 + i % 16 * m->row + j / 16 * m->col16 + j % 16 * m->col];
}

typedef struct trial {
  int64_t m, n, k;
  layout_t a, b, c;
  int add, bias, relu, sums, streams;
} trial_t;

static cpu__gemm_t gemm(const trial_t *t)
{
  cpu__gemm_t g = {.m = t->m, .n = t->n, .k = t->k};
  g.a = matrix(t->a, memory[0], t->m, t->k);
  g.b = matrix(t->b, memory[1], t->k, t->n);
  g.c = matrix(t->c, memory[2], t->m, t->n);
  g.add = t->add;
  g.relu = t->relu;
  g.streams = t->streams;
  if (t->bias) g.bias = memory[4];
  if (t->sums) g.sums = memory[5];
  return g;
}

static void fill(void)
{
  for (int v = 0; v < 6; v++)
    for (int64_t i = 0; i < MOST; i++)
      memory[v][i] = (float)((i * 7919 + v * 31) % 2003) / 1001.5f - 1;
  memcpy(memory[3], memory[2], MOST * sizeof(float));
}

/* Returns element (i, j) of the expected result; *size is the sum of the absolute values. */
static double wanted(const cpu__gemm_t *g, int64_t i, int64_t j, double old, double *size)
{
  double sum = 0;
  *size = 0;
  for (int64_t k = 0; k < g->k; k++) {
    double of_one = (double)*element(&g->a, i, k) * (double)*element(&g->b, k, j);
    sum += of_one;
    *size += fabs(of_one);
  }
  if (g->add) sum += old;
  if (g->bias) sum += (double)g->bias[j];
  *size += fabs(old) + 1;
  return g->relu && sum < 0 ? 0 : sum;
}

static int is_near(double got, double want, double size)
{
  return fabs(got - want) <= 2e-6 * size;
}

static int64_t wrong_elements(const cpu__gemm_t *g)
{
  int64_t wrong = 0;
  cpu__matrix_t before = g->c;
  before.at = memory[3];
  for (int64_t i = 0; i < g->m; i++)
    for (int64_t j = 0; j < g->n; j++) {
      double size, want = wanted(g, i, j, (double)*element(&before, i, j), &size);
      wrong += !is_near((double)*element(&g->c, i, j), want, size);
    }
  return wrong;
}

/* Counts nonzero elements in the padding of the last panel, if the padding of b is 0. */
static int64_t wrong_padding(const trial_t *t, const cpu__gemm_t *g)
{
  int64_t wrong = 0;
  for (int64_t i = 0; i < g->m && t->c == PANELS; i++)
    for (int64_t j = g->n; j < (g->n + 15) / 16 * 16; j++)
      wrong += *element(&g->c, i, j) != 0;
  return wrong;
}

static int64_t wrong_sums(const cpu__gemm_t *g)
{
  int64_t wrong = 0;
  for (int64_t j = 0; j < g->n && g->sums; j++) {
    double sum = 0;
    for (int64_t k = 0; k < g->k; k++)
      sum += (double)*element(&g->b, k, j);
    wrong += !is_near((double)g->sums[j], sum, (double)g->k + 1);
  }
  return wrong;
}

/* Counts changed elements between and after the rows of c; padding of whole panels may change. */
static int64_t touched(const trial_t *t, const cpu__gemm_t *g)
{
  int64_t wrong = 0, columns = t->c == PANELS ? (t->n + 15) / 16 * 16 : t->n;
  for (int64_t i = 0; i < g->m; i++)
    for (int64_t j = 0; j < columns; j++)
      *element(&g->c, i, j) = 7;
  cpu__matrix_t before = g->c;
  before.at = memory[3];
  for (int64_t i = 0; i < g->m; i++)
    for (int64_t j = 0; j < columns; j++)
      *element(&before, i, j) = 7;
  for (int64_t i = 0; i < MOST; i++)
    wrong += memory[2][i] != memory[3][i];
  memcpy(memory[3], memory[2], MOST * sizeof(float));
  return wrong;
}

static void try_product(const trial_t *t)
{
  fill();
  cpu__gemm_t g = gemm(t);
  for (int64_t k = 0; k < g.k && t->b == PANELS; k++)
    for (int64_t j = g.n; j < (g.n + 15) / 16 * 16; j++)
      *element(&g.b, k, j) = 0;
  cpu__gemm_blocked(dev, &g);
  int64_t wrong = wrong_elements(&g) + wrong_padding(t, &g), sums = wrong_sums(&g),
          behind = touched(t, &g);
  if (wrong + sums + behind == 0) return;
  CU_FAIL("a product");
  printf("# %d x %d x %d, a %s, b %s, c %s: %d elements are wrong, %d sums, %d beside them\n",
         (int)t->m, (int)t->n, (int)t->k, names[t->a], names[t->b], names[t->c], (int)wrong,
         (int)sums, (int)behind);
}

static const int64_t sizes[][3] = {{1, 1, 1},    {5, 3, 2},      {17, 33, 70},  {64, 10, 84},
                                   {8, 100, 40}, {150, 47, 385}, {14, 16, 400}, {40, 340, 30},
                                   {3, 1100, 5}, {130, 97, 111}, {33, 64, 800}, {6, 20, 0}};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void matrices_lie_in_any_way(void)
{
  for (int i = 0; i < SIZES * LAYOUTS * 4; i++) {
    const int64_t *s = sizes[i / (LAYOUTS * 4)];
    trial_t t = {.m = s[0], .n = s[1], .k = s[2], .a = i % 2 ? COLUMNS : ROWS};
    t.b = (layout_t)(i / 4 % LAYOUTS);
    t.c = i % 4 < 2 ? ROWS : PANELS;
    t.streams = t.b != PANELS;
    try_product(&t);
  }
}

static void what_comes_last(void)
{
  for (int i = 0; i < SIZES * 8; i++) {
    const int64_t *s = sizes[i / 8];
    trial_t t = {.m = s[0], .n = s[1], .k = s[2], .b = i % 3 ? ROWS : PANELS};
    t.add = i & 1;
    t.bias = i >> 1 & 1;
    t.relu = i >> 2 & 1;
    t.sums = i % 5 < 2;
    try_product(&t);
  }
}

/* Rows of a that are a page apart are packed. */
static void rows_of_pages(void)
{
  enum { M = 20, N = 100, K = 100, LD = 1024 };
  fill();
  cpu__gemm_t g = {.m = M, .n = N, .k = K};
  g.a = cpu__row_major(memory[0], LD);
  g.b = cpu__row_major(memory[1], N);
  g.c = cpu__row_major(memory[2], N);
  cpu__gemm_blocked(dev, &g);
  CT_ASSERT_INT(wrong_elements(&g), 0);
}

/* Skinny matrices with each number of threads; otherwise only large ones use several threads. */
static void few_rows(void)
{
  static const int64_t skinny[][3] = {{1, 1, 1},      {5, 40, 16},   {8, 300, 129},
                                      {16, 100, 401}, {9, 1100, 75}, {3, 4500, 90}};
  for (int i = 0; i < 6 * THREADS * 2; i++) {
    const int64_t *s = skinny[i / THREADS / 2];
    trial_t t = {.m = s[0], .n = s[1], .k = s[2], .a = i % 2 ? COLUMNS : ROWS};
    int threads = i / 2 % THREADS + 1;
    t.b = PANELS_COLUMNS;
    fill();
    cpu__gemm_t g = gemm(&t);
    dev->threads = threads;
    cpu__gemm_skinny(dev, &g);
    dev->threads = THREADS;
    CT_ASSERT_INT(wrong_elements(&g), 0);
    float *same = memory[6 + i % 2];
    if (threads > 1) CU_ASSERT(memcmp(memory[2], same, MOST * sizeof *same) == 0);
    memcpy(same, memory[2], MOST * sizeof *same);
    CT_ASSERT_INT(touched(&t, &g), 0);
  }
}

static void a_nan_stays(void)
{
  trial_t t = {.m = 20, .n = 20, .k = 20, .relu = 1};
  fill();
  cpu__gemm_t g = gemm(&t);
  *element(&g.a, 7, 3) = NAN;
  cpu__gemm_blocked(dev, &g);
  for (int64_t j = 0; j < t.n; j++) {
    CU_ASSERT(isnan(*element(&g.c, 7, j)));
    CU_ASSERT(!isnan(*element(&g.c, 8, j)));
  }
}

static void everybody_gets_the_same_bits(void)
{
  for (int i = 0; i < SIZES; i++) {
    trial_t t = {.m = sizes[i][0], .n = sizes[i][1], .k = sizes[i][2], .a = COLUMNS, .sums = 1};
    for (int threads = 1; threads <= THREADS; threads++) {
      fill();
      cpu__gemm_t g = gemm(&t);
      dev->threads = threads;
      omp_set_num_threads(threads);
      cpu__gemm_blocked(dev, &g);
      dev->threads = THREADS;
      for (int v = 0; v < 2; v++) {
        float *now = memory[v ? 5 : 2], *before = memory[6 + v];
        if (threads > 1) CU_ASSERT(memcmp(now, before, MOST * sizeof *now) == 0);
        memcpy(before, now, MOST * sizeof *now);
      }
    }
  }
  omp_set_num_threads(THREADS);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(matrices_lie_in_any_way),
      CT_TEST(what_comes_last),
      CT_TEST(rows_of_pages),
      CT_TEST(few_rows),
      CT_TEST(a_nan_stays),
      CT_TEST(everybody_gets_the_same_bits),
      CT_TEST_END,
  };
  const ct_dev_opts_t opts = {.threads = THREADS};
  if (ct_backend_cpu.open(&opts, &dev)) {
    printf("Bail out! %s\n", ct_err_last()->text);
    return 1;
  }
  for (int i = 0; i < ARRAYS; i++)
    memory[i] = ct_mem_array(MOST, sizeof *memory[i], "test");
  omp_set_num_threads(THREADS);
  int failed = ct_test_main("products", tests, argc, argv);
  for (int i = 0; i < ARRAYS; i++)
    ct_mem_free(memory[i]);
  ct_backend_cpu.close(dev);
  return failed;
}
