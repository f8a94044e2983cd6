/* Answers by place, as masks: they go where their sample goes. */
#include <string.h>

#include "tests/unit/transform_list.h"

enum { H = 9, W = 7, MOST = 16 * 16 };

/* A sample and its answer, which holds the same numbers; after the list so many differ. */
static int differ(const char *yaml, int by_class, int64_t id)
{
  list_t l;
  float x[2 * MOST], y[MOST], in[H * W], work[8 * MOST] = {0};
  int different = 0;
  ct_shape_t shape = ct_shape(4, 1, 2, H, W);
  CT_ASSERT_OK(open_shape(yaml, 1, CT_F32, shape, &l));
  ct__transforms_make_room_along(l.t, 1);
  for (int i = 0; i < H * W; i++)
    in[i] = (float)(i % 5 + 1);
  CU_ASSERT_FATAL(ct__transforms_workspace(l.t) <= 8 * MOST);
  float *start = ct__transforms_start(l.t, work, x);
  memcpy(start, in, sizeof in);
  memcpy(start + H * W, in, sizeof in);
  convert_on(&l, start, ct_shape_sample(&shape), start);
  ct__transforms_run(l.t, &shape, 3, 1, id, work, x);
  memset(work, 0, sizeof work);
  memcpy(ct__transforms_start_along(l.t, work, y), in, sizeof in);
  ct__transforms_run_along(l.t, &(ct__along_t){1, by_class, 1}, 3, 1, id, work, y);
  int64_t plane = l.x.dim[2] * l.x.dim[3];
  for (int64_t i = 0; i < plane; i++)
    different += x[i] != y[i];
  close_list(&l);
  return different;
}

static void answers_go_where_their_sample_goes(void)
{
  static const char *const lists[] = {
      "t: [random_flip]", "t: [{random_crop: {padding: 3}}]",
      "t: [{random_crop: {size: [4, 5]}}, random_flip, {random_crop: {padding: 1}}]",
      "t: [{center_crop: {size: [12, 5]}}, random_flip]"};
  for (size_t k = 0; k < sizeof lists / sizeof lists[0]; k++)
    for (int64_t id = 0; id < 8; id++)
      CT_ASSERT_INT(differ(lists[k], (int)(id % 2), id), 0);
}

/* The maps of a sample's values are not its places'. */
static void colours_are_not_of_answers(void)
{
  for (int64_t id = 0; id < 4; id++) {
    CU_ASSERT(differ("t: [random_flip, {normalize: {mean: [1], std: [2]}}]", 1, id) > H);
    CU_ASSERT(differ("t: [{random_erasing: {p: 1, value: 0}}]", 1, id) > 0);
  }
}

/* Of values the mean, as of the sample; of labels the nearest. */
static void labels_are_resized_by_the_nearest(void)
{
  static const float x[] = {1, 2, 3, 4, 5, 6};
  static const float twice[] = {1, 1, 2, 2, 3, 3, 1, 1, 2, 2, 3, 3,
                                4, 4, 5, 5, 6, 6, 4, 4, 5, 5, 6, 6};
  static const float part[] = {2, 3, 5, 6}, few[] = {4, 5};
  float y[24];
  ct__image_size_t in = {1, 2, 3};
  ct__image_nearest(x, in, (ct__image_box_t){0, 0, 2, 3}, y, (ct__image_size_t){1, 4, 6});
  CU_ASSERT(memcmp(y, twice, sizeof twice) == 0);
  ct__image_nearest(x, in, (ct__image_box_t){0, 1, 2, 2}, y, (ct__image_size_t){1, 2, 2});
  CU_ASSERT(memcmp(y, part, sizeof part) == 0);
  ct__image_nearest(x, in, (ct__image_box_t){1, 0, 1, 3}, y, (ct__image_size_t){1, 1, 2});
  CU_ASSERT(memcmp(y, few, sizeof few) == 0);
  for (int64_t id = 0; id < 4; id++) {
    CT_ASSERT_INT(differ("t: [{resize: {size: [5, 11]}}]", 0, id), 0);
    CU_ASSERT(differ("t: [{resize: {size: [5, 11]}}]", 1, id) > 0);
    CT_ASSERT_INT(differ("t: [random_flip, {random_resized_crop: {size: 8}}]", 0, id), 0);
    CU_ASSERT(differ("t: [{random_resized_crop: {size: 8}}]", 1, id) > 0);
  }
}

/* Places outside of the sample get a label of their own; those inside are 1 to 5. */
static void labels_outside_are_filled(void)
{
  static const char *const lists[] = {
      "t: [{random_crop: {padding: 3, target_fill: 255}}]",
      "t: [{center_crop: {size: 12, target_fill: 255}}]",
      "t: [{random_rotation: {degrees: [45, 45], target_fill: 255}}]",
      "t: [{random_affine: {degrees: 0, scale: [0.5, 0.5], target_fill: 255}}]",
      "t: [{random_perspective: {p: 1, target_fill: 255}}]"};
  float y[MOST], in[H * W], work[8 * MOST];
  for (int i = 0; i < H * W; i++)
    in[i] = (float)(i % 5 + 1);
  for (size_t k = 0; k < sizeof lists / sizeof lists[0]; k++) {
    int filled = 0, inside = 0;
    list_t l;
    CT_ASSERT_OK(open_shape(lists[k], 1, CT_F32, ct_shape(4, 1, 3, H, W), &l));
    int64_t plane = l.x.dim[2] * l.x.dim[3];
    for (int64_t id = 0; id < 8; id++) {
      memcpy(ct__transforms_start_along(l.t, work, y), in, sizeof in);
      ct__transforms_run_along(l.t, &(ct__along_t){1, 1, 1}, 3, 1, id, work, y);
      for (int64_t i = 0; i < plane; i++) {
        filled += y[i] == 255;
        inside += y[i] >= 1 && y[i] <= 5;
      }
    }
    if (!filled) printf("# %s\n", lists[k]);
    CU_ASSERT(filled > 0);
    CT_ASSERT_INT(filled + inside, 8 * plane);
    close_list(&l);
  }
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(answers_go_where_their_sample_goes),
      CT_TEST(colours_are_not_of_answers),
      CT_TEST(labels_are_resized_by_the_nearest),
      CT_TEST(labels_outside_are_filled),
      CT_TEST_END,
  };
  return ct_test_main("answers by place", tests, argc, argv);
}
