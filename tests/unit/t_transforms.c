/* Transforms: parity with torchvision at fixed parameters, the list. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "tests/golden/gold.h"
#include "tests/unit/transform_list.h"

/* ---- goldens (tests/golden/make_transform_golden.py) ---- */

#define TOLERANCE 1e-5
static gold_t gold;

/* As make_golden.py, moved to [0, 1). */
static float pixel(uint64_t seed, uint64_t i)
{
  return gold_noise(seed, i) + 0.5f;
}

static const ct__image_size_t size = {3, 13, 17};

static void image(uint64_t seed, ct__image_size_t s, float *x)
{
  for (int64_t i = 0; i < s.c * s.h * s.w; i++)
    x[i] = pixel(seed, (uint64_t)i);
}

static void same_as(const char *name, const float *x, int64_t n)
{
  float *want = ct_mem_array(n, sizeof *want, "golden record");
  if (!gold.data) CT_ASSERT_OK(gold_open(&gold, "transforms.gold"));
  gold_take(&gold, name, n, want);
  ct_test_off_t off = ct_test_off(x, want, n);
  if (off.most > TOLERANCE) printf("# %s\n", name);
  CT_ASSERT_ARRAY(x, want, n, TOLERANCE);
  ct_mem_free(want);
}

static void crops_and_flips(void)
{
  float x[3 * 13 * 17], y[3 * 20 * 22];
  static const struct {
    const char *name;
    ct__image_size_t out;
  } centres[] = {{"centre", {3, 8, 6}},
                 {"centre_odd", {3, 10, 4}},
                 {"centre_pad", {3, 16, 22}},
                 {"centre_both", {3, 20, 9}}};
  image(1, size, x);
  const ct__pixels_t p = {3, sizeof(float)};
  ct__image_crop(p, x, size, 1 - 3, 4 - 2, y, (ct__image_size_t){3, 11, 15},
                 NULL); /* padding: left 2, top 3 */
  same_as("crop", y, 3 * 11 * 15);
  for (int i = 0; i < 4; i++) {
    int64_t top, left;
    ct__image_size_t out = centres[i].out;
    ct__image_center(size, out, &top, &left);
    ct__image_crop(p, x, size, top, left, y, out, NULL);
    same_as(centres[i].name, y, out.c * out.h * out.w);
  }
  ct__image_crop(p, x, size, -50, 40, y, (ct__image_size_t){3, 4, 4}, NULL); /* wholly outside */
  for (int i = 0; i < 3 * 16; i++)
    CT_ASSERT_NEAR(y[i], 0, 0);
  ct__image_flip(p, x, size);
  same_as("flip", x, 3 * 13 * 17);
}

static void resizes(void)
{
  static const struct {
    const char *name;
    ct__image_box_t box;
    int64_t h, w;
  } cases[] = {
      {"resize_down", {0, 0, 13, 17}, 5, 7},      {"resize_up", {0, 0, 13, 17}, 29, 31},
      {"resize_mixed", {0, 0, 13, 17}, 6, 40},    {"resize_tiny", {0, 0, 13, 17}, 1, 1},
      {"resized_crop_down", {2, 3, 9, 12}, 4, 5}, {"resized_crop_up", {1, 0, 5, 7}, 12, 11},
      {"resize_short", {0, 0, 13, 17}, 9, 11}};
  float x[3 * 13 * 17], y[3 * 29 * 31];
  image(1, size, x);
  for (int i = 0; i < 7; i++) {
    ct__image_taps_t taps[2];
    ct__image_box_t b = cases[i].box;
    int64_t rows = ct__image_taps_workspace(b.h, cases[i].h),
            columns = ct__image_taps_workspace(b.w, cases[i].w);
    int64_t all = rows + columns + ct__image_resize_workspace(b.w);
    float *room = ct_mem_array(all, sizeof *room, "taps");
    ct__image_taps(b.h, cases[i].h, room, &taps[0]);
    ct__image_taps(b.w, cases[i].w, room + rows, &taps[1]);
    ct__image_resize(x, size, b, taps, room + rows + columns, y);
    same_as(cases[i].name, y, 3 * cases[i].h * cases[i].w);
    ct_mem_free(room);
  }
}

