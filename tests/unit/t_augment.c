/* Augmentation: parity with torchvision at fixed parameters, and exact symmetries. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_mem.h"
#include "tests/golden/gold.h"
#include "tests/unit/distribution.h"
#include "tests/unit/transform_list.h"

/* ---- goldens (tests/golden/make_transform_golden.py) ---- */

enum { N = 3 * 13 * 17 };
static gold_t gold;
static const ct__image_size_t size = {3, 13, 17};

static void image(uint64_t seed, int n, float *x)
{
  for (int i = 0; i < n; i++)
    x[i] = gold_noise(seed, (uint64_t)i) + 0.5f;
}

static void same_as(const char *name, const float *x, int64_t n, double tolerance)
{
  float *want = ct_mem_array(n, sizeof *want, "golden record");
  if (!gold.data) CT_ASSERT_OK(gold_open(&gold, "transforms.gold"));
  gold_take(&gold, name, n, want);
  ct_test_off_t off = ct_test_off(x, want, n);
  if (off.most > tolerance) printf("# %s\n", name);
  CT_ASSERT_ARRAY(x, want, n, tolerance);
  ct_mem_free(want);
}

static void affine_as(const char *what, const char *mode, const char *which,
                      const ct__image_affine_t *a, const ct__image_sampling_t *how)
{
  float x[N], y[N];
  char name[60];
  image(1, N, x);
  ct__image_map_t map = ct__image_affine(size, a);
  ct__image_warp(x, size, &map, NULL, how, y);
  snprintf(name, sizeof name, "%s_%s_%s", what, mode, which);
  same_as(name, y, N, how->bilinear ? 1e-5 : 0);
}

static void rotations_and_affine_maps(void)
{
  static const char *const modes[] = {"nearest", "bilinear"};
  static const struct {
    const char *name;
    double degrees;
  } turns[] = {{"0", 0}, {"33", 33}, {"90", 90}, {"-123.4", -123.4}, {"180", 180}};
  static const ct__image_affine_t maps[] = {
      {.scale = 1}, {25, {3, -2}, 0.8, {10, 0}, NULL}, {-70, {-1, 4}, 1.3, {-20, 15}, NULL}};
  static const double centre[] = {3, 5};
  for (int m = 0; m < 2; m++) {
    ct__image_sampling_t zero = {m, 1, {0}}, quarter = {m, 1, {0.25f}}, none = {m, 0, {9}};
    ct__image_sampling_t each = {m, 3, {0.5f, -1, 2}};
    for (int i = 0; i < 5; i++) {
      ct__image_affine_t a = {.degrees = -turns[i].degrees, .scale = 1};
      affine_as("rotate", modes[m], turns[i].name, &a, &zero);
    }
    ct__image_affine_t about = {.degrees = -20, .scale = 1, .centre = centre};
    affine_as("rotate", modes[m], "centre", &about, &each);
    affine_as("affine", modes[m], "0", &maps[0], &quarter);
    affine_as("affine", modes[m], "1", &maps[1], &quarter);
    affine_as("affine", modes[m], "2", &maps[2], &quarter);
    affine_as("affine", modes[m], "none", &maps[1], &none);
  }
}

static void perspectives(void)
{
  static const int64_t to[4][2] = {{2, 1}, {14, 0}, {16, 9}, {0, 12}};
  static const int64_t line[4][2] = {{2, 1}, {2, 1}, {2, 1}, {2, 1}};
  float x[N], y[N];
  ct__image_map_t map;
  image(1, N, x);
  CT_ASSERT_INT(ct__image_perspective(size, line, &map), 0);
  CT_ASSERT_INT(ct__image_perspective(size, to, &map), 1);
  ct__image_warp(x, size, &map, NULL, &(ct__image_sampling_t){0, 1, {0}}, y);
  same_as("perspective_nearest", y, N, 0);
  ct__image_warp(x, size, &map, NULL, &(ct__image_sampling_t){1, 1, {0}}, y);
  same_as("perspective_bilinear", y, N, 2e-5);
}

