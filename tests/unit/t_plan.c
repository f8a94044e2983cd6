/* The planner: fusions, schedules, memory, buckets. */
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "base/ct_rng.h"
#include "plan/ct_plan.h"
#include "ref/ct_ref.h"
#include "tests/harness/ct_test.h"
#include <string.h>

static ct_dev_t *dev;

static ct_graph_t *family(const char *name, int64_t depth, ct_shape_t input)
{
  ct_graph_t *g = NULL;
  ct_model_opts_t m = {.family = (char *)(uintptr_t)name, .depth = depth};
  CT_ASSERT_OK(ct_graph_make(&m, &input, 10, "test", &g));
  return g;
}

static ct_graph_t *layers(const char *yaml, ct_shape_t input)
{
  ct_graph_t *g = NULL;
  ct_model_opts_t m = {.family = (char *)(uintptr_t) ""};
  ct_node_t *root = NULL;
  CT_ASSERT_OK(ct_node_parse(yaml, strlen(yaml), "test", &root));
  m.layers = root ? ct_node_find(root, "layers") : NULL;
  CT_ASSERT_OK(ct_graph_make(&m, &input, 10, "test", &g));
  CU_ASSERT_PTR_NOT_NULL_FATAL(g);
  ct_node_free(root);
  return g;
}

static ct_plan_t *plan(const ct_graph_t *g, int n, int training)
{
  ct_plan_t *p = NULL;
  if (!dev) CT_ASSERT_OK(ct_backend_ref.open(&(ct_dev_opts_t){.threads = 1}, &dev));
  CT_ASSERT_OK(ct_plan_make(g, &ct_backend_ref, dev, n, training, NULL, &p));
  return p;
}

static int count_ops(const ct_plan_t *p, ct_op_kind_t kind, int layers_only)
{
  int n = 0;
  for (int i = 0; i < p->ops; i++)
    n += p->op[i].desc.kind == kind && (!layers_only || p->op[i].layer >= 0);
  return n;
}

/* ---- placement ---- */

static void placed_blocks_never_overlap(void)
{
  enum { N = 60 };
  for (uint64_t round = 0; round < 200; round++) {
    size_t bytes[N], offset[N], total, sum = 0;
    int first[N], last[N];
    for (uint64_t i = 0; i < N; i++) {
      uint32_t r[4];
      ct_rng_block(round, CT_RNG_TEST, 0, i, r);
      bytes[i] = r[0] % 7 ? r[0] % 5000 : 0;
      first[i] = (int)(r[1] % 40);
      last[i] = first[i] + (int)(r[2] % 10);
      sum += (bytes[i] + 63) / 64 * 64;
    }
    CT_ASSERT_OK(ct__place(N, bytes, first, last, offset, &total));
    CU_ASSERT(total <= sum);
    for (int a = 0; a < N; a++)
      for (int b = 0; b < a; b++) {
        if (!bytes[a] || !bytes[b] || last[a] < first[b] || last[b] < first[a]) continue;
        CU_ASSERT(offset[a] + bytes[a] <= offset[b] || offset[b] + bytes[b] <= offset[a]);
      }
  }
}

static int root(const ct_plan_t *p, int v)
{
  while (p->value[v].same_as >= 0)
    v = p->value[v].same_as;
  return v;
}

/* Plays the works on labels: what a work reads is what was last written at that place. */
static void check_memory(const ct_plan_t *p)
{
  int *holds = ct_mem_array((int64_t)p->arena_bytes + 1, sizeof *holds, "test");
  for (int i = 0; i < p->works; i++) {
    const ct_work_t *w = &p->work[i];
    int backward = !(w->pass & CT_FWD), saved = p->op[w->op].saved;
    const int reads[] = {w->x, w->x2, w->dy, w->dy2, backward ? w->y : -1, backward ? saved : -1};
    const int writes[] = {backward ? -1 : w->y, w->dx, w->dx2, backward ? -1 : saved};
    for (int k = 0; k < 6; k++)
      if (reads[k] >= 0 && !p->value[reads[k]].external)
        CT_ASSERT_INT(holds[p->value[root(p, reads[k])].offset], reads[k] + 1);
    for (int k = 0; k < 4; k++) {
      if (writes[k] < 0) continue;
      const ct_value_t *v = &p->value[root(p, writes[k])];
      for (size_t b = 0; b < p->value[writes[k]].bytes; b++)
        holds[v->offset + b] = 0;
      holds[v->offset] = writes[k] + 1;
    }
  }
  ct_mem_free(holds);
}

