/* Programs of elementwise functions: block by block, each step a loop over the block, whose values
 * stay in the L1 cache.  The backward pass recomputes the values that it needs.
 *
 * An operand of a step is the tensor itself where it is float32 and not broadcast, one number where
 * all elements of the block are equal, and a copy in the cache otherwise. */
#include <omp.h>
#include <string.h>

#include "base/ct_err.h"
#include "cpu/kern/expr.h"

enum { BLOCK = CPU__EXPR_BLOCK };

/* One run of the op. */
typedef struct run {
  const cpu__expr_t *e;
  const ct_expr_t *p;
  const ct_op_args_t *a;
  const cpu__loops_t *loops;
  const void *in[CT_EXPR_INPUTS];
  void *out[CT_EXPR_INPUTS]; /* gradients; NULL: not wanted */
  ct_dtype_t type[CT_EXPR_INPUTS], y;
  ct_expr_need_t need;
  int copies_dy;
} run_t;

/* A thread's blocks: values and gradients of inputs and results; constants; zeros. */
typedef struct blocks {
  float (*value)[BLOCK], (*gradient)[BLOCK];
  float (*constant)[CPU__LANES_MAX];
  cpu__lane_t of[CT_EXPR_VALUES]; /* value of each operand */
} blocks_t;

static size_t blocks_bytes(const ct_expr_t *p)
{
  size_t values = CT_EXPR_INPUTS + (size_t)p->steps;
  return 2 * values * sizeof(float[BLOCK]) + (CT_EXPR_CONSTS + 1) * sizeof(float[CPU__LANES_MAX]);
}

/* Returns the number of the block of an input or result. */
static int block_of(int operand)
{
  return operand < CT_EXPR_CONST ? operand : operand - CT_EXPR_CONSTS;
}

static blocks_t blocks_of(const run_t *r, int thread)
{
  blocks_t b;
  int values = CT_EXPR_INPUTS + r->p->steps;
  char *at = (char *)r->a->scratch + r->e->sums_bytes + (size_t)thread * r->e->blocks_bytes;
  b.value = (float(*)[BLOCK])(void *)at;
  b.gradient = b.value + values;
  b.constant = (float(*)[CPU__LANES_MAX])(void *)(b.gradient + values);
  memset(b.constant, 0, (CT_EXPR_CONSTS + 1) * sizeof *b.constant);
  for (int i = 0; i < CT_EXPR_VALUES; i++)
    b.of[i] = (cpu__lane_t){b.constant[CT_EXPR_CONSTS], 0}; /* zeros */
  for (int k = 0; k < r->p->consts; k++) {
    for (int j = 0; j < CPU__LANES_MAX; j++)
      b.constant[k][j] = (float)r->p->value[k];
    b.of[CT_EXPR_CONST + k].p = b.constant[k];
  }
  return b;
}

static int64_t padded(int64_t count)
{
  return (count + CPU__LANES_MAX - 1) / CPU__LANES_MAX * CPU__LANES_MAX;
}

/* ---- between tensors and blocks ---- */

static float element(ct_dtype_t t, const void *p, int64_t i)
{
  return t == CT_BF16 ? ct_bf16_float(((const uint16_t *)p)[i]) : ((const float *)p)[i];
}

static void read_run(ct_dtype_t t, const cpu__loops_t *low, const void *p, int64_t at,
                     int64_t count, int64_t stride, float *to)
{
  if (stride == 1 && t == CT_F32) {
    memcpy(to, (const float *)p + at, (size_t)count * sizeof *to);
  } else if (stride == 1) {
    low->to_floats(count, (const uint16_t *)p + at, to);
  } else if (stride == 0) {
    float v = element(t, p, at);
    for (int64_t j = 0; j < count; j++)
      to[j] = v;
  } else {
    for (int64_t j = 0; j < count; j++)
      to[j] = element(t, p, at + j * stride);
  }
}

static cpu__lane_t one_number(float v, float *block)
{
  for (int j = 0; j < CPU__LANES_MAX; j++)
    block[j] = v;
  return (cpu__lane_t){block, 0};
}

