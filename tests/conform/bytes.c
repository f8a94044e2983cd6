/* Conversion of stored samples (bytes) to floats on the device, where a backend supports it. */
#include "tests/conform/check.h"

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "tests/harness/ct_test.h"

/* Offset of element (n, c, s) in a batch of samples of channels x space. */
static int64_t offset_of(const ct_shape_t *s, int64_t i)
{
  int64_t channels = s->dim[1], space = ct_shape_sample(s) / channels;
  int64_t n = i / (channels * space), c = i / space % channels, at = i % space;
  return s->layout == CT_NHWC ? (n * space + at) * channels + c : i;
}

static void fill(const ct_shape_t *from, uint8_t *x, float *affine)
{
  int64_t channels = from->dim[1];
  for (int64_t c = 0; c < channels; c++) {
    affine[c] = 1 / (255 * (0.2f + 0.013f * (float)c)); /* inexact factors, as for normalisation */
    affine[channels + c] = -0.4f - 0.11f * (float)c;
  }
  for (int64_t i = 0; i < ct_shape_count(from); i++)
    x[i] = (uint8_t)(i * 37 % 256);
}

/* Counts elements that differ from the host's float32 result, rounded to the type. */
static int64_t wrong_elements(const ct_shape_t *from, const ct_shape_t *to, const uint8_t *x,
                              const float *affine, const void *y)
{
  int64_t wrong = 0, channels = from->dim[1], space = ct_shape_sample(from) / channels;
  for (int64_t i = 0; i < ct_shape_count(from); i++) {
    int64_t c = i / space % channels;
    float want = affine[c] * (float)x[offset_of(from, i)] + affine[channels + c], near;
    element_put(&near, to->dtype, 0, want);
    wrong += element_take(y, to->dtype, offset_of(to, i)) != element_take(&near, to->dtype, 0);
  }
  return wrong;
}

static void check_bytes_to(const ct_op_desc_t *d)
{
  block_t bx, ba, by;
  ct_op_t *op;
  ct_op_info_t info;
  char text[160];
  size_t maps = 2 * (size_t)d->x.dim[1] * sizeof(float);
  uint8_t *x = host_array(ct_shape_count(&d->x), 1);
  float *affine = host_array(2 * d->x.dim[1], sizeof *affine);
  void *y = host_array(ct_shape_count(&d->y), sizeof(float));

  fill(&d->x, x, affine);
  block_open(&bx, &tested, ct_shape_bytes(&d->x));
  block_open(&ba, &tested, maps);
  block_open(&by, &tested, ct_shape_bytes(&d->y));
  block_put(&bx, x, bx.bytes);
  block_put(&ba, affine, maps);
  if (CT_ASSERT_OK(tested.be->op->prepare(tested.dev, d, NULL, &op, &info)) == CT_OK) {
    ct_op_args_t a = {.pass = CT_FWD, .x = bx.mem, .affine = ba.mem, .y = by.mem};
    CT_ASSERT_OK(tested.be->op->run(tested.queue, op, &a));
    block_take(&by, y, by.bytes);
    int64_t wrong = wrong_elements(&d->x, &d->y, x, affine, y);
    check(wrong == 0 && block_intact(&by), "%s: %d elements are wrong",
          ct_op_text(d, text, sizeof text), (int)wrong);
    tested.be->op->release(op);
  }
  block_close(&bx);
  block_close(&ba);
  block_close(&by);
  ct_mem_free(x);
  ct_mem_free(affine);
  ct_mem_free(y);
}

void check_bytes(void)
{
  static const int64_t shapes[][4] = {
      {2, 3, 5, 7}, {1, 1, 28, 28}, {3, 4, 1, 1}, {2, 17, 6, 6}, {5, 3, 32, 32}};
  static const ct_dtype_t types[] = {CT_F32, CT_BF16, CT_F16};
  int done = 0;

  for (int i = 0; i < 5 * 3 * 4; i++) {
    const int64_t *s = shapes[i % 5];
    ct_op_desc_t d;
    char why[128];
    ct_shape_t x = ct_shape(4, s[0], s[1], s[2], s[3]), y = x;
    x.dtype = CT_U8;
    x.layout = i / 15 % 2 ? CT_NHWC : CT_PLAIN;
    y.dtype = types[i / 5 % 3];
    y.layout = i / 30 ? CT_NHWC : CT_PLAIN;
    ct_op_desc_init(&d, CT_OP_REORDER, &x, &y);
    if (!tested.be->op->supports(tested.dev, &d, why)) continue;
    check_bytes_to(&d);
    done++;
  }
  if (!done) ct_test_skip("the backend uses batches that the host converted");
}
