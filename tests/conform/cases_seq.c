/* Test cases of sequence ops; see cases.c. */
#include <math.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "tests/conform/check.h"

/* {n, steps, features, hidden} */
static void make_lstm(const int r[4], op_case_t *out)
{
  ct_shape_t x = ct_shape(3, r[0], r[1], r[2]), y = ct_shape(3, r[0], r[1], r[3]);
  case_start(out, CT_OP_LSTM, &x, &y);
}

static int case_lstm(int i, op_case_t *out)
{
  /* the last four: several blocks of steps with a shorter last one, a step of many rows, many
   * panels of inputs, large weights (cpu/rnn.h) */
  static const int rows[][4] = {{3, 5, 7, 16},   {1, 1, 1, 1},    {2, 1, 8, 17},  {4, 9, 28, 32},
                                {5, 2, 3, 50},   {33, 6, 20, 64}, {1, 12, 40, 5}, {40, 11, 6, 40},
                                {200, 3, 9, 24}, {2, 3, 950, 8},  {3, 3, 8, 512}};

  if (i >= COUNT(rows)) return 0;
  make_lstm(rows[i], out);
  return 1;
}

/* {n, tokens, features, heads} */
static void make_attention(const int r[4], op_case_t *out)
{
  ct_shape_t x = ct_shape(3, r[0], r[1], r[2]);

  case_start(out, CT_OP_ATTENTION, &x, &x);
  out->desc.u.attention.heads = r[3];
}

static int case_attention(int i, op_case_t *out)
{
  static const int rows[][4] = {{2, 5, 16, 2},  {1, 1, 4, 1},   {3, 1, 6, 3},   {2, 17, 12, 4},
                                {1, 9, 20, 1},  {2, 40, 48, 6}, {1, 65, 64, 4}, {3, 4, 5, 5},
                                {1, 190, 6, 2}, {1, 197, 8, 2}, {2, 7, 66, 1},  {1, 35, 136, 1}};

  if (i >= COUNT(rows)) return 0;
  make_attention(rows[i], out);
  return 1;
}

/* x2 is added. */
static int case_attention_add(int i, op_case_t *out)
{
  int more = case_attention(i, out);
  out->desc.u.attention.add = 1;
  return more;
}

/* Scores of T x T are not kept, except by the reference: four times the tokens need four times the
 * memory. */
static void attention_memory(void)
{
  static const int rows[2][4] = {{1, 1024, 64, 2}, {1, 4096, 64, 2}};
  static const trial_t how = {.name = "memory", .passes = CT_FWD | CT_BWD_DATA | CT_BWD_PARAM};
  size_t bytes[2] = {0, 0};
  op_case_t c;
  rig_t r;
  if (!strcmp(tested.be->name, "ref")) return;
  for (int i = 0; i < 2; i++) {
    make_attention(rows[i], &c);
    if (check(rig_prepare(&r, &tested, &c.desc, &how) == CT_OK, "%s", ct_err_last()->text))
      bytes[i] = r.info.saved + r.info.scratch;
    rig_close(&r);
  }
  check(bytes[0] > 0 && bytes[1] < 5 * bytes[0], "attention of 1024 tokens: %zu bytes, 4096: %zu",
        bytes[0], bytes[1]);
}

