/* The low types of the reference backend: numbers, casts, and what an op rounds. */
#include <math.h>
#include <string.h>

#include "base/ct_mem.h"
#include "ref/ct_ref.h"
#include "ref/ref.h"
#include "tests/harness/ct_test.h"

static ct_dev_t *dev;
static ct_queue_t *queue;

static const ct_dtype_t types[] = {CT_BF16, CT_F16};

/* Every number of a type is its own nearest, and they are in order. */
static void every_number_survives(void)
{
  static const int largest[] = {0x7f80, 0x7c00}; /* infinity */
  for (int t = 0; t < 2; t++) {
    int wrong = 0;
    for (int bits = 0; bits <= largest[t]; bits++) {
      double v = ct__ref_widened(types[t], (uint16_t)bits);
      wrong += ct__ref_narrowed(types[t], v) != bits;
      wrong += ct__ref_narrowed(types[t], -v) != (bits | 0x8000);
      if (bits) wrong += !(v > ct__ref_widened(types[t], (uint16_t)(bits - 1)));
    }
    CT_ASSERT_INT(wrong, 0);
    CU_ASSERT(isinf(ct__ref_widened(types[t], (uint16_t)largest[t])));
    CU_ASSERT(isnan(ct__ref_widened(types[t], ct__ref_narrowed(types[t], NAN))));
    CU_ASSERT(isnan(ct__ref_widened(types[t], 0xffff)));
  }
}

/* Between two neighbours the middle goes to the even one, all else to the nearer. */
static void rounding_is_to_nearest_even(void)
{
  static const int last[] = {0x7f7f, 0x7bff};
  for (int t = 0; t < 2; t++) {
    int wrong = 0;
    for (int bits = 0; bits < last[t]; bits++) {
      double low = ct__ref_widened(types[t], (uint16_t)bits);
      double high = ct__ref_widened(types[t], (uint16_t)(bits + 1)), middle = (low + high) / 2;
      wrong += ct__ref_narrowed(types[t], middle) != bits + bits % 2;
      wrong += ct__ref_narrowed(types[t], nextafter(middle, 0)) != bits;
      wrong += ct__ref_narrowed(types[t], nextafter(middle, INFINITY)) != bits + 1;
    }
    CT_ASSERT_INT(wrong, 0);
  }
}

/* torch.tensor(v, dtype=torch.float64).to(torch.bfloat16 or torch.float16).view(torch.int16) */
static void numbers_are_torchs(void)
{
  static const struct {
    double v;
    int bf16, f16;
  } rows[] = {{1, 0x3f80, 0x3c00},     {-0.1, 0xbdcd, 0xae66},   {3.14159265358979, 0x4049, 0x4248},
              {65504, 0x4780, 0x7bff}, {65519, 0x4780, 0x7bff},  {65520, 0x4780, 0x7c00},
              {1e-7, 0x33d7, 0x0002},  {2e-8, 0x32ac, 0x0000},   {6e-5, 0x387c, 0x03ef},
              {-1e30, 0xf14a, 0xfc00}, {3.4e38, 0x7f80, 0x7c00}, {1e-40, 0x0001, 0x0000},
              {-0.0, 0x8000, 0x8000}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    CT_ASSERT_INT(ct__ref_narrowed(CT_BF16, rows[i].v), rows[i].bf16);
    CT_ASSERT_INT(ct__ref_narrowed(CT_F16, rows[i].v), rows[i].f16);
  }
}

static void run_op(const ct_op_desc_t *d, ct_op_args_t *a)
{
  ct_op_t *op;
  ct_op_info_t info;
  if (CT_ASSERT_OK(ct_backend_ref.op->prepare(dev, d, NULL, &op, &info))) return;
  a->pass = d->passes;
  a->scratch = ct_mem_alloc(info.scratch + 1, "test");
  CT_ASSERT_OK(ct_backend_ref.op->run(queue, op, a));
  CT_ASSERT_OK(ct_backend_ref.queue->sync(queue));
  ct_mem_free(a->scratch);
  ct_backend_ref.op->release(op);
}

/* A product takes its weights rounded, sums without rounding, and overflows to infinity in
 * float16. */
static void a_product_rounds_weights_and_results(void)
{
  float w[] = {1.0009765625f, 1, 60000, 60000}; /* 1 + 2^-10 is 1 in bfloat16 */
  ct_shape_t s = ct_shape(2, 1, 2);
  ct_op_desc_t d;
  float x[2], y[2]; /* memory for any type */
  for (int t = 0; t < 2; t++) {
    s.dtype = types[t];
    ct_op_desc_init(&d, CT_OP_LINEAR, &s, &s);
    ct__ref_set(types[t], x, 0, 1024);
    ct__ref_set(types[t], x, 1, -1024);
    run_op(&d, &(ct_op_args_t){.x = x, .y = y, .w = {w}});
    CT_ASSERT_NEAR(ct__ref_get(types[t], y, 0), t ? 1 : 0, 0);
    CT_ASSERT_NEAR(ct__ref_get(types[t], y, 1), 0, 0);
    ct__ref_set(types[t], x, 1, 1024);
    run_op(&d, &(ct_op_args_t){.x = x, .y = y, .w = {w}});
    CT_ASSERT_INT(isinf(ct__ref_get(types[t], y, 1)) != 0, t);
  }
}

static void what_stays_in_float32_is_refused(void)
{
  ct_op_desc_t d;
  ct_shape_t s = ct_shape(2, 3, 4), low = s;
  char why[128];
  low.dtype = CT_F16;
  ct_op_desc_init(&d, CT_OP_LOSS, &low, &low);
  CT_ASSERT_INT(ct_backend_ref.op->supports(dev, &d, why), 0);
  CU_ASSERT(strstr(why, "float32") != NULL);
  ct_op_desc_init(&d, CT_OP_RELU, &s, &low);
  CT_ASSERT_INT(ct_backend_ref.op->supports(dev, &d, why), 0);
  ct_op_desc_init(&d, CT_OP_REORDER, &s, &low);
  CT_ASSERT_INT(ct_backend_ref.op->supports(dev, &d, why), 1);
  low.dtype = CT_F64;
  ct_op_desc_init(&d, CT_OP_REORDER, &s, &low);
  CT_ASSERT_INT(ct_backend_ref.op->supports(dev, &d, why), 0);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(every_number_survives),
                                    CT_TEST(rounding_is_to_nearest_even),
                                    CT_TEST(numbers_are_torchs),
                                    CT_TEST(a_product_rounds_weights_and_results),
                                    CT_TEST(what_stays_in_float32_is_refused),
                                    CT_TEST_END};
  if (ct_backend_ref.open(&(ct_dev_opts_t){.threads = 1}, &dev)) return 1;
  if (ct_backend_ref.queue->create(dev, &queue)) return 1;
  int rc = ct_test_main("ref low types", tests, argc, argv);
  ct_backend_ref.queue->destroy(queue);
  ct_backend_ref.close(dev);
  return rc;
}