static void adjusts(const char *what, void (*adjust)(float *, ct__image_size_t, float),
                    const float *factors, int n)
{
  float x[3 * 13 * 17];
  char name[40];
  for (int64_t c = 1; c <= 3; c += 2)
    for (int i = 0; i < n; i++) {
      ct__image_size_t s = {c, 13, 17};
      image(2, s, x);
      adjust(x, s, factors[i]);
      snprintf(name, sizeof name, "%s%d%d", what, (int)c, i);
      same_as(name, x, c * 13 * 17);
    }
}

static void colors(void)
{
  static const float factors[] = {0, 0.4f, 1.7f}, turns[] = {-0.5f, -0.2f, 0.1f, 0.45f};
  float x[3 * 16];
  adjusts("brightness", ct__image_brightness, factors, 3);
  adjusts("contrast", ct__image_contrast, factors, 3);
  adjusts("saturation", ct__image_saturation, factors, 3);
  adjusts("hue", ct__image_hue, turns, 4);
  image(3, (ct__image_size_t){1, 4, 4}, x);
  for (int i = 0; i < 16; i++) {
    x[16 + i] = x[32 + i] = x[i];
    if (i < 4) x[i] += 0.25f;
    if (x[i] > 1) x[i] = 1;
  }
  ct__image_hue(x, (ct__image_size_t){3, 4, 4}, 0.3f);
  same_as("hue_ties", x, 48);
}

/* As in torchvision: no colours, nothing to change. */
static void gray_images_keep_their_hue(void)
{
  float x[64], out[64];
  list_t l;
  for (int i = 0; i < 64; i++)
    x[i] = (float)i / 64;
  CT_ASSERT_OK(open_shape("t: [{color_jitter: {saturation: [0.1, 0.5], hue: [0.2, 0.4]}}]", 1,
                          CT_F32, ct_shape(4, 1, 1, 8, 8), &l));
  run_on(&l, 0, x, 64, out);
  CT_ASSERT_ARRAY(out, x, 64, 0);
  close_list(&l);
}

static void erasing_and_mixing(void)
{
  static const float value[] = {0.5f, -1, 2};
  static const struct {
    double lambda;
    int64_t x, y;
  } cuts[] = {{0.3, 8, 6}, {0.5, 0, 0}, {0.1, 16, 12}, {0.99, 5, 5}, {0, 3, 9}};
  enum { N = 3 * 13 * 17 };
  float x[N], other[N];
  char name[40];
  image(1, size, x);
  ct__image_erase(x, size, (ct__image_box_t){2, 5, 6, 3}, value);
  same_as("erase", x, N);
  image(1, size, x);
  image(4, size, other);
  ct__image_blend(x, other, N, 0.3f);
  same_as("mixup", x, N);
  for (int i = 0; i < 5; i++) {
    image(1, size, x);
    ct__image_box_t b = ct__image_cutmix_box(size, cuts[i].lambda, cuts[i].y, cuts[i].x);
    ct__image_paste(x, other, size, b);
    snprintf(name, sizeof name, "cutmix%d", i);
    same_as(name, x, N);
    float share = 1 - (float)(b.h * b.w) / (13 * 17);
    snprintf(name, sizeof name, "cutmix_share%d", i);
    same_as(name, &share, 1);
  }
}

/* ---- a list on one sample ---- */

static int open_list(const char *yaml, int training, list_t *l)
{
  return open_shape(yaml, training, CT_F32, ct_shape(4, 1, 3, 8, 10), l);
}

/* Sample number id, whose pixels are 1 + their place in the image / 1000. */
static void run_list(const list_t *l, int64_t id, float *out)
{
  float x[240];
  for (int i = 0; i < 240; i++)
    x[i] = 1 + (float)i / 1000;
  run_on(l, id, x, 240, out);
}

