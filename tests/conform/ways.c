/* All CPU algorithms for convolutions and linear layers: every pass that an algorithm claims to
 * support runs in its own layouts and is compared with the reference.  Also tests the choice of an
 * algorithm, a function of estimated costs, with synthetic entries.  New algorithms are tested
 * without changes here. */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "cpu/conv/conv.h"
#include "cpu/ct_cpu.h"
#include "cpu/kinds.h"
#include "cpu/gemm/passes.h"
#include "cpu/tile/amx.h"
#include "ref/ct_ref.h"
#include "tests/conform/check.h"
#include "tests/conform/draw.h"
#include "tests/conform/one_way.h"
#include "tests/harness/ct_test.h"

side_t tested, reference;

static void try_cases(const cpu__algos_t *algos, ct_op_kind_t kind, next_case_t *next,
                      tally_t tally[CPU__ALGOS_MAX])
{
  op_case_t c;

  for (int i = 0; next(i, &c); i++) {
    if (c.desc.kind != kind || c.big) continue;
    if (kind == CT_OP_LINEAR) flatten(&c);
    for (int low = 0; low < 2; low++) {
      ct_op_desc_type(&c.desc, low ? CT_BF16 : CT_F32);
      try_all(algos, &c, tally);
    }
  }
}

/* If processor and library support everything, no algorithm may refuse every job. */
static void check_tallies(const cpu__algos_t *algos, const tally_t tally[CPU__ALGOS_MAX])
{
  int complete = tested.dev->isa == CPU__AVX512 && tested.dev->bf16_rate > 0;

  for (int w = 0; w < CPU__ALGOS_MAX && algos->algo[w]; w++) {
    const char *name = algos->algo[w]->name;
    const int *jobs = tally[w].jobs;
    if (algos->algo[w] == &cpu__linear_amx && !cpu__amx_is_there()) continue;
    printf("# %s: %d forward, %d data, %d parameters\n", name, jobs[0], jobs[1], jobs[2]);
    for (int i = 0; i < CPU__PASSES && complete; i++) {
      int amx = 1 << i == CT_BWD_PARAM && cpu__amx_is_there();
      check(jobs[i] > 0 || (algos->algo[w] == &cpu__conv_amx_gradient && !amx),
            "%s is never tried in pass %d", name, 1 << i);
    }
  }
}

static void every_row_of_convolution(void)
{
  tally_t tally[CPU__ALGOS_MAX] = {0};
  try_cases(&cpu__conv_algos, CT_OP_CONV, case_conv, tally);
  try_cases(&cpu__conv_algos, CT_OP_CONV, case_conv3, tally);
  check_tallies(&cpu__conv_algos, tally);
}

/* A result of more than CPU__STREAM_MIN bytes whose last channel block is not full: Winograd writes
 * it with non-temporal stores, part by part. */
static void winograd_with_non_temporal_stores(void)
{
  const cpu__algos_t *algos = &cpu__conv_algos;
  op_case_t c = {.data = DATA_RANDOM};
  ct_shape_t x = ct_shape(4, 1, 40, 300, 300), y = ct_shape(4, 1, 20, 300, 300);
  ct_op_desc_init(&c.desc, CT_OP_CONV, &x, &y);
  c.desc.u.conv.groups = 1;
  for (int k = 0; k < 2; k++) {
    c.desc.u.conv.kernel[k] = 3;
    c.desc.u.conv.pad[k] = c.desc.u.conv.stride[k] = c.desc.u.conv.dilate[k] = 1;
  }
  truth_t t;
  tally_t tally = {{0}};
  int known = 0;
  try_algo(algos, &cpu__conv_winograd, &c, &t, &known, &tally);
  if (known) truth_close(&t);
  CU_ASSERT(tally.jobs[0] > 0 && tally.jobs[1] > 0 && tally.jobs[2] > 0);
}

