/* symmetry, roll, noise and masks: what they do to whole samples, and how often. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/distribution.h"
#include "tests/unit/transform_list.h"

enum { MOST = 2 * 4 * 4 * 4, CODES = 6 * 8 };

static void open_list(const char *list, ct_shape_t x, int64_t target_channels, list_t *l)
{
  char yaml[300];
  ct_yaml_t *n = NULL;
  memset(l, 0, sizeof *l);
  snprintf(yaml, sizeof yaml, "t: [%s]", list);
  CT_ASSERT_OK(ct_yaml_parse(yaml, strlen(yaml), "x.yaml", &n));
  ct_transforms_opts_t o = {.list = ct_yaml_find(n, "t"), .training = 1};
  ct_reader_info_t info = {.x.dtype = CT_F32};
  if (target_channels) info.dense_target = ct_shape(2, 1, target_channels);
  l->x = x;
  CT_ASSERT_OK(ct__transforms_open(&o, "x.yaml", &info, &l->x, &l->first, &l->t));
  CU_ASSERT_FATAL(l->t != NULL);
  ct__transforms_make_room_along(l->t, 3);
  l->work = ct_mem_array(ct__transforms_workspace(l->t), 4, "work");
  ct_yaml_free(n);
}

static void run_along(const list_t *l, int64_t id, ct__along_t along, const float *x, int n,
                      float *out)
{
  memcpy(ct__transforms_start_along(l->t, l->work, out), x, (size_t)n * sizeof *x);
  ct__transforms_run_along(l->t, &along, 7, 0, id, l->work, out);
}

/* ---- symmetry ---- */

