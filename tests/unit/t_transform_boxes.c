/* The boxes of random_resized_crop and random_erasing: each place, area and ratio as often as
 * torchvision draws it, and what becomes of a sample for which no box fits. */
#include <math.h>
#include <stdio.h>

#include "base/ct_mem.h"
#include "tests/unit/distribution.h"
#include "tests/unit/transform_list.h"

enum { DRAWS = 6000, LONGEST = 1000 };

/* ---- random_resized_crop ---- */

/* The difference of the two pixels to which 0, 1, ... n-1 is resized: it grows with n. */
static double spread(int64_t n)
{
  static double known[LONGEST + 1];
  double mean[2] = {0};
  ct__image_taps_t t;
  if (n < 2 || known[n] > 0) return n < 2 ? 0 : known[n];
  float *room = ct_mem_array(ct__image_taps_workspace(n, 2), sizeof *room, "taps");
  ct__image_taps(n, 2, room, &t);
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < t.n[i]; k++)
      mean[i] += (double)t.weight[i * t.span + k] * (t.first[i] + k);
  ct_mem_free(room);
  return known[n] = mean[1] - mean[0];
}

/* first + 0, 1, ... n-1 was resized to a and b. */
static void find_run(double a, double b, int64_t *first, int64_t *n)
{
  *n = 1;
  while (*n < LONGEST && spread(*n) < b - a - 0.05)
    ++*n;
  CT_ASSERT_NEAR(spread(*n), b - a, 0.05);
  *first = llround((a + b) / 2 - (double)(*n - 1) / 2);
}

typedef struct window {
  list_t l;
  int n;
  float *x; /* two channels: the column and the row */
} window_t;

static void open_window(const char *options, int64_t h, int64_t w, window_t *o)
{
  char yaml[200];
  snprintf(yaml, sizeof yaml, "random_resized_crop: {size: 2, %s}", options);
  open_on(yaml, 2, h, w, &o->l);
  o->n = (int)(2 * h * w);
  o->x = ct_mem_array(o->n, sizeof *o->x, "an image");
  for (int64_t i = 0; i < h * w; i++) {
    o->x[i] = (float)(i % w);
    o->x[h * w + i] = (float)(i / w);
  }
}

static ct__image_box_t window_of(const window_t *o, int64_t id)
{
  float out[8];
  ct__image_box_t b;
  run_on(&o->l, id, o->x, o->n, out);
  find_run(out[0], out[1], &b.left, &b.w);
  find_run(out[4], out[6], &b.top, &b.h);
  return b;
}

static void close_window(window_t *o)
{
  close_list(&o->l);
  ct_mem_free(o->x);
}

static void windows_are_anywhere(void)
{
  enum { ROWS = 5, COLUMNS = 7 };
  int count[ROWS * COLUMNS] = {0};
  window_t o;
  open_window("scale: [0.1111111111, 0.1111111111], ratio: [1.5, 1.5]", 6, 9, &o);
  for (int i = 0; i < DRAWS; i++) {
    ct__image_box_t b = window_of(&o, i);
    CU_ASSERT_FATAL(b.h == 2 && b.w == 3 && b.top >= 0 && b.top < ROWS && b.left >= 0 &&
                    b.left < COLUMNS);
    count[b.top * COLUMNS + b.left]++;
  }
  expect_even("random_resized_crop's places", count, ROWS * COLUMNS);
  close_window(&o);
}

/* Flat windows, whose width is exact to 1 %: it alone says the area, or with a given area the
 * ratio, whose logarithm is uniform. */
static void windows_have_areas_and_ratios(void)
{
  double area[DRAWS], aspect[DRAWS];
  window_t o;
  open_window("scale: [0.1, 0.9], ratio: [100, 100]", 10, LONGEST, &o);
  for (int i = 0; i < DRAWS; i++) {
    ct__image_box_t b = window_of(&o, i);
    area[i] = pow((double)b.w / LONGEST, 2);
    CT_ASSERT_NEAR(b.h, 10 * sqrt(area[i]), 0.53);
  }
  expect_uniform("random_resized_crop's area", area, DRAWS, 0.1, 0.9, 0.002);
  close_window(&o);
  open_window("scale: [0.2, 0.2], ratio: [32, 320]", 10, LONGEST, &o);
  for (int i = 0; i < DRAWS; i++) {
    ct__image_box_t b = window_of(&o, i);
    aspect[i] = log10(pow((double)b.w, 2) / 2000 / 32);
    CT_ASSERT_NEAR(b.h, 2000.0 / (double)b.w, 0.53);
  }
  expect_uniform("random_resized_crop's ratio", aspect, DRAWS, 0, 1, 0.004);
  close_window(&o);
}