static void affine_maps_fold(void)
{
  list_t l;
  CT_ASSERT_OK(open_list("t: ", 1, &l));
  CU_ASSERT(!l.t && l.first.channels == 1 && l.first.a[0] == 1 && l.first.b[0] == 0);
  CT_ASSERT_OK(open_list("t: [to_tensor, {normalize: {mean: 0.5, std: 0.25}}]", 1, &l));
  CU_ASSERT(!l.t);
  CT_ASSERT_INT(l.first.channels, 1);
  CT_ASSERT_NEAR(l.first.a[0] * 255 + l.first.b[0], 2, 1e-6);
  CT_ASSERT_OK(open_list("t:\n - to_tensor:\n - normalize: {mean: [0, 1, 2], std: [4]}\n", 0, &l));
  CT_ASSERT_INT(l.first.channels, 3);
  CT_ASSERT_NEAR(l.first.b[2], -0.5, 0);
  CT_ASSERT_NEAR(l.first.a[2] * 255, 0.25, 1e-7);
  /* order matters: first normalised, then divided */
  CT_ASSERT_OK(open_list("t: [{normalize: {mean: 255, std: 1}}, to_tensor]", 1, &l));
  CT_ASSERT_NEAR(l.first.b[0], -1, 1e-7);
  /* more features than the map has room for, but all alike */
  CT_ASSERT_OK(
      open_shape("t: [{normalize: {mean: 1, std: 2}}]", 1, CT_U8, ct_shape(2, 1, 1000), &l));
  CT_ASSERT_INT(l.first.channels, 1);
}

/* Zeros of the padding go through what stands behind it. */
static void order_decides_what_padding_becomes(void)
{
  float out[240];
  list_t l;
  CT_ASSERT_OK(open_list(
      "t: [{center_crop: {size: [1, 12]}}, {normalize: {mean: [1, 2, 3], std: [2, 4, 8]}}]", 1,
      &l));
  run_list(&l, 0, out);
  CT_ASSERT_NEAR(out[0], -0.5, 0);
  CT_ASSERT_NEAR(out[12], -0.5, 0);
  CT_ASSERT_NEAR(out[24 + 11], -0.375, 0);
  CT_ASSERT_NEAR(out[1], (1.04 - 1) / 2, 1e-6);
  CT_ASSERT_NEAR(out[24 + 10], (1.209 - 3) / 8, 1e-6);
  close_list(&l);
  CT_ASSERT_OK(open_list(
      "t: [{normalize: {mean: [1, 2, 3], std: [2, 4, 8]}}, {center_crop: {size: [1, 12]}}]", 1,
      &l));
  CT_ASSERT_NEAR(l.first.b[2], -0.375, 0);
  run_list(&l, 0, out);
  CT_ASSERT_NEAR(out[0], 0, 0);
  CT_ASSERT_NEAR(out[12], 0, 0);
  close_list(&l);
}

/* A list that ends with few numbers needs room for the many before. */
static void there_is_room_for_the_largest_sample(void)
{
  float out[240];
  list_t l;
  CT_ASSERT_OK(open_list("t: [{center_crop: {size: 2}}]", 1, &l));
  CU_ASSERT(ct__transforms_workspace(l.t) >= 240);
  close_list(&l);
  CT_ASSERT_OK(open_list("t: [{center_crop: {size: 20}}, {center_crop: {size: 2}}]", 1, &l));
  CU_ASSERT(ct__transforms_workspace(l.t) >= 240 + 3 * 20 * 20);
  run_list(&l, 0, out);
  close_list(&l);
}

/* torchvision: int(size * long / short). */
static void one_size_is_of_the_shorter_side(void)
{
  list_t l;
  CT_ASSERT_OK(open_shape("t: [{resize: {size: 5}}]", 1, CT_F32, ct_shape(4, 1, 3, 8, 10), &l));
  CT_ASSERT_INT(l.x.dim[2], 5);
  CT_ASSERT_INT(l.x.dim[3], 6);
  close_list(&l);
  CT_ASSERT_OK(open_shape("t: [{resize: {size: 12}}]", 1, CT_F32, ct_shape(4, 1, 3, 11, 7), &l));
  CT_ASSERT_INT(l.x.dim[2], 18);
  CT_ASSERT_INT(l.x.dim[3], 12);
  close_list(&l);
}

