/* Accuracy of Winograd convolutions on layers of realistic size.
 *
 * The transforms amplify float32 rounding errors, more so with more channels.  Some outputs are
 * compared with sums in double: relative to the root mean square of the results, the largest error
 * must stay below the limit for the size, and the root mean square of the errors below 2e-6. (The
 * direct algorithm has about 2e-7.) */
#include <math.h>
#include <omp.h>
#include <stdio.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "base/ct_rng.h"
#include "cpu/conv/conv.h"
#include "cpu/ct_cpu.h"
#include "tests/conform/check.h"
#include "tests/harness/ct_test.h"

side_t tested, reference;

enum { SAMPLES = 400 };

typedef struct layer {
  int n, c, side, out; /* images, channels, height and width, output channels */
  double largest;
} layer_t;

/* Layers of ResNets, and one with several groups of tiles and a last panel of one vector. */
static const layer_t layers[] = {
    {1, 64, 56, 64, 1.0e-5},  {2, 128, 28, 128, 1.0e-5}, {2, 256, 14, 256, 1.5e-5},
    {2, 512, 7, 512, 1.5e-5}, {5, 144, 17, 144, 1.5e-5},
};

typedef struct bench {
  int64_t lanes, n, c, out, side;
  int data;
  float *x, *w, *y;
} bench_t;

static float *noise(int64_t count, uint32_t sub)
{
  float *v = host_array(count, sizeof *v);
  for (int64_t i = 0; i < count; i++)
    v[i] = ct_rng_uniform(7, CT_RNG_TEST, sub, (uint64_t)i) - 0.5f;
  return v;
}

static int64_t pixel(const bench_t *b, int64_t channels, int64_t n, int64_t c, int64_t i, int64_t j)
{
  return (((n * (channels / b->lanes) + c / b->lanes) * b->side + i) * b->side + j) * b->lanes +
         c % b->lanes;
}

/* Computes element (n, c, i, j) of y or dx exactly. */
static double exact(const bench_t *b, int64_t n, int64_t c, int64_t i, int64_t j)
{
  const int64_t read = b->data ? b->out : b->c;
  double sum = 0;
  for (int64_t k = 0; k < read * 9; k++) {
    int64_t from = k / 9, u = k / 3 % 3, v = k % 3, o = b->data ? from : c, in = b->data ? c : from;
    int64_t row = b->data ? i + 1 - u : i + u - 1, col = b->data ? j + 1 - v : j + v - 1;
    if (row < 0 || col < 0 || row >= b->side || col >= b->side) continue;
    int64_t block = o / b->lanes * (b->c / b->lanes) + in / b->lanes;
    int64_t at = (block * 9 + u * 3 + v) * b->lanes * b->lanes;
    double w = b->w[at + in % b->lanes * b->lanes + o % b->lanes];
    sum += w * (b->data ? b->y : b->x)[pixel(b, read, n, from, row, col)];
  }
  return sum;
}

static void compare(const bench_t *b, const layer_t *l, const char *pass)
{
  const int64_t written = b->data ? b->c : b->out;
  const float *got = b->data ? b->x : b->y;
  double worst = 0, errors = 0, size = 0;
  for (uint64_t s = 0; s < SAMPLES; s++) {
    uint32_t r[4];
    ct_rng_block(7, CT_RNG_TEST, 9, s, r);
    int64_t n = r[0] % b->n, c = r[1] % written, i = r[2] % b->side, j = r[3] % b->side;
    double want = exact(b, n, c, i, j), error = got[pixel(b, written, n, c, i, j)] - want;
    worst = fmax(worst, fabs(error));
    if (isnan(error)) worst = INFINITY;
    errors += error * error;
    size += want * want;
  }
  size = sqrt(size / SAMPLES);
  printf("# %s, %d x %d x %d x %d to %d channels: error %.1e, largest %.1e\n", pass, l->n, l->c,
         l->side, l->side, l->out, sqrt(errors / SAMPLES) / size, worst / size);
  check(worst < l->largest * size, "%s: an error of %g", pass, worst / size);
  check(sqrt(errors / SAMPLES) < 2e-6 * size, "%s: errors are large", pass);
}

static void try_pass(const layer_t *l, int pass)
{
  ct_shape_t x = ct_shape(4, l->n, l->c, l->side, l->side), y = x;
  ct_op_desc_t d;
  cpu__ready_t ready = {0};
  y.dim[1] = l->out;
  ct_op_desc_init(&d, CT_OP_CONV, &x, &y);
  for (int i = 0; i < 2; i++) {
    d.u.conv.kernel[i] = 3;
    d.u.conv.stride[i] = d.u.conv.dilate[i] = d.u.conv.pad[i] = 1;
  }
  d.u.conv.groups = 1;
  ct_layout_t blocked = cpu__blocked(tested.dev);
  cpu__job_t job = {tested.dev, &d, pass, {blocked, blocked}};
  must(cpu__conv_winograd.prepare(&job, &ready));
  bench_t b = {cpu__lanes(blocked),
               l->n,
               l->c,
               l->out,
               l->side,
               pass == CT_BWD_DATA,
               noise(ct_shape_count(&x), 1),
               noise((int64_t)l->c * l->out * 9, 2),
               noise(ct_shape_count(&y), 3)};
  block_t scratch;
  block_open(&scratch, &tested, ready.scratch);
  void *at[CPU__ROLES] = {b.x, b.w, NULL, b.y, scratch.mem};
  CT_ASSERT_OK(cpu__conv_winograd.run(tested.dev, &ready, at));
  compare(&b, l, pass == CT_FWD ? "forward" : "data");
  check(block_intact(&scratch), "memory behind the scratch");
  block_close(&scratch);
  ct_mem_free(b.x);
  ct_mem_free(b.w);
  ct_mem_free(b.y);
  cpu__conv_winograd.clear(&ready);
  cpu__md_free(ready.w);
}

static void errors_stay_small(void)
{
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
    try_pass(&layers[i], CT_FWD);
    try_pass(&layers[i], CT_BWD_DATA);
  }
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(errors_stay_small), CT_TEST_END};
  const ct_dev_opts_t three = {.threads = 3};

  if (side_open(&tested, &ct_backend_cpu, &three)) {
    printf("Bail out! %s\n", ct_err_last()->text);
    return 1;
  }
  omp_set_num_threads(three.threads);
  int failed = ct_test_main("winograd", tests, argc, argv);
  side_close(&tested);
  return failed;
}