static void every_row_of_linear(void)
{
  tally_t tally[CPU__ALGOS_MAX] = {0};
  try_cases(&cpu__linear_algos, CT_OP_LINEAR, case_linear, tally);
  check_tallies(&cpu__linear_algos, tally);
}

/* ---- random cases ---- */

static draws_t range = {.seed = 1, .count = 120};

/* Tests each algorithm alone, even if another would be chosen. */
static void try_draw(int64_t i)
{
  dice_t dice = {.seed = range.seed, .index = (uint64_t)i};
  ct_op_kind_t kind = dice_is(&dice, 75) ? CT_OP_CONV : CT_OP_LINEAR;
  const cpu__algos_t *algos = kind == CT_OP_CONV ? &cpu__conv_algos : &cpu__linear_algos;
  draw_t w;
  tally_t tally[CPU__ALGOS_MAX] = {0};
  char text[160];
  draw_case(&dice, kind, &w);
  if (w.c.desc.x.dim[0] == 0) w.c.desc.x.dim[0] = w.c.desc.y.dim[0] = 1; /* not empty */
  if (w.c.desc.x.dtype == CT_F16) ct_op_desc_type(&w.c.desc, CT_BF16);
  if (kind == CT_OP_LINEAR) flatten(&w.c);
  if (kind == CT_OP_CONV) w.c.desc.u.conv.add = 0;
  unsigned failed = draws_next(range.seed, i, ct_op_text(&w.c.desc, text, sizeof text));
  if (range.count == 1) printf("# %s\n", text);
  try_all(algos, &w.c, tally);
  draws_done(failed);
}

static void drawn(void)
{
  draws_begin("ways");
  for (int64_t i = range.first; i < range.first + range.count; i++)
    try_draw(i);
  draws_end();
}

/* ---- layers for which oneDNN is not used ---- */

typedef struct window {
  int kernel, stride, pad, dilate, from, to; /* range of input lengths */
} window_t;

/* Makes a convolution with this window in dim `at` of `space` dims and a window of 1 in the others.
 */
static void make_window(ct_op_desc_t *d, const window_t *w, int64_t length, int space, int at)
{
  ct_shape_t x = ct_shape(2 + space, 2, 4, 9, 9, 9), y = x;
  x.dim[2 + at] = length;
  y.dim[2 + at] = ct_op_window_out(length, w->kernel, w->stride, w->pad, w->dilate);
  ct_op_desc_init(d, CT_OP_CONV, &x, &y);
  d->passes = CT_FWD | CT_BWD_DATA | CT_BWD_PARAM;
  d->u.conv.groups = 1;
  for (int i = 0; i < space; i++)
    d->u.conv.kernel[i] = d->u.conv.stride[i] = d->u.conv.dilate[i] = 1;
  d->u.conv.kernel[at] = w->kernel;
  d->u.conv.stride[at] = w->stride;
  d->u.conv.pad[at] = w->pad;
  d->u.conv.dilate[at] = w->dilate;
}

/* Counts the algorithms for the weight gradient: those of oneDNN, and others. */
static void count_ways(const ct_op_desc_t *d, int *onednn, int *others)
{
  const cpu__algos_t *algos = &cpu__conv_algos;
  *onednn = *others = 0;
  for (int i = 0; i < CPU__ALGOS_MAX * algos->nlayouts && algos->algo[i / algos->nlayouts]; i++) {
    const cpu__algo_t *algo = algos->algo[i / algos->nlayouts];
    cpu__job_t job = {tested.dev, d, CT_BWD_PARAM, algos->layouts[i % algos->nlayouts]};
    cpu__cost_t cost;
    char why[128];
    int mine = algo == &cpu__conv_direct || algo == &cpu__conv_bf16;
    *(mine ? onednn : others) += algo->can(&job, &cost, why);
  }
}

