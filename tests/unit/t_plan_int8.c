/* Plans in eight bits: which ops are, and that the CPU computes what the reference does. */
#include <math.h>
#include <stdlib.h>

#include "base/ct_rng.h"
#include "model/ct_fold.h"
#include "tests/unit/plan_make.h"

enum { SAMPLES = 2 };

/* A plan with its memory, and parameters that depend on their names. */
typedef struct machine {
  const ct_backend_t *be;
  ct_queue_t *q;
  ct_plan_t *p;
  ct_arena_map_t map;
  ct_bind_t b;
  float *x;
  int32_t *labels;
} machine_t;

static void *room(const machine_t *m, ct_dev_t *dev, size_t bytes)
{
  void *p = NULL;
  CT_ASSERT_OK(m->be->mem->alloc(dev, CT_MEM_DEVICE, bytes + 1, &p));
  return p;
}

static void put_params(const machine_t *m, const ct_graph_t *g)
{
  for (int i = 0; i < g->params; i++) {
    const ct_param_t *par = &g->param[i];
    float *plain = ct_mem_array(par->count, sizeof *plain, "test");
    ct_graph_init_param(g, i, 1, plain);
    CT_ASSERT_OK(m->be->op->pack(m->q, m->p->op[m->p->layer_op[par->layer]].op, par->slot, plain,
                                 m->b.weight + m->map.offset[i]));
    ct_mem_free(plain);
  }
}

static void open_machine(machine_t *m, int b, const ct_graph_t *g, const ct_quant_t *quant)
{
  const ct_plan_opts_t o = {.n = SAMPLES, .quant = quant};
  int64_t count = SAMPLES * ct_shape_count(&g->input);
  ct_dev_t *dev = device(b);
  *m = (machine_t){.be = backends[b]};
  CT_ASSERT_OK(ct_plan_make(g, m->be, dev, &o, NULL, &m->p));
  CU_ASSERT_PTR_NOT_NULL_FATAL(m->p);
  CT_ASSERT_OK(m->be->queue->create(dev, &m->q));
  CT_ASSERT_OK(ct_arena_map_make(m->p, &m->map));
  m->x = ct_mem_array(count, sizeof *m->x, "test");
  m->labels = ct_mem_array(SAMPLES, sizeof *m->labels, "test");
  for (int64_t i = 0; i < count; i++)
    m->x[i] = ct_rng_normal(1, CT_RNG_TEST, 7, (uint64_t)i);
  m->b = (ct_bind_t){.arena = room(m, dev, m->p->arena_bytes),
                     .scratch = room(m, dev, m->p->scratch_bytes),
                     .weight = room(m, dev, m->map.weight_bytes),
                     .buffer = room(m, dev, m->map.buffer_bytes),
                     .map = &m->map,
                     .x = m->x,
                     .labels = m->labels,
                     .loss = room(m, dev, sizeof(ct_loss_t))};
  put_params(m, g);
}

static void close_machine(machine_t *m, int b)
{
  void *const all[] = {m->b.arena, m->b.scratch, m->b.weight, m->b.buffer, m->b.loss};
  for (int i = 0; i < 5; i++)
    m->be->mem->free(device(b), CT_MEM_DEVICE, all[i]);
  m->be->queue->destroy(m->q);
  ct_plan_free(m->p);
  ct_arena_map_clear(&m->map);
  ct_mem_free(m->x);
  ct_mem_free(m->labels);
}

static void *value(const machine_t *m, int v)
{
  return m->b.arena + m->p->value[ct_plan_root(m->p, v)].offset;
}

static ct_quant_params_t range_of(const float *v, int64_t n)
{
  double low = 0, high = 0;
  for (int64_t i = 0; i < n; i++) {
    low = v[i] < low ? v[i] : low;
    high = v[i] > high ? v[i] : high;
  }
  return ct_quant_params_of(low, high);
}

static float *logits(const machine_t *m)
{
  int64_t n = ct_shape_count(&m->p->value[m->p->logits].shape);
  float *out = ct_mem_array(n, sizeof *out, "test");
  memcpy(out, value(m, m->p->logits), (size_t)n * sizeof *out);
  return out;
}

static float *run(machine_t *m)
{
  for (int i = 0; i < m->p->launches; i++)
    CT_ASSERT_OK(ct_plan_run(m->p, i, &m->b, m->q));
  CT_ASSERT_OK(m->be->queue->sync(m->q));
  return logits(m);
}

/* Of each op's output in float32, for its layer and those that are fused into it. Returns the
 * network's outputs, \a *n numbers. */
static float *calibrate(const ct_graph_t *g, ct_quant_t *q, int64_t *n)
{
  machine_t m;
  CT_ASSERT_OK(ct_quant_make(g, q));
  open_machine(&m, REF, g, NULL);
  q->input = range_of(m.x, SAMPLES * ct_shape_count(&g->input));
  for (int i = 0; i < m.p->launches - 1; i++) {
    const ct_plan_launch_t *w = &m.p->launch[i];
    int next = m.p->op[m.p->launch[i + 1].op].layer, layer = m.p->op[w->op].layer;
    CT_ASSERT_OK(ct_plan_run(m.p, i, &m.b, m.q));
    CT_ASSERT_OK(m.be->queue->sync(m.q));
    ct_quant_params_t qp = range_of(value(&m, w->y), ct_shape_count(&m.p->value[w->y].shape));
    for (int l = layer; layer >= 0 && l < (next < 0 ? g->layers : next); l++)
      q->out[l] = qp;
  }
  float *out = logits(&m);
  *n = ct_shape_count(&m.p->value[m.p->logits].shape);
  close_machine(&m, REF);
  return out;
}