/* A box of p, of the areas and shapes it may have; what is outside of it is as before. */
static void erased_boxes(void)
{
  enum { N = 2000 };
  int erased = 0;
  double area = 0;
  float out[240];
  list_t l;
  CT_ASSERT_OK(
      open_list("t: [{random_erasing: {p: 0.25, scale: [0.1, 0.3], value: [-1, -2, -3]}}]", 1, &l));
  for (int i = 0; i < N; i++) {
    run_list(&l, i, out);
    int n = 0;
    for (int k = 0; k < 240; k++) {
      float before = 1 + (float)k / 1000, fill = -1 - (float)(k / 80);
      CU_ASSERT_FATAL(out[k] == before || out[k] == fill);
      n += out[k] == fill;
    }
    erased += n > 0;
    area += n / 240.0;
  }
  CT_ASSERT_NEAR(erased, N / 4, 5 * sqrt(N * 3 / 16.0));
  CT_ASSERT_NEAR(area / erased, 0.2, 0.03);
  close_list(&l);
  CT_ASSERT_OK(open_list(
      "t: [{random_erasing: {p: 1, scale: [0.5, 0.5], ratio: [1, 1], value: random}}]", 1, &l));
  double sum = 0, squares = 0;
  int count = 0;
  for (int i = 0; i < 50; i++) {
    run_list(&l, i, out);
    for (int k = 0; k < 240; k++) {
      if (out[k] == 1 + (float)k / 1000) continue;
      sum += out[k];
      squares += out[k] * out[k];
      count++;
    }
  }
  CT_ASSERT_INT(count, 50 * 3 * 36);
  CT_ASSERT_NEAR(sum / count, 0, 0.07);
  CT_ASSERT_NEAR(squares / count, 1, 0.1);
  close_list(&l);
}

/* A window of the whole image comes out as it was; else the mean of the middle is kept roughly. */
static void resized_crops(void)
{
  float out[240];
  list_t l;
  CT_ASSERT_OK(open_list(
      "t: [{random_resized_crop: {size: [8, 10], scale: [1, 1], ratio: [1.25, 1.25]}}]", 1, &l));
  run_list(&l, 3, out);
  for (int i = 0; i < 240; i++)
    CT_ASSERT_NEAR(out[i], 1 + (double)i / 1000, 1e-6);
  close_list(&l);
  CT_ASSERT_OK(open_list("t: [{random_resized_crop: {size: 5}}]", 1, &l));
  CT_ASSERT_INT(ct_shape_sample(&l.x), 75);
  for (int i = 0; i < 200; i++) {
    run_list(&l, i, out);
    for (int k = 0; k < 75; k++) { /* within its channel, and growing to the right */
      float first = 1 + 0.08f * (float)(k / 25);
      CU_ASSERT(out[k] >= first - 1e-6f && out[k] <= first + 0.079f + 1e-6f);
      CU_ASSERT(k % 5 == 0 || out[k] >= out[k - 1]);
    }
  }
  close_list(&l);
  /* no window is that wide: the middle, as wide as it may be */
  CT_ASSERT_OK(open_list(
      "t: [{random_resized_crop: {size: [1, 10], scale: [1, 1], ratio: [10, 10]}}]", 1, &l));
  run_list(&l, 0, out);
  CT_ASSERT_NEAR(out[4], 1.034, 1e-5); /* row 3 of 0 to 7 */
  close_list(&l);
}