/* torchvision 0.29, RandomResizedCrop.get_params(), after ten windows that were too large:
 *
 *     in_ratio = float(width) / float(height)
 *     if in_ratio < min(ratio):
 *         w = width
 *         h = int(round(w / min(ratio)))
 *     elif in_ratio > max(ratio):
 *         h = height
 *         w = int(round(h * max(ratio)))
 *     else:  # whole image
 *         w = width
 *         h = height
 *     i = (height - h) // 2
 *     j = (width - w) // 2
 *
 * round() is to even.  The boxes are what it returns with scale=(1, 1). */
static void a_window_that_never_fits_is_in_the_middle(void)
{
  static const struct {
    int64_t h, w;
    const char *ratio;
    ct__image_box_t box; /* top, left, h, w */
  } cases[] = {{8, 10, "[2, 3]", {1, 0, 5, 10}},       {8, 10, "[0.5, 0.75]", {0, 2, 8, 6}},
               {8, 10, "[4, 5]", {3, 0, 2, 10}},       {5, 8, "[0.25, 0.5]", {0, 3, 5, 2}},
               {9, 10, "[3, 5]", {3, 0, 3, 10}},       {7, 8, "[0.3, 0.5]", {0, 2, 7, 4}},
               {10, 8, "[0.125, 0.5]", {0, 1, 10, 5}}, {10, 10, "[12, 14]", {4, 0, 1, 10}},
               {20, 6, "[0.5, 0.9]", {4, 0, 12, 6}},   {8, 10, "[1.25, 1.25]", {0, 0, 8, 10}}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char options[100];
    window_t o;
    snprintf(options, sizeof options, "scale: [1, 1], ratio: %s", cases[i].ratio);
    open_window(options, cases[i].h, cases[i].w, &o);
    for (int id = 0; id < 20; id++) {
      ct__image_box_t b = window_of(&o, id), want = cases[i].box;
      CT_ASSERT_INT(b.top, want.top);
      CT_ASSERT_INT(b.left, want.left);
      CT_ASSERT_INT(b.h, want.h);
      CT_ASSERT_INT(b.w, want.w);
    }
    close_window(&o);
  }
}

/* A square window fits into 10 x 100 if its side is rounded to at most 10: 10.5^2 of the area
 * 1000. */
static void ten_windows_are_tried(void)
{
  int whole = 0, middle = 0;
  window_t o;
  open_window("scale: [1e-9, 1], ratio: [1, 1]", 10, 100, &o);
  for (int i = 0; i < DRAWS; i++) {
    ct__image_box_t b = window_of(&o, i);
    CT_ASSERT_INT(b.w, b.h);
    whole += b.h == 10 && b.left == 45;
    middle += b.h == 10;
  }
  double none = pow(1 - (10.5 * 10.5 - 0.25) / 1000, 10);
  double full = (1 - none) * (10.5 * 10.5 - 9.5 * 9.5) / (10.5 * 10.5 - 0.25);
  expect_share("windows after ten that did not fit", whole, DRAWS, none + full / 91);
  expect_share("windows of full height", middle, DRAWS, none + full);
  close_window(&o);
}

/* ---- random_erasing ---- */

/* The box of -1 in an image of 1; .h 0: there is none. */
static ct__image_box_t erased(const list_t *l, int64_t id, ct__image_size_t s, const float *x,
                              float *out)
{
  int64_t n = 0, bottom = -1, right = -1;
  ct__image_box_t b = {.top = s.h, .left = s.w};
  run_on(l, id, x, (int)(s.h * s.w), out);
  for (int64_t i = 0; i < s.h * s.w; i++) {
    if (out[i] == 1) continue;
    CU_ASSERT(out[i] == -1);
    n++;
    if (i / s.w < b.top) b.top = i / s.w;
    if (i % s.w < b.left) b.left = i % s.w;
    bottom = i / s.w;
    if (i % s.w > right) right = i % s.w;
  }
  if (n == 0) return (ct__image_box_t){0};
  b.h = bottom - b.top + 1;
  b.w = right - b.left + 1;
  CT_ASSERT_INT(n, b.h * b.w);
  return b;
}

typedef struct eraser {
  list_t l;
  ct__image_size_t s;
  float *x, *out;
} eraser_t;

