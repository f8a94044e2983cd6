/* Op descriptors, and the rule by which dropout keeps elements. */
#include "backend/ct_op.h"

#include <math.h>
#include <string.h>

#include "backend/ct_dropout.h"
#include "tests/conform/cases.h"
#include "tests/harness/ct_test.h"

/* ---- descriptors ---- */

static void equal_descriptors_have_equal_bytes(void)
{
  ct_op_desc_t a, b;
  ct_shape_t x, y;

  memset(&a, 1, sizeof a);
  memset(&b, 2, sizeof b);
  for (int i = 0; i < 2; i++) {
    memset(&x, 3 + i, sizeof x); /* different bytes between the members */
    memset(&y, 5 + i, sizeof y);
    x.dtype = y.dtype = CT_F32;
    x.layout = y.layout = CT_C16;
    x.ndim = y.ndim = 4;
    for (int k = 0; k < CT_MAX_DIMS; k++)
      x.dim[k] = y.dim[k] = k + 1;
    ct_op_desc_init(i ? &a : &b, CT_OP_POOL, &x, &y);
  }
  CU_ASSERT(memcmp(&a, &b, sizeof a) == 0);
  CT_ASSERT_INT(a.kind, CT_OP_POOL);
  CT_ASSERT_INT(a.passes, CT_FWD);
  CT_ASSERT_INT(a.training, 0);
  CT_ASSERT_INT(a.x.dim[3], 4);
  CT_ASSERT_INT(a.y.layout, CT_C16);
}

static ct_op_desc_t make_conv(ct_shape_t x, int64_t out, const int window[4][2], int groups)
{
  ct_op_desc_t d;
  ct_shape_t y = x;

  y.dim[1] = out;
  for (int i = 0; i < 2; i++) {
    y.dim[2 + i] =
        ct_op_window_out(x.dim[2 + i], window[0][i], window[1][i], window[2][i], window[3][i]);
  }
  ct_op_desc_init(&d, CT_OP_CONV, &x, &y);
  memcpy(d.u.conv.kernel, window[0], sizeof window[0]);
  memcpy(d.u.conv.stride, window[1], sizeof window[1]);
  memcpy(d.u.conv.pad, window[2], sizeof window[2]);
  memcpy(d.u.conv.dilate, window[3], sizeof window[3]);
  d.u.conv.groups = groups;
  return d;
}

static void text_names_everything(void)
{
  static const int same[4][2] = {{3, 3}, {1, 1}, {1, 1}, {1, 1}};
  static const int mixed[4][2] = {{1, 3}, {2, 1}, {0, 2}, {1, 2}};
  ct_op_desc_t d = make_conv(ct_shape(4, 16, 64, 56, 56), 64, same, 1);
  ct_shape_t x = ct_shape(4, 2, 4, 8, 8), y = ct_shape(4, 2, 4, 1, 1), flat = ct_shape(2, 2, 256);
  char buf[200];

  d.u.conv.relu = 1;
  CT_ASSERT_TEXT(ct_op_text(&d, buf, sizeof buf),
                 "conv 16x64x56x56 -> 16x64x56x56 k3x3 s1 p1 relu");
  d = make_conv(x, 6, mixed, 2);
  d.u.conv.bias = 1;
  CT_ASSERT_TEXT(ct_op_text(&d, buf, sizeof buf),
                 "conv 2x4x8x8 -> 2x6x4x8 k1x3 s2x1 p0x2 d1x2 g2 bias");
  ct_op_desc_init(&d, CT_OP_POOL, &x, &y);
  d.u.pool.global = 1;
  CT_ASSERT_TEXT(ct_op_text(&d, buf, sizeof buf), "pool 2x4x8x8 -> 2x4x1x1 average global");
  ct_op_desc_init(&d, CT_OP_BNORM, &x, &x);
  d.training = d.u.bnorm.add = d.u.bnorm.relu = 1;
  CT_ASSERT_TEXT(ct_op_text(&d, buf, sizeof buf), "bnorm 2x4x8x8 -> 2x4x8x8 training add relu");
  ct_op_desc_init(&d, CT_OP_GNORM, &x, &x);
  d.u.gnorm.groups = 2;
  d.u.gnorm.affine = 1;
  CT_ASSERT_TEXT(ct_op_text(&d, buf, sizeof buf), "gnorm 2x4x8x8 -> 2x4x8x8 g2 affine");
  ct_op_desc_init(&d, CT_OP_BNORM, &x, &x);
  d.training = d.u.bnorm.add = 1;
  d.u.bnorm.relu = CT_RELU6;
  CT_ASSERT_TEXT(ct_op_text(&d, buf, sizeof buf), "bnorm 2x4x8x8 -> 2x4x8x8 training add relu6");
  ct_op_desc_init(&d, CT_OP_REORDER, &x, &flat);
  d.x.layout = CT_C16;
  CT_ASSERT_TEXT(ct_op_text(&d, buf, sizeof buf), "reorder 2x4x8x8 -> 2x256 c16 -> plain");

  x = ct_shape(2, 8, 10);
  ct_op_desc_init(&d, CT_OP_LOSS, &x, &x);
  d.u.loss =
      (ct_loss_spec_t){.weighted = 1, .has_ignored = 1, .ignored = -1, .label_smoothing = 0.1};
  CT_ASSERT_TEXT(ct_op_text(&d, buf, sizeof buf),
                 "loss 8x10 -> 8x10 cross_entropy weighted smoothing 0.1 ignores -1");
  d.u.loss = (ct_loss_spec_t){.kind = CT_LOSS_MSE, .one_hot = 1};
  CT_ASSERT_TEXT(ct_op_text(&d, buf, sizeof buf), "loss 8x10 -> 8x10 mse one_hot");
  ct_op_desc_init(&d, CT_OP_UPDATE, &flat, &flat);
  CT_ASSERT_TEXT(ct_op_text(&d, buf, sizeof buf), "update 2x256 sgd");
  CT_ASSERT_TEXT(ct_op_text(&d, buf, 10), "update 2x");
  CT_ASSERT_TEXT(ct_op_name(CT_OP_COUNT), "unknown");
  for (int k = 0; k < CT_OP_COUNT; k++) {
    CU_ASSERT(strcmp(ct_op_name((ct_op_kind_t)k), "unknown") != 0);
  }
}