/* torchvision's displacements are in halves of the image, ours in pixels. */
static void displacements(void)
{
  static const ct__image_map_t same = {{1, 0, 0, 0, 1, 0, 0, 0, 1}};
  float x[N], y[N], shift[2 * 13 * 17];
  image(1, N, x);
  image(6, 13 * 17, shift);
  image(7, 13 * 17, shift + 13 * 17);
  for (int i = 0; i < 2 * 13 * 17; i++)
    shift[i] = 3 * shift[i] - 0.1f * (i < 13 * 17 ? 17 : 13);
  ct__image_warp(x, size, &same, shift, &(ct__image_sampling_t){0, 1, {0.5f}}, y);
  same_as("elastic_nearest", y, N, 0);
  ct__image_warp(x, size, &same, shift, &(ct__image_sampling_t){1, 1, {0.5f}}, y);
  same_as("elastic_bilinear", y, N, 2e-5);
}

/* The displacements of elastic_transform, which an image of its own coordinates shows: before the
 * blur uniform, and after it of the variance that the weights of the blur leave. */
static void elastic_displacements_are_uniform_and_blurred(void)
{
  enum { S = 40, INNER = 20 };
  static float x[2 * S * S], y[2 * S * S];
  static double v[2][INNER * INNER];
  double squares = 0;
  list_t l;
  for (int i = 0; i < S * S; i++) {
    x[i] = (float)(i % S);
    x[S * S + i] = (float)(i / S);
  }
  open_on("elastic_transform: {alpha: 6, sigma: 0}", 2, S, S, &l);
  run_on(&l, 1, x, 2 * S * S, y);
  for (int i = 0; i < INNER * INNER; i++)
    for (int k = 0; k < 2; k++) {
      int at = (10 + i / INNER) * S + 10 + i % INNER;
      v[k][i] = y[k * S * S + at] - x[k * S * S + at];
    }
  expect_uniform("displacement along x", v[0], INNER * INNER, -3, 3, 1e-3);
  expect_uniform("displacement along y", v[1], INNER * INNER, -3, 3, 1e-3);
  close_list(&l);
  open_on("elastic_transform: {alpha: 20, sigma: 1}", 2, S, S, &l);
  for (int id = 0; id < 20; id++) {
    run_on(&l, id, x, 2 * S * S, y);
    for (int i = 0; i < 2 * INNER * INNER; i++) {
      int k = i / (INNER * INNER), at = (10 + i / INNER % INNER) * S + 10 + i % INNER;
      squares += pow(y[k * S * S + at] - x[k * S * S + at], 2) / (20 * 2 * INNER * INNER);
    }
  }
  /* 10^2 / 3 times the sum of squared weights, 1 / (4 pi sigma^2) */
  CT_ASSERT_NEAR(squares, 100 / 3.0 / (4 * M_PI), 0.15);
  close_list(&l);
}

static void blurs_and_grays(void)
{
  static const struct {
    int64_t kernel[2];
    double sigma;
  } blurs[] = {{{3, 3}, 0.8}, {{5, 9}, 2}, {{1, 25}, 0.1}};
  float x[N], y[N], scratch[13 * 17 + 17 + 60];
  char name[20];
  for (int i = 0; i < 3; i++) {
    image(1, N, x);
    CU_ASSERT_FATAL(ct__image_blur_workspace(size, blurs[i].kernel) <= 13 * 17 + 17 + 60);
    ct__image_blur(x, size, blurs[i].kernel, blurs[i].sigma, scratch);
    snprintf(name, sizeof name, "blur%d", i);
    same_as(name, x, N, 1e-6);
  }
  image(1, N, x);
  ct__image_flip_vertical((ct__pixels_t){3, sizeof *x}, x, size);
  same_as("vertical", x, N, 0);
  image(1, N, x);
  ct__image_gray(x, size, y, 1);
  same_as("gray1", y, N / 3, 3e-7);
  ct__image_gray(x, size, x, 3);
  same_as("gray3", x, N, 3e-7);
}