/* The signed permutation number `code`: dim i of the result is dim p[i] of n, mirrored or not. */
static void decode(int code, int p[3], int flip[3])
{
  static const int all[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (int i = 0; i < 3; i++) {
    p[i] = all[code / 8][i];
    flip[i] = code >> i & 1;
  }
}

/* Returns the code of the symmetry that made y of x, volumes of n; -1: none did. */
static int code_of(const float *x, const float *y, const int64_t n[3])
{
  for (int code = 0; code < CODES; code++) {
    int p[3], flip[3], same = 1;
    decode(code, p, flip);
    for (int i = 0; i < 3; i++)
      same &= n[p[i]] == n[i] && !(n[i] == 1 && flip[i]);
    for (int64_t at = 0; same && at < n[0] * n[1] * n[2]; at++) {
      int64_t to[3] = {at / (n[1] * n[2]), at / n[2] % n[1], at % n[2]}, from[3] = {0};
      for (int i = 0; i < 3; i++)
        from[p[i]] = flip[i] ? n[i] - 1 - to[i] : to[i];
      same = y[at] == x[(from[0] * n[1] + from[1]) * n[2] + from[2]];
    }
    if (same) return code;
  }
  return -1;
}

/* Returns 1 if a symmetry is a rotation: its matrix has the determinant 1. */
static int is_rotation(int code)
{
  int p[3], flip[3];
  decode(code, p, flip);
  int cycle = p[0] != 0 && p[1] != 1 && p[2] != 2, same = p[0] == 0 && p[1] == 1 && p[2] == 2;
  return (cycle || same) == (flip[0] + flip[1] + flip[2] + 1) % 2;
}

/* Counts the symmetries that a list makes of samples of d x h x w (d 0: images), which must be so
 * many and equally frequent. */
static void expect_symmetries(const char *list, int64_t d, int64_t h, int64_t w, int expected)
{
  enum { DRAWS = 3000 };
  const int64_t n[3] = {d ? d : 1, h, w};
  int plane = (int)(n[0] * h * w), count[CODES] = {0}, kinds = 0, found[CODES];
  float x[MOST], y[MOST];
  list_t l;
  ct_shape_t shape = d ? ct_shape(5, 1, 2, d, h, w) : ct_shape(4, 1, 2, h, w);
  open_list(list, shape, 0, &l);
  CU_ASSERT(ct__transforms_keeps_bytes(l.t));
  for (int i = 0; i < 2 * plane; i++)
    x[i] = (float)i;
  for (int i = 0; i < DRAWS; i++) {
    run_on(&l, i, x, 2 * plane, y);
    int code = code_of(x, y, n);
    CU_ASSERT_FATAL(code >= 0 && code == code_of(x + plane, y + plane, n));
    CU_ASSERT_FATAL(!strstr(list, "rotations") || is_rotation(code));
    count[code]++;
  }
  for (int i = 0; i < CODES; i++)
    if (count[i]) found[kinds++] = count[i];
  if (kinds != expected) printf("# %s\n", list);
  CT_ASSERT_INT(kinds, expected);
  expect_even(list, found, kinds);
  close_list(&l);
}

static void symmetries_of_squares_and_cubes(void)
{
  expect_symmetries("symmetry", 0, 4, 4, 8);
  expect_symmetries("symmetry", 0, 3, 5, 4); /* only mirrored */
  expect_symmetries("symmetry", 3, 3, 3, 48);
  expect_symmetries("symmetry", 3, 4, 4, 16);
  expect_symmetries("symmetry", 4, 3, 4, 16);
  expect_symmetries("symmetry: {rotations: true}", 0, 4, 4, 4);
  expect_symmetries("symmetry: {rotations: true}", 3, 3, 3, 24);
  expect_symmetries("symmetry: {rotations: true}", 0, 3, 4, 2);
  expect_symmetries("symmetry: {exchange: none}", 3, 3, 3, 8);
  expect_symmetries("symmetry: {flip: none}", 3, 3, 3, 6);
  expect_symmetries("symmetry: {flip: -1, exchange: none}", 0, 4, 4, 2);
  expect_symmetries("symmetry: {flip: [2, 3], exchange: [-1, -2]}", 3, 3, 3, 8);
  expect_symmetries("symmetry: {flip: [1], exchange: [2, 3]}", 3, 3, 3, 4);
}

/* The vector from the middle to each voxel stays what it is. */
static void vectors_turn_with_their_field(void)
{
  static const int order[] = {2, 0, 3};
  float x[4 * 27], y[4 * 27], z[3 * 27];
  list_t l;
  int other = 0, third = 0;
  open_list("symmetry: {vectors: [2, 0, 3], target_vectors: [0, 1, 2]}", ct_shape(5, 1, 4, 3, 3, 3),
            3, &l);
  CU_ASSERT(!ct__transforms_keeps_bytes(l.t)); /* they change their values */
  for (int i = 0; i < 27; i++) {
    x[2 * 27 + i] = (float)(i / 9 - 1);
    x[i] = (float)(i / 3 % 3 - 1);
    x[3 * 27 + i] = (float)(i % 3 - 1);
    x[27 + i] = (float)i;
  }
  for (int id = 0; id < 60; id++) {
    run_on(&l, id, x, 4 * 27, y);
    CT_ASSERT_ARRAY(y, x, 27, 0);
    CT_ASSERT_ARRAY(y + 2 * 27, x + 2 * 27, 2 * 27, 0);
    other += memcmp(y + 27, x + 27, 27 * sizeof *x) != 0;
    run_along(&l, id, (ct__along_t){3, 0, 1}, x, 3 * 27, y);
    third += memcmp(y, x, 3 * 27 * sizeof *x) != 0; /* they are not the components in this order */
    for (int i = 0; i < 3; i++)
      memcpy(z + i * 27, x + order[i] * 27, 27 * sizeof *x);
    run_along(&l, id, (ct__along_t){3, 0, 1}, z, 3 * 27, y);
    CT_ASSERT_ARRAY(y, z, 3 * 27, 0);
    run_on(&l, id, x, 4 * 27, y);
    run_along(&l, id, (ct__along_t){1, 1, 0}, x + 27, 27, z); /* a mask goes along */
    CT_ASSERT_ARRAY(z, y + 27, 27, 0);
  }
  CU_ASSERT(other > 50 && third > 40);
  close_list(&l);
}

/* ---- roll ---- */

static void rolls_are_by_any_number(void)
{
  enum { DRAWS = 3000 };
  int count[12] = {0};
  float x[2 * 12], y[2 * 12];
  list_t l;
  for (int i = 0; i < 24; i++)
    x[i] = (float)i;
  open_list("roll: {dims: [1, -1]}", ct_shape(5, 1, 1, 3, 2, 4), 0, &l);
  for (int i = 0; i < DRAWS; i++) {
    run_on(&l, i, x, 24, y);
    int at = 0, wrong = 0;
    while (y[at] != 0)
      at++;
    int z = at / 8, c = at % 4;
    CU_ASSERT(at / 4 % 2 == 0);
    count[z * 4 + c]++;
    for (int k = 0; k < 24; k++)
      wrong += y[(k / 8 + z) % 3 * 8 + k / 4 % 2 * 4 + (k % 4 + c) % 4] != x[k];
    CU_ASSERT_FATAL(wrong == 0);
  }
  expect_even("roll", count, 12);
  close_list(&l);
}

/* Bytes with channels last are moved as float32 planes are. */
static void bytes_move_as_floats(void)
{
  static const char *const lists[] = {"symmetry",
                                      "roll: {dims: [2]}, symmetry, random_vertical_flip",
                                      "random_vertical_flip, roll: -2"};
  for (int k = 0; k < 3; k++)
    for (int64_t id = 0; id < 20; id++) {
      float x[2 * 16], y[2 * 16];
      uint8_t stored[2 * 16], bytes[2 * 16], work[4 * 2 * 16 + 64];
      list_t l;
      int wrong = 0;
      open_list(lists[k], ct_shape(4, 1, 2, 4, 4), 0, &l);
      for (int i = 0; i < 32; i++) {
        x[i] = (float)(3 * i);
        stored[i % 16 * 2 + i / 16] = (uint8_t)(3 * i);
      }
      run_on(&l, id, x, 32, y);
      CU_ASSERT_FATAL(2 * l.t->widest <= (int64_t)sizeof work);
      ct__transforms_run_bytes(l.t, (ct__pixels_t){1, 2}, 7, 0, id, stored, work, bytes);
      for (int i = 0; i < 32; i++)
        wrong += (float)bytes[i % 16 * 2 + i / 16] != y[i];
      CT_ASSERT_INT(wrong, 0);
      close_list(&l);
    }
}

/* ---- noise and colours ---- */

static void noise_is_normal(void)
{
  enum { PIXELS = 32 * 32 };
  float x[2 * PIXELS] = {0}, y[2 * PIXELS];
  double u[2][PIXELS], mixed = 0;
  list_t l;
  for (int i = 0; i < PIXELS; i++)
    x[i] = 5;
  open_list("gaussian_noise: {mean: [1, 0], sigma: [0.5, 2]}", ct_shape(4, 1, 2, 32, 32), 0, &l);
  run_on(&l, 1, x, 2 * PIXELS, y);
  for (int i = 0; i < PIXELS; i++) {
    u[0][i] = 0.5 * erfc(-(y[i] - 6) / 0.5 / sqrt(2));
    u[1][i] = 0.5 * erfc(-y[PIXELS + i] / 2 / sqrt(2));
    if (i) mixed += (u[0][i] - 0.5) * (u[0][i - 1] - 0.5) * 12 / PIXELS;
  }
  expect_uniform("noise of the first channel", u[0], PIXELS, 0, 1, 0);
  expect_uniform("noise of the second channel", u[1], PIXELS, 0, 1, 0);
  CT_ASSERT_NEAR(mixed, 0, 5 / sqrt(PIXELS)); /* neighbours are independent */
  close_list(&l);
  open_list("gaussian_noise: {clip: true, sigma: 9}", ct_shape(2, 1, 64), 0, &l);
  run_on(&l, 1, x, 64, y);
  for (int i = 0; i < 64; i++)
    CU_ASSERT(y[i] >= 0 && y[i] <= 1);
  close_list(&l);
}

/* A shape that changes before and after steps that masks skip. */
static void masks_skip_what_changes_values(void)
{
  float x[3 * 16], y[3 * 16], mask[16], moved[16];
  list_t l;
  open_list("gaussian_noise: {sigma: 0}, random_vertical_flip, grayscale, random_grayscale: 1, "
            "gaussian_blur: {kernel_size: 1}",
            ct_shape(4, 1, 3, 4, 4), 0, &l);
  CT_ASSERT_INT(l.x.dim[1], 1);
  for (int i = 0; i < 48; i++)
    x[i] = (float)(i % 16);
  for (int i = 0; i < 16; i++)
    mask[i] = (float)i;
  for (int64_t id = 0; id < 10; id++) {
    run_on(&l, id, x, 48, y);
    run_along(&l, id, (ct__along_t){1, 1, 1}, mask, 16, moved);
    for (int i = 0; i < 16; i++)
      CT_ASSERT_NEAR(y[i], moved[i] * 0.9999, 1e-5);
  }
  close_list(&l);
}

/* ---- messages ---- */

static void lists_complain(void)
{
  static const struct {
    const char *list, *says;
  } bad[] = {
      {"symmetry: {flip: [1, 2]}", "flip: dims 1 and 3 are exchanged, so both must be mirrored"},
      {"symmetry: {flip: 0}", "flip: 0 is not a dim after the channels: there are 1 to 3, or -3"},
      {"symmetry: {flip: some}", "flip: expected all, none or a list of up to 3 dims, not some"},
      {"symmetry: {exchange: [1, 2]}", "exchange: the dims differ in size: samples are 2x4x3x4"},
      {"symmetry: {exchange: [1, -3]}", "exchange: -3 names a dim twice"},
      {"symmetry: {flip: none, rotations: true}", "rotations: needs a dim that may be mirrored"},
      {"symmetry: {vectors: [0, 1]}", "vectors has 2 channels, expected 3 for each vector"},
      {"symmetry: {vectors: [0, 1, 2]}", "vectors: channel 2 is not in 0 to 1"},
      {"symmetry: {vectors: [0, 1, 1]}", "vectors: channel 1 is listed twice"},
      {"symmetry: {target_vectors: [0, 1, 1]}", "target_vectors: data.target has no values"},
      {"roll", "roll.dims: missing"},
      {"roll: 4", "dims: 4 is not a dim after the channels"},
      {"roll: 1.5", "dims: 1.5 must be an integer"},
      {"roll: []", "dims: expected at least one"},
      {"roll: [1, 2, 3, 1]", "dims has 4 numbers, but a sample has 3 dims after the channels"},
      {"gaussian_noise: {sigma: [1, 2, 3]}", "sigma has 3 numbers, expected one or one for each"},
      {"random_rotation: 5", "random_rotation: needs samples of C x H x W, but these are 2x4x3x4"},
      {"random_horizontal_flip", "did you mean 'random_flip'?"},
  };
  static const struct {
    const char *list, *says;
  } images[] = {
      {"random_rotation", "degrees: missing"},
      {"random_rotation: -5", "degrees is a single number below 0"},
      {"random_rotation: {degrees: 5, interpolation: cubic}", "interpolation"},
      {"random_rotation: {degrees: 5, fill: [1, 2]}",
       "fill has 2 numbers, expected one or one for"},
      {"random_rotation: {degrees: 5, center: 1}", "center: expected [x, y]"},
      {"random_affine: {degrees: 0, translate: 0.5}", "translate: expected [a, b]"},
      {"random_affine: {degrees: 0, scale: [2, 1]}", "scale: min 2 is more than max 1"},
      {"random_affine: {degrees: 0, shear: [1, 2, 3]}", "shear: expected [min, max]"},
      {"random_perspective: {p: 2}", "random_perspective.p"},
      {"elastic_transform", "4 * sigma must be less than the sample, which is 6x8"},
      {"gaussian_blur: 4", "kernel_size: 4 must be odd"},
      {"gaussian_blur: 13", "half of it must be less than the sample, which is 6x8"},
      {"gaussian_blur: {kernel_size: 3, sigma: [2, 1]}", "sigma: min 2 is more than max 1"},
      {"grayscale: 2", "num_output_channels is 2, not 1 or 3"},
      {"rand_augment: {magnitude: 31}", "magnitude 31 is not less than num_magnitude_bins, 31"},
      {"trivial_augment_wide: {num_magnitude_bins: 1}", "num_magnitude_bins"},
      {"roll: 3", "dims: 3 is not a dim after the channels: there are 1 to 2, or -2 to -1"},
  };
  static const char *const colours[] = {"grayscale", "random_grayscale", "trivial_augment_wide",
                                        "rand_augment"};
  char yaml[120];
  list_t l;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    snprintf(yaml, sizeof yaml, "t: [%s]", bad[i].list);
    CT_ASSERT_FAILS(open_shape(yaml, 1, CT_F32, ct_shape(5, 1, 2, 4, 3, 4), &l), CT_ERR_USAGE,
                    bad[i].says);
  }
  for (size_t i = 0; i < sizeof images / sizeof *images; i++) {
    snprintf(yaml, sizeof yaml, "t: [%s]", images[i].list);
    CT_ASSERT_FAILS(open_shape(yaml, 1, CT_F32, ct_shape(4, 1, 3, 6, 8), &l), CT_ERR_USAGE,
                    images[i].says);
  }
  for (int i = 0; i < 4; i++) {
    snprintf(yaml, sizeof yaml, "t: [%s]", colours[i]);
    CT_ASSERT_FAILS(open_shape(yaml, 1, CT_F32, ct_shape(4, 1, 2, 6, 8), &l), CT_ERR_USAGE,
                    "needs samples of 1 or 3 channels, not of 2");
    if (i > 1)
      CT_ASSERT_FAILS(open_shape(yaml, 1, CT_U8, ct_shape(4, 1, 3, 6, 8), &l), CT_ERR_USAGE,
                      "put to_tensor before it");
  }
  CT_ASSERT_FAILS(open_shape("t: [symmetry]", 1, CT_F32, ct_shape(3, 1, 2, 6), &l), CT_ERR_USAGE,
                  "needs samples of C x H x W or C x D x H x W, but these are 2x6");
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(symmetries_of_squares_and_cubes),
      CT_TEST(vectors_turn_with_their_field),
      CT_TEST(rolls_are_by_any_number),
      CT_TEST(bytes_move_as_floats),
      CT_TEST(noise_is_normal),
      CT_TEST(masks_skip_what_changes_values),
      CT_TEST(lists_complain),
      CT_TEST_END,
  };
  return ct_test_main("symmetries", tests, argc, argv);
}