static void jitter_stays_in_range(void)
{
  float out[240];
  int changed = 0;
  list_t l;
  CT_ASSERT_OK(open_list("t: [to_tensor, {color_jitter: {brightness: [0.5, 0.5]}}]", 1, &l));
  run_list(&l, 0, out);
  CT_ASSERT_NEAR(out[7], 0.5 * 1.007 / 255, 1e-8);
  close_list(&l);
  CT_ASSERT_OK(
      open_list("t: [{color_jitter: {brightness: 0.4, contrast: 0.4, saturation: 2, hue: 0.5}},"
                " {resize: {size: 8}}]",
                1, &l));
  for (int i = 0; i < 100; i++) {
    run_list(&l, i, out);
    for (int k = 0; k < 240; k++)
      CU_ASSERT(out[k] >= 0 && out[k] <= 1);
    changed += out[0] != 1;
  }
  CU_ASSERT(changed > 50);
  close_list(&l);
  CT_ASSERT_OK(open_list("t: [color_jitter]", 1, &l)); /* nothing is asked for */
  run_list(&l, 0, out);
  CT_ASSERT_NEAR(out[239], 1.239, 1e-6);
  close_list(&l);
}

static void evaluation_has_no_random_transforms(void)
{
  float out[240];
  list_t l;
  static const char same[] =
      "t: [to_tensor, {random_crop: {padding: 4}}, random_flip, mixup, cutmix,"
      " {color_jitter: {hue: 0.1}}, {normalize: {mean: 2, std: 1}}]";
  CT_ASSERT_OK(open_list(same, 0, &l));
  CU_ASSERT(!l.t);
  CT_ASSERT_NEAR(l.first.b[0], -2, 0); /* and what stood around them folds */
  CT_ASSERT_OK(open_list(same, 1, &l));
  CU_ASSERT(ct__transforms_mixes(l.t));
  close_list(&l);
  CT_ASSERT_OK(open_list("t: [{random_resized_crop: {size: 4}}]\nv: [{resize: {size: 6}},"
                         " {center_crop: {size: 4}}]",
                         0, &l));
  CT_ASSERT_INT(l.x.dim[3], 4);
  run_list(&l, 0, out);
  close_list(&l);
}

static void lists_complain(void)
{
  static const struct {
    const char *yaml, *says;
  } bad[] = {
      {"t:\n - to_tensr\n", "x.yaml:2: transforms: unknown 'to_tensr'; did you mean 'to_tensor'?"},
      {"t: [zzzzzzzzzzzzzzzz]", "there are to_tensor, normalize, random_crop"},
      {"t: to_tensor", "expected a list"},
      {"t: [normalize]", "x.yaml:1: transforms.normalize.mean: missing"},
      {"t:\n - to_tensor\n - resize\n", "x.yaml:3: transforms.resize.size: missing"},
      {"t: [[to_tensor]]", "expected a name"},
      {"t: [{to_tensor: {}, normalize: {}}]", "expected a name"},
      {"t: [{to_tensor: {by: 2}}]", "transforms.to_tensor: it has no options"},
      {"t:\n\n - normalize: {mean: 0, std: 0}\n",
       "x.yaml:3: transforms.normalize: std: divides by it"},
      {"t: [{normalize: {mean: 0, std: [1, 2]}}]",
       "std has 2 values, expected one or one for each"},
      {"t: [{normalize: {mean: 0, std: 1e-300}}]", "transforms.normalize.std: must be 0 or"},
      {"t: [{normalize: {mean: 0, std: [1, 1, 3.3e38]}}]",
       "normalize: std: its inverse, 3.0303e-39, must be between"},
      {"t: [{normalize: {mean: 1e300, std: 1}}]", "transforms.normalize.mean: must be 0 or"},
      {"t: [{normalize: {mean: 1e20, std: 1e-20}}]", "normalize: with what is before it makes"},
      {"t:\n - normalize: {mean: 0, std: 1e-30}\n - normalize: {mean: 0, std: 1e-30}\n",
       "x.yaml:3: transforms.normalize: with what is before it makes"},
      {"t: [{normalize: {mean: 0, std: 1e30}}, {normalize: {mean: 0, std: 1e30}}]",
       "transforms.normalize: with what is before it makes"},
      {"t: [{random_erasing: {value: 1e39}}]", "value: 1e+39 exceeds the largest float32"},
      {"t: [{random_erasing: {value: [0, 1, -1e300]}}]",
       "value: -1e+300 exceeds the largest float32"},
      {"t: [{normalize: {mean: [], std: 1}}]", "normalize: mean has 0 values"},
      {"t: [{normalize: {mean: 0, sdt: 1}}]", "sdt: unknown key"},
      {"t: [{random_crop: {size: 11, padding: 1}}]",
       "size 11x11 is larger than the padded sample, which is 10x12"},
      {"t: [{random_crop: {size: [0, 3]}}]", "size is 0 in one direction"},
      {"t: [{random_crop: {padding: 1.5}}]", "padding: 1.5 must be an integer"},
      {"t: [{random_crop: {padding: [1, 2, 3]}}]", "padding has 3 numbers"},
      {"t: [{random_flip: {p: 2}}]", "transforms.random_flip.p"},
      {"t: [{resize: {size: [1, 2, 3]}}]", "size has 3 numbers"},
      {"t: [{random_resized_crop: {size: 4, scale: 1}}]", "scale: expected [min, max]"},
      {"t: [{random_resized_crop: {size: 4, ratio: [2, 1]}}]", "min 2 is more than max 1"},
      {"t: [{color_jitter: {hue: 0.6}}]", "transforms.color_jitter.hue"},
      {"t: [{color_jitter: {hue: -0.1}}]", "hue is a single number below 0"},
      {"t: [{random_erasing: {value: [1, 2]}}]", "value has 2 numbers"},
      {"t: [{random_erasing: {value: noise}}]", "value is 'noise', not a number or 'random'"},
      {"t: [mixup, to_tensor, mixup]", "transforms.mixup: is listed twice"},
      {"t: [{mixup: {alpha: 0}}]", "transforms.mixup.alpha"},
  };
  list_t l;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    CT_ASSERT_FAILS(open_list(bad[i].yaml, 1, &l), CT_ERR_USAGE, bad[i].says);
    CU_ASSERT(!l.t);
  }
}

