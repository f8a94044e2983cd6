/* What transforms draw: the distribution of every choice, its ends and its classes.  A mean would
 * not see a draw from the middle half, an end that is never reached or two axes that are
 * swapped. */
#include <math.h>
#include <stdio.h>

#include "tests/unit/distribution.h"
#include "tests/unit/transform_list.h"

enum { DRAWS = 6000 };

/* ---- the draws themselves ---- */

static void draws_are_functions_of_their_place(void)
{
  ct__draws_t a = ct__draws(1, 2, 3, 4), b = a;
  double first = ct__draw(&a);
  CU_ASSERT(first == ct__draw(&b));
  CU_ASSERT(first != ct__draw(&b));
  ct__draws_t others[] = {ct__draws(9, 2, 3, 4), ct__draws(1, 9, 3, 4), ct__draws(1, 2, 9, 4),
                          ct__draws(1, 2, 3, 9)};
  for (int i = 0; i < 4; i++)
    CU_ASSERT(first != ct__draw(&others[i]));
}

static void draws_are_uniform(void)
{
  double unit[DRAWS], range[DRAWS];
  int whole[7] = {0}, pair[16] = {0};
  for (int i = 0; i < DRAWS; i++) {
    ct__draws_t d = ct__draws(5, 0, 0, i);
    unit[i] = ct__draw(&d);
    range[i] = ct__draw_in(&d, -2, 6);
    whole[ct__draw_below(&d, 7)]++;
    pair[4 * (int)(4 * unit[i]) + (int)((range[i] + 2) / 2)]++;
  }
  expect_uniform("draw", unit, DRAWS, 0, 1, 0);
  expect_uniform("draw_in", range, DRAWS, -2, 6, 0);
  expect_even("draw_below", whole, 7);
  expect_even("two draws in a row", pair, 16);
}

/* By way of its distribution function a variate is uniform. */
static void normal_and_beta_have_their_distributions(void)
{
  double normal[DRAWS], arcsine[DRAWS], flat[DRAWS], parabola[DRAWS];
  for (int i = 0; i < DRAWS; i++) {
    ct__draws_t d = ct__draws(6, 0, 0, i);
    normal[i] = 0.5 * erfc(-ct__draw_normal(&d) / sqrt(2));
    arcsine[i] = 2 / M_PI * asin(sqrt(ct__draw_beta(&d, 0.5)));
    flat[i] = ct__draw_beta(&d, 1);
    double b = ct__draw_beta(&d, 2);
    parabola[i] = b * b * (3 - 2 * b);
  }
  expect_uniform("normal", normal, DRAWS, 0, 1, 0);
  expect_uniform("beta(0.5)", arcsine, DRAWS, 0, 1, 0);
  expect_uniform("beta(1)", flat, DRAWS, 0, 1, 0);
  expect_uniform("beta(2)", parabola, DRAWS, 0, 1, 0);
}

/* Beta(a, a) has mean 1/2 and variance 1 / (4 (2a + 1)), also where doubles are near their ends. */
static void beta_has_its_moments(void)
{
  static const double alphas[] = {0.001, 0.2, 1, 5, 1000};
  for (int k = 0; k < 5; k++) {
    double mean = 0, squares = 0;
    for (int i = 0; i < DRAWS; i++) {
      ct__draws_t d = ct__draws(6, k, 0, i);
      double b = ct__draw_beta(&d, alphas[k]);
      CU_ASSERT(b >= 0 && b <= 1);
      mean += b / DRAWS;
      squares += (b - 0.5) * (b - 0.5) / DRAWS;
    }
    CT_ASSERT_NEAR(mean, 0.5, 0.02);
    CT_ASSERT_NEAR(squares * 4 * (2 * alphas[k] + 1), 1, 0.06);
  }
}

/* ---- random_crop, random_flip ---- */

