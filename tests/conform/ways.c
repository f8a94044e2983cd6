/* The ways to compute a convolution or a linear layer on the CPU, row by row:
 * whatever a row says that it can do is done in its own layouts and compared with the reference,
 * pass by pass; and the choice among rows, which is a function of their costs, with rows that are
 * made up.  A new row is tried by being there. */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "cpu/conv/conv.h"
#include "cpu/ct_cpu.h"
#include "cpu/kinds.h"
#include "cpu/product/product.h"
#include "ref/ct_ref.h"
#include "tests/conform/check.h"
#include "tests/harness/ct_test.h"

side_t tested, reference;

/* ---- one pass of one row ---- */

/* Weights from one format into another. */
static void convert(const cpu__md_t *from, void *x, const cpu__md_t *to, void *y)
{
  cpu__dnnl_t *dnnl = tested.dev->dnnl;
  cpu__prim_t *reorder = NULL;

  must(cpu__prim_reorder(dnnl, from, to, &reorder));
  void *scratch = host_array((int64_t)cpu__prim_scratch(reorder) + 1, 1);
  must(cpu__prim_run(dnnl, reorder, (void *[CPU__ROLES]){x, NULL, NULL, y, scratch}));
  ct_mem_free(scratch);
  cpu__prim_free(reorder);
}

/* The memory of a pass. */
typedef struct bench {
  tensor_t x, y;
  block_t w, bias, scratch;
  cpu__md_t *plain; /* of the weights */
} bench_t;

static void bench_open(bench_t *b, const cpu__job_t *job, const cpu__ready_t *ready, truth_t *t)
{
  const ct_op_desc_t *d = job->desc;

  memset(b, 0, sizeof *b);
  must(tensor_open(&b->x, &tested, &d->x, job->at.x));
  must(tensor_open(&b->y, &tested, &d->y, job->at.y));
  block_open(&b->w, &tested, cpu__md_bytes(ready->w));
  block_open(&b->bias, &tested, (size_t)d->y.dim[1] * sizeof(float));
  block_open(&b->scratch, &tested, ready->scratch);
  must(cpu__md_plain(ready->w, &b->plain));
  if (job->pass != CT_BWD_DATA) tensor_put(&b->x, t->in.x);
  if (job->pass != CT_FWD) tensor_put(&b->y, t->in.dy);
  if (job->pass != CT_BWD_PARAM) convert(b->plain, t->in.w[0], ready->w, b->w.mem);
  if (job->pass == CT_FWD && t->in.w[1]) block_put(&b->bias, t->in.w[1], b->bias.bytes);
}

static void bench_close(bench_t *b)
{
  tensor_close(&b->x);
  tensor_close(&b->y);
  block_close(&b->w);
  block_close(&b->bias);
  block_close(&b->scratch);
  cpu__md_free(b->plain);
}

static void compare(const char *name, const char *what, const float *got, const float *want,
                    int64_t n, double floor, double tolerance)
{
  char why[80] = "";
  check(is_close(got, want, n, floor, tolerance, why), "%s: %s: %s", name, what, why);
}

static double size_of(const float *v, int64_t n)
{
  double sum = 0;
  for (int64_t i = 0; i < n; i++)
    sum += (double)v[i] * v[i];
  return 0.01 * sqrt(sum);
}

static void check_result(const cpu__way_t *way, const cpu__job_t *job, const char *name, bench_t *b,
                         const cpu__ready_t *ready, const truth_t *t)
{
  const ct_op_desc_t *d = job->desc;
  double tolerance = strstr(way->name, "winograd") ? 1e-4 : 1e-5;
  double low = d->x.dtype == CT_F32 ? tolerance : 5e-3;
  double floor = size_of(t->in.dy, ct_shape_count(&d->y));
  int64_t x = ct_shape_count(&d->x), y = ct_shape_count(&d->y), w = param_count(d, 0);
  float *got = host_array(x + y + w, sizeof *got);

  if (job->pass == CT_FWD) {
    check(tensor_take(&b->y, got), "%s: padding or memory behind y", name);
    compare(name, "y", got, t->want[0].y, y, 0, low);
  } else if (job->pass == CT_BWD_DATA) {
    check(tensor_take(&b->x, got), "%s: padding or memory behind dx", name);
    compare(name, "dx", got, t->want[0].dx, x, floor, low);
  } else {
    convert(ready->w, b->w.mem, b->plain, got);
    compare(name, "dw", got, t->want[0].dw[0], w, floor, tolerance);
    if (t->in.w[1])
      compare(name, "db", b->bias.mem, t->want[0].dw[1], d->y.dim[1], floor, tolerance);
  }
  check(block_intact(&b->w) && block_intact(&b->bias) && block_intact(&b->scratch),
        "%s: memory behind the weights or scratch", name);
  ct_mem_free(got);
}