static void check_window(const window_t *w, int refused)
{
  for (int i = 0; i < 2 * 5 * (w->to - w->from + 1); i++) {
    int at = i % 5, space = at < 3 ? 3 : 2, length = w->from + i / 5 / 2, onednn, others;
    ct_op_desc_t d;
    char text[160];
    make_window(&d, w, length, space, at % 3);
    ct_op_desc_type(&d, i / 5 % 2 ? CT_BF16 : CT_F32);
    const char *name = ct_op_text(&d, text, sizeof text);
    check(cpu__conv_overreaches(&d) == refused, "%s: refused: %d", name, !refused);
    count_ways(&d, &onednn, &others);
    check(others > 0, "%s: nobody computes the gradient", name);
    if (!refused) continue;
    check(onednn == 0, "%s: oneDNN computes the gradient", name);
    op_case_t c = {.desc = d, .data = DATA_RANDOM};
    check_trial(&c, 0, i % 2 ? CT_C16 : CT_PLAIN, 1);
  }
}

/* Windows for which oneDNN's weight gradient is wrong with AVX-512, and similar ones. */
static void windows_over_a_whole_input_are_not_given_to_onednn(void)
{
  static const window_t wrong[] = {{6, 2, 3, 1, 3, 7},   {7, 2, 3, 1, 3, 8},  {8, 2, 3, 1, 3, 9},
                                   {8, 2, 4, 1, 4, 9},   {9, 2, 4, 1, 4, 10}, {11, 2, 5, 1, 5, 12},
                                   {11, 4, 5, 1, 5, 14}, {9, 3, 4, 1, 4, 11}, {3, 2, 1, 1, 1, 4},
                                   {2, 2, 1, 1, 1, 3},   {7, 1, 3, 1, 1, 3},  {3, 1, 1, 1, 1, 1},
                                   {3, 2, 2, 2, 1, 6},   {1, 1, 1, 1, 1, 9},  {2, 3, 2, 1, 3, 9}};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
    check_window(&wrong[i], 1);
}

/* First layers, the layers of ResNets down to 2x2 pixels, and of 3D networks down to 4x4x4. */
static void windows_of_usual_networks_are_given_to_onednn(void)
{
  static const window_t usual[] = {
      {7, 2, 3, 1, 224, 224}, {7, 2, 3, 1, 16, 16},   {11, 4, 2, 1, 224, 224}, {3, 2, 1, 1, 5, 112},
      {3, 1, 1, 1, 2, 56},    {5, 1, 2, 1, 3, 28},    {7, 1, 3, 1, 4, 14},     {3, 1, 2, 2, 3, 28},
      {2, 2, 0, 1, 2, 8},     {16, 16, 0, 1, 16, 16}, {1, 2, 0, 1, 1, 8},      {5, 2, 2, 1, 7, 28}};
  for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++)
    check_window(&usual[i], 0);
}

/* ---- layers for which oneDNN is not used in bf16 ---- */

typedef struct layer {
  int space, in, out, size, width, kernel, stride, pad, dilate, groups;
  cpu__layouts_t at;
} layer_t;

static void make_layer(ct_op_desc_t *d, const layer_t *l)
{
  ct_shape_t x = ct_shape(2 + l->space, 2, l->in, l->size, l->size, l->size), y = x;
  x.dim[1 + l->space] = l->width;
  y.dim[1] = l->out;
  for (int i = 2; i < x.ndim; i++)
    y.dim[i] = ct_op_window_out(x.dim[i], l->kernel, l->stride, l->pad, l->dilate);
  x.dtype = y.dtype = CT_BF16;
  ct_op_desc_init(d, CT_OP_CONV, &x, &y);
  d->passes = CT_FWD | CT_BWD_DATA | CT_BWD_PARAM;
  d->u.conv.groups = l->groups;
  for (int i = 0; i < l->space; i++) {
    d->u.conv.kernel[i] = l->kernel;
    d->u.conv.stride[i] = l->stride;
    d->u.conv.pad[i] = l->pad;
    d->u.conv.dilate[i] = l->dilate;
  }
}