static double distance(const float *a, const float *b, int64_t n)
{
  double off = 0, size = 0;
  for (int64_t i = 0; i < n; i++) {
    off += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    size += (double)b[i] * b[i];
  }
  return sqrt(off / size);
}

static int has_vnni(void)
{
  char why[128];
  ct_op_desc_t d;
  const ct_shape_t x = ct_shape(2, 16, 64);
  ct_op_desc_init(&d, CT_OP_LINEAR, &x, &x);
  d.q.dynamic = 1;
  return backends[CPU]->op->supports(device(CPU), &d, why);
}

static int in_eight_bits(const ct_plan_t *p, ct_op_kind_t kind)
{
  int n = 0;
  for (int i = 0; i < p->ops; i++)
    n += p->op[i].desc.kind == kind && ct_op_is_int8(&p->op[i].desc);
  return n;
}

/* convs: how many convolutions are in eight bits, of which `adds` take a sum along. */
static void check(const ct_graph_t *whole, int convs, double near_float)
{
  ct_fold_t f;
  ct_quant_t q;
  machine_t m;
  float *out[BACKENDS + 1];
  CT_ASSERT_OK(ct_fold_make(whole, &f));
  int64_t n;
  out[BACKENDS] = calibrate(f.graph, &q, &n);
  for (int b = REF; b <= CPU; b++) {
    open_machine(&m, b, f.graph, &q);
    if (b == REF || has_vnni()) CT_ASSERT_INT(in_eight_bits(m.p, CT_OP_CONV), convs);
    out[b] = run(&m);
    double off = distance(out[b], out[REF], n), lost = distance(out[b], out[BACKENDS], n);
    if (getenv("CT_TEST_VERBOSE")) fprintf(stderr, "%d: %g from ref, %g lost\n", b, off, lost);
    if (has_vnni()) CU_ASSERT(off <= 0.02);
    CU_ASSERT(lost <= near_float);
    CU_ASSERT(b != REF || lost > 1e-4);
    close_machine(&m, b);
  }
  ct_mem_free(out[REF]);
  ct_mem_free(out[CPU]);
  ct_mem_free(out[BACKENDS]);
  ct_quant_clear(&q);
  ct_fold_clear(&f);
}

static void families_in_eight_bits(void)
{
  const struct {
    const char *name;
    int64_t depth;
    ct_shape_t input;
    int convs;
    double near;
  } c[] = {{"lenet", 0, ct_shape(4, 1, 1, 28, 28), 2, 0.05},
           {"resnet", 18, ct_shape(4, 1, 3, 16, 16), 20, 0.1},
           {"mobilenet_v2", 0, ct_shape(4, 1, 3, 32, 32), 52, 0.1}};
  for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
    ct_graph_t *g = family(c[i].name, c[i].depth, c[i].input);
    check(g, c[i].convs, c[i].near);
    ct_graph_free(g);
  }
}

static void what_has_no_numbers_stays(void)
{
  ct_graph_t *g = layers(residual, ct_shape(4, 1, 3, 6, 6));
  ct_fold_t f;
  ct_quant_t q;
  machine_t m;
  int64_t n;
  CT_ASSERT_OK(ct_fold_make(g, &f));
  ct_mem_free(calibrate(f.graph, &q, &n));
  q.out[0].scale = q.out[1].scale = 0; /* the first convolution and its ReLU */
  open_machine(&m, REF, f.graph, &q);
  CT_ASSERT_INT(in_eight_bits(m.p, CT_OP_CONV), 3); /* not those that take it or add it */
  ct_mem_free(run(&m));
  close_machine(&m, REF);
  ct_quant_clear(&q);
  ct_fold_clear(&f);
  ct_graph_free(g);
}

static void wrong_numbers_are_refused(void)
{
  ct_graph_t *g = layers(residual, ct_shape(4, 1, 3, 6, 6));
  ct_quant_t q;
  ct_plan_t *p = NULL;
  CT_ASSERT_OK(ct_quant_make(g, &q));
  ct_plan_opts_t o = {.n = 1, .training = 1, .quant = &q};
  CT_ASSERT_FAILS(ct_plan_make(g, backends[REF], device(REF), &o, NULL, &p), CT_ERR_USAGE,
                  "int8 is for evaluation");
  o.training = 0;
  q.layers--;
  CT_ASSERT_FAILS(ct_plan_make(g, backends[REF], device(REF), &o, NULL, &p), CT_ERR_SHAPE,
                  "the int8 parameters are for");
  ct_quant_clear(&q);
  ct_graph_free(g);
}

static void dynamic_layers(void)
{
  const ct_shape_t input = ct_shape(4, 1, 1, 12, 12);
  ct_graph_t *g = family("mlp", 0, input);
  ct_quant_t q;
  machine_t m;
  float *want, *got;
  CT_ASSERT_OK(ct_quant_make(g, &q));
  memset(q.dynamic, 1, (size_t)g->layers);
  open_machine(&m, REF, g, &q);
  CU_ASSERT(in_eight_bits(m.p, CT_OP_LINEAR) > 0);
  want = run(&m);
  int64_t n = ct_shape_count(&m.p->value[m.p->logits].shape);
  close_machine(&m, REF);
  open_machine(&m, CPU, g, &q);
  got = run(&m);
  close_machine(&m, CPU);
  CU_ASSERT(distance(got, want, n) < 0.02);
  ct_mem_free(want);
  ct_mem_free(got);
  ct_quant_clear(&q);
  ct_graph_free(g);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(families_in_eight_bits), CT_TEST(what_has_no_numbers_stays),
      CT_TEST(wrong_numbers_are_refused), CT_TEST(dynamic_layers), CT_TEST_END};
  return ct_test_main("plan_int8", tests, argc, argv);
}