/* Every place of the window, and nothing but it: outside of the image are zeros. */
static void check_crop(const char *padding, int left, int top, int right, int bottom)
{
  enum { H = 8, W = 10, MOST = 200 };
  float x[H * W], out[H * W];
  const int h = 4, w = 5, rows = top + H + bottom - h + 1, columns = left + W + right - w + 1;
  int count[MOST] = {0}, wrong = 0;
  char yaml[200];
  list_t l;
  snprintf(yaml, sizeof yaml, "random_crop: {size: [4, 5], padding: %s}", padding);
  open_on(yaml, 1, H, W, &l);
  CU_ASSERT_FATAL(rows * columns <= MOST);
  for (int i = 0; i < H * W; i++)
    x[i] = (float)(1 + i);
  for (int i = 0; i < DRAWS; i++) {
    int at = 0;
    run_on(&l, i, x, H * W, out);
    while (at < h * w - 1 && out[at] == 0)
      at++;
    int from = (int)out[at] - 1, r = from / W - at / w, c = from % W - at % w;
    CU_ASSERT_FATAL(r >= -top && r < rows - top && c >= -left && c < columns - left);
    count[(r + top) * columns + c + left]++;
    for (int k = 0; k < h * w; k++) {
      int y = r + k / w, z = c + k % w;
      wrong += out[k] != (y >= 0 && y < H && z >= 0 && z < W ? x[y * W + z] : 0);
    }
  }
  CT_ASSERT_INT(wrong, 0);
  expect_even(yaml, count, rows * columns);
  close_list(&l);
}

static void crops_are_anywhere(void)
{
  check_crop("0", 0, 0, 0, 0);
  check_crop("2", 2, 2, 2, 2);
  check_crop("[1, 3]", 1, 3, 1, 3); /* left and right, top and bottom */
  check_crop("[4, 2, 1, 3]", 4, 2, 1, 3);
  check_crop("[0, 0, 4, 0]", 0, 0, 4, 0);
}

static void flips_are_independent(void)
{
  static const float x[] = {1, 2, 3};
  float out[3];
  int flipped = 0, both[4] = {0};
  list_t rare, twice;
  open_on("random_flip: {p: 0.2}", 1, 1, 3, &rare);
  open_on("random_flip, {random_crop: {size: [1, 2]}}, random_flip", 1, 1, 3, &twice);
  for (int i = 0; i < DRAWS; i++) {
    run_on(&rare, i, x, 3, out);
    CU_ASSERT(out[1] == 2);
    flipped += out[0] == 3;
    run_on(&twice, i, x, 3, out);
    int down = out[0] > out[1], low = out[0] + out[1] < 4;
    both[2 * down + low]++;
  }
  expect_share("random_flip", flipped, DRAWS, 0.2);
  expect_even("two flips and a crop", both, 4);
  close_list(&rare);
  close_list(&twice);
}

/* ---- color_jitter ---- */

/* The hue of a colour of full saturation, as a part of the circle from -1/2 to 1/2. */
static double hue_of(const float *x)
{
  double r = x[0], g = x[1], b = x[2], top = fmax(r, fmax(g, b));
  double low = fmin(r, fmin(g, b)), range = top - low;
  if (top == r) return (g - b) / range / 6;
  return top == g ? ((b - r) / range + 2) / 6 : ((r - g) / range - 2) / 6;
}

typedef enum { BRIGHTNESS, CONTRAST, SATURATION, HUE } adjust_t;
static const char *const adjust_names[] = {"brightness", "contrast", "saturation", "hue"};

/* The factor by which a sample was adjusted, from a sample that nothing is cut off of. */
static double factor_of(const list_t *l, adjust_t which, int64_t id)
{
  static const float pixel[] = {0.52f, 0.5f, 0.48f}, red[] = {1, 0, 0};
  float out[3];
  run_on(l, id, which == HUE ? red : pixel, 3, out);
  if (which == HUE) return hue_of(out);
  return which == BRIGHTNESS ? out[1] / 0.5 : (out[0] - out[2]) / 0.04;
}