/* Returns 1 if oneDNN, or our code for AMX, computes this pass; otherwise \a why has the reason. */
static int is_given(const ct_op_desc_t *d, int pass, cpu__layouts_t at, char why[128])
{
  cpu__job_t job = {tested.dev, d, pass, at};
  cpu__cost_t cost;
  char other[128];
  return cpu__conv_bf16.can(&job, &cost, why) == 1 ||
         cpu__conv_amx_gradient.can(&job, &cost, other);
}

/* Checks that oneDNN is refused for that pass, unless this version has another implementation that
 * is correct; the layer must be correct in any case. */
static void check_wrong_layer(const layer_t *l, int pass)
{
  op_case_t c = {.data = DATA_RANDOM};
  char text[160], why[128] = "";
  tally_t tally = {{0}};
  truth_t t;
  int known = 0;
  make_layer(&c.desc, l);
  const char *name = ct_op_text(&c.desc, text, sizeof text);
  int given = is_given(&c.desc, pass, l->at, why);
  if (!given && tested.dev->bf16_rate > 0)
    check(strstr(why, "oneDNN") != NULL, "%s: %s", name, why);
  try_algo(&cpu__conv_algos, &cpu__conv_bf16, &c, &t, &known, &tally);
  if (known) truth_close(&t);
  check_trial(&c, 0, l->at.x, 1);
}

#define AS_NHWC      \
  {                  \
    CT_NHWC, CT_NHWC \
  }
#define FROM_PLAIN   \
  {                  \
    CT_PLAIN, CT_C16 \
  }
#define BLOCKED    \
  {                \
    CT_C16, CT_C16 \
  }

/* Layers where oneDNN computes 30 pixels at a time. */
static void odd_channels_of_1x1_are_not_given_to_onednn(void)
{
  static const layer_t wrong[] = {
      {2, 7, 1, 10, 9, 1, 1, 0, 1, 1, AS_NHWC},   {2, 12, 3, 5, 12, 1, 1, 0, 1, 1, AS_NHWC},
      {2, 64, 21, 60, 7, 1, 1, 0, 1, 1, AS_NHWC}, {3, 16, 1, 2, 15, 1, 1, 0, 1, 1, AS_NHWC},
      {2, 7, 9, 5, 6, 1, 1, 0, 3, 1, AS_NHWC},    {2, 20, 5, 4, 4, 1, 1, 0, 1, 1, AS_NHWC}};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
    check_wrong_layer(&wrong[i], CT_BWD_DATA);
}

static void ragged_groups_with_dilation_are_not_given_to_onednn(void)
{
  static const layer_t wrong[] = {{2, 4, 16, 5, 34, 2, 1, 1, 2, 2, AS_NHWC},
                                  {2, 20, 16, 8, 33, 3, 1, 2, 2, 1, AS_NHWC},
                                  {2, 36, 4, 7, 40, 3, 1, 3, 3, 2, AS_NHWC},
                                  {2, 8, 8, 6, 30, 3, 1, 2, 2, 8, AS_NHWC},
                                  {3, 18, 4, 6, 31, 3, 1, 0, 2, 1, AS_NHWC}};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
    check_wrong_layer(&wrong[i], CT_BWD_PARAM);
}

