/* Gradients of copies that read an element several times.  Each element of dx is summed by one
 * thread in the order of its list, so the result does not depend on the number of threads. */
#include "cpu/kern/strided_sum.h"

#include "base/ct_int.h"
#include "cpu/kern/loops.h"

#if defined __GNUC__ && !defined __clang__
#  pragma GCC optimize("O3")
#endif

/* Elements that are summed at a time. */
#define WIDTH 256

/* A part of a row: elements first … first + n - 1 of the last dim. */
typedef struct part {
  const ct_readers_t *r;
  const int64_t *begin; /* of the last dim, at `first` */
  int64_t n;
  int single; /* 1: each element has one place, and the places are consecutive */
  ct_dtype_t type;
  const void *dy;
} part_t;

static void add_places(const part_t *p, int64_t base, double *restrict sum)
{
  const float *f = p->dy;
  const uint16_t *h = p->dy;
  if (p->single) {
    int64_t first = base + p->r->at[p->begin[0]];
    for (int64_t j = 0; j < p->n && p->type == CT_F32; j++)
      sum[j] += (double)f[first + j];
    for (int64_t j = 0; j < p->n && p->type != CT_F32; j++)
      sum[j] += (double)ct_bf16_float(h[first + j]);
    return;
  }
  for (int64_t j = 0; j < p->n; j++)
    for (int64_t k = p->begin[j]; k < p->begin[j + 1]; k++) {
      int64_t at = base + p->r->at[k];
      sum[j] += p->type == CT_F32 ? (double)f[at] : (double)ct_bf16_float(h[at]);
    }
}

/* Adds for all steps of the dims that no dim of x belongs to. */
static void add_loops(const part_t *p, int64_t base, double *sum)
{
  const ct_readers_t *r = p->r;
  int64_t i[CT_MAP_DIMS] = {0};
  for (int b = 0; b >= 0;) {
    add_places(p, base, sum);
    for (b = r->loops - 1; b >= 0; b--) {
      base += r->loop_step[b];
      if (++i[b] < r->loop_size[b]) break;
      base -= r->loop_step[b] * r->loop_size[b];
      i[b] = 0;
    }
  }
}

/* Adds for all combinations of the places of the outer dims; row: their index. */
static void add_row(const part_t *p, int64_t row, double *sum)
{
  const ct_readers_t *r = p->r;
  int outer = r->dims - 1;
  int64_t first[CT_MAP_DIMS], end[CT_MAP_DIMS], k[CT_MAP_DIMS], base = 0;
  for (int s = outer - 1; s >= 0; row /= r->size[s--]) {
    const int64_t *begin = r->begin + r->place[s] + row % r->size[s];
    first[s] = k[s] = begin[0];
    end[s] = begin[1];
    if (first[s] == end[s]) return;
    base += r->at[first[s]];
  }
  for (int s = 0; s >= 0;) {
    add_loops(p, base, sum);
    for (s = outer - 1; s >= 0; s--) {
      base -= r->at[k[s]];
      if (++k[s] < end[s]) break;
      k[s] = first[s];
      base += r->at[k[s]];
    }
    if (s >= 0) base += r->at[k[s]];
  }
}

static int is_single(const part_t *p)
{
  for (int64_t j = 0; j < p->n; j++)
    if (p->begin[j + 1] != p->begin[j] + 1 || p->r->at[p->begin[j]] != p->r->at[p->begin[0]] + j)
      return 0;
  return 1;
}

static void sum_part(part_t *p, int64_t row, int64_t first, void *dx)
{
  const ct_readers_t *r = p->r;
  int last = r->dims - 1;
  double sum[WIDTH] = {0};
  int64_t size = last < 0 ? 1 : r->size[last];
  static const int64_t scalar[2] = {0, 1};
  p->n = ct_least(WIDTH, size - first);
  p->begin = last < 0 ? scalar : r->begin + r->place[last] + first;
  p->single = last < 0 ? 0 : is_single(p);
  add_row(p, row, sum);
  for (int64_t j = 0; j < p->n; j++) {
    if (p->type == CT_F32)
      ((float *)dx)[row * size + first + j] = (float)sum[j];
    else
      ((uint16_t *)dx)[row * size + first + j] = ct_bf16_of((float)sum[j]);
  }
}

void cpu__strided_sum(const ct_readers_t *r, ct_dtype_t t, const void *dy, void *dx)
{
  int64_t rows = 1, size = r->dims ? r->size[r->dims - 1] : 1, work = r->entries;
  for (int s = 0; s < r->dims - 1; s++)
    rows *= r->size[s];
  int64_t parts = (size + WIDTH - 1) / WIDTH;
  for (int b = 0; b < r->loops; b++)
    work *= r->loop_size[b];
#pragma omp parallel for if (rows * size > 1 && rows * size + work > CPU__PARALLEL_MIN)
  for (int64_t i = 0; i < rows * parts; i++) {
    part_t p = {.r = r, .type = t, .dy = dy};
    sum_part(&p, i / parts, i % parts * WIDTH, dx);
  }
}