/* Sums have a fixed order, also in a library's kernels: two runs give the same bits. */
static void attention_bits(ct_dtype_t type)
{
  static const int row[4] = {3, 197, 128, 2};
  static const trial_t how = {
      .name = "twice", .passes = CT_FWD | CT_BWD_DATA | CT_BWD_PARAM, .flags = RIG_JOINT};
  outputs_t out[2];
  inputs_t in;
  op_case_t c;
  rig_t r;
  char why[128];
  make_attention(row, &c);
  c.desc.x.dtype = c.desc.y.dtype = type;
  size_t bytes = (size_t)ct_shape_count(&c.desc.x) * sizeof(float);
  if (is_left_out(&c.desc.x, ct_op_flops(&c.desc, CT_FWD)) ||
      !tested.be->op->supports(tested.dev, &c.desc, why))
    return;
  inputs_open(&in, &c.desc, 5, DATA_RANDOM);
  for (int i = 0; i < 2; i++) {
    outputs_open(&out[i], &c.desc);
    check(!rig_open(&r, &tested, &c.desc, &how) && !rig_forward(&r, &in) &&
              !rig_backward(&r, &in) && !rig_take(&r, &out[i]),
          "attention, twice: %s", ct_err_last()->text);
    rig_close(&r);
  }
  check(!memcmp(out[0].y, out[1].y, bytes) && !memcmp(out[0].dx, out[1].dx, bytes),
        "attention in %s: other bits in another run", ct_dtype_name(type));
  outputs_close(&out[0]);
  outputs_close(&out[1]);
  inputs_close(&in);
}

static void check_attention(void)
{
  attention_memory();
  attention_bits(CT_F32);
  attention_bits(CT_BF16);
  attention_bits(CT_F16);
}

/* {n, features, height, width} */
static void make_tokens(const int r[4], op_case_t *out)
{
  ct_shape_t x = ct_shape(4, r[0], r[1], r[2], r[3]), y = ct_shape(3, r[0], 1 + r[2] * r[3], r[1]);
  case_start(out, CT_OP_TOKENS, &x, &y);
}

static int case_tokens(int i, op_case_t *out)
{
  static const int rows[][4] = {{2, 16, 4, 4}, {1, 1, 1, 1}, {3, 17, 2, 5}, {4, 64, 8, 8}};

  if (i >= COUNT(rows)) return 0;
  make_tokens(rows[i], out);
  return 1;
}

/* {n, steps, features, index} */
static void make_select(const int r[4], op_case_t *out)
{
  ct_shape_t x = ct_shape(3, r[0], r[1], r[2]), y = ct_shape(2, r[0], r[2]);

  case_start(out, CT_OP_SELECT, &x, &y);
  out->desc.u.select.index = r[3];
}

static int case_select(int i, op_case_t *out)
{
  static const int rows[][4] = {
      {2, 5, 7, 0}, {3, 4, 16, -1}, {1, 1, 1, -1}, {4, 6, 33, 5}, {2, 3, 4, 1}};

  if (i >= COUNT(rows)) return 0;
  make_select(rows[i], out);
  return 1;
}

/* ---- for central differences ---- */

static int small_lstm(int i, op_case_t *out)
{
  static const int rows[][4] = {{2, 3, 4, 3}, {1, 2, 1, 2}};
  if (i >= COUNT(rows)) return 0;
  make_lstm(rows[i], out);
  return 1;
}

/* Backwards in time, and without biases. */
static int case_lstm_other(int i, op_case_t *out)
{
  int more = case_lstm(i, out);
  out->desc.u.rnn.reverse = 1;
  out->desc.u.rnn.no_bias = i % 2;
  return more;
}

static int small_lstm_other(int i, op_case_t *out)
{
  int more = small_lstm(i, out);
  out->desc.u.rnn.reverse = 1;
  out->desc.u.rnn.no_bias = i % 2;
  return more;
}

const kind_cases_t cases_lstm = {.cases = {case_lstm, case_lstm_other},
                                 .small = {small_lstm, small_lstm_other}};

/* The same shapes and options. */
static int case_gru(int i, op_case_t *out)
{
  int more = i % 2 ? case_lstm_other(i / 2, out) : case_lstm(i / 2, out);
  out->desc.kind = CT_OP_GRU;
  return more;
}

static int small_gru(int i, op_case_t *out)
{
  int more = i % 2 ? small_lstm_other(i / 2, out) : small_lstm(i / 2, out);
  out->desc.kind = CT_OP_GRU;
  return more;
}

const kind_cases_t cases_gru = {.cases = {case_gru}, .small = {small_gru}};

static int small_attention(int i, op_case_t *out)
{
  static const int rows[][4] = {{2, 3, 4, 2}, {1, 4, 3, 1}};
  if (i >= COUNT(rows)) return 0;
  make_attention(rows[i], out);
  return 1;
}