static void try_job(const cpu__way_t *way, const cpu__job_t *job, truth_t *t)
{
  static const char *const passes[] = {
      [CT_FWD] = "forward", [CT_BWD_DATA] = "data", [CT_BWD_PARAM] = "parameters"};
  cpu__ready_t ready = {0};
  char text[160], name[260];
  bench_t b;

  snprintf(name, sizeof name, "%s, %s, of %s (%s, x %s, y %s)", way->name, passes[job->pass],
           ct_op_text(job->desc, text, sizeof text), ct_dtype_name(job->desc->x.dtype),
           ct_layout_name(job->at.x), ct_layout_name(job->at.y));
  if (CT_ASSERT_OK(way->prepare(job, &ready)) == CT_OK) {
    bench_open(&b, job, &ready, t);
    void *at[CPU__ROLES] = {b.x.own.mem, b.w.mem, b.bias.mem, b.y.own.mem, b.scratch.mem};
    if (!t->in.w[1]) at[CPU__BIAS] = NULL;
    CT_ASSERT_OK(way->run(tested.dev, &ready, at));
    check_result(way, job, name, &b, &ready, t);
    bench_close(&b);
  }
  way->clear(&ready);
  cpu__md_free(ready.w);
}

/* ---- all rows ---- */

typedef struct tally {
  int jobs[CPU__PASSES];
} tally_t;

static void set_relu(ct_op_desc_t *d, int relu)
{
  if (d->kind == CT_OP_CONV)
    d->u.conv.relu = relu;
  else
    d->u.linear.relu = relu;
}

/* A row in all passes and pairs of layouts; one that cannot says why.  What is true is computed
 * when it is first needed. */
static void try_way(const cpu__ways_t *ways, const cpu__way_t *way, const op_case_t *c, truth_t *t,
                    int *known, tally_t *tally)
{
  for (int i = 0; i < CPU__PASSES * ways->pairs; i++) {
    cpu__job_t job = {tested.dev, &c->desc, 1 << i % CPU__PASSES, ways->pair[i / CPU__PASSES]};
    cpu__cost_t cost = {NAN, NAN};
    char why[128] = "";
    int can = way->can(&job, &cost, why);
    if (!check(can == 0 || can == 1, "%s: can() is %d", way->name, can)) break;
    if (!can) check(why[0] != 0, "%s does not say why it cannot", way->name);
    if (!can) continue;
    check(cost.each > 0 && cost.each < INFINITY && cost.once >= 0 && cost.once < INFINITY,
          "%s costs %g and %g", way->name, cost.each, cost.once);
    if (!*known && !truth_open(t, c)) break;
    *known = 1;
    try_job(way, &job, t);
    tally->jobs[i % CPU__PASSES]++;
  }
}

static void try_row(const cpu__ways_t *ways, const cpu__way_t *way, op_case_t c, tally_t *tally)
{
  truth_t t;
  int known = 0;
  if (!way->relu) set_relu(&c.desc, 0);
  try_way(ways, way, &c, &t, &known, tally);
  if (known) truth_close(&t);
}

/* As a kind asks its ways: linear layers see rows, whatever they belong to. */
static void flatten(op_case_t *c)
{
  int last = c->desc.x.ndim - 1;
  int64_t in = c->desc.x.dim[last], out = c->desc.y.dim[last],
          rows = ct_shape_count(&c->desc.x) / in;
  c->desc.x = ct_shape(2, rows, in);
  c->desc.y = ct_shape(2, rows, out);
}

static void try_cases(const cpu__ways_t *ways, const cpu__way_t *way, ct_op_kind_t kind,
                      int (*next)(int, op_case_t *), tally_t *tally)
{
  op_case_t c;

  for (int i = 0; next(i, &c); i++) {
    if (c.desc.kind != kind || c.big) continue;
    if (kind == CT_OP_LINEAR) flatten(&c);
    for (int low = 0; low < 2; low++) {
      c.desc.x.dtype = c.desc.y.dtype = low ? CT_BF16 : CT_F32;
      try_row(ways, way, c, tally);
    }
  }
}

