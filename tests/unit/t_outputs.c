/* Plans of models with several outputs: what is computed, and the gradient of the sum of the
 * losses. */
#include "base/ct_rng.h"
#include "tests/unit/plan_make.h"
#include <math.h>

enum { SAMPLES = 3, CLASSES = 3, VALUES = 4 };

/* The head `low` is read by others too, and is followed by a ReLU that must not be fused into it;
 * nothing but the output `spare` needs `s1`. */
static const char several[] =
    "outputs: [class, spare, values, low]\nlayers:\n" CONV
    "- batchnorm:\n  name: low\n- relu:\n  name: r\n"
    "- flatten:\n  name: flat\n- linear: {out: 3}\n  name: class\n"
    "- linear: {out: 6}\n  name: s1\n  from: flat\n- linear: {out: 2}\n  name: spare\n"
    "- linear: {out: 4}\n  name: values\n  from: flat\n";

static const ct_heads_t two = {
    .n = 2,
    .of = {{.loss = {.kind = CT_LOSS_MSE}, .output = 2, .target = 1, .weight = 0.5},
           {.loss = {.kind = CT_LOSS_CROSS_ENTROPY, .label_smoothing = 0.1},
            .output = 0,
            .weight = 1}}};

static ct_graph_t *graph(void)
{
  ct_graph_t *g = NULL;
  ct_yaml_t *map = NULL;
  ct_model_opts_t o = {0};
  const ct_shape_t input = ct_shape(4, 1, 2, 5, 5);
  CT_ASSERT_OK(ct_yaml_parse(several, strlen(several), "test", &map));
  CT_ASSERT_OK(ct_opt_defaults(ct_model_rows, &o));
  CT_ASSERT_OK(ct_opt_read(ct_model_rows, &o, map, "test", "model", NULL));
  CT_ASSERT_OK(ct_graph_make(&o, &input, NULL, CLASSES, "test", &g));
  CU_ASSERT_PTR_NOT_NULL_FATAL(g);
  ct_opt_clear(ct_model_rows, &o);
  ct_yaml_free(map);
  return g;
}

static int launches_of(const ct_plan_t *p, const char *layer, int pass)
{
  int n = 0;
  for (int i = 0; i < p->launches; i++) {
    const ct_plan_op_t *op = &p->op[p->launch[i].op];
    n += op->layer >= 0 && strcmp(p->graph->layer[op->layer].name, layer) == 0 &&
         (p->launch[i].pass & pass);
  }
  return n;
}

static int losses(const ct_plan_t *p)
{
  int n = 0;
  for (int i = 0; i < p->launches; i++)
    n += p->op[p->launch[i].op].desc.kind == CT_OP_LOSS;
  return n;
}

static void training_computes_what_losses_need(void)
{
  for (int b = 0; b < BACKENDS; b++) {
    ct_graph_t *g = graph();
    ct_plan_opts_t o = {.n = SAMPLES, .training = 1, .heads = two};
    ct_plan_t *p = plan_with(b, g, &o, NULL);
    ct_arena_map_t map;
    CT_ASSERT_INT(losses(p), 2);
    CT_ASSERT_INT(p->op[p->launch[p->loss_launch].op].head, 1);
    CT_ASSERT_INT(p->op[p->launch[p->loss_launch - 1].op].head, 0);
    CT_ASSERT_INT(launches_of(p, "s1", CT_FWD) + launches_of(p, "spare", CT_FWD), 0);
    CT_ASSERT_INT(launches_of(p, "class", CT_FWD) + launches_of(p, "values", CT_BWD_PARAM), 2);
    CU_ASSERT(p->output[0] >= 0 && p->output[1] < 0 && p->output[2] >= 0 && p->output[3] < 0);
    CT_ASSERT_INT(p->logits, p->output[0]);
    CT_ASSERT_OK(ct_arena_map_make(p, &map)); /* all parameters have their place */
    CT_ASSERT_INT(map.trained, 12);
    ct_arena_map_clear(&map);
    ct_plan_free(p);
    ct_graph_free(g);
  }
}

static void other_plans_compute_all_outputs(void)
{
  for (int b = 0; b < BACKENDS; b++) {
    for (int inference = 0; inference < 2; inference++) {
      ct_graph_t *g = graph();
      ct_plan_opts_t o = {.n = SAMPLES, .inference = inference, .heads = two};
      ct_plan_t *p = plan_with(b, g, &o, NULL);
      CT_ASSERT_INT(losses(p), inference ? 0 : 2);
      CT_ASSERT_INT(launches_of(p, "s1", CT_FWD), 1);
      if (inference) CT_ASSERT_INT(p->loss_launch, p->launches);
      for (int k = 0; k < 4; k++) {
        const ct_value_t *v = &p->value[p->output[k]];
        CT_ASSERT_INT(v->shape.layout, CT_PLAIN);
        CT_ASSERT_INT(v->last, p->launches - 1);
      }
      ct_plan_free(p);
      ct_graph_free(g);
    }
  }
}

