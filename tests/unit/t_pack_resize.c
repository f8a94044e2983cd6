/* Resizing images of 8 bits: Pillow's pixels, to 1 of 255. */
#include <stdlib.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "data/image/ct_image.h"
#include "tests/harness/ct_test.h"
#include "tests/unit/resize_gold.h"

static void resized_images_have_the_pixels_of_pillow(void)
{
  enum { MOST = 40 * 40 * 3 };
  static uint8_t picture[RESIZE_H * RESIZE_W * 3], out[MOST + 1];
  const unsigned char *want = resized_pixels;
  for (uint64_t i = 0; i < sizeof picture; i++)
    picture[i] = (uint8_t)((i * i * 7 + i * 13) / 5 % 251);
  for (size_t i = 0; i < sizeof resized / sizeof *resized; i++) {
    ct_image_t from = {picture, RESIZE_H, RESIZE_W, resized[i].channels};
    ct_image_t to = {out, resized[i].height, resized[i].width, resized[i].channels};
    int64_t bytes = to.height * to.width * to.channels;
    int most = 0, other = 0;
    out[bytes] = 99;
    CT_ASSERT_OK(ct_image_resize(&from, &to));
    CT_ASSERT_INT(out[bytes], 99);
    for (int64_t k = 0; k < bytes; k++, want++) {
      int by = abs(out[k] - *want);
      most = by > most ? by : most;
      other += by > 0;
    }
    CU_ASSERT(most <= 1);
    CU_ASSERT(other <= bytes / 4 + 1); /* one rounding instead of two */
    if (to.height == from.height && to.width == from.width) CT_ASSERT_INT(most, 0);
  }
  CT_ASSERT_INT(want - resized_pixels, (int64_t)sizeof resized_pixels);
}

static void no_memory_is_told(void)
{
  static uint8_t in[12], out[12];
  ct_image_t from = {in, 2, 2, 3}, to = {out, 1, 1, 3};
  ct_mem_fail_at(1);
  CT_ASSERT_INT(ct_image_resize(&from, &to), CT_ERR_NOMEM);
  ct_mem_fail_at(0);
  CT_ASSERT_OK(ct_image_resize(&from, &to));
  CT_ASSERT_INT(ct_mem_live(), 0);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(resized_images_have_the_pixels_of_pillow),
                                    CT_TEST(no_memory_is_told), CT_TEST_END};
  return ct_test_main("pack_resize", tests, argc, argv);
}
