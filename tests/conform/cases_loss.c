/* Test cases of losses; see cases.c. */
#include "tests/conform/cases.h"

typedef struct loss_row {
  int n, outputs;
  data_kind_t data;
  ct_loss_spec_t spec;
} loss_row_t;

/* Per-pixel labels; places[1] 0: the pixels are in one dim. */
typedef struct places_row {
  loss_row_t loss;
  int places[2];
} places_row_t;

static void make_loss(const loss_row_t *r, op_case_t *out)
{
  ct_shape_t x = ct_shape(2, r->n, r->outputs);

  case_start(out, CT_OP_LOSS, &x, &x);
  out->desc.u.loss = r->spec;
  out->data = r->data;
}

static int case_places(int i, op_case_t *out)
{
  static const places_row_t rows[] = {
      {{3, 2, DATA_TIES, {0}}, {5, 7}},
      {{2, 17, DATA_RANDOM, {.weighted = 1, .has_ignored = 1, .ignored = 255}}, {19, 33}},
      {{1, 4, DATA_TIES, {.label_smoothing = 0.2, .has_ignored = 1, .ignored = 1}}, {300}},
      {{2, 3, DATA_RANDOM, {.label_smoothing = 0.1, .weighted = 1, .sample_weighted = 1}},
       {40, 41}},
      {{2, 1, DATA_RANDOM, {.label_smoothing = 1}}, {3, 2}},
      {{2, 3, DATA_RANDOM, {.weighted = 1, .has_ignored = 1, .divisor = CT_DIVISOR_ELEMENTS}},
       {9, 50}},
      {{2, 3, DATA_RANDOM, {.sample_weighted = 1, .divisor = CT_DIVISOR_SAMPLES}}, {9, 50}},
      {{2,
        3,
        DATA_RANDOM,
        {.label_smoothing = 0.2, .weighted = 1, .sample_weighted = 1, .has_ignored = 1}},
       {2, 3}}};
  if (i >= COUNT(rows)) return 0;
  const places_row_t *r = &rows[i];
  ct_shape_t x = ct_shape(r->places[1] ? 4 : 3, r->loss.n, r->loss.outputs, r->places[0],
                          r->places[1] ? r->places[1] : 1);
  make_loss(&r->loss, out);
  out->desc.x = out->desc.y = x;
  return 1;
}