static void losses_that_do_not_fit_are_refused(void)
{
  ct_graph_t *g = graph();
  ct_plan_t *p;
  ct_plan_opts_t o = {.n = 1, .training = 1, .heads = two};
  o.heads.of[0].output = 4;
  CT_ASSERT_FAILS(ct_plan_make(g, backends[REF], device(REF), &o, NULL, &p), CT_ERR_ARG,
                  "does not exist");
  ct_graph_free(g);
}

/* ---- the gradient ---- */

typedef struct machine {
  const ct_backend_t *be;
  ct_queue_t *q;
  ct_plan_t *p;
  ct_arena_map_t map;
  ct_bind_t b;
  ct_loss_t loss[2];
} machine_t;

static float *numbers(int64_t count, uint32_t which)
{
  float *v = ct_mem_array(count, sizeof *v, "test");
  for (int64_t i = 0; i < count; i++)
    v[i] = ct_rng_normal(3, CT_RNG_TEST, which, (uint64_t)i);
  return v;
}

static void machine_open(machine_t *m, int b, const ct_graph_t *g)
{
  static const int32_t labels[SAMPLES] = {2, 0, 1};
  ct_plan_opts_t o = {.n = SAMPLES, .training = 1, .heads = two};
  *m = (machine_t){.be = backends[b], .p = plan_with(b, g, &o, NULL)};
  CT_ASSERT_OK(m->be->queue->create(device(b), &m->q));
  CT_ASSERT_OK(ct_arena_map_make(m->p, &m->map));
  m->b = (ct_bind_t){.arena = ct_mem_alloc(m->p->arena_bytes + 1, "test"),
                     .scratch = ct_mem_alloc(m->p->scratch_bytes + 1, "test"),
                     .weight = (char *)numbers((int64_t)m->map.weight_bytes / 4, 1),
                     .gradient = ct_mem_alloc(m->map.weight_bytes + 1, "test"),
                     .buffer = ct_mem_alloc(m->map.buffer_bytes + 1, "test"),
                     .map = &m->map,
                     .x = numbers(SAMPLES * ct_shape_count(&g->input), 2),
                     .targets = numbers(SAMPLES * VALUES, 3),
                     .loss = m->loss,
                     .loss_scale = 0.5F / SAMPLES,
                     .more = {{.labels = labels, .scale = 1.0F / SAMPLES}}};
}

static void machine_close(machine_t *m)
{
  void *all[] = {m->b.arena,
                 m->b.scratch,
                 m->b.weight,
                 m->b.gradient,
                 m->b.buffer,
                 (void *)(uintptr_t)m->b.x,
                 (void *)(uintptr_t)m->b.targets};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    ct_mem_free(all[i]);
  m->be->queue->destroy(m->q);
  ct_plan_free(m->p);
  ct_arena_map_clear(&m->map);
}

/* The weighted sum of the losses after so many launches. */
static double run(const machine_t *m, int launches)
{
  for (int i = 0; i < launches; i++)
    CT_ASSERT_OK(ct_plan_run(m->p, i, &m->b, m->q));
  CT_ASSERT_OK(m->be->queue->sync(m->q));
  return 0.5 * m->loss[0].sum / m->loss[0].weight + m->loss[1].sum / m->loss[1].weight;
}

static double loss_at(const machine_t *m, const float *w, const float *direction, double step)
{
  float *now = (float *)m->b.weight;
  for (size_t i = 0; i < m->map.weight_bytes / sizeof *w; i++)
    now[i] = (float)(w[i] + step * direction[i]);
  return run(m, m->p->loss_launch + 1);
}

static void check_slope(int b)
{
  machine_t m;
  ct_graph_t *g = graph();
  machine_open(&m, b, g);
  int64_t count = (int64_t)(m.map.weight_bytes / sizeof(float));
  float *w = ct_mem_array(count, sizeof *w, "test"), *d = numbers(count, 4);
  const float *gradient = (float *)m.b.gradient;
  double expected = 0, size = 0;
  memcpy(w, m.b.weight, m.map.weight_bytes);
  run(&m, m.p->launches);
  CU_ASSERT(m.loss[0].samples == SAMPLES && m.loss[1].samples == SAMPLES &&
            m.loss[0].abs_error > 0);
  for (int64_t i = 0; i < count; i++)
    size += (double)gradient[i] * gradient[i] / (double)count;
  for (int64_t i = 0; i < count; i++) {
    d[i] = (float)(gradient[i] + sqrt(size) * d[i]);
    expected += (double)gradient[i] * d[i];
  }
  double step = 3e-3 / expected;
  double slope = (loss_at(&m, w, d, step) - loss_at(&m, w, d, -step)) / (2 * step);
  CT_ASSERT_NEAR(slope / expected, 1, 2e-3);
  ct_mem_free(w);
  ct_mem_free(d);
  machine_close(&m);
  ct_graph_free(g);
}

static void the_gradient_is_that_of_the_sum(void)
{
  for (int b = 0; b < BACKENDS; b++)
    check_slope(b);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(training_computes_what_losses_need),
                                    CT_TEST(other_plans_compute_all_outputs),
                                    CT_TEST(losses_that_do_not_fit_are_refused),
                                    CT_TEST(the_gradient_is_that_of_the_sum), CT_TEST_END};
  int rc = ct_test_main("outputs", tests, argc, argv);
  close_devices();
  return rc;
}
