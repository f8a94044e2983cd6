/* Test cases of normalisations; see cases.c. */
#include "tests/conform/cases.h"

/* ---- batch normalisation ---- */

typedef struct bnorm_row {
  int ndim, dim[4], training, relu, add;
  double momentum;
} bnorm_row_t;

static void make_bnorm(const bnorm_row_t *r, op_case_t *out)
{
  ct_shape_t x = case_shape(r->ndim, r->dim);

  case_start(out, CT_OP_BNORM, &x, &x);
  out->desc.training = r->training;
  out->desc.u.bnorm.eps = 1e-5;
  out->desc.u.bnorm.momentum = r->momentum;
  out->desc.u.bnorm.relu = r->relu;
  out->desc.u.bnorm.add = r->add;
}

/* Of parts of larger tensors: of whole blocks of 16 or 8 channels, or not. */
static int part_bnorm(int i, op_case_t *out)
{
  static const bnorm_row_t rows[] = {{4, {3, 32, 3, 5}, 1, 1, 0, 0.1},
                                     {4, {2, 8, 4, 4}, 1, 0, 0, 0.1},
                                     {4, {4, 7, 5, 3}, 1, 6, 0, 0.1},
                                     {4, {2, 48, 3, 3}, 0, 1, 0, 0.1},
                                     {4, {6, 16, 1, 1}, 1, 1, 0, 0.1}};
  static const int64_t within[] = {48, 20, 8, 50, 32};

  if (i >= COUNT(rows)) return 0;
  make_bnorm(&rows[i], out);
  out->desc.within = within[i];
  return 1;
}

int case_bnorm(int i, op_case_t *out)
{
  static const bnorm_row_t rows[] = {
      {4, {4, 16, 5, 7}, 1, 0, 0, 0.1},   {4, {2, 32, 8, 8}, 1, 1, 0, 0.1},
      {4, {3, 64, 4, 4}, 1, 1, 1, 0.1},   {4, {2, 17, 5, 5}, 1, 0, 1, 0.01},
      {4, {5, 3, 3, 1}, 1, 1, 1, 1.0},    {4, {1, 20, 5, 7}, 1, 1, 0, 0.1},
      {2, {6, 33}, 1, 0, 0, 0.1},         {4, {8, 6, 1, 1}, 1, 1, 1, 0.1},
      {4, {8, 16, 24, 24}, 1, 1, 1, 0.1}, {4, {4, 16, 5, 7}, 0, 0, 0, 0.1},
      {4, {2, 20, 4, 4}, 0, 1, 0, 0.1},   {4, {2, 64, 3, 3}, 0, 1, 1, 0.1},
      {2, {1, 17}, 0, 0, 0, 0.1},         {4, {4, 32, 132, 132}, 1, 1, 1, 0.1},
      {4, {2, 16, 3, 5}, 1, 6, 0, 0.1},   {4, {2, 19, 3, 3}, 1, 6, 1, 0.1},
      {4, {2, 20, 2, 4}, 0, 6, 0, 0.1},   {2, {6, 33}, 1, 6, 1, 0.1},
      {4, {1, 6, 1, 1}, 1, 0, 0, 0.1}, /* one element per channel */
  };

  if (i >= COUNT(rows)) return part_bnorm(i - COUNT(rows), out);
  make_bnorm(&rows[i], out);
  return 1;
}

static int case_bnorm3(int i, op_case_t *out)
{
  ct_shape_t x = ct_shape(5, 2, 20, 3, 2, 5);

  case_start(out, CT_OP_BNORM, &x, &x);
  out->desc.training = i > 0;
  out->desc.u.bnorm.eps = 1e-5;
  out->desc.u.bnorm.momentum = 0.1;
  out->desc.u.bnorm.relu = out->desc.u.bnorm.add = i > 1;
  return i < 3;
}

static int small_bnorm(int i, op_case_t *out)
{
  static const bnorm_row_t rows[] = {
      {4, {2, 3, 3, 2}, 1, 0, 0, 0.1}, {4, {2, 2, 3, 3}, 1, 1, 1, 0.1}, {2, {8, 3}, 1, 1, 0, 0.1},
      {4, {2, 3, 2, 2}, 0, 1, 1, 0.1}, {4, {2, 3, 3, 2}, 0, 0, 0, 0.1}, {2, {8, 3}, 0, 1, 0, 0.1}};

  if (i >= COUNT(rows)) return 0;
  make_bnorm(&rows[i], out);
  return 1;
}