static void every_read_sees_its_write(void)
{
  static const struct {
    const char *name;
    int depth, channels, size;
  } models[] = {{"mlp", 0, 1, 8},
                {"lenet", 0, 1, 8},
                {"resnet", 20, 3, 8},
                {"resnet", 18, 3, 16},
                {"resnet", 50, 3, 16}};
  for (size_t i = 0; i < sizeof models / sizeof *models; i++)
    for (int training = 0; training < 2; training++) {
      ct_graph_t *g = family(models[i].name, models[i].depth,
                             ct_shape(4, 1, models[i].channels, models[i].size, models[i].size));
      ct_plan_t *p = plan(g, 2, training);
      if (p) check_memory(p);
      ct_plan_free(p);
      ct_graph_free(g);
    }
}

static void evaluation_needs_less_memory(void)
{
  ct_graph_t *g = family("resnet", 20, ct_shape(4, 1, 3, 32, 32));
  ct_plan_t *train = plan(g, 4, 1), *eval = plan(g, 4, 0);
  CU_ASSERT(eval->arena_bytes * 3 < train->arena_bytes);
  ct_plan_free(train);
  ct_plan_free(eval);
  ct_graph_free(g);
}

/* ---- fusion ---- */

static void resnet_block_is_fused(void)
{
  ct_graph_t *g = family("resnet", 18, ct_shape(4, 1, 3, 32, 32));
  ct_plan_t *p = plan(g, 2, 1);
  CT_ASSERT_INT(count_ops(p, CT_OP_RELU, 1), 0);
  CT_ASSERT_INT(count_ops(p, CT_OP_ADD, 1), 0);
  CT_ASSERT_INT(count_ops(p, CT_OP_BNORM, 1), 20);
  int adds = 0, relus = 0;
  for (int i = 0; i < p->ops; i++)
    if (p->op[i].desc.kind == CT_OP_BNORM) {
      adds += p->op[i].desc.u.bnorm.add;
      relus += p->op[i].desc.u.bnorm.relu;
    }
  CT_ASSERT_INT(adds, 8);
  CT_ASSERT_INT(relus,
                17); /* not the three of the shortcuts, or the block's other batchnorm there */
  ct_plan_free(p);
  ct_graph_free(g);
}

static void relu_goes_into_the_pool(void)
{
  ct_graph_t *g = family("lenet", 0, ct_shape(4, 1, 1, 28, 28));
  ct_plan_t *p = plan(g, 2, 1);
  for (int i = 0; i < p->ops; i++) {
    const ct_op_desc_t *d = &p->op[i].desc;
    if (d->kind == CT_OP_POOL) CT_ASSERT_INT(d->u.pool.relu, 1);
    if (d->kind == CT_OP_CONV) CT_ASSERT_INT(d->u.conv.relu, 0);
  }
  CT_ASSERT_INT(count_ops(p, CT_OP_RELU, 1), 0);
  CT_ASSERT_INT(count_ops(p, CT_OP_REORDER, 0), 0); /* flatten of a plain tensor is nothing */
  ct_plan_free(p);
  ct_graph_free(g);
}

static void what_is_read_twice_is_not_fused(void)
{
  ct_graph_t *g = layers("layers:\n- conv2d: {out: 4, kernel: 3, padding: 1}\n  name: a\n"
                         "- relu:\n  name: r\n"
                         "- add:\n  name: s\n  from: [a, r]\n"
                         "- flatten:\n- linear: {out: 10}\n",
                         ct_shape(4, 1, 1, 6, 6));
  ct_plan_t *p = plan(g, 2, 1);
  CT_ASSERT_INT(count_ops(p, CT_OP_RELU, 1), 1);
  CT_ASSERT_INT(count_ops(p, CT_OP_ADD, 1), 1);
  if (p) check_memory(p);
  ct_plan_free(p);
  ct_graph_free(g);
}

