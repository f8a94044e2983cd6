/* Folding: what becomes of the layers, and that the folded network computes the same. */
#include "model/ct_fold.h"

#include <math.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "base/ct_rng.h"
#include "plan/ct_plan.h"
#include "ref/ct_ref.h"
#include "tests/harness/ct_test.h"
#include "tests/unit/model_make.h"

/* ---- values as a trained network has them ---- */

static float **trained(const ct_graph_t *g)
{
  float **plain = ct_mem_array(g->params, sizeof *plain, "test");
  for (int i = 0; i < g->params; i++) {
    const ct_param_t *p = &g->param[i];
    plain[i] = ct_mem_array(p->count, sizeof **plain, "test");
    ct_graph_init_param(g, i, 3, plain[i]);
    int norm = g->layer[p->layer].ops->op == CT_OP_BNORM;
    for (int64_t k = 0; k < p->count && norm; k++) {
      float v = ct_rng_normal(4, CT_RNG_TEST, (uint32_t)i, (uint64_t)k);
      plain[i][k] = p->slot == 0 ? 1 + 0.2F * v : p->slot == 3 ? 0.3F + v * v : 0.3F * v;
    }
  }
  return plain;
}

static void discard(const ct_graph_t *g, float **plain)
{
  for (int i = 0; i < g->params; i++)
    ct_mem_free(plain[i]);
  ct_mem_free(plain);
}

static float **folded(const ct_fold_t *f, float *const *plain)
{
  float **out = ct_mem_array(f->graph->params, sizeof *out, "test");
  for (int i = 0; i < f->graph->params; i++) {
    out[i] = ct_mem_array(f->graph->param[i].count, sizeof **out, "test");
    ct_fold_param(f, i, (const float *const *)plain, out[i]);
  }
  return out;
}

/* ---- running a network ---- */

static void *room(ct_dev_t *dev, size_t bytes)
{
  void *p = NULL;
  CT_ASSERT_OK(ct_backend_ref.mem->alloc(dev, CT_MEM_DEVICE, bytes + 1, &p));
  return p;
}

static void fill(const ct_graph_t *g, const ct_plan_t *p, ct_queue_t *q, const ct_bind_t *b,
                 float *const *plain)
{
  for (int i = 0; i < g->params; i++) {
    const ct_param_t *par = &g->param[i];
    char *to = (par->spec.buffer ? b->buffer : b->weight) + b->map->offset[i];
    if (par->spec.buffer)
      memcpy(to, plain[i], (size_t)par->count * sizeof **plain);
    else
      CT_ASSERT_OK(
          ct_backend_ref.op->pack(q, p->op[p->layer_op[par->layer]].op, par->slot, plain[i], to));
  }
}

/* The outputs for two samples of noise. */
static void outputs(const ct_graph_t *g, float *const *plain, float *out)
{
  enum { N = 2 };
  ct_dev_t *dev;
  ct_queue_t *q;
  ct_plan_t *p;
  ct_arena_map_t map;
  int32_t labels[N] = {0};
  int64_t count = N * ct_shape_count(&g->input);
  CT_ASSERT_OK(ct_backend_ref.open(&(ct_dev_opts_t){.threads = 1}, &dev));
  CT_ASSERT_OK(ct_backend_ref.queue->create(dev, &q));
  CT_ASSERT_OK(ct_plan_make(g, &ct_backend_ref, dev, &(ct_plan_opts_t){.n = N}, NULL, &p));
  CT_ASSERT_OK(ct_arena_map_make(p, &map));
  float *x = room(dev, (size_t)count * sizeof *x);
  for (int64_t i = 0; i < count; i++)
    x[i] = ct_rng_normal(1, CT_RNG_TEST, 0, (uint64_t)i);
  ct_loss_t loss;
  ct_bind_t b = {.arena = room(dev, p->arena_bytes),
                 .scratch = room(dev, p->scratch_bytes),
                 .weight = room(dev, map.weight_bytes),
                 .buffer = room(dev, map.buffer_bytes),
                 .map = &map,
                 .x = x,
                 .labels = labels,
                 .loss = &loss,
                 .loss_scale = 1};
  fill(g, p, q, &b, plain);
  for (int i = 0; i <= p->loss_work; i++)
    CT_ASSERT_OK(ct_plan_run(p, i, &b, q));
  const ct_value_t *v = &p->value[ct_plan_root(p, p->logits)];
  memcpy(out, v->external ? (char *)x : b.arena + v->offset, p->value[p->logits].bytes);
  void *all[] = {x, b.arena, b.scratch, b.weight, b.buffer};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    ct_backend_ref.mem->free(dev, CT_MEM_DEVICE, all[i]);
  ct_arena_map_clear(&map);
  ct_plan_free(p);
  ct_backend_ref.queue->destroy(q);
  ct_backend_ref.close(dev);
}