/* Returns the elements of an input at `count` places of y. */
static cpu__lane_t read_input(const run_t *r, int k, int64_t first, int64_t count, float *block)
{
  const ct_expr_view_t *v = &r->e->view;
  const void *p = r->in[k];
  ct_dtype_t t = r->type[k];
  const cpu__loops_t *low = cpu__loops(r->e->head.dev, CT_BF16);
  int direct = t == CT_F32 && count % CPU__LANES_MAX == 0;
  if (v->whole[k] && direct) return (cpu__lane_t){(const float *)p + first, 1};
  if (v->whole[k]) {
    read_run(t, low, p, first, count, 1, block);
    return (cpu__lane_t){block, 1};
  }
  if (v->elements[k] == 1) return one_number(element(t, p, 0), block);
  int64_t stride = v->stride[k][v->dims - 1];
  cpu__walk_t w = cpu__walk_to(v, k, first);
  if (cpu__walk_run(&w, count) == count && stride == 0)
    return one_number(element(t, p, w.at), block);
  if (cpu__walk_run(&w, count) == count && stride == 1 && direct)
    return (cpu__lane_t){(const float *)p + w.at, 1};
  for (int64_t done = 0; done < count;) {
    int64_t run = cpu__walk_run(&w, count - done);
    read_run(t, low, p, w.at, run, stride, block + done);
    cpu__walk_on(&w, run);
    done += run;
  }
  return (cpu__lane_t){block, 1};
}

static void write_block(const run_t *r, ct_dtype_t t, const float *block, int64_t count,
                        void *tensor, int64_t first)
{
  if (t == CT_F32)
    r->loops->add(count, block, NULL, (float *)tensor + first, 0, 0);
  else
    cpu__loops(r->e->head.dev, CT_BF16)
        ->from_floats(count, block, (uint16_t *)tensor + first, 0, 0);
}

/* ---- forward ---- */

/* Computes the results of the steps in the set `which`, the last one in `last` if given. */
static void compute_steps(const run_t *r, blocks_t *b, int64_t count, uint32_t which, float *last)
{
  for (int i = 0; i < r->p->steps; i++) {
    const ct_expr_step_t *s = &r->p->step[i];
    int of = CT_EXPR_STEP + i;
    if (!(which >> of & 1)) continue;
    const cpu__lane_t v[3] = {b->of[s->of[0]], b->of[s->of[1]], b->of[s->of[2]]};
    float *to = last && i == r->p->steps - 1 ? last : b->value[block_of(of)];
    r->loops->fn((ct_fn_t)s->fn, padded(count), v, to);
    b->of[of] = (cpu__lane_t){to, 1};
  }
}

static void forward_range(const run_t *r, int thread, int64_t first, int64_t count)
{
  blocks_t b = blocks_of(r, thread);
  int last = CT_EXPR_STEP + r->p->steps - 1;
  for (int64_t end = first + count; first < end; first += BLOCK) {
    int64_t n = end - first < BLOCK ? end - first : BLOCK;
    int direct = r->y == CT_F32 && n % CPU__LANES_MAX == 0;
    for (int k = 0; k < r->e->view.inputs; k++)
      b.of[k] = read_input(r, k, first, n, b.value[k]);
    compute_steps(r, &b, n, UINT32_MAX, direct ? (float *)r->a->y + first : NULL);
    if (!direct) write_block(r, r->y, b.of[last].p, n, r->a->y, first);
  }
}

static void expr_forward(run_t *r)
{
  const ct_op_t *op = &r->e->head;
  int64_t count = r->e->view.count;
  int parts = op->dev->threads;
#pragma omp parallel for if (count > CPU__PARALLEL_MIN)
  for (int k = 0; k < parts; k++) {
    cpu__part_t p = cpu__part(count, parts, k);
    forward_range(r, omp_get_thread_num(), p.first, p.count);
  }
}

/* ---- backward ---- */

static cpu__lane_t read_gradient(const run_t *r, const void *dy, int64_t first, int64_t count,
                                 int copy, float *block)
{
  if (r->y == CT_F32 && !copy && count % CPU__LANES_MAX == 0)
    return (cpu__lane_t){(const float *)dy + first, 1};
  read_run(r->y, cpu__loops(r->e->head.dev, CT_BF16), dy, first, count, 1, block);
  return (cpu__lane_t){block, 1};
}

/* Returns the gradient of y, in the block of the last result's gradient or in memory.  Uses the
 * block of the last result. */