/* One number v is 1 - v to 1 + v, but never below 0; of the hue -v to v.  Two are the range. */
static void factors_are_uniform(void)
{
  static const struct {
    adjust_t which;
    const char *given;
    double lo, hi;
  } cases[] = {{BRIGHTNESS, "0.4", 0.6, 1.4}, {BRIGHTNESS, "[0.1, 0.3]", 0.1, 0.3},
               {CONTRAST, "0.4", 0.6, 1.4},   {CONTRAST, "3", 0, 4},
               {CONTRAST, "[2, 5]", 2, 5},    {SATURATION, "0.4", 0.6, 1.4},
               {SATURATION, "3", 0, 4},       {SATURATION, "[0, 0.5]", 0, 0.5},
               {HUE, "0.25", -0.25, 0.25},    {HUE, "[-0.1, 0.3]", -0.1, 0.3}};
  double factor[DRAWS];
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    adjust_t which = cases[k].which;
    int gray = which == BRIGHTNESS || which == CONTRAST;
    char yaml[100];
    list_t l;
    snprintf(yaml, sizeof yaml, "color_jitter: {%s: %s}", adjust_names[which], cases[k].given);
    open_on(yaml, gray ? 1 : 3, 1, gray ? 3 : 1, &l);
    for (int i = 0; i < DRAWS; i++)
      factor[i] = factor_of(&l, which, i);
    expect_uniform(yaml, factor, DRAWS, cases[k].lo, cases[k].hi, 1e-4);
    close_list(&l);
  }
}

/* Of what brightness makes, only 0 to 1 is left: a dark sample keeps all of 0 to 3 times itself. */
static void brightness_is_never_below_0(void)
{
  const float dark = 0.3f;
  float out;
  double factor[DRAWS];
  list_t l;
  open_on("color_jitter: {brightness: 2}", 1, 1, 1, &l);
  for (int i = 0; i < DRAWS; i++) {
    run_on(&l, i, &dark, 1, &out);
    factor[i] = out / dark;
  }
  expect_uniform("brightness: 2", factor, DRAWS, 0, 3, 1e-4);
  close_list(&l);
}

/* Each adjustment has a factor of its own. */
static void factors_are_independent(void)
{
  static const float pixel[] = {0.52f, 0.5f, 0.48f};
  int count[16] = {0};
  list_t l;
  open_on("color_jitter: {brightness: 0.5, saturation: 0.5}", 3, 1, 1, &l);
  for (int i = 0; i < DRAWS; i++) {
    float out[3];
    run_on(&l, i, pixel, 3, out);
    /* neither changes the other's: the gray value and what the colour adds to it */
    double gray = 0.2989 * out[0] + 0.587 * out[1] + 0.114 * out[2];
    double bright = gray / (0.2989 * 0.52 + 0.587 * 0.5 + 0.114 * 0.48);
    double colour = (out[0] - out[2]) / 0.04 / bright;
    int a = (int)(4 * (bright - 0.5)), b = (int)(4 * (colour - 0.5));
    CU_ASSERT_FATAL(a >= 0 && a < 4 && b >= 0 && b < 4);
    count[4 * a + b]++;
  }
  expect_even("brightness and saturation", count, 16);
  close_list(&l);
}

/* The four adjustments at fixed factors, in the order that is a digit of base 4 each. */
static void adjust_in_order(int order, float *x, ct__image_size_t s)
{
  for (int k = 0; k < 4; k++, order /= 4) {
    if (order % 4 == BRIGHTNESS) ct__image_brightness(x, s, 1.6f);
    if (order % 4 == CONTRAST) ct__image_contrast(x, s, 1.8f);
    if (order % 4 == SATURATION) ct__image_saturation(x, s, 1.7f);
    if (order % 4 == HUE) ct__image_hue(x, s, 0.2f);
  }
}