static void check_same(const char *yaml, ct_shape_t input, int norms_left)
{
  enum { CLASSES = 7 };
  float whole[2 * CLASSES], less[2 * CLASSES];
  ct_graph_t *g = make(yaml, input, CLASSES);
  ct_fold_t f;
  CT_ASSERT_OK(ct_fold_make(g, &f));
  float **plain = trained(g), **own = folded(&f, plain);
  outputs(g, plain, whole);
  outputs(f.graph, own, less);
  double most = 0, scale = 0;
  for (int i = 0; i < 2 * CLASSES; i++) {
    most = fmax(most, fabs((double)whole[i] - less[i]));
    scale = fmax(scale, fabs((double)whole[i]));
  }
  CU_ASSERT(scale > 0.1);
  if (most > 1e-5 * scale) CT_ASSERT_TEXT(yaml, "not the same outputs");
  int left = 0;
  for (int i = 0; i < f.graph->layers; i++)
    left += f.graph->layer[i].ops->op == CT_OP_BNORM;
  CT_ASSERT_INT(left, norms_left);
  discard(f.graph, own);
  discard(g, plain);
  ct_fold_clear(&f);
  ct_graph_free(g);
}

static void the_same_is_computed(void)
{
  check_same("family: resnet\ndepth: 18\n", image(3, 32, 32), 0);
  check_same("family: mobilenet_v2\n", image(3, 32, 32), 0);
  check_same("family: densenet\ndepth: 121\n", image(3, 32, 32), 58 + 3 + 1);
}

/* Linear layers and groups; a convolution that has a bias; one that two read. */
static const char odd[] = "layers:\n"
                          "  - conv2d: {out: 6, kernel: 3, groups: 2, bias: true}\n"
                          "    name: a\n"
                          "  - batchnorm: {eps: 0.1}\n"
                          "    name: an\n"
                          "  - dropout\n"
                          "  - conv2d: {out: 6, kernel: 3, padding: 1, bias: false}\n"
                          "    name: b\n"
                          "  - batchnorm:\n"
                          "    name: bn\n"
                          "  - add:\n"
                          "    from: [b, bn]\n"
                          "  - flatten\n"
                          "  - linear: {out: 5, bias: false}\n"
                          "    name: c\n"
                          "  - batchnorm:\n"
                          "    name: cn\n"
                          "  - relu\n"
                          "  - linear: {out: 7}\n"
                          "    name: d\n"
                          "  - batchnorm\n"
                          "  - dropout\n";

static void odd_graphs_too(void)
{
  check_same(odd, image(4, 6, 6), 1);
  check_same("layers:\n  - dropout\n  - batchnorm\n  - flatten\n", image(7, 1, 1), 1);
  check_same("layers:\n  - flatten\n  - dropout\n", image(7, 1, 1), 0);
}

static void the_graph_says_what_it_is(void)
{
  ct_graph_t *g = make(odd, image(4, 6, 6), 7);
  ct_fold_t f;
  CT_ASSERT_OK(ct_fold_make(g, &f));
  CT_ASSERT_INT(f.norms, 3);
  CT_ASSERT_INT(f.dropouts, 2);
  CT_ASSERT_INT(f.graph->layers, g->layers - 5);
  CU_ASSERT(ct_graph_find_param(f.graph, "c.bias") >= 0);
  CU_ASSERT(ct_graph_find_param(f.graph, "b.bias") < 0);
  CU_ASSERT(ct_graph_find_param(f.graph, "an.weight") < 0);
  for (int i = 0; i < f.graph->layers; i++)
    CT_ASSERT_TEXT(f.graph->layer[i].name, g->layer[f.layer[i]].name);
  CT_ASSERT_TEXT(g->layer[f.norm[0]].name, "an");
  CT_ASSERT_INT(f.norm[1], -1);
  ct_fold_clear(&f);
  ct_graph_free(g);
}

static void nothing_is_left_without_memory(void)
{
  ct_graph_t *g = make(odd, image(4, 6, 6), 7);
  int64_t live = ct_mem_live();
  int rc = CT_ERR_NOMEM;
  for (int64_t i = 1; rc != CT_OK; i++) {
    ct_fold_t f;
    ct_mem_fail_at(i);
    rc = ct_fold_make(g, &f);
    ct_mem_fail_at(0);
    if (rc != CT_OK) CU_ASSERT_PTR_NULL(f.graph);
    ct_fold_clear(&f);
    CT_ASSERT_INT(ct_mem_live(), live);
  }
  ct_graph_free(g);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(the_same_is_computed), CT_TEST(odd_graphs_too),
                                    CT_TEST(the_graph_says_what_it_is),
                                    CT_TEST(nothing_is_left_without_memory), CT_TEST_END};
  return ct_test_main("fold", tests, argc, argv);
}