static cpu__lane_t read_dy(const run_t *r, const blocks_t *b, int64_t first, int64_t count)
{
  int last = block_of(CT_EXPR_STEP + r->p->steps - 1);
  const ct_op_args_t *a = r->a;
  cpu__lane_t dy = read_gradient(r, a->dy, first, count, r->copies_dy, b->gradient[last]);
  if (!a->dy2) return dy;
  const cpu__lane_t zero = {b->constant[CT_EXPR_CONSTS], 0};
  const cpu__lane_t of[3] = {dy, read_gradient(r, a->dy2, first, count, 0, b->value[last]), zero};
  r->loops->fn(CT_FN_ADD, padded(count), of, b->gradient[last]);
  return (cpu__lane_t){b->gradient[last], 1};
}

/* Computes the gradients of the operands of step i; *written: operands that have one already. */
static void pull_step(const run_t *r, const blocks_t *b, int i, int64_t count, cpu__lane_t g,
                      float *const to[CT_EXPR_VALUES], uint32_t *written)
{
  const ct_expr_step_t *s = &r->p->step[i];
  const ct_fn_facts_t *f = ct_fn_facts_of(s->fn);
  const cpu__lane_t of[5] = {b->of[s->of[0]], b->of[s->of[1]], b->of[s->of[2]],
                             b->of[CT_EXPR_STEP + i], g};
  for (int k = 0; k < f->operands; k++) {
    uint32_t operand = 1u << s->of[k];
    if (f->reads[k] == CT_FN_FLAT || !(r->need.gradient & operand)) continue;
    r->loops->fn_grad((ct_fn_t)s->fn, k, padded(count), of, to[s->of[k]],
                      (*written & operand) != 0);
    *written |= operand;
  }
}

/* Stores or sums up the gradients of the inputs of a block. */
static void give_gradients(const run_t *r, const blocks_t *b, int part, int64_t first,
                           int64_t count, float *const to[CT_EXPR_VALUES])
{
  const cpu__expr_t *e = r->e;
  for (int k = 0; k < e->view.inputs; k++) {
    if (!(r->need.gradient >> k & 1)) continue;
    if (e->view.whole[k]) {
      if (to[k] == b->gradient[k]) write_block(r, r->type[k], to[k], count, r->out[k], first);
      continue;
    }
    double *sums = (double *)(void *)((char *)r->a->scratch + e->sums[k]);
    if (e->sets[k] > 1) sums += part * e->view.elements[k];
    cpu__expr_reduce(e, k, first, count, to[k], sums);
  }
}

static void backward_block(const run_t *r, blocks_t *b, int part, int64_t first, int64_t count)
{
  int last = CT_EXPR_STEP + r->p->steps - 1;
  float *to[CT_EXPR_VALUES] = {NULL};
  uint32_t written = 0;
  cpu__lane_t dy = read_dy(r, b, first, count);
  for (int k = 0; k < r->e->view.inputs; k++)
    if (r->need.value >> k & 1) b->of[k] = read_input(r, k, first, count, b->value[k]);
  compute_steps(r, b, count, r->need.value, NULL);
  for (int v = 0; v <= last; v++)
    if (r->need.gradient >> v & 1) to[v] = b->gradient[block_of(v)];
  for (int k = 0; k < r->e->view.inputs; k++)
    if (to[k] && r->e->view.whole[k] && r->type[k] == CT_F32 && !r->copies_dy &&
        count % CPU__LANES_MAX == 0)
      to[k] = (float *)r->out[k] + first;
  for (int i = r->p->steps - 1; i >= 0; i--) {
    int of = CT_EXPR_STEP + i;
    if (!(r->need.gradient >> of & 1)) continue;
    pull_step(r, b, i, count, of == last ? dy : (cpu__lane_t){to[of], 1}, to, &written);
  }
  give_gradients(r, b, part, first, count, to);
}

static void backward_range(const run_t *r, int thread, int part, int64_t first, int64_t count)
{
  blocks_t b = blocks_of(r, thread);
  for (int64_t end = first + count; first < end; first += BLOCK)
    backward_block(r, &b, part, first, end - first < BLOCK ? end - first : BLOCK);
}

/* Without sums, y is divided by threads. */
static void backward_by_threads(const run_t *r)
{
  int64_t count = r->e->view.count;
  int parts = r->e->head.dev->threads;
#pragma omp parallel for if (count > CPU__PARALLEL_MIN)
  for (int k = 0; k < parts; k++) {
    cpu__part_t p = cpu__part(count, parts, k);
    backward_range(r, omp_get_thread_num(), k, p.first, p.count);
  }
}