const kind_cases_t cases_bnorm = {.cases = {case_bnorm, case_bnorm3}, .small = {small_bnorm}};

/* ---- layer normalisation ---- */

static void make_lnorm(const int dim[4], int rms, op_case_t *out)
{
  ct_shape_t x = ct_shape(dim[3] ? 4 : dim[2] ? 3 : 2, dim[0], dim[1], dim[2], dim[3]);

  case_start(out, CT_OP_LNORM, &x, &x);
  out->desc.u.lnorm.eps = 1e-5;
  out->desc.u.lnorm.rms = rms;
}

static int case_lnorm(int i, op_case_t *out)
{
  static const int rows[][4] = {{3, 7, 24, 0},   {1, 1, 5, 0},    {5, 33, 0, 0},
                                {2, 65, 192, 0}, {4, 50, 100, 0}, {2, 3, 5, 17}};

  if (i >= 2 * COUNT(rows)) return 0;
  make_lnorm(rows[i / 2], i % 2, out);
  return 1;
}

static int small_lnorm(int i, op_case_t *out)
{
  static const int row[4] = {2, 3, 5, 0};
  make_lnorm(row, i, out);
  return i < 2;
}

const kind_cases_t cases_lnorm = {.cases = {case_lnorm}, .small = {small_lnorm}};

/* ---- group normalisation ---- */

typedef struct gnorm_row {
  int ndim, dim[5], groups, affine;
} gnorm_row_t;

static void make_gnorm(const gnorm_row_t *r, op_case_t *out)
{
  ct_shape_t x = ct_shape(r->ndim, r->dim[0], r->dim[1], r->dim[2], r->dim[3], r->dim[4]);

  case_start(out, CT_OP_GNORM, &x, &x);
  out->desc.u.gnorm.eps = 1e-5;
  out->desc.u.gnorm.groups = r->groups;
  out->desc.u.gnorm.affine = r->affine;
}

/* Groups that end within a block of channels, contain many blocks, or have one channel each. */
static int case_gnorm(int i, op_case_t *out)
{
  static const gnorm_row_t rows[] = {
      {4, {2, 16, 5, 7}, 4, 1},     {4, {3, 32, 8, 8}, 32, 1},
      {4, {2, 20, 5, 5}, 4, 1},     {4, {1, 18, 3, 5}, 2, 0},
      {4, {2, 33, 4, 3}, 33, 0},    {4, {4, 64, 9, 9}, 1, 1},
      {4, {2, 48, 4, 4}, 3, 1},     {4, {2, 5, 13, 11}, 5, 1},
      {2, {6, 40}, 8, 1},           {2, {3, 33}, 1, 0},
      {5, {2, 24, 3, 4, 5}, 6, 1},  {5, {1, 20, 2, 3, 5}, 20, 1},
      {3, {3, 12, 17, 1, 1}, 3, 1}, {4, {2, 1, 6, 5}, 1, 1},
      {4, {8, 32, 24, 24}, 8, 1},   {4, {4, 32, 132, 132}, 16, 1},
  };

  if (i >= COUNT(rows)) return 0;
  make_gnorm(&rows[i], out);
  return 1;
}

static int small_gnorm(int i, op_case_t *out)
{
  static const gnorm_row_t rows[] = {{4, {2, 4, 3, 2}, 2, 1},    {4, {2, 3, 3, 3}, 3, 0},
                                     {2, {3, 6}, 1, 1},          {5, {1, 4, 2, 3, 2}, 2, 1},
                                     {5, {2, 2, 3, 2, 2}, 2, 1}, {3, {2, 4, 5}, 4, 1}};

  if (i >= COUNT(rows)) return 0;
  make_gnorm(&rows[i], out);
  return 1;
}

const kind_cases_t cases_gnorm = {.cases = {case_gnorm}, .small = {small_gnorm}};