/* Where processor and library have everything, no row may refuse all that it is asked for. */
static void check_tally(const cpu__way_t *way, const tally_t *tally)
{
  int complete = tested.dev->isa == CPU__AVX512 && tested.dev->bf16_rate > 0;

  printf("# %s: %d forward, %d data, %d parameters\n", way->name, tally->jobs[0], tally->jobs[1],
         tally->jobs[2]);
  for (int i = 0; i < CPU__PASSES && complete; i++)
    check(tally->jobs[i] > 0, "%s is never tried in pass %d", way->name, 1 << i);
}

static void every_row_of_convolution(void)
{
  const cpu__ways_t *ways = &cpu__conv_ways;

  for (int w = 0; w < CPU__WAYS_MAX && ways->way[w]; w++) {
    tally_t tally = {{0}};
    try_cases(ways, ways->way[w], CT_OP_CONV, case_conv, &tally);
    try_cases(ways, ways->way[w], CT_OP_CONV, case_volume, &tally);
    check_tally(ways->way[w], &tally);
  }
}

/* Results of more than CPU__STREAM_MIN bytes, with a last block that is not full: they are stored
 * around the caches, in pieces. */
static void rows_that_go_around_the_caches(void)
{
  static const int rows[][3] = {{3, 1, 9}, {3, 2, 9}, {1, 1, 20}}; /* kernel, stride, out */
  const cpu__ways_t *ways = &cpu__conv_ways;

  for (int i = 0; i < 3; i++) {
    op_case_t c = {.data = DATA_RANDOM};
    int kernel = rows[i][0], stride = rows[i][1], side = (370 - 1) / stride + 1;
    ct_shape_t x = ct_shape(4, 1, 9, 370, 370), y = ct_shape(4, 1, rows[i][2], side, side);
    ct_op_desc_init(&c.desc, CT_OP_CONV, &x, &y);
    c.desc.u.conv.groups = 1;
    for (int k = 0; k < 2; k++) {
      c.desc.u.conv.kernel[k] = kernel;
      c.desc.u.conv.pad[k] = kernel / 2;
      c.desc.u.conv.stride[k] = stride;
      c.desc.u.conv.dilate[k] = 1;
    }
    truth_t t;
    tally_t tally = {{0}};
    int known = 0;
    try_way(ways, &cpu__conv_winograd, &c, &t, &known, &tally);
    try_way(ways, &cpu__conv_tiled, &c, &t, &known, &tally);
    if (known) truth_close(&t);
    CU_ASSERT(tally.jobs[0] > 0 && tally.jobs[1] > 0 && tally.jobs[2] > 0);
  }
}

static void every_row_of_linear(void)
{
  const cpu__ways_t *ways = &cpu__linear_ways;

  for (int w = 0; w < CPU__WAYS_MAX && ways->way[w]; w++) {
    tally_t tally = {{0}};
    try_cases(ways, ways->way[w], CT_OP_LINEAR, case_linear, &tally);
    check_tally(ways->way[w], &tally);
  }
}

/* ---- what oneDNN is not given ---- */

typedef struct window {
  int kernel, stride, pad, dilate, from, to; /* lengths of the input */
} window_t;

/* A convolution whose dim `at` of `space` has this window; the others have one of 1. */
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

/* How many ways there are to the gradient of the weights: of oneDNN, and others. */
static void count_ways(const ct_op_desc_t *d, int *onednn, int *others)
{
  const cpu__ways_t *ways = &cpu__conv_ways;
  *onednn = *others = 0;
  for (int i = 0; i < CPU__WAYS_MAX * ways->pairs && ways->way[i / ways->pairs]; i++) {
    const cpu__way_t *way = ways->way[i / ways->pairs];
    cpu__job_t job = {tested.dev, d, CT_BWD_PARAM, ways->pair[i % ways->pairs]};
    cpu__cost_t cost;
    char why[128];
    int mine = way == &cpu__conv_direct || way == &cpu__conv_bf16;
    *(mine ? onednn : others) += way->can(&job, &cost, why);
  }
}