static void first_layers_with_strides_beyond_x_are_not_given_to_onednn(void)
{
  static const layer_t wrong[] = {{2, 15, 16, 11, 1, 1, 3, 0, 1, 1, FROM_PLAIN},
                                  {2, 8, 48, 1, 3, 1, 4, 0, 1, 1, FROM_PLAIN},
                                  {2, 2, 16, 4, 3, 3, 4, 0, 1, 1, FROM_PLAIN},
                                  {3, 1, 48, 2, 1, 1, 3, 0, 1, 1, FROM_PLAIN},
                                  {2, 5, 48, 3, 9, 1, 17, 0, 1, 1, FROM_PLAIN},
                                  {2, 1, 24, 6, 2, 2, 4, 0, 1, 1, AS_NHWC},
                                  {2, 1, 1, 13, 4, 4, 4, 0, 1, 1, AS_NHWC},
                                  {3, 1, 7, 2, 4, 3, 1, 1, 1, 1, AS_NHWC}, /* wrong in oneDNN 3.7 */
                                  {3, 2, 2, 4, 12, 4, 1, 2, 1, 1, AS_NHWC},
                                  {3, 12, 20, 5, 1, 1, 2, 1, 1, 1, AS_NHWC}};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
    check_wrong_layer(&wrong[i], CT_BWD_PARAM);
}

/* First layers, patch embeddings, ResNets down to one pixel, MobileNet, dilated convolutions, 3D
 * convolutions, and last layers. */
static void usual_layers_of_bf16_are_given_to_onednn(void)
{
  static const layer_t usual[] = {{2, 3, 64, 224, 224, 7, 2, 3, 1, 1, FROM_PLAIN},
                                  {2, 3, 768, 224, 224, 16, 16, 0, 1, 1, FROM_PLAIN},
                                  {2, 3, 96, 4, 4, 4, 4, 0, 1, 1, FROM_PLAIN},
                                  {2, 1, 32, 28, 28, 3, 1, 1, 1, 1, FROM_PLAIN},
                                  {2, 64, 64, 56, 56, 3, 1, 1, 1, 1, BLOCKED},
                                  {2, 64, 64, 56, 56, 3, 1, 1, 1, 1, AS_NHWC},
                                  {2, 256, 512, 2, 2, 1, 2, 0, 1, 1, BLOCKED},
                                  {2, 256, 512, 1, 1, 1, 2, 0, 1, 1, BLOCKED},
                                  {2, 24, 144, 56, 56, 1, 1, 0, 1, 1, BLOCKED},
                                  {2, 144, 144, 56, 56, 3, 1, 1, 1, 144, BLOCKED},
                                  {2, 512, 512, 64, 64, 3, 1, 2, 2, 1, BLOCKED},
                                  {2, 512, 512, 64, 64, 3, 1, 2, 2, 1, AS_NHWC},
                                  {2, 256, 256, 14, 14, 3, 1, 2, 2, 32, AS_NHWC},
                                  {2, 256, 256, 56, 56, 3, 1, 1, 1, 32, AS_NHWC},
                                  {2, 20, 20, 64, 64, 3, 1, 1, 1, 1, AS_NHWC},
                                  {3, 3, 64, 16, 16, 3, 1, 1, 1, 1, FROM_PLAIN},
                                  {3, 32, 64, 32, 32, 3, 2, 1, 1, 1, BLOCKED},
                                  {2, 64, 1, 60, 60, 1, 1, 0, 1, 1, BLOCKED},
                                  {2, 64, 3, 60, 60, 1, 1, 0, 1, 1, BLOCKED},
                                  {2, 512, 21, 60, 60, 1, 1, 0, 1, 1, BLOCKED},
                                  {2, 64, 1, 60, 60, 3, 1, 1, 1, 1, AS_NHWC},
                                  {2, 64, 10, 60, 60, 1, 1, 0, 1, 1, AS_NHWC},
                                  {2, 2048, 1000, 7, 7, 1, 1, 0, 1, 1, AS_NHWC}};
  for (size_t i = 0; i < sizeof usual / sizeof usual[0] && tested.dev->bf16_rate > 0; i++) {
    ct_op_desc_t d;
    char text[160];
    make_layer(&d, &usual[i]);
    for (int pass = CT_FWD; pass <= CT_BWD_PARAM; pass <<= 1) {
      char why[128] = "";
      int first = usual[i].at.x == CT_PLAIN && pass == CT_BWD_DATA; /* an input layer has no data
                                                                       gradient */
      check(first || is_given(&d, pass, usual[i].at, why), "%s, pass %d: refused: %s",
            ct_op_text(&d, text, sizeof text), pass, why);
    }
  }
}

