/* Resizing images of 8 bits: the bits of Pillow. */
#include <libdeflate.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "pack/resize.h"
#include "tests/harness/ct_test.h"
#include "tests/unit/resize_gold.h"

static void resized_images_have_the_bits_of_pillow(void)
{
  static uint8_t picture[RESIZE_H * RESIZE_W * 3], out[RESIZE_H * RESIZE_W * 9];
  for (uint64_t i = 0; i < sizeof picture; i++)
    picture[i] = (uint8_t)((i * i * 7 + i * 13) / 5 % 251);
  for (size_t i = 0; i < sizeof resized / sizeof *resized; i++) {
    ct__pack_image_t from = {picture, RESIZE_H, RESIZE_W, resized[i].channels};
    ct__pack_image_t to = {out, resized[i].height, resized[i].width, resized[i].channels};
    CT_ASSERT_OK(ct__pack_resize(&from, &to));
    CT_ASSERT_INT(libdeflate_crc32(0, out, (size_t)(to.height * to.width * to.channels)),
                  resized[i].crc);
  }
}

static void no_memory_is_told(void)
{
  static uint8_t in[12], out[12];
  ct__pack_image_t from = {in, 2, 2, 3}, to = {out, 1, 1, 3};
  for (int n = 1; n <= 9; n++) {
    ct_mem_fail_at(n);
    CT_ASSERT_INT(ct__pack_resize(&from, &to), CT_ERR_NOMEM);
  }
  ct_mem_fail_at(0);
  CT_ASSERT_OK(ct__pack_resize(&from, &to));
  CT_ASSERT_INT(ct_mem_live(), 0);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(resized_images_have_the_bits_of_pillow),
                                    CT_TEST(no_memory_is_told), CT_TEST_END};
  return ct_test_main("pack_resize", tests, argc, argv);
}