static void samples_that_do_not_fit(void)
{
  static const char *const images_only[] = {"random_crop",
                                            "random_flip",
                                            "random_resized_crop: {size: 3}",
                                            "resize: {size: 3}",
                                            "center_crop: {size: 3}",
                                            "color_jitter",
                                            "random_erasing",
                                            "cutmix"};
  ct_shape_t volume = ct_shape(5, 1, 2, 4, 5, 6), two = ct_shape(4, 1, 2, 8, 8);
  list_t l;
  char yaml[80], says[80];
  for (int i = 0; i < 8; i++) {
    snprintf(yaml, sizeof yaml, "t:\n - %s\n", images_only[i]);
    snprintf(says, sizeof says, "%.*s: needs samples of C x H x W, but these are 2x4x5x6",
             (int)strcspn(images_only[i], ":"), images_only[i]);
    CT_ASSERT_FAILS(open_shape(yaml, 1, CT_F32, volume, &l), CT_ERR_USAGE, says);
  }
  CT_ASSERT_OK(open_shape("t: [{normalize: {mean: [1, 2], std: 1}}, mixup]", 1, CT_U8, volume, &l));
  close_list(&l);
  CT_ASSERT_FAILS(open_shape("t: [color_jitter]", 1, CT_F32, two, &l), CT_ERR_USAGE,
                  "1 or 3 channels, not of 2");
  CT_ASSERT_FAILS(open_shape("t: [{center_crop: {size: 1000000}}]", 1, CT_U8,
                             ct_shape(4, 1, 1 << 24, 1, 1), &l),
                  CT_ERR_USAGE, "center_crop: makes samples that are too large");
  CT_ASSERT_FAILS(
      open_shape("t: [mixup]", 1, CT_U8, ct_shape(4, 1, INT64_C(1) << 32, INT64_C(1) << 31, 2), &l),
      CT_ERR_FORMAT, "samples of 1x4294967296x2147483648x2 are too large");
  CT_ASSERT_FAILS(open_shape("t: ", 1, CT_F32, ct_shape(3, 1, INT64_MAX, 1), &l), CT_ERR_FORMAT,
                  "too large");
  CT_ASSERT_FAILS(open_shape("t: [random_flip, color_jitter, to_tensor]", 1, CT_U8,
                             ct_shape(4, 1, 3, 8, 8), &l),
                  CT_ERR_USAGE, "put to_tensor before it");
}

