/* Gradients of broadcast inputs: sums over the dims along which they are broadcast.
 *
 * A sum is in double over blocks, which are summed in float32 in a binary tree.  Its order follows
 * from the shapes alone.  Parts of y that different threads process have sums of their own, or
 * belong to different elements of the input. */
#include "cpu/kern/expr.h"

enum {
  PARTS = 64,       /* most parts, for as many threads */
  FEW_PARTS = 8,    /* too few */
  SHARE = 4,        /* sums may take as many bytes as this part of y, times two */
  SHORTEST_RUN = 64 /* elements of a part that are adjacent */
};

cpu__walk_t cpu__walk_to(const ct_expr_view_t *v, int input, int64_t first)
{
  cpu__walk_t w = {.view = v, .input = input};
  for (int j = v->dims - 1; j >= 0; j--) {
    w.i[j] = j ? first % v->dim[j] : first;
    first /= v->dim[j];
    w.at += w.i[j] * v->stride[input][j];
  }
  return w;
}

void cpu__walk_on(cpu__walk_t *w, int64_t run)
{
  const ct_expr_view_t *v = w->view;
  const int64_t *stride = v->stride[w->input];
  int j = v->dims - 1;
  w->i[j] += run;
  w->at += run * stride[j];
  for (; j > 0 && w->i[j] == v->dim[j]; j--) {
    w->at += stride[j - 1] - w->i[j] * stride[j];
    w->i[j] = 0;
    w->i[j - 1]++;
  }
}

/* ---- division ---- */

static int is_broadcast_before(const ct_expr_view_t *v, int input, int dim)
{
  for (int j = 0; j < dim; j++)
    if (v->stride[input][j] == 0) return 1;
  return 0;
}

static int64_t elements_before(const ct_expr_view_t *v, int dim)
{
  int64_t n = 1;
  for (int j = 0; j < dim; j++)
    n *= v->dim[j];
  return n;
}

static void set_parts(cpu__expr_parts_t *p, int64_t most)
{
  int64_t parts = p->size < most ? p->size : most;
  if (parts < 1) parts = 1;
  p->chunk = (p->size + parts - 1) / parts;
  p->parts = (p->size + p->chunk - 1) / p->chunk;
}

/* Divides the elements in their order.  Returns 0 if that gives few parts, because the sums of many
 * would take too much memory. */
static int divide_in_order(cpu__expr_t *e)
{
  const ct_expr_view_t *v = &e->view;
  cpu__expr_parts_t *p = &e->parts;
  int dims = 1;
  int64_t most = PARTS, own[CT_EXPR_INPUTS] = {0};
  while (dims < v->dims && elements_before(v, dims) < PARTS)
    dims++;
  for (int k = 0; k < v->inputs; k++) {
    if (v->whole[k]) continue;
    own[k] = is_broadcast_before(v, k, dims);
    int64_t fit = v->count / SHARE / v->elements[k];
    if (own[k] && fit < most && v->elements[k] > CPU__PARALLEL_MIN) most = fit;
  }
  *p = (cpu__expr_parts_t){.outer = 1, .size = elements_before(v, dims)};
  p->inner = v->count / p->size;
  set_parts(p, most);
  for (int k = 0; k < v->inputs; k++)
    e->sets[k] = v->whole[k] ? 0 : own[k] ? p->parts : 1;
  return most >= FEW_PARTS;
}

/* Divides a dim along which no input is broadcast.  Returns 0 if there is none. */
static int divide_own_dim(cpu__expr_t *e)
{
  const ct_expr_view_t *v = &e->view;
  for (int j = 0; j < v->dims; j++) {
    int own = 1;
    for (int k = 0; k < v->inputs; k++)
      own &= v->stride[k][j] != 0;
    int64_t before = elements_before(v, j), inner = v->count / (before * v->dim[j]);
    int64_t most = v->dim[j] * inner / SHORTEST_RUN;
    if (!own || v->dim[j] < FEW_PARTS || most < FEW_PARTS) continue;
    e->parts = (cpu__expr_parts_t){.outer = before, .size = v->dim[j], .inner = inner};
    set_parts(&e->parts, most < PARTS ? most : PARTS);
    for (int k = 0; k < v->inputs; k++)
      e->sets[k] = !v->whole[k];
    return 1;
  }
  return 0;
}

void cpu__expr_divide(cpu__expr_t *e)
{
  for (int k = 0; k < e->view.inputs; k++)
    e->sets[k] = !e->view.whole[k];
  /* an empty batch has no parts; its inputs may have no elements */
  if (e->view.count > 0 && !divide_in_order(e)) divide_own_dim(e);
  for (int k = 0; k < e->view.inputs; k++) {
    e->sums[k] = e->sums_bytes;
    e->sums_bytes += (size_t)(e->sets[k] * e->view.elements[k]) * sizeof(double);
  }
  e->sums_bytes = (e->sums_bytes + 63) / 64 * 64;
}

/* ---- sums ---- */

void cpu__expr_reduce(const cpu__expr_t *e, int input, int64_t first, int64_t count,
                      const float *gradient, double *sums)
{
  const ct_expr_view_t *v = &e->view;
  const cpu__loops_t *loops = cpu__loops(e->head.dev, CT_F32);
  int64_t stride = v->stride[input][v->dims - 1];
  cpu__walk_t w = cpu__walk_to(v, input, first);
  while (count > 0) {
    int64_t run = cpu__walk_run(&w, count);
    double *restrict to = sums + w.at;
    if (stride == 0) {
      *to += (double)loops->block_sum(run, gradient);
    } else {
      for (int64_t j = 0; j < run; j++)
        to[j * stride] += (double)gradient[j];
    }
    gradient += run;
    count -= run;
    cpu__walk_on(&w, run);
  }
}

void cpu__expr_store_sums(const cpu__expr_t *e, int input, ct_dtype_t t, const double *sums,
                          void *dx)
{
  int64_t count = e->view.elements[input], sets = e->sets[input];
#pragma omp parallel for if (count * sets > CPU__PARALLEL_MIN)
  for (int64_t i = 0; i < count; i++) {
    double sum = sums[i];
    for (int64_t s = 1; s < sets; s++)
      sum += sums[s * count + i];
    if (t == CT_BF16)
      ((uint16_t *)dx)[i] = ct_bf16_of((float)sum);
    else
      ((float *)dx)[i] = (float)sum;
  }
}
