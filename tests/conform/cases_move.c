/* Test cases of ops that move elements; see cases.c. */
#include <math.h>
#include <string.h>

#include "base/ct_err.h"
#include "tests/conform/check.h"

/* A map as in ct_op_desc_t, of dims below 0 in `from` for "none". */
typedef struct map_row {
  int ndim, dim[CT_MAX_DIMS]; /* of x */
  int out, size[CT_MAX_DIMS]; /* of y */
  int from[CT_MAX_DIMS], step[CT_MAX_DIMS];
  int start[CT_MAX_DIMS], edge[CT_MAX_DIMS];
  double value;
} map_row_t;

#define ONES               \
  {                        \
    1, 1, 1, 1, 1, 1, 1, 1 \
  }
#define SAME               \
  {                        \
    0, 1, 2, 3, 4, 5, 6, 7 \
  }
#define EDGES(e)           \
  {                        \
    e, e, e, e, e, e, e, e \
  }
static const map_row_t rows[] = {
    /* permute: matrices, to and from channels last, the heads of attention, all dims */
    {2, {5, 7}, 2, {7, 5}, {1, 0}, ONES, {0}, {0}, 0},
    {2, {70, 90}, 2, {90, 70}, {1, 0}, ONES, {0}, {0}, 0},
    {4, {2, 16, 5, 7}, 4, {2, 5, 7, 16}, {0, 2, 3, 1}, ONES, {0}, {0}, 0},
    {4, {2, 5, 33, 20}, 4, {2, 20, 5, 33}, {0, 3, 1, 2}, ONES, {0}, {0}, 0},
    {5, {2, 9, 3, 4, 8}, 5, {3, 2, 4, 9, 8}, {2, 0, 3, 1, 4}, ONES, {0}, {0}, 0},
    {3, {17, 3, 40}, 3, {40, 3, 17}, {2, 1, 0}, ONES, {0}, {0}, 0},
    {8,
     {2, 3, 1, 2, 3, 2, 1, 2},
     8,
     {2, 1, 2, 3, 2, 1, 3, 2},
     {7, 6, 5, 4, 3, 2, 1, 0},
     ONES,
     {0},
     {0},
     0},
    /* slices, with steps, reversed, of channels in whole blocks and not */
    {3, {3, 9, 5}, 3, {3, 4, 5}, SAME, {1, 2, 1}, {0, 1, 0}, {0}, 0},
    {4, {2, 48, 3, 5}, 4, {2, 16, 3, 5}, SAME, ONES, {0, 16, 0, 0}, {0}, 0},
    {4, {2, 40, 3, 5}, 4, {2, 8, 3, 5}, SAME, ONES, {0, 32, 0, 0}, {0}, 0},
    {4, {2, 20, 3, 5}, 4, {2, 9, 3, 5}, SAME, ONES, {0, 3, 0, 0}, {0}, 0},
    {4, {2, 6, 5, 7}, 4, {2, 6, 5, 7}, SAME, {1, 1, -1, -1}, {0, 0, 4, 6}, {0}, 0},
    /* padding: zeros, a constant, the three rules for edges, cropping */
    {4, {2, 16, 5, 7}, 4, {2, 16, 8, 10}, SAME, ONES, {0, 0, -1, -2}, {0}, 0},
    {4, {2, 5, 5, 7}, 4, {2, 5, 8, 10}, SAME, ONES, {0, 0, -1, -2}, {0}, -1.5},
    {4, {2, 16, 5, 7}, 4, {2, 16, 11, 14}, SAME, ONES, {0, 0, -3, -4}, EDGES(CT_EDGE_REFLECT), 0},
    {4, {2, 5, 5, 7}, 4, {2, 5, 11, 14}, SAME, ONES, {0, 0, -3, -4}, EDGES(CT_EDGE_REPLICATE), 0},
    {4, {2, 16, 5, 7}, 4, {2, 16, 11, 14}, SAME, ONES, {0, 0, -3, -4}, EDGES(CT_EDGE_WRAP), 0},
    {5,
     {2, 8, 2, 3, 4},
     5,
     {2, 8, 4, 6, 5},
     SAME,
     ONES,
     {0, 0, -1, -2, 0},
     EDGES(CT_EDGE_REPLICATE),
     0},
    {3, {2, 3, 9}, 3, {2, 3, 5}, SAME, ONES, {0, 0, 2}, {0}, 0},
    {2, {1, 1}, 2, {5, 6}, SAME, ONES, {-2, -2}, EDGES(CT_EDGE_REFLECT), 0},
    /* far outside: several periods */
    {1, {3}, 1, {40}, SAME, ONES, {-20}, EDGES(CT_EDGE_REFLECT), 0},
    {1, {3}, 1, {40}, SAME, {-1}, {20}, EDGES(CT_EDGE_WRAP), 0},
    {1, {3}, 1, {40}, SAME, {-3}, {60}, EDGES(CT_EDGE_REPLICATE), 0},
    /* roll */
    {4, {2, 7, 6, 20}, 4, {2, 7, 6, 20}, SAME, ONES, {0, 3, 2, 0}, EDGES(CT_EDGE_WRAP), 0},
    {2, {3, 50}, 2, {3, 50}, SAME, ONES, {0, -13}, EDGES(CT_EDGE_WRAP), 0},
    /* expand and repeat */
    {4, {2, 16, 1, 1}, 4, {2, 16, 5, 7}, {0, 1, -1, -1}, ONES, {0}, {0}, 0},
    {1, {40}, 3, {3, 5, 40}, {-1, -1, 0}, ONES, {0}, {0}, 0},
    {2, {9, 1}, 3, {4, 9, 300}, {-1, 0, -1}, ONES, {0}, {0}, 0},
    {2, {3, 5}, 2, {6, 15}, SAME, ONES, {0}, EDGES(CT_EDGE_WRAP), 0},
    {1, {1}, 2, {30, 400}, {-1, -1}, ONES, {0}, {0}, 0},
    /* windows: of a row, of images with padding, stride and dilation */
    {2, {3, 20}, 3, {3, 6, 5}, {0, 1, 1}, {1, 3, 1}, {0}, {0}, 0},
    {4,
     {2, 3, 7, 9},
     6,
     {2, 3, 3, 2, 4, 5},
     {0, 1, 2, 3, 2, 3},
     {1, 1, 1, 2, 2, 2},
     {0, 0, -1, -1},
     {0},
     0},
    {5, {1, 2, 4, 5, 6}, 8, {1, 2, 2, 2, 2, 3, 4, 5}, {0, 1, 2, 3, 4, 2, 3, 4}, ONES, {0}, {0}, 0},
    /* channels that become blocks of an image or a volume, all or as rows of a larger tensor */
    {4, {2, 5, 3, 32}, 4, {2, 32, 5, 3}, {0, 3, 1, 2}, ONES, {0}, {0}, 0},
    {4, {2, 20, 7, 16}, 4, {7, 16, 2, 11}, {2, 3, 0, 1}, {1, 1, 1, -1}, {0, 15, 0, 0}, {0}, 0},
    {5, {2, 3, 4, 5, 48}, 5, {2, 48, 6, 4, 5}, {0, 4, 1, 2, 3}, ONES, {0, -1, 0, 0, 0}, {0}, 2},
    {4, {2, 20, 32, 7}, 4, {2, 32, 20, 9}, {0, 2, 1, 3}, ONES, {0, 0, 0, -1}, {0}, 3},
    {4, {1, 9, 16, 3}, 4, {3, 16, 4, 9}, {3, 2, -1, 1}, ONES, {0}, {0}, 0},
    /* one index of a dim; a dim that is not read; the diagonal */
    {3, {3, 5, 8}, 2, {3, 8}, {0, 2}, ONES, {0, 2, 0}, {0}, 0},
    {3, {3, 5, 8}, 1, {3}, {0}, ONES, {0, 4, 7}, {0}, 0},
    {2, {6, 6}, 1, {6}, {0}, ONES, {0, 3}, {0}, 0},
    {3, {2, 6, 3}, 3, {2, 3, 4}, {0, 1, 1}, {1, 2, -1}, {0, 3, 1}, EDGES(CT_EDGE_WRAP), 0}};