static void evaluation_complains(void)
{
  list_t l;
  CT_ASSERT_FAILS(
      open_list("t:\n - random_resized_crop: {size: 4}\n", 0, &l), CT_ERR_USAGE,
      "samples become 3x4x4 in training, but stay 3x8x10 in evaluation, which has no random "
      "transforms: give a list val_transforms too, such as val_transforms: [{resize: {size: 5}}, "
      "{center_crop: {size: 4}}]");
  CT_ASSERT_FAILS(
      open_list("t: [{color_jitter: {}}, {random_resized_crop: {size: [7, 14]}}, random_flip, "
                "to_tensor, {normalize: {mean: [0.5, 0.25, 1], std: [1, 2, 3]}}, {cutmix: {}}]",
                0, &l),
      CT_ERR_USAGE,
      "val_transforms: [{resize: {size: [8, 16]}}, {center_crop: {size: [7, 14]}}, to_tensor, "
      "{normalize: {mean: [0.5, 0.25, 1], std: [1, 2, 3]}}]");
  CT_ASSERT_FAILS(open_list("t: [{random_crop: {size: 4, padding: 1}}, to_tensor]", 0, &l),
                  CT_ERR_USAGE, "val_transforms: [{center_crop: {size: 4}}, to_tensor]");
  CU_ASSERT(!l.t);
  CT_ASSERT_FAILS(open_list("t: [to_tensor]\nv:\n - to_tensor\n - random_flip\n", 0, &l),
                  CT_ERR_USAGE,
                  "x.yaml:4: val_transforms.random_flip: is random: for training only");
  CT_ASSERT_FAILS(open_list("t: [to_tensor]\nv: [mixup: {alpha: 1}]\n", 0, &l), CT_ERR_USAGE,
                  "val_transforms.mixup: is random");
  CT_ASSERT_FAILS(open_list("t: [to_tensor]\nv: [resize]\n", 0, &l), CT_ERR_USAGE,
                  "val_transforms.resize.size: missing");
  ct_yaml_t *set = ct_yaml_new(CT_YAML_MAP, NULL, NULL);
  CT_ASSERT_OK(ct_yaml_set(set, "t", "[to_tensr]"));
  ct_shape_t x = ct_shape(4, 1, 1, 2, 2);
  ct_transforms_opts_t o = {.list = ct_yaml_find(set, "t"), .training = 1};
  ct_reader_info_t info = {.x.dtype = CT_U8};
  CT_ASSERT_FAILS(ct__transforms_open(&o, "x.yaml", &info, &x, &l.first, &l.t), CT_ERR_USAGE,
                  "--set: transforms: unknown 'to_tensr'");
  ct_yaml_free(set);
}

static void help_lists_every_transform_and_option(void)
{
  ct_str_t help = {0};
  CT_ASSERT_OK(ct_transforms_help(&help));
  CT_ASSERT_HAS(help.data, "normalize: subtracts");
  CT_ASSERT_HAS(help.data, "saturation");
  CT_ASSERT_HAS(help.data, "cutmix");
  ct_str_clear(&help);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(crops_and_flips),
      CT_TEST(resizes),
      CT_TEST(colors),
      CT_TEST(gray_images_keep_their_hue),
      CT_TEST(erasing_and_mixing),
      CT_TEST(affine_maps_fold),
      CT_TEST(order_decides_what_padding_becomes),
      CT_TEST(there_is_room_for_the_largest_sample),
      CT_TEST(one_size_is_of_the_shorter_side),
      CT_TEST(erased_boxes),
      CT_TEST(resized_crops),
      CT_TEST(jitter_stays_in_range),
      CT_TEST(evaluation_has_no_random_transforms),
      CT_TEST(lists_complain),
      CT_TEST(samples_that_do_not_fit),
      CT_TEST(evaluation_complains),
      CT_TEST(help_lists_every_transform_and_option),
      CT_TEST_END,
  };
  int rc = ct_test_main("transforms", tests, argc, argv);
  ct_mem_free(gold.data);
  return rc;
}