static void check_window(const window_t *w, int refused)
{
  for (int i = 0; i < 2 * 5 * (w->to - w->from + 1); i++) {
    int at = i % 5, space = at < 3 ? 3 : 2, length = w->from + i / 5 / 2, onednn, others;
    ct_op_desc_t d;
    char text[160];
    make_window(&d, w, length, space, at % 3);
    d.x.dtype = d.y.dtype = i / 5 % 2 ? CT_BF16 : CT_F32;
    const char *name = ct_op_text(&d, text, sizeof text);
    check(cpu__conv_overreaches(&d) == refused, "%s: refused: %d", name, !refused);
    count_ways(&d, &onednn, &others);
    check(others > 0, "%s: nobody computes the gradient", name);
    if (refused) check(onednn == 0, "%s: oneDNN computes the gradient", name);
  }
}

/* Those of which oneDNN's gradient was seen wrong with AVX-512, and their neighbours. */
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

/* Stems, the layers of residual networks down to maps of 2x2, of volumes down to 4x4x4. */
static void windows_of_usual_networks_are_given_to_onednn(void)
{
  static const window_t usual[] = {
      {7, 2, 3, 1, 224, 224}, {7, 2, 3, 1, 16, 16},   {11, 4, 2, 1, 224, 224}, {3, 2, 1, 1, 5, 112},
      {3, 1, 1, 1, 2, 56},    {5, 1, 2, 1, 3, 28},    {7, 1, 3, 1, 4, 14},     {3, 1, 2, 2, 3, 28},
      {2, 2, 0, 1, 2, 8},     {16, 16, 0, 1, 16, 16}, {1, 2, 0, 1, 1, 8},      {5, 2, 2, 1, 7, 28}};
  for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++)
    check_window(&usual[i], 0);
}

/* ---- the choice ---- */

enum { A, B, BARE };

static const cpu__way_t a = {.name = "a"}, b = {.name = "b"}, bare = {.as_it_lies = 1};
static const cpu__ways_t made_up = {.way = {[A] = &a, [B] = &b, [BARE] = &bare},
                                    .pair = {{CT_C16, CT_C16}, {CT_PLAIN, CT_PLAIN}},
                                    .pairs = 2};
static const cpu__layouts_t blocked = {CT_C16, CT_C16}, plain = {CT_PLAIN, CT_PLAIN};

static cpu__costs_t nothing_possible(void)
{
  cpu__costs_t c = {.ways = &made_up, .passes = CT_FWD, .x = 10, .y = 10};
  for (int w = 0; w < CPU__WAYS_MAX; w++)
    for (int k = 0; k < CPU__PAIRS_MAX; k++)
      c.of[0][w][k].each = INFINITY;
  return c;
}

static void the_cheapest_is_chosen(void)
{
  cpu__costs_t c = nothing_possible();
  CU_ASSERT(cpu__choose(&c, 0, blocked, 0).way == NULL);
  c.of[0][A][0].each = 50;
  c.of[0][B][0].each = 40;
  CU_ASSERT(cpu__choose(&c, 0, blocked, 0).way == &b);
  CU_ASSERT(cpu__choose(&c, 0, blocked, 1 << B).way == &a);
  CT_ASSERT_NEAR(cpu__choose(&c, 0, plain, 0).cost, 60, 0);
  c.of[0][A][0].each = 40;
  CU_ASSERT(cpu__choose(&c, 0, blocked, 0).way == &a); /* equals: the first */
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
  CU_ASSERT(choice.way == &a && choice.in_the_long_run == &b);
  CT_ASSERT_INT(choice.at.x, CT_C16);
  CT_ASSERT_NEAR(choice.cost, 30, 0);
  c.of[0][B][0].once = 19;
  CU_ASSERT(cpu__choose(&c, 0, blocked, 0).way == &b);
}