static const map_row_t small_rows[] = {
    {3, {2, 3, 4}, 3, {4, 2, 3}, {2, 0, 1}, ONES, {0}, {0}, 0},
    {3, {2, 2, 3}, 3, {2, 4, 6}, SAME, ONES, {0, -1, -2}, EDGES(CT_EDGE_REFLECT), 0},
    {3, {2, 2, 3}, 3, {2, 4, 6}, SAME, ONES, {0, -1, -2}, EDGES(CT_EDGE_REPLICATE), 0},
    {3, {2, 2, 3}, 3, {2, 4, 6}, SAME, ONES, {0, -1, -2}, EDGES(CT_EDGE_WRAP), 0},
    {3, {2, 2, 3}, 3, {2, 4, 6}, SAME, ONES, {0, -1, -2}, {0}, 2},
    {2, {3, 9}, 3, {3, 4, 3}, {0, 1, 1}, {1, 2, 1}, {0}, {0}, 0},
    {2, {2, 3}, 3, {4, 2, 3}, {-1, 0, 1}, ONES, {0}, {0}, 0}};

static void make_strided(const map_row_t *r, op_case_t *out)
{
  ct_shape_t x = ct_shape(r->ndim, 0), y = ct_shape(r->out, 0);
  for (int i = 0; i < r->ndim; i++)
    x.dim[i] = r->dim[i];
  for (int i = 0; i < r->out; i++)
    y.dim[i] = r->size[i];
  case_start(out, CT_OP_STRIDED, &x, &y);
  for (int i = 0; i < r->out; i++) {
    out->desc.u.strided.from[i] = r->from[i];
    out->desc.u.strided.step[i] = r->step[i];
  }
  for (int i = 0; i < r->ndim; i++) {
    out->desc.u.strided.start[i] = r->start[i];
    out->desc.u.strided.edge[i] = r->edge[i];
  }
  out->desc.u.strided.value = r->value;
}