/* Weights of places, targets that are missing, focal factors, losses of a sample as a whole. */
static int case_weighed(int i, op_case_t *out)
{
  static const places_row_t rows[] = {
      {{2, 3, DATA_RANDOM, {.place_weighted = 1, .weighted = 1, .label_smoothing = 0.1}}, {20, 31}},
      {{2, 4, DATA_TIES, {.gamma = 2, .has_ignored = 1, .ignored = 1}}, {20, 31}},
      {{2, 4, DATA_RANDOM, {.gamma = 0.5, .weighted = 1, .place_weighted = 1}}, {300}},
      {{3, 70, DATA_RANDOM, {.gamma = 2, .weighted = 1, .place_weighted = 1}}, {1, 1}},
      {{2, 3, DATA_RANDOM, {.kind = CT_LOSS_MSE, .place_weighted = 1, .skips_nan = 1}}, {50, 61}},
      {{2, 3, DATA_RANDOM, {.kind = CT_LOSS_L1, .skips_nan = 1, .sample_weighted = 1}}, {5, 6}},
      {{2, 1, DATA_RANDOM, {.kind = CT_LOSS_HUBER, .param = 0.5, .skips_nan = 1}}, {1, 1}},
      {{2, 3, DATA_RANDOM, {.kind = CT_LOSS_SMOOTH_L1}}, {5, 6}},
      {{2, 3, DATA_RANDOM, {.kind = CT_LOSS_BCE, .weighted = 1, .place_weighted = 1}}, {9, 11}},
      {{2, 3, DATA_RANDOM, {.kind = CT_LOSS_BCE, .gamma = 2, .alpha = 0.25}}, {9, 11}},
      {{2, 3, DATA_SPREAD, {.kind = CT_LOSS_BCE, .gamma = 1.5, .weighted = 1}}, {9, 11}},
      {{2, 3, DATA_RANDOM, {.kind = CT_LOSS_KL, .divisor = CT_DIVISOR_SAMPLES}}, {9, 11}},
      {{2, 3, DATA_RANDOM, {.kind = CT_LOSS_DICE, .param = 1}}, {30, 31}},
      {{2,
        5,
        DATA_TIES,
        {.kind = CT_LOSS_DICE,
         .param = 1,
         .weighted = 1,
         .has_ignored = 1,
         .ignored = 255,
         .place_weighted = 1}},
       {23, 17}},
      {{3, 2, DATA_RANDOM, {.kind = CT_LOSS_DICE, .param = 0.1, .sample_weighted = 1}}, {700}},
      {{2,
        5,
        DATA_RANDOM,
        {.kind = CT_LOSS_SIGMOID_DICE, .param = 1, .weighted = 1, .place_weighted = 1}},
       {23, 17}},
      {{2, 1, DATA_RANDOM, {.kind = CT_LOSS_SIGMOID_DICE, .param = 1, .divisor = CT_DIVISOR_NONE}},
       {60, 60}},
      {{3, 2, DATA_RANDOM, {.kind = CT_LOSS_RELATIVE_L2, .sample_weighted = 1}}, {40, 41}},
      {{2, 2, DATA_RANDOM, {.kind = CT_LOSS_RELATIVE_L2, .skips_nan = 1, .place_weighted = 1}},
       {9, 7}},
      {{2,
        4,
        DATA_RANDOM,
        {.kind = CT_LOSS_SOFT_CROSS_ENTROPY,
         .weighted = 1,
         .place_weighted = 1,
         .label_smoothing = 0.2,
         .sample_weighted = 1}},
       {20, 31}},
      {{5, 40, DATA_TIES, {.kind = CT_LOSS_SOFT_CROSS_ENTROPY, .divisor = CT_DIVISOR_ELEMENTS}},
       {1, 1}},
  };
  if (i >= COUNT(rows)) return 0;
  const places_row_t *r = &rows[i];
  make_loss(&r->loss, out);
  out->desc.x = out->desc.y = ct_shape(r->places[1] ? 4 : 3, r->loss.n, r->loss.outputs,
                                       r->places[0], r->places[1] ? r->places[1] : 1);
  return 1;
}

/* Labels of places with the classes last, and z-loss. */
static int case_last(int i, op_case_t *out)
{
  static const places_row_t rows[] = {
      {{2, 7, DATA_TIES, {.classes_last = 1}}, {5, 1}},
      {{3, 65, DATA_RANDOM, {.classes_last = 1, .has_ignored = 1, .ignored = -100}}, {33, 1}},
      {{1, 3001, DATA_RANDOM, {.classes_last = 1, .label_smoothing = 0.1, .z_loss = 1e-2}}, {9, 1}},
      {{2,
        17,
        DATA_RANDOM,
        {.classes_last = 1,
         .weighted = 1,
         .sample_weighted = 1,
         .place_weighted = 1,
         .label_smoothing = 0.2,
         .has_ignored = 1,
         .ignored = 3}},
       {6, 5}},
      {{2, 5, DATA_TIES, {.classes_last = 1, .gamma = 2, .weighted = 1, .z_loss = 0.1}}, {7, 1}},
      {{2, 5, DATA_RANDOM, {.classes_last = 1, .divisor = CT_DIVISOR_SAMPLES}}, {7, 1}},
      {{2, 5, DATA_RANDOM, {.classes_last = 1, .divisor = CT_DIVISOR_ELEMENTS}}, {7, 1}},
      {{2, 5, DATA_RANDOM, {.z_loss = 0.1, .weighted = 1, .place_weighted = 1}}, {7, 40}},
      {{3, 9, DATA_RANDOM, {.z_loss = 0.1, .weighted = 1, .sample_weighted = 1}}, {0, 0}},
  };
  if (i >= COUNT(rows)) return 0;
  const places_row_t *r = &rows[i];
  int64_t n = r->loss.n, k = r->loss.outputs, h = r->places[0], w = r->places[1];
  make_loss(&r->loss, out);
  if (h)
    out->desc.x = r->loss.spec.classes_last ? ct_shape(4, n, h, w, k) : ct_shape(4, n, k, h, w);
  out->desc.y = out->desc.x;
  return 1;
}

