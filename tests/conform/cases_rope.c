/* Test cases of places in sequences and of rotation by them; see cases.c. */
#include <math.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "tests/conform/cases.h"
#include "tests/conform/check.h"

/* ---- places ---- */

static int case_position(int i, op_case_t *out)
{
  static const int dim[][4] = {{2, 5, 0, 0}, {2, 5, 0, 1}, {3, 4, 7, 0}, {1, 1, 0, 1}};
  if (i >= COUNT(dim)) return 0;
  ct_shape_t y = ct_shape(2, dim[i][0], dim[i][1]), x = y;
  if (dim[i][2]) x = ct_shape(3, dim[i][0], dim[i][1], dim[i][2]);
  case_start(out, CT_OP_POSITION, &x, &y);
  out->desc.u.position.relative = dim[i][3];
  return 1;
}

/* ---- rotation ---- */

typedef struct rope_row {
  int n, steps, width, heads, dim, interleaved, given;
  ct_rope_scaling_t scaling;
} rope_row_t;

static void make_rope(const rope_row_t *r, op_case_t *out)
{
  ct_shape_t x = ct_shape(3, r->n, r->steps, r->width), places = ct_shape(2, r->n, r->steps);
  case_start(out, CT_OP_ROPE, &x, &x);
  if (r->given) ct_op_desc_more(&out->desc, &places, NULL);
  out->desc.u.rope = (ct_rope_t){.heads = r->heads,
                                 .dim = r->dim,
                                 .interleaved = r->interleaved,
                                 .scaling = r->scaling,
                                 .theta = r->scaling ? 5e5 : 1e4,
                                 .factor = 8,
                                 .low = 1,
                                 .high = 4,
                                 .original = 64};
}

static int case_rope(int i, op_case_t *out)
{
  static const rope_row_t of[] = {
      {2, 7, 24, 3, 8, 0, 0, CT_ROPE_PLAIN},     {2, 7, 24, 3, 8, 1, 0, CT_ROPE_PLAIN},
      {3, 5, 40, 2, 14, 0, 1, CT_ROPE_PLAIN},    {3, 5, 40, 2, 14, 1, 1, CT_ROPE_LLAMA3},
      {1, 1, 2, 1, 2, 0, 0, CT_ROPE_LINEAR},     {2, 33, 130, 1, 128, 0, 0, CT_ROPE_LLAMA3},
      {4, 40, 192, 2, 64, 0, 0, CT_ROPE_LINEAR}, {4, 40, 192, 3, 64, 0, 1, CT_ROPE_PLAIN},
  };
  if (i >= COUNT(of)) return 0;
  make_rope(&of[i], out);
  return 1;
}

static int small_rope(int i, op_case_t *out)
{
  static const rope_row_t of[] = {{2, 3, 6, 1, 4, 0, 0, CT_ROPE_PLAIN},
                                  {2, 3, 8, 2, 4, 1, 0, CT_ROPE_PLAIN},
                                  {2, 3, 8, 2, 4, 0, 1, CT_ROPE_LLAMA3}};
  if (i >= COUNT(of)) return 0;
  make_rope(&of[i], out);
  return 1;
}

/* ---- a place of each sample, as in decoding ---- */

/* Runs the forward pass with the samples at given places. */
static void run_at(const ct_op_desc_t *d, const int32_t *position, float *y, float *x)
{
  static const trial_t how = {.name = "position", .passes = CT_FWD};
  inputs_t in;
  rig_t r;
  block_t at;
  inputs_open(&in, d, 1, DATA_RANDOM);
  block_open(&at, &tested, (size_t)d->y.dim[0] * sizeof *position);
  block_put(&at, position, (size_t)d->y.dim[0] * sizeof *position);
  check(rig_open(&r, &tested, d, &how) == CT_OK, "%s", ct_err_last()->text);
  r.args.position = at.mem;
  check(rig_forward(&r, &in) == CT_OK, "%s", ct_err_last()->text);
  check(tensor_take(&r.y, y), "y is written past its end");
  memcpy(x, in.x, (size_t)ct_shape_count(&d->x) * sizeof *x);
  rig_close(&r);
  block_close(&at);
  inputs_close(&in);
}

static void position_of_samples(void)
{
  static const int32_t position[2] = {70000, 3};
  for (int i = 0; i < 2; i++) {
    op_case_t c;
    float y[10], x[10];
    case_position(i, &c);
    run_at(&c.desc, position, y, x);
    for (int k = 0; k < 10; k++) {
      float want = (float)(position[k / 5] + k % 5) - (i == 1 ? x[k] : 0);
      check(y[k] == want, "element %d is at %g, not %g", k, (double)y[k], (double)want);
    }
  }
}

/* Pair i of a head of 4 turns by place * 10000^(-i/2) radians. */
static void rope_of_samples(void)
{
  static const int32_t position[2] = {5, 1000};
  static const rope_row_t row = {2, 3, 6, 1, 4, 0, 0, CT_ROPE_PLAIN};
  op_case_t c;
  float y[36], x[36];
  make_rope(&row, &c);
  run_at(&c.desc, position, y, x);
  for (int r = 0; r < 6; r++) {
    for (int k = 0; k < 6; k++) {
      const float *own = x + 6 * r;
      double angle = (position[r / 3] + r % 3) * (k % 2 ? 0.01 : 1.0), sign = k < 2 ? -1 : 1;
      double want = own[k] * cos(angle) + sign * own[(k + 2) % 4] * sin(angle);
      if (k >= 4) want = own[k];
      check(fabs(y[6 * r + k] - want) < 1e-4, "row %d: feature %d is %g, not %g", r, k,
            (double)y[6 * r + k], want);
    }
  }
}

const kind_cases_t cases_position = {
    .cases = {case_position}, .check = position_of_samples, .straight = 1};
const kind_cases_t cases_rope = {
    .cases = {case_rope}, .small = {small_rope}, .check = rope_of_samples};