static const struct {
  const char *name;
  ct__augment_t op;
  int has_sign;
} augments[] = {{"Identity", CT__AUGMENT_IDENTITY, 0},
                {"ShearX", CT__AUGMENT_SHEAR_X, 1},
                {"ShearY", CT__AUGMENT_SHEAR_Y, 1},
                {"TranslateX", CT__AUGMENT_TRANSLATE_X, 1},
                {"TranslateY", CT__AUGMENT_TRANSLATE_Y, 1},
                {"Rotate", CT__AUGMENT_ROTATE, 1},
                {"Brightness", CT__AUGMENT_BRIGHTNESS, 1},
                {"Color", CT__AUGMENT_COLOUR, 1},
                {"Contrast", CT__AUGMENT_CONTRAST, 1},
                {"Sharpness", CT__AUGMENT_SHARPNESS, 1},
                {"Posterize", CT__AUGMENT_POSTERIZE, 0},
                {"Solarize", CT__AUGMENT_SOLARIZE, 0},
                {"AutoContrast", CT__AUGMENT_AUTOCONTRAST, 0},
                {"Equalize", CT__AUGMENT_EQUALIZE, 0}};

enum { A = 3 * 18 * 16 };

static void byte_image(int n, float *x)
{
  image(5, n, x);
  for (int i = 0; i < n; i++)
    x[i] = floorf(x[i] * 180 + 40);
}

/* Bytes are those of torchvision, without a tolerance. */
static void augments_are_those_of_bytes(void)
{
  float x[A], scratch[A];
  char name[60];
  for (int c = 1; c <= 3; c += 2)
    for (int i = 0; i < CT__AUGMENTS; i++) {
      const char *what = augments[i].name;
      if (c == 1 && !strstr("Color Contrast AutoContrast", what)) continue;
      for (int sign = 1; sign >= (augments[i].has_sign ? -1 : 1); sign -= 2) {
        ct__image_size_t s = {c, 18, 16};
        double magnitude = sign * ct__augment_magnitude(augments[i].op, 1, s, 17, 31);
        byte_image(c * 18 * 16, x);
        ct__augment(augments[i].op, magnitude, x, s, &(ct__image_sampling_t){0}, scratch);
        snprintf(name, sizeof name, "augment_%s%d_%d", what, sign, c);
        same_as(name, x, c * 18 * 16, 0);
      }
    }
  byte_image(A, x);
  ct__augment(CT__AUGMENT_ROTATE, 33, x, (ct__image_size_t){3, 18, 16},
              &(ct__image_sampling_t){1, 3, {10, 20, 30}}, scratch);
  same_as("augment_bilinear", x, A, 0);
}

static void augments_of_few_pixels(void)
{
  float x[A], few[300], scratch[300];
  byte_image(A, x);
  for (int i = 0; i < 300; i++)
    few[i] = x[i / 100 * 288 + i / 10 % 10 * 16 + i % 10];
  ct__augment(CT__AUGMENT_EQUALIZE, 0, few, (ct__image_size_t){3, 10, 10},
              &(ct__image_sampling_t){0}, scratch);
  same_as("augment_few", few, 300, 0);
  for (int i = 0; i < 16; i++)
    few[i] = 7;
  ct__augment(CT__AUGMENT_AUTOCONTRAST, 0, few, (ct__image_size_t){1, 4, 4},
              &(ct__image_sampling_t){0}, scratch);
  same_as("augment_flat", few, 16, 0);
}

static void magnitudes_are_in_torchvisions_bins(void)
{
  static const char *const names[] = {"magnitudes_RandAugment", "magnitudes_TrivialAugmentWide"};
  float m[CT__AUGMENTS * 31];
  for (int wide = 0; wide < 2; wide++) {
    for (int i = 0; i < CT__AUGMENTS; i++)
      for (int bin = 0; bin < 31; bin++) {
        int none = i == 0 || i > CT__AUGMENT_SOLARIZE;
        ct__image_size_t s = {3, 18, 16};
        m[i * 31 + bin] = none ? 0 : (float)ct__augment_magnitude(augments[i].op, wide, s, bin, 31);
      }
    same_as(names[wide], m, CT__AUGMENTS * 31, 1e-5);
  }
}

/* ---- the kinds ---- */