static int case_loss(int i, op_case_t *out)
{
  static const loss_row_t rows[] = {
      {1, 2, DATA_RANDOM, {0}},
      {7, 5, DATA_TIES, {0}},
      {16, 10, DATA_RANDOM, {0}},
      {33, 10, DATA_TIES, {0}}, /* mixed labels */
      {5, 1000, DATA_RANDOM, {0}},
      {64, 17, DATA_TIES, {0}},
      {3, 4, DATA_SPREAD, {0}},
      {3, 50001, DATA_RANDOM, {.label_smoothing = 0.1}},
      {2, 3000, DATA_TIES, {.weighted = 1}},
      {16, 10, DATA_RANDOM, {.label_smoothing = 0.1}},
      {9, 10, DATA_RANDOM, {.label_smoothing = 0.2, .weighted = 1}},
      {20, 33, DATA_RANDOM, {.weighted = 1, .has_ignored = 1, .ignored = -100}},
      {33, 1000, DATA_RANDOM, {.weighted = 1, .has_ignored = 1, .ignored = 3}},
      {24, 17, DATA_RANDOM, {.label_smoothing = 0.1, .has_ignored = 1, .ignored = 255}},
      {2, 9000, DATA_TIES, {.kind = CT_LOSS_MSE}},
      {1, 1, DATA_RANDOM, {.kind = CT_LOSS_L1}},
      {8, 3, DATA_TIES, {.kind = CT_LOSS_L1}},
      {9, 100, DATA_RANDOM, {.kind = CT_LOSS_L1, .one_hot = 1}},
      {64, 200, DATA_TIES, {.kind = CT_LOSS_BCE, .one_hot = 1}},
      {6, 10, DATA_RANDOM, {.kind = CT_LOSS_BCE, .one_hot = 1}},
      {6, 10, DATA_RANDOM, {.sample_weighted = 1, .weighted = 1, .label_smoothing = 0.1}},
      {7, 5, DATA_RANDOM, {.kind = CT_LOSS_MSE, .sample_weighted = 1}},
      {4, 9, DATA_RANDOM, {.kind = CT_LOSS_BCE, .one_hot = 1, .sample_weighted = 1}},
      {3, 1, DATA_RANDOM, {.weighted = 1}},
      {5,
       300,
       DATA_RANDOM,
       {.kind = CT_LOSS_MSE, .sample_weighted = 1, .divisor = CT_DIVISOR_NONE}},
      {5,
       30,
       DATA_RANDOM,
       {.kind = CT_LOSS_L1, .sample_weighted = 1, .divisor = CT_DIVISOR_SAMPLES}},
      {5, 30, DATA_RANDOM, {.weighted = 1, .sample_weighted = 1, .divisor = CT_DIVISOR_ELEMENTS}},
      {12, 7, DATA_RANDOM, {.label_smoothing = 1, .weighted = 1, .sample_weighted = 1}},
  };

  if (i < COUNT(rows)) {
    make_loss(&rows[i], out);
    return 1;
  }
  /* each kind, with targets and with labels; a sample's outputs may have any shape */
  i -= COUNT(rows);
  ct_loss_kind_t kind = (ct_loss_kind_t)(i / 2);
  ct_shape_t x = ct_shape(kind == CT_LOSS_CROSS_ENTROPY ? 2 : 4, 4, 35, 5, 7);
  if (i >= 2 * CT_LOSS_COUNT) return 0;
  case_start(out, CT_OP_LOSS, &x, &x);
  out->desc.u.loss.kind = kind;
  out->desc.u.loss.one_hot = i % 2 && ct_loss_is_point(kind);
  out->desc.u.loss.param = 0.75;
  out->desc.u.loss.logs = kind == CT_LOSS_POISSON || i % 2;
  return 1;
}

/* L1 has no derivative where output and target are equal: the eight spread values are not near 0 or
 * 1. */