static int case_strided(int i, op_case_t *out)
{
  if (i >= COUNT(rows)) return 0;
  make_strided(&rows[i], out);
  return 1;
}

/* The shuffle of pixels, whose map is about other dims than those of the tensors. */
static int case_views(int i, op_case_t *out)
{
  static const map_row_t pixels = {
      6, {2, 3, 2, 3, 4, 5}, 6, {2, 3, 4, 2, 5, 3}, {0, 1, 4, 2, 5, 3}, ONES, {0}, {0}, 0};
  ct_op_desc_t *d = &out->desc;
  if (i > 0) return 0;
  make_strided(&pixels, out);
  d->u.strided.x_view_dims = d->u.strided.y_view_dims = 6;
  memcpy(d->u.strided.x_view, d->x.dim, sizeof d->x.dim);
  memcpy(d->u.strided.y_view, d->y.dim, sizeof d->y.dim);
  d->x = ct_shape(4, 2, 18, 4, 5);
  d->y = ct_shape(4, 2, 3, 8, 15);
  return 1;
}

static int small_strided(int i, op_case_t *out)
{
  if (i >= COUNT(small_rows)) return 0;
  make_strided(&small_rows[i], out);
  return 1;
}

/* ---- rows of a table ---- */

typedef struct rows_row {
  int ndim, dim[3]; /* of the indices */
  int rows, width, padding, input;
} rows_row_t;

static void make_rows(const rows_row_t *r, op_case_t *out)
{
  ct_shape_t x = ct_shape(r->ndim, r->dim[0], r->dim[1], r->dim[2]), y = x;
  ct_shape_t table = ct_shape(2, r->rows, r->width);
  y.dim[y.ndim++] = r->width;
  case_start(out, CT_OP_ROWS, &x, &y);
  out->desc.u.rows.rows = r->rows;
  out->desc.u.rows.padding = r->padding;
  if (r->input) ct_op_desc_more(&out->desc, &table, NULL);
}

static int case_rows(int i, op_case_t *out)
{
  static const rows_row_t of[] = {{2, {3, 5, 1}, 7, 4, 0, 0},    {1, {1, 1, 1}, 1, 1, 0, 0},
                                  {2, {3, 5, 1}, 7, 4, 3, 0},    {3, {2, 4, 6}, 30, 33, 0, 0},
                                  {2, {20, 50, 1}, 3, 20, 0, 0}, {2, {3, 5, 1}, 5000, 16, 1, 0},
                                  {2, {3, 5, 1}, 7, 4, 0, 1},    {1, {40, 1, 1}, 300, 65, 0, 1}};
  if (i >= COUNT(of)) return 0;
  make_rows(&of[i], out);
  return 1;
}

static int small_rows_of(int i, op_case_t *out)
{
  static const rows_row_t of[] = {
      {2, {2, 3, 1}, 4, 3, 0, 0}, {2, {2, 3, 1}, 4, 3, 2, 0}, {2, {2, 3, 1}, 4, 3, 0, 1}};
  if (i >= COUNT(of)) return 0;
  make_rows(&of[i], out);
  return 1;
}

/* An index that is no row is an error, at once or when the host waits. */
static void bad_index(void)
{
  static const float bad[] = {-1, 7, 1.5f, 1e30f, NAN};
  static const trial_t how = {.name = "index", .passes = CT_FWD};
  op_case_t c;
  inputs_t in;
  rig_t r;
  case_rows(0, &c);
  inputs_open(&in, &c.desc, 1, DATA_RANDOM);
  for (int i = 0; i < COUNT(bad); i++) {
    in.x[4] = bad[i];
    check(rig_open(&r, &tested, &c.desc, &how) == CT_OK, "%s", ct_err_last()->text);
    check(rig_forward(&r, &in) == CT_ERR_DATA && strstr(ct_err_last()->text, "not a row"),
          "index %g: no error", (double)bad[i]);
    rig_close(&r);
  }
  in.x[4] = 6;
  check(!rig_open(&r, &tested, &c.desc, &how) && !rig_forward(&r, &in), "%s", ct_err_last()->text);
  rig_close(&r);
  inputs_close(&in);
}

const kind_cases_t cases_rows = {
    .cases = {case_rows}, .small = {small_rows_of}, .check = bad_index};
const kind_cases_t cases_strided = {.cases = {case_strided, case_views}, .small = {small_strided}};