/* Ranges of one number leave nothing to chance. */
static void kinds_take_torchvisions_parameters(void)
{
  static const struct {
    const char *list, *record;
    double tolerance;
  } cases[] = {
      {"random_rotation: {degrees: [33, 33]}", "rotate_nearest_33", 0},
      {"random_rotation: {degrees: [33, 33], interpolation: bilinear}", "rotate_bilinear_33", 1e-5},
      {"random_rotation: {degrees: [20, 20], center: [3, 5], fill: [0.5, -1, 2]}",
       "rotate_nearest_centre", 0},
      {"random_affine: {degrees: [25, 25], scale: [0.8, 0.8], shear: [10, 10, 15, 15], fill: 0.25, "
       "center: [5, 6]}",
       "affine_nearest_kind", 0},
      {"random_affine: {degrees: [25, 25], scale: [0.8, 0.8], shear: [10, 10, 15, 15], fill: 0.25, "
       "center: [5, 6], interpolation: bilinear}",
       "affine_bilinear_kind", 1e-5},
      {"random_vertical_flip: 1", "vertical", 0},
      {"gaussian_blur: {kernel_size: [5, 9], sigma: 2}", "blur1", 1e-6},
      {"random_grayscale: 1", "gray3", 3e-7},
      {"grayscale: 3", "gray3", 3e-7},
      {"random_vertical_flip: 1, random_perspective: {p: 1, distortion_scale: 0}", "vertical",
       1e-5}};
  float x[N], y[N];
  image(1, N, x);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    list_t l;
    open_on(cases[i].list, 3, 13, 17, &l);
    run_on(&l, (int64_t)i, x, N, y);
    same_as(cases[i].record, y, N, cases[i].tolerance);
    close_list(&l);
  }
}

/* An image of its own coordinates, which a map of the list leaves linear: *at is where the pixel
 * right of the middle and the one below it come from. */
static void places(const list_t *l, int64_t id, double middle[2], double right[2], double below[2])
{
  enum { S = 21 };
  float x[2 * S * S], y[2 * S * S];
  for (int i = 0; i < S * S; i++) {
    x[i] = (float)(i % S - S / 2);
    x[S * S + i] = (float)(i / S - S / 2);
  }
  run_on(l, id, x, 2 * S * S, y);
  for (int i = 0; i < 2; i++) {
    const float *at = y + i * S * S + S / 2 * S + S / 2;
    middle[i] = at[0];
    right[i] = at[1] - at[0];
    below[i] = at[S] - at[0];
  }
}

static void angles_scales_and_shears_are_uniform(void)
{
  enum { DRAWS = 2000 };
  static double angle[DRAWS], scale[DRAWS], shear[DRAWS], turn[DRAWS];
  int shift[2][7] = {{0}};
  list_t l, affine;
  open_on("random_rotation: {degrees: [-20, 70], interpolation: bilinear}", 2, 21, 21, &l);
  open_on("random_affine: {degrees: 30, translate: [0.1, 0.15], scale: [0.5, 1.5], shear: 40, "
          "interpolation: bilinear}",
          2, 21, 21, &affine);
  for (int i = 0; i < DRAWS; i++) {
    double m[2], r[2], b[2];
    places(&l, i, m, r, b);
    angle[i] = atan2(r[1], r[0]) * 180 / M_PI;
    places(&affine, i, m, r, b);
    /* the inverse of (a turn) * (a shear along x) * (a scale), without the shift */
    double det = r[0] * b[1] - r[1] * b[0], px = -(m[0] * b[1] - m[1] * b[0]) / det;
    double py = -(r[0] * m[1] - r[1] * m[0]) / det;
    scale[i] = 1 / sqrt(det);
    turn[i] = atan2(-r[1], b[1]) * 180 / M_PI;
    shear[i] = atan((b[0] + r[1]) / b[1]) * 180 / M_PI;
    int x = (int)lround(px), y = (int)lround(py);
    CU_ASSERT_FATAL(fabs(px - x) < 1e-3 && fabs(py - y) < 1e-3 && abs(x) <= 2 && abs(y) <= 3);
    shift[0][x + 3]++;
    shift[1][y + 3]++;
  }
  expect_uniform("rotation", angle, DRAWS, -20, 70, 1e-3);
  expect_uniform("scale", scale, DRAWS, 0.5, 1.5, 1e-4);
  for (int k = 0; k < 7; k++) { /* up to 2.1 and 3.15 pixels, rounded */
    double x = k == 3 || k == 2 || k == 4 ? 1 / 4.2 : k == 1 || k == 5 ? 0.6 / 4.2 : 0;
    double y = k == 0 || k == 6 ? 0.65 / 6.3 : 1 / 6.3;
    if (x > 0) expect_share("shift along x", shift[0][k], DRAWS, x);
    expect_share("shift along y", shift[1][k], DRAWS, y);
  }
  expect_uniform("shear", shear, DRAWS, -40, 40, 1e-2);
  expect_uniform("turn", turn, DRAWS, -30, 30, 1e-2);
  close_list(&l);
  close_list(&affine);
}