static void all_orders_are_as_likely(void)
{
  enum { ORDERS = 24, N = 3 * 4 * 4 };
  float x[N], result[ORDERS][N], out[N];
  int count[ORDERS] = {0}, n = 0;
  list_t l;
  for (int i = 0; i < N; i++)
    x[i] = (float)((i * 37 + i * i * 11) % 64) / 64;
  for (int order = 0; order < 256; order++) {
    int used = 1 << order % 4 | 1 << order / 4 % 4 | 1 << order / 16 % 4 | 1 << order / 64;
    if (used != 15) continue;
    memcpy(result[n], x, sizeof x);
    adjust_in_order(order, result[n], (ct__image_size_t){3, 4, 4});
    for (int k = 0; k < n; k++)
      CU_ASSERT(ct_test_off(result[k], result[n], N).most > 0.01);
    n++;
  }
  CT_ASSERT_INT(n, ORDERS);
  open_on("color_jitter: {brightness: [1.6, 1.6], contrast: [1.8, 1.8], saturation: [1.7, 1.7],"
          " hue: [0.2, 0.2]}",
          3, 4, 4, &l);
  for (int i = 0; i < DRAWS; i++) {
    int k = 0;
    run_on(&l, i, x, N, out);
    while (k < ORDERS && ct_test_off(out, result[k], N).most > 1e-5)
      k++;
    CU_ASSERT_FATAL(k < ORDERS);
    count[k]++;
  }
  expect_even("the orders of color_jitter", count, ORDERS);
  close_list(&l);
}

/* ---- mixup, cutmix ---- */

static void mixtures_are_uniform(void)
{
  enum { OF = 8 };
  int partners[OF] = {0}, cuts[2] = {0}, n = 0;
  double share[DRAWS];
  list_t l;
  open_on("mixup, cutmix", 1, 8, 10, &l);
  for (int i = 0; i < DRAWS; i++) {
    ct__transform_mix_t m = ct__transform_mix_draw(l.t, 1, 0, i, OF);
    int cut = m.box.w > 0 || m.partner < 0;
    cuts[cut]++;
    if (m.partner >= 0) partners[m.partner]++;
    if (!cut) share[n++] = m.share;
  }
  expect_even("mixup and cutmix", cuts, 2);
  expect_even("partners", partners, OF);
  expect_uniform("mixup's share", share, n, 0, 1, 0);
  close_list(&l);
}

/* With a large alpha lambda is 1/2: a box of half of 8 x 10, around any pixel, cut off at the
 * borders. */
static void cut_boxes_are_anywhere(void)
{
  enum { H = 8, W = 10 };
  int count[H * W] = {0};
  list_t l;
  open_on("cutmix: {alpha: 1000}", 1, H, W, &l);
  for (int i = 0; i < DRAWS; i++) {
    ct__transform_mix_t m = ct__transform_mix_draw(l.t, 1, 0, i, 5);
    ct__image_box_t b = m.box;
    CU_ASSERT_FATAL(m.partner >= 0);
    int64_t y = b.top > 0 ? b.top + 2 : b.h - 2, x = b.left > 0 ? b.left + 3 : b.w - 3;
    CU_ASSERT_FATAL(y >= 0 && y < H && x >= 0 && x < W);
    CT_ASSERT_INT(b.top + b.h, y + 2 < H ? y + 2 : H);
    CT_ASSERT_INT(b.left + b.w, x + 3 < W ? x + 3 : W);
    CT_ASSERT_NEAR(m.share, 1 - (double)(b.h * b.w) / (H * W), 1e-6);
    count[y * W + x]++;
  }
  expect_even("cutmix's places", count, H * W);
  close_list(&l);
}

static void nothing_stays_allocated(void)
{
  CT_ASSERT_INT(ct_mem_live(), 0);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(draws_are_functions_of_their_place),
                                    CT_TEST(draws_are_uniform),
                                    CT_TEST(normal_and_beta_have_their_distributions),
                                    CT_TEST(beta_has_its_moments),
                                    CT_TEST(crops_are_anywhere),
                                    CT_TEST(flips_are_independent),
                                    CT_TEST(factors_are_uniform),
                                    CT_TEST(brightness_is_never_below_0),
                                    CT_TEST(factors_are_independent),
                                    CT_TEST(all_orders_are_as_likely),
                                    CT_TEST(mixtures_are_uniform),
                                    CT_TEST(cut_boxes_are_anywhere),
                                    CT_TEST(nothing_stays_allocated),
                                    CT_TEST_END};
  return ct_test_main("the draws of transforms", tests, argc, argv);
}