static void backward_by_parts(const run_t *r)
{
  const cpu__expr_parts_t *p = &r->e->parts;
#pragma omp parallel for if (r->e->view.count > CPU__PARALLEL_MIN) schedule(dynamic)
  for (int64_t k = 0; k < p->parts; k++) {
    int64_t from = k * p->chunk, size = p->size - from < p->chunk ? p->size - from : p->chunk;
    for (int64_t o = 0; o < p->outer; o++)
      backward_range(r, omp_get_thread_num(), (int)k, (o * p->size + from) * p->inner,
                     size * p->inner);
  }
}

/* Notes the gradients that are wanted; returns 1 if one of them needs sums. */
static int note_wanted(run_t *r)
{
  const ct_op_args_t *a = r->a;
  int data = a->pass & CT_BWD_DATA, sums = 0;
  void *const given[] = {a->dx, a->dx2, a->dx3};
  unsigned wanted = 0;
  for (int k = 0; k < r->e->view.inputs; k++) {
    r->out[k] = data ? given[k] : NULL;
    if (k > 0 && k <= r->p->weight) r->out[k] = a->pass & CT_BWD_PARAM ? a->dw[k - 1] : NULL;
    if (r->out[k]) wanted |= 1u << k;
    if (r->out[k] == a->dy || (a->dy2 && r->out[k] == a->dy2)) r->copies_dy = 1;
  }
  r->need = ct_expr_needs(r->p, wanted);
  for (int k = 0; k < r->e->view.inputs; k++)
    sums |= (r->need.gradient >> k & 1) && !r->e->view.whole[k];
  return sums;
}

static void expr_backward(run_t *r)
{
  const cpu__expr_t *e = r->e;
  const ct_op_args_t *a = r->a;
  int sums = note_wanted(r);
  if (sums) {
    memset(a->scratch, 0, e->sums_bytes);
    backward_by_parts(r);
  } else if (r->need.gradient) {
    backward_by_threads(r);
  }
  for (int k = 0; k < e->view.inputs; k++) {
    int computed = r->need.gradient >> k & 1;
    if (!r->out[k]) continue;
    if (!computed)
      memset(r->out[k], 0, (size_t)e->view.elements[k] * ct_dtype_size(r->type[k]));
    else if (!e->view.whole[k])
      cpu__expr_store_sums(e, k, r->type[k],
                           (const double *)(const void *)((char *)a->scratch + e->sums[k]),
                           r->out[k]);
  }
}

/* ---- the op ---- */

static int expr_run(ct_op_t *op, const ct_op_args_t *a)
{
  const cpu__expr_t *e = (const cpu__expr_t *)op;
  run_t r = {.e = e,
             .p = &op->desc.u.expr,
             .a = a,
             .loops = cpu__loops(op->dev, CT_F32),
             .in = {a->x, a->x2, a->x3},
             .y = op->desc.y.dtype};
  for (int k = 0; k < CT_EXPR_INPUTS; k++)
    r.type[k] = r.y;
  for (int k = 1; k <= r.p->weight; k++) {
    r.in[k] = a->w[k - 1];
    r.type[k] = CT_F32;
  }
  if (a->pass & CT_FWD) expr_forward(&r);
  if (a->pass & (CT_BWD_DATA | CT_BWD_PARAM)) expr_backward(&r);
  return CT_OK;
}

static int expr_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  cpu__expr_t *e = (cpu__expr_t *)op;
  (void)like;
  info->y_layout = ct_expr_wants(&op->desc);
  e->view = ct_expr_view_of(&op->desc, info->y_layout);
  if (ct_op_goes_back(&op->desc)) cpu__expr_divide(e);
  e->blocks_bytes = blocks_bytes(&op->desc.u.expr);
  info->scratch = e->sums_bytes + (size_t)op->dev->threads * e->blocks_bytes;
  info->takes_dy2 = 1;
  info->inplace_fwd = info->inplace_bwd = e->view.whole[0];
  return CT_OK;
}

static ct_layout_t expr_wants(ct_dev_t *dev, const ct_op_desc_t *d)
{
  (void)dev;
  return ct_expr_wants(d);
}

const cpu__op_kind_t cpu__expr = {.size = sizeof(cpu__expr_t),
                                  .bf16 = 1,
                                  .wants = expr_wants,
                                  .prepare = expr_prepare,
                                  .run = expr_run};