static int small_loss(int i, op_case_t *out)
{
  static const loss_row_t rows[] = {
      {4, 6, DATA_RANDOM, {0}},
      {6, 5, DATA_RANDOM, {.label_smoothing = 0.2, .weighted = 1, .has_ignored = 1, .ignored = 2}},
      {4, 3, DATA_RANDOM, {.kind = CT_LOSS_MSE}},
      {3, 5, DATA_RANDOM, {.kind = CT_LOSS_MSE, .one_hot = 1}},
      {2, 4, DATA_SPREAD, {.kind = CT_LOSS_L1, .one_hot = 1}},
      {4, 3, DATA_RANDOM, {.kind = CT_LOSS_BCE}},
      {3, 5, DATA_RANDOM, {.kind = CT_LOSS_BCE, .one_hot = 1}},
      {2, 4, DATA_RANDOM, {.sample_weighted = 1, .kind = CT_LOSS_BCE}},
      {4, 6, DATA_RANDOM, {.gamma = 2, .weighted = 1, .place_weighted = 1}},
      {4, 3, DATA_RANDOM, {.kind = CT_LOSS_BCE, .gamma = 2, .alpha = 0.25, .weighted = 1}},
      {4, 3, DATA_RANDOM, {.kind = CT_LOSS_BCE, .one_hot = 1, .gamma = 2.5}},
      {4, 3, DATA_RANDOM, {.kind = CT_LOSS_MSE, .place_weighted = 1, .skips_nan = 1}},
      {4, 3, DATA_RANDOM, {.kind = CT_LOSS_HUBER, .param = 8}},
      {4, 3, DATA_RANDOM, {.kind = CT_LOSS_SMOOTH_L1, .param = 8}},
      {4, 3, DATA_RANDOM, {.kind = CT_LOSS_KL}},
      {4, 3, DATA_RANDOM, {.kind = CT_LOSS_KL, .logs = 1}},
      {4, 3, DATA_RANDOM, {.kind = CT_LOSS_POISSON, .logs = 1}},
      {4, 3, DATA_RANDOM, {.kind = CT_LOSS_SOFT_MARGIN}},
      {4, 3, DATA_RANDOM, {.kind = CT_LOSS_HINGE_EMBEDDING, .param = 0.3}},
      {2, 5, DATA_RANDOM, {.kind = CT_LOSS_DICE, .param = 1, .weighted = 1}},
      {2, 5, DATA_RANDOM, {.kind = CT_LOSS_SIGMOID_DICE, .param = 1, .weighted = 1}},
      {3, 5, DATA_RANDOM, {.kind = CT_LOSS_RELATIVE_L2, .place_weighted = 1, .skips_nan = 1}},
      {3,
       5,
       DATA_RANDOM,
       {.kind = CT_LOSS_SOFT_CROSS_ENTROPY, .weighted = 1, .label_smoothing = 0.1}}};

  if (i == COUNT(rows)) return case_places(4, out);
  if (i > COUNT(rows)) return i < COUNT(rows) + 4 ? case_last(i - COUNT(rows) + 3, out) : 0;
  make_loss(&rows[i], out);
  return 1;
}

const kind_cases_t cases_loss = {.more = {case_loss, case_places, case_weighed, case_last},
                                 .small = {small_loss}};

/* ---- a linear layer and the cross-entropy of its outputs ---- */

typedef struct head_row {
  int n, places, in, out, bias;
  ct_loss_spec_t spec;
} head_row_t;

static void make_head(const head_row_t *r, op_case_t *out)
{
  ct_shape_t x = ct_shape(3, r->n, r->places, r->in), y = ct_shape(3, r->n, r->places, r->out);
  case_start(out, CT_OP_HEAD_LOSS, &x, &y);
  out->desc.u.head_loss.loss = r->spec;
  out->desc.u.head_loss.loss.classes_last = 1;
  out->desc.u.head_loss.bias = r->bias;
}