/* ---- checks ---- */

static void each_mistake_is_named(void)
{
  ct_op_desc_t d;
  char why[128];
  const char *words;
  int met[CT_OP_COUNT] = {0}, n = 0;

  for (int k = 0; k < CT_OP_COUNT; k++) {
    sound_op((ct_op_kind_t)k, &d);
    CT_ASSERT_INT(ct_op_check(&d, why), 1);
    CT_ASSERT_TEXT(why, "");
  }
  for (; case_bad(n, &d, &words); n++) {
    CT_ASSERT_INT(ct_op_check(&d, why), 0);
    CT_ASSERT_HAS(why, words);
    if (d.kind < CT_OP_COUNT) met[d.kind]++;
  }
  for (int k = 0; k < CT_OP_COUNT; k++)
    CU_ASSERT(met[k] > 0);
}

/* What is fine, though it looks like a mistake. */
static void what_is_rare_is_sound(void)
{
  ct_op_desc_t d;
  char why[128];

  sound_op(CT_OP_CONV, &d);
  d.x.dim[0] = d.y.dim[0] = 0; /* no samples */
  CT_ASSERT_INT(ct_op_check(&d, why), 1);
  sound_op(CT_OP_BNORM, &d);
  d.training = d.u.bnorm.sync = 1;
  d.passes = CT_FWD | CT_FWD_STATS | CT_BWD_DATA | CT_BWD_STATS;
  CT_ASSERT_INT(ct_op_check(&d, why), 1);
  sound_op(CT_OP_REORDER, &d);
  d.x.dtype = CT_U8;
  d.y.dtype = CT_F16;
  CT_ASSERT_INT(ct_op_check(&d, why), 1);
  sound_op(CT_OP_UPDATE, &d);
  d.y.dtype = CT_BF16; /* writes a copy in a low type */
  CT_ASSERT_INT(ct_op_check(&d, why), 1);
  sound_op(CT_OP_SELECT, &d);
  d.u.select.index = -1;
  CT_ASSERT_INT(ct_op_check(&d, why), 1);
}

/* ---- facts ---- */

static void backward_is_made_of(ct_op_desc_t *d, int passes, int uses)
{
  char text[160];

  d->passes = passes;
  if (ct_op_uses(d) == uses) return;
  printf("# %s, passes %d: uses %d, not %d\n", ct_op_text(d, text, sizeof text), passes,
         ct_op_uses(d), uses);
  CU_FAIL("uses");
}