/* ---- choice of an algorithm ---- */

enum { A, B, BARE };

static const cpu__algo_t a = {.name = "a"}, b = {.name = "b"}, bare = {.as_it_lies = 1};
static const cpu__algos_t made_up = {.algo = {[A] = &a, [B] = &b, [BARE] = &bare},
                                     .layouts = {{CT_C16, CT_C16}, {CT_PLAIN, CT_PLAIN}},
                                     .nlayouts = 2};
static const cpu__layouts_t blocked = {CT_C16, CT_C16}, plain = {CT_PLAIN, CT_PLAIN};

static cpu__costs_t nothing_possible(void)
{
  cpu__costs_t c = {.algos = &made_up, .passes = CT_FWD, .x = 10, .y = 10};
  for (int w = 0; w < CPU__ALGOS_MAX; w++)
    for (int k = 0; k < CPU__LAYOUTS_MAX; k++)
      c.of[0][w][k].each = INFINITY;
  return c;
}

static void the_cheapest_is_chosen(void)
{
  cpu__costs_t c = nothing_possible();
  CU_ASSERT(cpu__choose(&c, 0, blocked, 0).algo == NULL);
  c.of[0][A][0].each = 50;
  c.of[0][B][0].each = 40;
  CU_ASSERT(cpu__choose(&c, 0, blocked, 0).algo == &b);
  CU_ASSERT(cpu__choose(&c, 0, blocked, 1 << B).algo == &a);
  CT_ASSERT_NEAR(cpu__choose(&c, 0, plain, 0).cost, 60, 0);
  c.of[0][A][0].each = 40;
  CU_ASSERT(cpu__choose(&c, 0, blocked, 0).algo == &a); /* equal costs: the first one */
  c.of[0][A][1].each = 55;
  c.of[0][B][0].each = 34;
  CT_ASSERT_INT(cpu__choose(&c, 0, plain, 0).at.x, CT_C16); /* two reorders and 34 */
  c.of[0][A][1].each = 53;
  CT_ASSERT_INT(cpu__choose(&c, 0, plain, 0).at.x, CT_PLAIN);
}

static void costs_of_once_decide_among_equal_layouts(void)
{
  cpu__costs_t c = nothing_possible();
  c.of[0][A][0].each = 50;
  c.of[0][B][0] = (cpu__cost_t){30, 25};
  c.of[0][A][1].each = 31;
  cpu__choice_t choice = cpu__choose(&c, 0, blocked, 0);
  CU_ASSERT(choice.algo == &a && choice.in_the_long_run == &b);
  CT_ASSERT_INT(choice.at.x, CT_C16);
  CT_ASSERT_NEAR(choice.cost, 30, 0);
  c.of[0][B][0].once = 19;
  CU_ASSERT(cpu__choose(&c, 0, blocked, 0).algo == &b);
}

static void some_take_tensors_as_they_lie(void)
{
  cpu__costs_t c = nothing_possible();
  c.of[0][A][0].each = 50;
  c.of[0][BARE][0].each = 1;
  CU_ASSERT(cpu__choose(&c, 0, blocked, 0).algo == &bare);
  CU_ASSERT(cpu__choose(&c, 0, plain, 0).algo == &a);
  CU_ASSERT(cpu__choose(&c, 0, blocked, 1 << BARE).algo == &a);
}

static void layouts_follow_from_costs(void)
{
  cpu__costs_t c = nothing_possible();
  double least;
  c.of[0][A][0].each = 50;
  c.of[0][A][1].each = 65;
  CT_ASSERT_INT(cpu__best_layouts(&c, CT_PLAIN, &least).y, CT_C16); /* x is reordered, y is not */
  CT_ASSERT_NEAR(least, 60, 0);
  CT_ASSERT_INT(cpu__best_x(&c, CT_PLAIN), CT_C16);
  c.of[0][A][1].each = 55;
  CT_ASSERT_INT(cpu__best_layouts(&c, CT_PLAIN, &least).y, CT_PLAIN);
  CT_ASSERT_INT(cpu__best_x(&c, CT_PLAIN), CT_PLAIN);
  CT_ASSERT_NEAR(cpu__least_cost(&c), 50, 0);
}