const kind_cases_t cases_attention = {.cases = {case_attention, case_attention_add},
                                      .small = {small_attention},
                                      .check = check_attention};

static int small_tokens(int i, op_case_t *out)
{
  static const int row[4] = {2, 3, 2, 2};
  make_tokens(row, out);
  return i == 0;
}

const kind_cases_t cases_tokens = {.cases = {case_tokens}, .small = {small_tokens}};

/* A parameter of any shape. */
static int case_operand(int i, op_case_t *out)
{
  const ct_shape_t rows[] = {ct_shape(1, 1), ct_shape(3, 64, 1, 1), ct_shape(6, 1, 2, 3, 4, 5, 7)};
  if (i >= COUNT(rows)) return 0;
  case_start(out, CT_OP_OPERAND, &rows[i], &rows[i]);
  return 1;
}

const kind_cases_t cases_operand = {.cases = {case_operand}, .small = {case_operand}};

static int small_select(int i, op_case_t *out)
{
  static const int row[4] = {2, 3, 4, -1};
  make_select(row, out);
  return i == 0;
}

const kind_cases_t cases_select = {.cases = {case_select}, .small = {small_select}};

/* {n, steps, features, size of the cache} */
static void make_cache(const int r[4], op_case_t *out)
{
  ct_shape_t x = ct_shape(3, r[0], r[1], r[2]), y = ct_shape(3, r[0], r[3], r[2]);
  case_start(out, CT_OP_CACHE, &x, &y);
}

/* From position 0 on, where x fills the cache. */
static int case_cache(int i, op_case_t *out)
{
  static const int rows[][4] = {{2, 5, 8, 5}, {3, 4, 16, 4}, {1, 1, 1, 1}, {2, 300, 130, 300}};
  if (i >= COUNT(rows)) return 0;
  make_cache(rows[i], out);
  return 1;
}

/* Samples at their own places, one of them partly outside of the cache: no other row changes. */
static void cache_places(ct_dtype_t type, const int row[4])
{
  static const int32_t position[] = {4, 0, 6};
  static const trial_t how = {.name = "places", .passes = CT_FWD};
  op_case_t c;
  inputs_t in;
  block_t at;
  rig_t r;
  char why[128];
  make_cache(row, &c);
  c.desc.x.dtype = c.desc.y.dtype = type;
  if (!tested.be->op->supports(tested.dev, &c.desc, why)) return;
  const int n = row[0], steps = row[1], wide = row[2], size = row[3];
  float *y = host_array((int64_t)n * size * wide, sizeof *y);
  inputs_open(&in, &c.desc, 3, DATA_RANDOM);
  block_open(&at, &tested, sizeof position);
  block_put(&at, position, sizeof position);
  check(rig_open(&r, &tested, &c.desc, &how) == CT_OK, "%s", ct_err_last()->text);
  r.args.position = at.mem;
  check(rig_forward(&r, &in) == CT_OK, "%s", ct_err_last()->text);
  check(tensor_take(&r.y, y), "cache: wrote after its end");
  int bad = 0;
  for (int i = 0; i < n * size * wide; i++) {
    int s = i / (size * wide), t = i / wide % size - position[s];
    int written = t >= 0 && t < steps;
    bad += written ? y[i] != in.x[(s * steps + t) * wide + i % wide] : !isnan(y[i]);
  }
  check(bad == 0, "cache in %s: %d wrong elements", ct_dtype_name(type), bad);
  rig_close(&r);
  block_close(&at);
  inputs_close(&in);
  ct_mem_free(y);
}

static void check_cache(void)
{
  static const int rows[][4] = {{3, 2, 8, 7}, {3, 1, 5, 8}, {2, 3, 24, 8}};
  static const ct_dtype_t types[] = {CT_F32, CT_BF16, CT_F16};
  for (int i = 0; i < 9; i++)
    cache_places(types[i / 3], rows[i % 3]);
}

const kind_cases_t cases_cache = {.cases = {case_cache}, .check = check_cache, .straight = 1};