static void backward_uses_what_its_formula_has(void)
{
  enum { DATA = CT_FWD | CT_BWD_DATA, PARAM = CT_FWD | CT_BWD_PARAM, X = CT_USES_X, Y = CT_USES_Y };
  ct_op_desc_t d;

  for (int k = 0; k < CT_OP_COUNT; k++) {
    sound_op((ct_op_kind_t)k, &d);
    d.training = 1;
    backward_is_made_of(&d, CT_FWD, 0);
    d.passes = CT_FWD | CT_BWD_DATA | CT_BWD_PARAM;
    CU_ASSERT(ct_op_uses(&d) >= 0 && ct_op_uses(&d) <= (X | Y));
    CU_ASSERT(ct_op_flops(&d, d.passes) >= 0);
  }
  sound_op(CT_OP_CONV, &d);
  backward_is_made_of(&d, DATA, 0);
  backward_is_made_of(&d, PARAM, X);
  sound_op(CT_OP_LSTM, &d);
  backward_is_made_of(&d, PARAM, X | Y);
  sound_op(CT_OP_BNORM, &d);
  backward_is_made_of(&d, DATA, 0); /* the running statistics are constants */
  d.training = d.u.bnorm.relu = 1;
  backward_is_made_of(&d, DATA, X | Y);
  sound_op(CT_OP_ADD, &d);
  backward_is_made_of(&d, DATA, 0);
  d.u.add.relu = 1;
  backward_is_made_of(&d, DATA, Y);
  sound_op(CT_OP_ACT, &d);
  d.u.act.kind = CT_ACT_GELU;
  backward_is_made_of(&d, DATA, X);
  d.u.act.kind = CT_ACT_SIGMOID;
  backward_is_made_of(&d, DATA, Y);
}

static void parameters_have_torchs_sizes(void)
{
  static const struct {
    ct_op_kind_t kind;
    int64_t count[CT_OP_PARAMS];
  } want[] = {{CT_OP_CONV, {4 * 4 * 9}},
              {CT_OP_CONV_POOL, {4 * 4 * 9}},
              {CT_OP_CONVT, {4 * 4 * 9}},
              {CT_OP_LINEAR, {5 * 8}},
              {CT_OP_HEAD_LOSS, {5 * 8}},
              {CT_OP_BNORM, {4, 4}},
              {CT_OP_LNORM, {5, 5}},
              {CT_OP_GNORM, {4, 4}},
              {CT_OP_LSTM, {20 * 8, 20 * 5, 20, 20}},
              {CT_OP_GRU, {15 * 8, 15 * 5, 15, 15}},
              {CT_OP_ATTENTION, {24 * 8, 24, 8 * 8, 8}},
              {CT_OP_TOKENS, {4, 10 * 4}},
              {CT_OP_OPERAND, {2 * 4 * 25}},
              {CT_OP_ROWS, {7 * 5}},
              {CT_OP_EXPR, {0}},
              {CT_OP_POOL, {0}},
              {CT_OP_UPDATE, {0}}};
  ct_op_desc_t d;
  int met[CT_OP_COUNT] = {0};

  for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
    sound_op(want[i].kind, &d);
    for (int k = 0; k < CT_OP_PARAMS; k++)
      CT_ASSERT_INT(ct_op_param_count(&d, k), want[i].count[k]);
    met[want[i].kind]++;
  }
  for (int k = 0; k < CT_OP_COUNT; k++)
    CU_ASSERT(met[k] || ct_op_facts_of((ct_op_kind_t)k)->params == 0);
  sound_op(CT_OP_CONV, &d);
  d.u.conv.bias = 1;
  d.u.conv.groups = 2;
  CT_ASSERT_INT(ct_op_param_count(&d, 0), 4 * 2 * 9);
  CT_ASSERT_INT(ct_op_param_count(&d, 1), 4);
}

static void flops_are_those_of_the_direct_algorithm(void)
{
  static const int stem[4][2] = {{7, 7}, {2, 2}, {3, 3}, {1, 1}};
  static const int deep[4][2] = {{3, 3}, {1, 1}, {1, 1}, {1, 1}};
  ct_op_desc_t d = make_conv(ct_shape(4, 1, 3, 224, 224), 64, stem, 1);
  ct_shape_t x = ct_shape(2, 10, 512), y = ct_shape(2, 10, 1000);

  /* ResNet's stem: 118 million multiply-adds per image */
  CT_ASSERT_NEAR(ct_op_flops(&d, CT_FWD), 2.0 * 118013952, 0);
  CT_ASSERT_NEAR(ct_op_flops(&d, CT_FWD | CT_BWD_DATA | CT_BWD_PARAM), 6.0 * 118013952, 0);
  d = make_conv(ct_shape(4, 2, 32, 8, 8), 32, deep, 32);
  CT_ASSERT_NEAR(ct_op_flops(&d, CT_BWD_PARAM), 2.0 * 2 * 32 * 64 * 9, 0);
  ct_op_desc_init(&d, CT_OP_LINEAR, &x, &y);
  CT_ASSERT_NEAR(ct_op_flops(&d, CT_FWD), 2.0 * 10 * 512 * 1000, 0);
  ct_op_desc_init(&d, CT_OP_REORDER, &x, &x);
  CT_ASSERT_NEAR(ct_op_flops(&d, CT_FWD), 0, 0);
}