static void some_take_tensors_as_they_lie(void)
{
  cpu__costs_t c = nothing_possible();
  c.of[0][A][0].each = 50;
  c.of[0][BARE][0].each = 1;
  CU_ASSERT(cpu__choose(&c, 0, blocked, 0).way == &bare);
  CU_ASSERT(cpu__choose(&c, 0, plain, 0).way == &a);
  CU_ASSERT(cpu__choose(&c, 0, blocked, 1 << BARE).way == &a);
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

/* Whatever a version of oneDNN has for plain images: their layers do not end up in them. */
static void no_image_comes_out_plain(void)
{
  op_case_t c;
  for (int i = 0; tested.dev->isa > CPU__PORTABLE && case_conv(i, &c); i++) {
    const ct_op_desc_t *d = &c.desc;
    cpu__costs_t costs;
    double least;
    char text[160];
    if (d->u.conv.groups > 1 || d->y.dim[2] * d->y.dim[3] == 1) continue;
    if (CT_ASSERT_OK(cpu__ask(&cpu__conv_ways, tested.dev, d, &costs)) != CT_OK) continue;
    check(cpu__best_layouts(&costs, CT_PLAIN, &least).y != CT_PLAIN, "%s gives a plain image",
          ct_op_text(d, text, sizeof text));
  }
}

/* ---- weights that lie otherwise ---- */

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

/* Which way does the backward pass, if the weights lie as the forward pass has them? */
static const cpu__way_t *way_of_backward(const cpu__ways_t *ways)
{
  ct_shape_t x = ct_shape(4, 1, 16, 4, 4);
  cpu__product_op_t op = {.head.dev = tested.dev};
  ct_op_desc_init(&op.head.desc, CT_OP_CONV, &x, &x);
  op.head.desc.passes = CT_FWD | CT_BWD_DATA;
  op.head.desc.u.conv.groups = op.head.desc.u.conv.kernel[0] = op.head.desc.u.conv.kernel[1] = 1;
  ct_op_info_t info = ct_op_info_of(&op.head.desc, "");
  CT_ASSERT_OK(cpu__product_prepare(&op.head, ways, &op.head.desc, NULL, &info));
  const cpu__way_t *way = op.pass[1].way;
  cpu__product_clear(&op.head);
  return way;
}

static void who_converts_nothing_needs_its_own_weights(void)
{
  static const cpu__way_t leading = {
      .can = leading_can, .stored = plain_stored, .prepare = plain_prepare, .clear = clear_nothing};
  static const cpu__way_t follows = {.as_it_lies = 1,
                                     .can = bare_can,
                                     .stored = bare_stored,
                                     .prepare = plain_prepare,
                                     .clear = clear_nothing};
  static const cpu__ways_t ways = {
      .way = {&leading, &follows}, .pair = {{CT_PLAIN, CT_PLAIN}}, .pairs = 1};
  bare_format = CT_PLAIN;
  CU_ASSERT(way_of_backward(&ways) == &follows);
  bare_format = CPU__O8;
  CU_ASSERT(way_of_backward(&ways) == &leading);
}

/* ---- who is asked ---- */

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
  static const cpu__way_t first = {.can = first_can}, second = {.second = 1, .can = second_can};
  static const cpu__ways_t ways = {
      .way = {&second, &first}, .pair = {{CT_PLAIN, CT_PLAIN}, {CT_C8, CT_C8}}, .pairs = 2};
  ct_shape_t x = ct_shape(2, 10, 20), y = ct_shape(2, 10, 30);
  cpu__costs_t c;
  ct_op_desc_t d;
  ct_op_desc_init(&d, CT_OP_LINEAR, &x, &y);
  cost_of_first = 10 * 20 * 30;
  CT_ASSERT_OK(cpu__ask(&ways, tested.dev, &d, &c));
  CT_ASSERT_INT(seconds_asked, 0);
  CU_ASSERT(isinf(c.of[0][1][1].each)); /* nor is another layout looked at */
  cost_of_first += 1;
  CT_ASSERT_OK(cpu__ask(&ways, tested.dev, &d, &c));
  CT_ASSERT_INT(seconds_asked, 2);
  CT_ASSERT_NEAR(c.of[0][1][1].each, cost_of_first, 0);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(every_row_of_convolution),
      CT_TEST(rows_that_go_around_the_caches),
      CT_TEST(every_row_of_linear),
      CT_TEST(windows_over_a_whole_input_are_not_given_to_onednn),
      CT_TEST(windows_of_usual_networks_are_given_to_onednn),
      CT_TEST(the_cheapest_is_chosen),
      CT_TEST(costs_of_once_decide_among_equal_layouts),
      CT_TEST(some_take_tensors_as_they_lie),
      CT_TEST(layouts_follow_from_costs),
      CT_TEST(no_image_comes_out_plain),
      CT_TEST(who_converts_nothing_needs_its_own_weights),
      CT_TEST(the_second_choice_is_asked_where_the_first_is_not_perfect),
      CT_TEST_END,
  };
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