static int case_head(int i, op_case_t *out)
{
  static const head_row_t rows[] = {
      {2, 5, 8, 12, 0, {0}},
      {3, 7, 17, 300, 1, {.has_ignored = 1, .ignored = -100}},
      {2, 20, 48, 241, 0, {.z_loss = 1e-2}},
      {2, 3, 16, 1000, 1, {.label_smoothing = 0.1, .weighted = 1, .sample_weighted = 1}},
      {3, 9, 8, 70, 0, {.gamma = 2, .place_weighted = 1, .z_loss = 1e-3}},
      {1, 1, 4, 5, 1, {.divisor = CT_DIVISOR_SAMPLES}},
  };
  if (i >= COUNT(rows)) return 0;
  make_head(&rows[i], out);
  return 1;
}

/* Several chunks and groups of blocks. */
static int case_large_head(int i, op_case_t *out)
{
  static const head_row_t rows[] = {
      {2, 300, 24, 500, 1, {.has_ignored = 1, .ignored = 3}},
      {1, 37, 16, 8100, 0, {.label_smoothing = 0.1}},
  };
  if (i >= COUNT(rows)) return 0;
  make_head(&rows[i], out);
  return 1;
}

static int small_head(int i, op_case_t *out)
{
  static const head_row_t rows[] = {
      {2, 3, 4, 6, 1, {0}},
      {2,
       2,
       3,
       5,
       1,
       {.label_smoothing = 0.2,
        .weighted = 1,
        .has_ignored = 1,
        .ignored = 2,
        .z_loss = 0.01,
        .sample_weighted = 1}},
  };
  if (i >= COUNT(rows)) return 0;
  make_head(&rows[i], out);
  return 1;
}

/* A 1x1 convolution over pixels; places: of an image, of which each has `high` rows. */
static void make_pixels(const head_row_t *r, int high, op_case_t *out)
{
  ct_shape_t x = ct_shape(4, r->n, r->in, high, r->places), y = x;
  y.dim[1] = r->out;
  case_start(out, CT_OP_HEAD_LOSS, &x, &y);
  out->desc.u.head_loss.loss = r->spec;
  out->desc.u.head_loss.bias = r->bias;
}

static int case_pixels(int i, op_case_t *out)
{
  static const head_row_t rows[] = {
      {2, 5, 8, 12, 0, {0}},
      {3, 7, 17, 30, 1, {.has_ignored = 1, .ignored = 255}},
      {2, 20, 48, 241, 0, {.z_loss = 1e-2}},
      {2, 3, 16, 150, 1, {.label_smoothing = 0.1, .weighted = 1, .sample_weighted = 1}},
      {3, 9, 5, 7, 0, {.gamma = 2, .place_weighted = 1, .z_loss = 1e-3, .weighted = 1}},
      {1, 1, 4, 5, 1, {.divisor = CT_DIVISOR_SAMPLES}},
  };
  if (i > COUNT(rows)) return 0;
  make_pixels(&rows[i % COUNT(rows)], 3, out);
  if (i < COUNT(rows)) return 1;
  out->desc.x = ct_shape(5, 2, 8, 2, 3, 5); /* a volume */
  out->desc.y = ct_shape(5, 2, 12, 2, 3, 5);
  return 1;
}

/* Several chunks, and groups of chunks. */
static int case_large_pixels(int i, op_case_t *out)
{
  static const head_row_t rows[] = {
      {2, 61, 24, 50, 1, {.has_ignored = 1, .ignored = 3}},
      {3, 37, 16, 1100, 0, {.label_smoothing = 0.1}},
  };
  if (i >= COUNT(rows)) return 0;
  make_pixels(&rows[i], 41 - 30 * i, out);
  return 1;
}

static int small_pixels(int i, op_case_t *out)
{
  static const head_row_t rows[] = {
      {2, 3, 4, 6, 1, {0}},
      {2,
       2,
       3,
       5,
       1,
       {.label_smoothing = 0.2,
        .weighted = 1,
        .has_ignored = 1,
        .ignored = 2,
        .z_loss = 0.01,
        .sample_weighted = 1}},
  };
  if (i >= COUNT(rows)) return 0;
  make_pixels(&rows[i], 2, out);
  return 1;
}

const kind_cases_t cases_head_loss = {.cases = {case_head, case_pixels},
                                      .more = {case_large_head, case_large_pixels},
                                      .small = {small_head, small_pixels}};