/* Whatever algorithms oneDNN has for plain layouts, no layer on images has a plain output. */
static void no_image_comes_out_plain(void)
{
  op_case_t c;
  for (int i = 0; tested.dev->isa > CPU__PORTABLE && case_conv(i, &c); i++) {
    const ct_op_desc_t *d = &c.desc;
    cpu__costs_t costs;
    double least;
    char text[160];
    if (d->u.conv.groups > 1 || d->y.dim[2] * d->y.dim[3] == 1) continue;
    if (CT_ASSERT_OK(cpu__ask(&cpu__conv_algos, tested.dev, d, &costs)) != CT_OK) continue;
    check(cpu__best_layouts(&costs, CT_PLAIN, &least).y != CT_PLAIN, "%s gives a plain image",
          ct_op_text(d, text, sizeof text));
  }
}

/* ---- weights stored in another layout ---- */

static int bare_format;

static int leading_can(const cpu__job_t *job, cpu__cost_t *cost, char why[128])
{
  (void)why;
  *cost = (cpu__cost_t){job->pass == CT_FWD ? 1e3 : 1e6, 0};
  return 1;
}

static int bare_can(const cpu__job_t *job, cpu__cost_t *cost, char why[128])
{
  *cost = (cpu__cost_t){1e5, 0};
  return job->pass != CT_FWD || cpu__refuse(why, "not forward");
}

static int plain_stored(const cpu__job_t *job, cpu__md_t **out)
{
  (void)job;
  return cpu__md_new(4, (int64_t[]){16, 16, 1, 1}, CT_PLAIN, out);
}

static int bare_stored(const cpu__job_t *job, cpu__md_t **out)
{
  (void)job;
  return cpu__md_new(4, (int64_t[]){16, 16, 1, 1}, bare_format, out);
}

static int plain_prepare(const cpu__job_t *job, cpu__ready_t *out)
{
  return plain_stored(job, &out->w);
}

static void clear_nothing(cpu__ready_t *ready)
{
  (void)ready;
}

/* Returns the algorithm of the backward pass if the weights are stored as the forward pass needs
 * them. */
static const cpu__algo_t *algo_of_backward(const cpu__algos_t *algos)
{
  ct_shape_t x = ct_shape(4, 1, 16, 4, 4);
  cpu__passes_op_t op = {.head.dev = tested.dev};
  ct_op_desc_init(&op.head.desc, CT_OP_CONV, &x, &x);
  op.head.desc.passes = CT_FWD | CT_BWD_DATA;
  op.head.desc.u.conv.groups = op.head.desc.u.conv.kernel[0] = op.head.desc.u.conv.kernel[1] = 1;
  ct_op_info_t info = ct_op_info_of(&op.head.desc, "");
  CT_ASSERT_OK(cpu__passes_prepare(&op.head, algos, &op.head.desc, NULL, &info));
  const cpu__algo_t *algo = op.pass[1].algo;
  cpu__passes_clear(&op.head);
  return algo;
}

static void who_converts_nothing_needs_its_own_weights(void)
{
  static const cpu__algo_t leading = {
      .can = leading_can, .stored = plain_stored, .prepare = plain_prepare, .clear = clear_nothing};
  static const cpu__algo_t follows = {.as_it_lies = 1,
                                      .can = bare_can,
                                      .stored = bare_stored,
                                      .prepare = plain_prepare,
                                      .clear = clear_nothing};
  static const cpu__algos_t algos = {
      .algo = {&leading, &follows}, .layouts = {{CT_PLAIN, CT_PLAIN}}, .nlayouts = 1};
  bare_format = CT_PLAIN;
  CU_ASSERT(algo_of_backward(&algos) == &follows);
  bare_format = CPU__O8;
  CU_ASSERT(algo_of_backward(&algos) == &leading);
}