static void corners_are_uniform(void)
{
  enum { DRAWS = 2000 };
  int count[8][4] = {{0}}, wrong = 0;
  for (int i = 0; i < DRAWS; i++) {
    ct__draws_t d = ct__draws(3, 0, 0, i);
    int64_t to[4][2];
    ct__image_corners((ct__image_size_t){3, 9, 13}, 0.5, &d, to); /* y by up to 2, x by up to 3 */
    for (int k = 0; k < 8; k++) {
      int64_t far = k % 2 ? (k > 4 ? 8 : 0) : k == 2 || k == 4 ? 12 : 0;
      int64_t by = far ? far - to[k / 2][k % 2] : to[k / 2][k % 2];
      if (by < 0 || by > (k % 2 ? 2 : 3))
        wrong++;
      else
        count[k][by]++;
    }
  }
  CT_ASSERT_INT(wrong, 0);
  for (int k = 0; k < 8; k++)
    expect_even("a corner", count[k], k % 2 ? 3 : 4);
}

/* ---- trivial_augment_wide, rand_augment ---- */

enum { SMALL = 3 * 12 * 11, OUTCOMES = 1600 };
typedef struct outcome {
  uint64_t hash;
  double p;       /* how often it comes */
  int geometric;  /* 1: of the geometric operations alone, 0: of others, -1: of both */
  int bin, times; /* how many operations and bins make it, and the bin of the first */
} outcome_t;
static outcome_t outcomes[OUTCOMES];
static int found;

static uint64_t hash_of(const float *x)
{
  uint64_t h = 1469598103934665603U;
  for (int i = 0; i < SMALL; i++)
    h = (h ^ (uint64_t)lround(x[i])) * 1099511628211U;
  return h;
}

static int find(uint64_t hash)
{
  for (int i = 0; i < found; i++)
    if (outcomes[i].hash == hash) return i;
  return -1;
}

static void note(const float *x, int bin, int geometric, double p)
{
  uint64_t hash = hash_of(x);
  int i = find(hash);
  CU_ASSERT_FATAL(found < OUTCOMES);
  if (i < 0) outcomes[i = found++] = (outcome_t){hash, 0, geometric, bin, 0};
  outcomes[i].p += p;
  outcomes[i].times++;
  if (outcomes[i].geometric != geometric) outcomes[i].geometric = -1;
}

/* Notes what becomes of x by each operation and sign in a bin, each with the probability p / 14;
 * then also by a second one. */
static void note_all(const float *x, int wide, int bin, int ops, int before, double p)
{
  const ct__image_size_t s = {3, 12, 11};
  float y[SMALL], scratch[SMALL];
  for (int i = 0; i < CT__AUGMENTS; i++)
    for (int sign = 1; sign >= (augments[i].has_sign ? -1 : 1); sign -= 2) {
      double m = sign * ct__augment_magnitude(augments[i].op, wide, s, bin, 31);
      double own = p / CT__AUGMENTS / (augments[i].has_sign ? 2 : 1);
      int moves = i >= 1 && i <= 5;
      memcpy(y, x, sizeof y);
      ct__augment(augments[i].op, m, y, s, &(ct__image_sampling_t){0}, scratch);
      if (ops > 1)
        note_all(y, wide, bin, ops - 1, moves, own);
      else
        note(y, bin, before < 0 || before == moves ? moves : -1, own);
    }
}