static void open_eraser(const char *options, int64_t h, int64_t w, eraser_t *e)
{
  char yaml[200];
  snprintf(yaml, sizeof yaml, "random_erasing: {value: -1, %s}", options);
  open_on(yaml, 1, h, w, &e->l);
  e->s = (ct__image_size_t){1, h, w};
  e->x = ct_mem_array(2 * h * w, sizeof *e->x, "an image");
  e->out = e->x + h * w;
  for (int64_t i = 0; i < h * w; i++)
    e->x[i] = 1;
}

static ct__image_box_t erased_by(const eraser_t *e, int64_t id)
{
  return erased(&e->l, id, e->s, e->x, e->out);
}

static void close_eraser(eraser_t *e)
{
  close_list(&e->l);
  ct_mem_free(e->x);
}

static void erased_boxes_are_anywhere(void)
{
  enum { ROWS = 5, COLUMNS = 7 };
  int count[ROWS * COLUMNS] = {0}, n = 0;
  eraser_t e;
  open_eraser("p: 0.8, scale: [0.1111111111, 0.1111111111], ratio: [0.6666667, 0.6666667]", 6, 9,
              &e);
  for (int i = 0; i < DRAWS; i++) {
    ct__image_box_t b = erased_by(&e, i);
    if (b.h == 0) continue;
    CU_ASSERT_FATAL(b.h == 2 && b.w == 3);
    count[b.top * COLUMNS + b.left]++;
    n++;
  }
  expect_share("random_erasing", n, DRAWS, 0.8);
  expect_even("random_erasing's places", count, ROWS * COLUMNS);
  close_eraser(&e);
}

/* Flat boxes, as the windows above: here the ratio is height over width. */
static void erased_boxes_have_areas_and_ratios(void)
{
  double area[DRAWS], aspect[DRAWS];
  eraser_t e;
  open_eraser("p: 1, scale: [0.1, 0.8], ratio: [0.01, 0.01]", 10, LONGEST, &e);
  for (int i = 0; i < DRAWS; i++) {
    ct__image_box_t b = erased_by(&e, i);
    area[i] = pow((double)b.w / LONGEST, 2);
    CT_ASSERT_NEAR(b.h, 10 * sqrt(area[i]), 0.53);
  }
  expect_uniform("random_erasing's area", area, DRAWS, 0.1, 0.8, 0.002);
  close_eraser(&e);
  open_eraser("p: 1, scale: [0.2, 0.2], ratio: [0.004, 0.04]", 10, LONGEST, &e);
  for (int i = 0; i < DRAWS; i++) {
    ct__image_box_t b = erased_by(&e, i);
    aspect[i] = log10(2000 / pow((double)b.w, 2) / 0.004);
    CT_ASSERT_NEAR(b.h, 2000.0 / (double)b.w, 0.53);
  }
  expect_uniform("random_erasing's ratio", aspect, DRAWS, 0, 1, 0.004);
  close_eraser(&e);
}

/* torchvision: `if not (h < img_h and w < img_w): continue`, ten times, then the image stays as it
 * was.  A square is lower than 10 if its side is below 9.5; below 0.5 it is empty. */
static void ten_boxes_are_tried(void)
{
  int none = 0;
  eraser_t e;
  open_eraser("p: 1, scale: [0, 1], ratio: [1, 1]", 10, 100, &e);
  for (int i = 0; i < DRAWS; i++) {
    ct__image_box_t b = erased_by(&e, i);
    CU_ASSERT(b.h < 10);
    none += b.h == 0;
  }
  double fit = 9.5 * 9.5 / 1000, missed = pow(1 - fit, 10);
  expect_share("samples where no box fits", none, DRAWS,
               missed + (1 - missed) * 0.25 / (9.5 * 9.5));
  close_eraser(&e);
}

static void nothing_stays_allocated(void)
{
  CT_ASSERT_INT(ct_mem_live(), 0);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(windows_are_anywhere),
                                    CT_TEST(windows_have_areas_and_ratios),
                                    CT_TEST(a_window_that_never_fits_is_in_the_middle),
                                    CT_TEST(ten_windows_are_tried),
                                    CT_TEST(erased_boxes_are_anywhere),
                                    CT_TEST(erased_boxes_have_areas_and_ratios),
                                    CT_TEST(ten_boxes_are_tried),
                                    CT_TEST(nothing_stays_allocated),
                                    CT_TEST_END};
  return ct_test_main("the boxes of transforms", tests, argc, argv);
}