/* ---- which algorithms are asked for their cost ---- */

static double cost_of_first;
static int seconds_asked;

static int first_can(const cpu__job_t *job, cpu__cost_t *cost, char why[128])
{
  (void)job;
  (void)why;
  *cost = (cpu__cost_t){cost_of_first, 0};
  return 1;
}

static int second_can(const cpu__job_t *job, cpu__cost_t *cost, char why[128])
{
  (void)job;
  (void)cost;
  snprintf(why, 128, "only counts");
  seconds_asked++;
  return 0;
}

static void the_second_choice_is_asked_where_the_first_is_not_perfect(void)
{
  static const cpu__algo_t first = {.can = first_can}, second = {.second = 1, .can = second_can};
  static const cpu__algos_t algos = {
      .algo = {&second, &first}, .layouts = {{CT_PLAIN, CT_PLAIN}, {CT_C8, CT_C8}}, .nlayouts = 2};
  ct_shape_t x = ct_shape(2, 10, 20), y = ct_shape(2, 10, 30);
  cpu__costs_t c;
  ct_op_desc_t d;
  ct_op_desc_init(&d, CT_OP_LINEAR, &x, &y);
  cost_of_first = 10 * 20 * 30;
  CT_ASSERT_OK(cpu__ask(&algos, tested.dev, &d, &c));
  CT_ASSERT_INT(seconds_asked, 0);
  CU_ASSERT(isinf(c.of[0][1][1].each)); /* another layout is not considered either */
  cost_of_first += 1;
  CT_ASSERT_OK(cpu__ask(&algos, tested.dev, &d, &c));
  CT_ASSERT_INT(seconds_asked, 2);
  CT_ASSERT_NEAR(c.of[0][1][1].each, cost_of_first, 0);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(every_row_of_convolution),
      CT_TEST(winograd_with_non_temporal_stores),
      CT_TEST(every_row_of_linear),
      CT_TEST(windows_over_a_whole_input_are_not_given_to_onednn),
      CT_TEST(windows_of_usual_networks_are_given_to_onednn),
      CT_TEST(odd_channels_of_1x1_are_not_given_to_onednn),
      CT_TEST(ragged_groups_with_dilation_are_not_given_to_onednn),
      CT_TEST(first_layers_with_strides_beyond_x_are_not_given_to_onednn),
      CT_TEST(usual_layers_of_bf16_are_given_to_onednn),
      CT_TEST(drawn),
      CT_TEST(the_cheapest_is_chosen),
      CT_TEST(costs_of_once_decide_among_equal_layouts),
      CT_TEST(some_take_tensors_as_they_lie),
      CT_TEST(layouts_follow_from_costs),
      CT_TEST(no_image_comes_out_plain),
      CT_TEST(who_converts_nothing_needs_its_own_weights),
      CT_TEST(the_second_choice_is_asked_where_the_first_is_not_perfect),
      CT_TEST_END,
  };
  char *only[] = {argv[0], "drawn", NULL};
  if (!draws_options(&range, &argc, argv)) return 1;
  if (range.asked) {
    argv = only;
    argc = 2;
  }
  const ct_dev_opts_t two = {.threads = 2}, one = {.threads = 1};

  if (side_open(&reference, &ct_backend_ref, &one) || side_open(&tested, &ct_backend_cpu, &two)) {
    printf("Bail out! %s\n", ct_err_last()->text);
    return 1;
  }
  omp_set_num_threads(two.threads); /* as the backend does before each call */
  int failed = ct_test_main("ways", tests, argc, argv);
  side_close(&tested);
  side_close(&reference);
  return failed;
}