/* Every outcome is one of the noted ones, as often as it should be, and masks move with them. */
static void expect_outcomes(const char *yaml)
{
  enum { DRAWS = 6000 };
  float x[SMALL], y[SMALL], mask[SMALL / 3];
  static int count[OUTCOMES];
  list_t l;
  int moved = 0, wrong = 0;
  double chi = 0;
  memset(count, 0, sizeof count);
  open_on(yaml, 3, 12, 11, &l);
  byte_image(SMALL, x);
  for (int i = 0; i < SMALL; i++)
    x[i] *= (float)(1.0 / 255);
  for (int id = 0; id < DRAWS; id++) {
    run_on(&l, id, x, SMALL, y);
    for (int i = 0; i < SMALL; i++)
      y[i] *= 255;
    int k = find(hash_of(y));
    CU_ASSERT_FATAL(k >= 0);
    count[k]++;
    if (outcomes[k].geometric < 0) continue;
    for (int i = 0; i < SMALL / 3; i++)
      mask[i] = x[i] * 255;
    ct__transforms_run_along(l.t, &(ct__along_t){1, 1, 1}, 7, 0, id, l.work, mask);
    moved += outcomes[k].geometric;
    for (int i = 0; i < SMALL / 3; i++)
      wrong += lround(mask[i]) != lround(outcomes[k].geometric ? y[i] : x[i] * 255);
  }
  CT_ASSERT_INT(wrong, 0);
  CU_ASSERT(moved > DRAWS / 20);
  double all = 0, share[31] = {0};
  int by_bin[31] = {0};
  for (int k = 0; k < found; k++) {
    share[outcomes[k].bin] += outcomes[k].times == 1 ? outcomes[k].p : 0;
    by_bin[outcomes[k].bin] += outcomes[k].times == 1 ? count[k] : 0;
    chi += pow(count[k] - DRAWS * outcomes[k].p, 2) / (DRAWS * outcomes[k].p);
    all += outcomes[k].p;
  }
  for (int bin = 0; bin < 31; bin++) /* where each outcome is of one bin */
    if (share[bin] > 0) expect_share("a bin", by_bin[bin], DRAWS, share[bin]);
  CT_ASSERT_NEAR(all, 1, 1e-9);
  /* as expect_even; rare outcomes have wider tails */
  if (chi > found + 8 * sqrt(2.0 * found) + 12) printf("# %s: %g of %d\n", yaml, chi, found);
  CU_ASSERT(chi <= found + 8 * sqrt(2.0 * found) + 12);
  close_list(&l);
}

static void augments_come_as_often_as_they_should(void)
{
  float x[SMALL];
  byte_image(SMALL, x);
  found = 0;
  for (int bin = 0; bin < 31; bin++)
    note_all(x, 1, bin, 1, -1, 1.0 / 31);
  expect_outcomes("trivial_augment_wide");
  found = 0;
  note_all(x, 0, 20, 1, -1, 1);
  expect_outcomes("rand_augment: {num_ops: 1, magnitude: 20}");
  found = 0;
  note_all(x, 0, 9, 2, -1, 1);
  expect_outcomes("rand_augment");
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(rotations_and_affine_maps),
      CT_TEST(perspectives),
      CT_TEST(displacements),
      CT_TEST(elastic_displacements_are_uniform_and_blurred),
      CT_TEST(blurs_and_grays),
      CT_TEST(augments_are_those_of_bytes),
      CT_TEST(augments_of_few_pixels),
      CT_TEST(magnitudes_are_in_torchvisions_bins),
      CT_TEST(kinds_take_torchvisions_parameters),
      CT_TEST(angles_scales_and_shears_are_uniform),
      CT_TEST(corners_are_uniform),
      CT_TEST(augments_come_as_often_as_they_should),
      CT_TEST_END,
  };
  int rc = ct_test_main("augmentation", tests, argc, argv);
  ct_mem_free(gold.data);
  return rc;
}