static void window_out_rounds_down(void)
{
  CT_ASSERT_INT(ct_op_window_out(224, 7, 2, 3, 1), 112);
  CT_ASSERT_INT(ct_op_window_out(5, 2, 2, 0, 1), 2);
  CT_ASSERT_INT(ct_op_window_out(7, 3, 1, 2, 2), 7);
  CT_ASSERT_INT(ct_op_window_out(3, 3, 1, 0, 1), 1);
  CT_ASSERT_INT(ct_op_window_out(2, 3, 2, 0, 1), 0);  /* does not fit: not one output */
  CT_ASSERT_INT(ct_op_window_out(1, 5, 2, 0, 1), -1); /* floor(-4 / 2) + 1 */
}

/* ---- dropout ---- */

static void dropout_keeps_its_share(void)
{
  static const double p[] = {0, 0.1, 0.5, 0.9, 1};
  enum { BLOCKS = 5000 };

  for (int i = 0; i < 5; i++) {
    ct_dropout_t d = ct_dropout_make(7, 3, 2, p[i]);
    double kept = 0, n = 4.0 * BLOCKS;
    for (int64_t b = 0; b < BLOCKS; b++) {
      float f[4];
      ct_dropout_factors(&d, b % 10, b / 10, f);
      for (int k = 0; k < 4; k++)
        kept += f[k] != 0;
    }
    /* five standard deviations */
    CT_ASSERT_NEAR(kept / n, 1 - p[i], 5 * sqrt(p[i] * (1 - p[i]) / n));
    CT_ASSERT_NEAR(d.factor, p[i] < 1 ? 1 / (1 - p[i]) : 0, 1e-6);
  }
}

/* Everything that names an element changes its fate; the blocks are used once per step. */
static void dropout_depends_on_all_of_its_key(void)
{
  enum { BLOCKS = 64 };
  static const uint64_t key[][4] = {
      {1, 2, 3, 4}, {9, 2, 3, 4}, {1, 9, 3, 4}, {1, 2, 9, 4}, {1, 2, 3, 9}};
  float f[5][4 * BLOCKS];

  for (int i = 0; i < 5; i++) {
    ct_dropout_t d = ct_dropout_make(key[i][0], (int64_t)key[i][1], (uint32_t)key[i][2], 0.5);
    for (int b = 0; b < BLOCKS; b++)
      ct_dropout_factors(&d, (int64_t)key[i][3], b, f[i] + 4 * b);
    int same = 0;
    for (int k = 0; k < 4 * BLOCKS; k++)
      same += f[i][k] == f[0][k];
    /* half of 256 agree by chance; six standard deviations are 48 */
    if (i > 0) CT_ASSERT_NEAR(same, 128, 48);
  }
  CU_ASSERT(memcmp(f[0], f[0] + 4, 4 * sizeof(float)) || memcmp(f[0], f[0] + 8, 4 * sizeof(float)));
  /* runs with seeds that follow each other do not repeat each other's steps */
  CU_ASSERT(ct_dropout_seed(1, 2) != ct_dropout_seed(2, 1));
  CU_ASSERT(ct_dropout_seed(0, 3) != ct_dropout_seed(3, 0));
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(equal_descriptors_have_equal_bytes),
      CT_TEST(text_names_everything),
      CT_TEST(each_mistake_is_named),
      CT_TEST(what_is_rare_is_sound),
      CT_TEST(backward_uses_what_its_formula_has),
      CT_TEST(parameters_have_torchs_sizes),
      CT_TEST(flops_are_those_of_the_direct_algorithm),
      CT_TEST(window_out_rounds_down),
      CT_TEST(dropout_keeps_its_share),
      CT_TEST(dropout_depends_on_all_of_its_key),
      CT_TEST_END,
  };
  return ct_test_main("op", tests, argc, argv);
}