static void three_readers_get_their_gradients_summed(void)
{
  ct_graph_t *g = layers("layers:\n- conv2d: {out: 4, kernel: 3, padding: 1}\n  name: a\n"
                         "- conv2d: {out: 4, kernel: 3, padding: 1}\n  name: b\n  from: a\n"
                         "- conv2d: {out: 4, kernel: 3, padding: 1}\n  name: c\n  from: a\n"
                         "- add:\n  name: s\n  from: [b, c]\n"
                         "- add:\n  name: t\n  from: [s, a]\n"
                         "- flatten:\n- linear: {out: 10}\n",
                         ct_shape(4, 1, 1, 6, 6));
  ct_plan_t *p = plan(g, 2, 1);
  CT_ASSERT_INT(count_ops(p, CT_OP_ADD, 0) - count_ops(p, CT_OP_ADD, 1), 2);
  if (p) check_memory(p);
  ct_plan_free(p);
  ct_graph_free(g);
}

static void dropout_is_nothing_in_evaluation(void)
{
  ct_graph_t *g =
      layers("layers:\n- flatten:\n- linear: {out: 20}\n- dropout: {p: 0.5}\n- linear: {out: 10}\n",
             ct_shape(4, 1, 1, 6, 6));
  ct_plan_t *train = plan(g, 2, 1), *eval = plan(g, 2, 0);
  CT_ASSERT_INT(count_ops(train, CT_OP_DROPOUT, 0), 1);
  CT_ASSERT_INT(count_ops(eval, CT_OP_DROPOUT, 0), 0);
  ct_plan_free(train);
  ct_plan_free(eval);
  ct_graph_free(g);
}

/* ---- arenas and buckets ---- */

static void buckets_cover_the_arena_in_backward_order(void)
{
  ct_graph_t *g = family("resnet", 20, ct_shape(4, 1, 3, 8, 8));
  ct_plan_t *p = plan(g, 2, 1);
  ct_arena_map_t m;
  ct_bucket_t b[64];
  CT_ASSERT_OK(ct_arena_map_make(p, &m));
  for (size_t bytes = 1000; bytes < 4000000; bytes *= 3) {
    int n = ct_buckets_make(p, &m, bytes, 64, b);
    size_t end = 0;
    CU_ASSERT(n >= 1 && n <= 64);
    for (int i = 0; i < n; i++) {
      CT_ASSERT_INT(b[i].offset, end);
      CU_ASSERT(i == 0 || b[i].after >= b[i - 1].after);
      CU_ASSERT(b[i].after > p->loss_work && b[i].after < p->works);
      end = b[i].offset + b[i].bytes;
    }
    CT_ASSERT_INT(end, m.weight_bytes);
  }
  CT_ASSERT_INT(m.order[0] >= g->params - 2, 1); /* the last layer's gradients are ready first */
  ct_arena_map_clear(&m);
  ct_plan_free(p);
  ct_graph_free(g);
}

static void no_memory_is_an_error_and_leaks_nothing(void)
{
  ct_graph_t *g = family("lenet", 0, ct_shape(4, 1, 1, 8, 8));
  ct_plan_t *p = plan(g, 2, 1);
  ct_plan_free(p);
  int64_t live = ct_mem_live();
  for (int64_t n = 1;; n++) {
    ct_mem_fail_at(n);
    int rc = ct_plan_make(g, &ct_backend_ref, dev, 2, 1, NULL, &p);
    ct_mem_fail_at(0);
    if (rc == CT_OK) break;
    CT_ASSERT_INT(rc, CT_ERR_NOMEM);
    CT_ASSERT_INT(ct_mem_live(), live);
    if (n > 10000) break;
  }
  ct_plan_free(p);
  CT_ASSERT_INT(ct_mem_live(), live);
  ct_graph_free(g);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(placed_blocks_never_overlap),
                                    CT_TEST(every_read_sees_its_write),
                                    CT_TEST(evaluation_needs_less_memory),
                                    CT_TEST(resnet_block_is_fused),
                                    CT_TEST(relu_goes_into_the_pool),
                                    CT_TEST(what_is_read_twice_is_not_fused),
                                    CT_TEST(three_readers_get_their_gradients_summed),
                                    CT_TEST(dropout_is_nothing_in_evaluation),
                                    CT_TEST(buckets_cover_the_arena_in_backward_order),
                                    CT_TEST(no_memory_is_an_error_and_leaks_nothing),
                                    CT_TEST_END};
  int rc = ct_test_main("plan", tests, argc, argv);
  ct_backend_ref.close(dev);
  return rc;
}
