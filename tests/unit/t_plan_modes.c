/* The planner with a part of the model frozen, with statistics of many ranks, and with chains of
 * concatenations. */
#include "tests/unit/plan_make.h"
#include <fnmatch.h>
#include <stdio.h>

static void freeze(ct_graph_t *g, const char *pattern)
{
  for (int i = 0; i < g->params; i++)
    if (!g->param[i].spec.buffer && fnmatch(pattern, g->param[i].name, 0) == 0)
      g->param[i].frozen = 1;
}

static ct_graph_t *resnet(void)
{
  return family("resnet", 20, ct_shape(4, 1, 3, 8, 8));
}

/* ---- freezing ---- */

static int layer_trains(const ct_graph_t *g, int layer)
{
  for (int i = 0; i < g->params; i++)
    if (g->param[i].layer == layer && !g->param[i].spec.buffer && !g->param[i].frozen) return 1;
  return 0;
}

static void frozen_layers_have_no_gradient_work(void)
{
  for (int b = 0; b < BACKENDS; b++) {
    ct_graph_t *g = resnet();
    freeze(g, "layer2.*");
    ct_plan_t *p = plan_on(b, g, 2, 1, NULL);
    int of_params = 0;
    for (int i = 0; i < p->launches; i++) {
      int layer = p->op[p->launch[i].op].layer;
      if (!(p->launch[i].pass & CT_BWD_PARAM)) continue;
      CU_ASSERT(layer_trains(g, layer));
      CU_ASSERT(strncmp(g->layer[layer].name, "layer2.", 7) != 0);
      of_params++;
    }
    CU_ASSERT(of_params > 20);
    ct_plan_free(p);
    ct_graph_free(g);
  }
}

static int last_frozen(const ct_graph_t *g)
{
  int last = -1;
  for (int i = 0; i < g->params; i++)
    if (g->param[i].frozen && g->param[i].layer > last) last = g->param[i].layer;
  return last;
}

/* Backward ends at the first layer that is trained. */
static void nothing_before_the_first_trained_layer_has_a_gradient(void)
{
  ct_graph_t *g = resnet();
  freeze(g, "conv1.*");
  freeze(g, "bn1.*");
  freeze(g, "layer1.*");
  ct_plan_t *whole_backward, *p = plan(g, 2, 1);
  for (int i = p->loss_launch + 1; i < p->launches; i++) {
    int layer = p->op[p->launch[i].op].layer;
    CU_ASSERT(layer < 0 || layer > last_frozen(g));
  }
  for (int i = 0; i < p->ops; i++) {
    int layer = p->op[i].layer;
    if (layer < 0 || strncmp(g->layer[layer].name, "layer1.", 7) != 0) continue;
    CT_ASSERT_INT(p->value[p->op[i].out].grad, 0);
    CT_ASSERT_INT(p->op[i].saved, -1);
  }
  for (int i = 0; i < g->params; i++)
    g->param[i].frozen = 0;
  whole_backward = plan(g, 2, 1);
  CU_ASSERT(whole_backward->arena_bytes > p->arena_bytes);
  CU_ASSERT(whole_backward->launches > p->launches);
  ct_plan_free(whole_backward);
  ct_plan_free(p);
  ct_graph_free(g);
}

static void check_parts(const ct_graph_t *g, const ct_arena_map_t *m)
{
  size_t end = 0;
  for (int k = 0; k < m->trained; k++) {
    CT_ASSERT_INT(g->param[m->order[k]].frozen, 0);
    CT_ASSERT_INT(m->offset[m->order[k]], end);
    end = (m->offset[m->order[k]] + m->bytes[m->order[k]] + 63) / 64 * 64;
  }
  CT_ASSERT_INT(end, m->trained_bytes);
  for (int i = 0; i < g->params; i++) {
    if (g->param[i].spec.buffer) continue;
    size_t at = m->offset[i];
    int partly = layer_trains(g, g->param[i].layer);
    CT_ASSERT_INT(!g->param[i].frozen, at < m->trained_bytes);
    CT_ASSERT_INT(partly, at < m->gradient_bytes);
    CU_ASSERT(at + m->bytes[i] <= m->weight_bytes);
  }
}

/* Trained, then those whose gradient is written all the same, then the rest. */
static void the_arena_begins_with_what_is_trained(void)
{
  for (int b = 0; b < BACKENDS; b++) {
    ct_graph_t *g = resnet();
    ct_arena_map_t all, m;
    ct_plan_t *p = plan_on(b, g, 2, 1, NULL);
    CT_ASSERT_OK(ct_arena_map_make(p, &all));
    CT_ASSERT_INT(all.trained_bytes, all.weight_bytes);
    CT_ASSERT_INT(all.gradient_bytes, all.weight_bytes);
    ct_plan_free(p);
    freeze(g, "layer1.*");
    freeze(g, "*bn*.bias");
    freeze(g, "fc.weight");
    p = plan_on(b, g, 2, 1, NULL);
    CT_ASSERT_OK(ct_arena_map_make(p, &m));
    check_parts(g, &m);
    CU_ASSERT(m.trained_bytes < m.gradient_bytes && m.gradient_bytes < m.weight_bytes);
    CT_ASSERT_INT(m.weight_bytes, all.weight_bytes);
    CT_ASSERT_INT(m.buffer_bytes, all.buffer_bytes);
    ct_arena_map_clear(&all);
    ct_arena_map_clear(&m);
    ct_plan_free(p);
    ct_graph_free(g);
  }
}

static void buckets_end_with_what_is_trained(void)
{
  ct_graph_t *g = resnet();
  ct_arena_map_t m;
  ct_bucket_t bucket[16];
  freeze(g, "layer3.*");
  freeze(g, "*.bn1.weight");
  ct_plan_t *p = plan(g, 2, 1);
  CT_ASSERT_OK(ct_arena_map_make(p, &m));
  int n = ct_buckets_make(p, &m, 10000, 16, bucket);
  size_t end = 0;
  for (int i = 0; i < n; i++) {
    CT_ASSERT_INT(bucket[i].offset, end);
    CU_ASSERT(bucket[i].after > p->loss_launch && bucket[i].after < p->launches);
    end += bucket[i].bytes;
  }
  CU_ASSERT(n > 1);
  CT_ASSERT_INT(end, m.trained_bytes);
  ct_arena_map_clear(&m);
  ct_plan_free(p);
  ct_graph_free(g);
}

/* ---- batchnorm ---- */

/* The batchnorms' works of other ranks, in order: layer and pass of each. */
static int stats_launches(const ct_plan_t *p, int most, int launches[])
{
  int n = 0;
  for (int i = 0; i < p->launches; i++) {
    const ct_plan_launch_t *w = &p->launch[i];
    if (!(w->pass & (CT_FWD_STATS | CT_BWD_STATS))) continue;
    const ct_plan_launch_t *next = &p->launch[i + 1];
    CT_ASSERT_INT(next->op, w->op);
    CT_ASSERT_INT(next->pass, w->pass == CT_FWD_STATS ? CT_FWD : CT_BWD_DATA);
    CT_ASSERT_INT(next->x, w->x);
    CT_ASSERT_INT(p->op[w->op].desc.passes & w->pass, w->pass);
    CU_ASSERT_FATAL(n < most);
    launches[n++] = w->pass * 1000 + p->op[w->op].layer;
  }
  return n;
}

static void every_plan_exchanges_the_same_sums(void)
{
  enum { MOST = 200 };
  static const int sizes[] = {5, 1, 16};
  for (int k = 0; k < BACKENDS * ODD_GRAPHS + BACKENDS; k++) {
    int first[MOST], other[MOST], n = 0, b = k % BACKENDS;
    ct_graph_t *g = k < BACKENDS ? resnet() : odd_graph(k / BACKENDS - 1);
    ct_plan_t *like = NULL;
    for (int i = 0; i < 3; i++) {
      ct_plan_opts_t o = {.n = sizes[i], .training = 1, .sync_bn = 1};
      ct_plan_t *p = plan_with(b, g, &o, like);
      int now = stats_launches(p, MOST, i ? other : first);
      if (i) CT_ASSERT_INT(now, n);
      if (i) CU_ASSERT(memcmp(first, other, (size_t)n * sizeof *first) == 0);
      n = now;
      if (i) ct_plan_free(p);
      if (!i) like = p;
    }
    if (k < BACKENDS)
      CT_ASSERT_INT(n, 2 * 21); /* 19 layers with one each, 2 shortcuts; both ways */
    ct_plan_free(like);
    ct_graph_free(g);
  }
}

static int count_bnorms(const ct_plan_t *p, int training, int sync)
{
  int n = 0;
  for (int i = 0; i < p->ops; i++) {
    const ct_op_desc_t *d = &p->op[i].desc;
    n += d->kind == CT_OP_BNORM && d->training == training && d->u.bnorm.sync == sync;
  }
  return n;
}

static void only_training_is_synchronised(void)
{
  int launches[1];
  ct_graph_t *g = resnet();
  ct_plan_t *p = plan_with(REF, g, &(ct_plan_opts_t){.n = 2, .sync_bn = 1}, NULL);
  CT_ASSERT_INT(stats_launches(p, 0, launches), 0);
  CT_ASSERT_INT(count_bnorms(p, 0, 0), 21);
  ct_plan_free(p);
  ct_graph_free(g);
}

/* A batchnorm in front of which nothing is trained needs no other rank for its own gradients. */
static void no_data_gradient_needs_no_sums(void)
{
  int launches[2];
  ct_graph_t *g = layers(touches_input, ct_shape(4, 1, 3, 6, 6));
  ct_plan_t *p = plan_with(REF, g, &(ct_plan_opts_t){.n = 2, .training = 1, .sync_bn = 1}, NULL);
  CT_ASSERT_INT(stats_launches(p, 2, launches), 1);
  CT_ASSERT_INT(launches[0] / 1000, CT_FWD_STATS);
  int params = 0;
  for (int i = 0; i < p->launches; i++)
    params += p->op[p->launch[i].op].desc.kind == CT_OP_BNORM && p->launch[i].pass == CT_BWD_PARAM;
  CT_ASSERT_INT(params, 1);
  ct_plan_free(p);
  ct_graph_free(g);
}

static void some_batchnorms_keep_their_statistics(void)
{
  int launches[80], kept = 0;
  ct_graph_t *g = resnet();
  for (int i = 0; i < g->layers; i++) {
    if (strcmp(g->layer[i].ops->kind, "batchnorm") != 0) continue;
    if (strncmp(g->layer[i].name, "layer2.", 7) != 0) continue;
    g->layer[i].keeps_stats = 1;
    kept++;
  }
  ct_plan_t *p = plan_with(REF, g, &(ct_plan_opts_t){.n = 2, .training = 1, .sync_bn = 1}, NULL);
  CU_ASSERT(kept > 0);
  CT_ASSERT_INT(count_bnorms(p, 0, 0), kept);
  CT_ASSERT_INT(count_bnorms(p, 1, 1), 21 - kept);
  CT_ASSERT_INT(stats_launches(p, 80, launches), 2 * (21 - kept));
  ct_plan_free(p);
  ct_graph_free(g);
}

/* ---- chains of concatenations ---- */

static size_t place_of(const ct_plan_t *p, int v)
{
  return p->value[ct_plan_root(p, v)].offset;
}

/* Of the 58 concatenations of DenseNet-121, the first of each of the 4 blocks copies both inputs;
 * the others, and all gradients, stay where they are. */
static void dense_blocks_are_one_tensor(void)
{
  ct_graph_t *g = family("densenet", 121, ct_shape(4, 1, 3, 32, 32));
  for (int b = 0; b < FICKLE; b++)
    for (int training = 0; training < 2; training++) {
      ct_plan_t *p = plan_on(b, g, 2, training, NULL);
      int concats = 0, placed = 0, kept = 0, bnorms = 0, added = 0;
      for (int i = 0; i < p->launches; i++) {
        const ct_plan_launch_t *w = &p->launch[i];
        const ct_op_desc_t *d = &p->op[w->op].desc;
        int back = !(w->pass & CT_FWD);
        concats += d->kind == CT_OP_CONCAT && !back;
        bnorms += d->kind == CT_OP_BNORM && d->within && !back;
        if (d->kind == CT_OP_BNORM && d->within && back)
          added += w->dx_add >= 0 && place_of(p, w->dx) == place_of(p, w->dx_add);
        if (!ct_op_is_placed(d)) continue;
        placed += !back && place_of(p, w->x) == place_of(p, w->y);
        kept += back && place_of(p, w->dx) == place_of(p, w->dy);
      }
      CT_ASSERT_INT(concats, 58);
      CT_ASSERT_INT(placed, 54);
      CT_ASSERT_INT(bnorms, 54);
      CT_ASSERT_INT(kept, training * 54);
      CT_ASSERT_INT(added, training * 54);
      ct_plan_free(p);
    }
  ct_graph_free(g);
}

/* Results that other ops read, or that are joined along another dim, are tensors of their own. */
static void other_concatenations_copy(void)
{
  static const char start[] = "layers:\n- conv2d: {out: 16, kernel: 3, padding: 1}\n  name: a\n";
  static const char *const rest[] = {
      "- concat: \n  name: b\n  from: [a, a]\n- batchnorm:\n  name: n\n"
      "- concat: \n  name: c\n  from: [b, n]\n",
      "- concat: \n  name: b\n  from: [a, a]\n- relu:\n  name: n\n"
      "- concat: \n  name: c\n  from: [b, n]\n",
      "- concat: \n  name: b\n  from: [a, a]\n- concat: \n  name: c\n  from: [a, b]\n",
      "- concat: \n  name: b\n  from: [a, a]\n- concat: \n  name: d\n  from: [b, a]\n"
      "- batchnorm:\n  name: n\n  from: b\n- concat: \n  name: c\n  from: [d, n]\n",
      "- concat: {dim: 2}\n  name: b\n  from: [a, a]\n"
      "- concat: {dim: 2}\n  name: c\n  from: [b, a]\n"};
  for (int k = 0; k < (int)(sizeof rest / sizeof *rest); k++) {
    char text[1000];
    int placed = 0;
    snprintf(text, sizeof text, "%s%s%s", start, rest[k], TAIL);
    ct_graph_t *g = layers(text, ct_shape(4, 1, 3, 6, 6));
    ct_plan_t *p = plan_on(CPU, g, 2, 1, NULL);
    for (int o = 0; o < p->ops; o++)
      placed += ct_op_is_placed(&p->op[o].desc);
    CT_ASSERT_INT(placed, k == 0 || k == 3); /* 3: only the second of three */
    ct_plan_free(p);
    ct_graph_free(g);
  }
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(frozen_layers_have_no_gradient_work),
                                    CT_TEST(nothing_before_the_first_trained_layer_has_a_gradient),
                                    CT_TEST(the_arena_begins_with_what_is_trained),
                                    CT_TEST(buckets_end_with_what_is_trained),
                                    CT_TEST(every_plan_exchanges_the_same_sums),
                                    CT_TEST(only_training_is_synchronised),
                                    CT_TEST(no_data_gradient_needs_no_sums),
                                    CT_TEST(some_batchnorms_keep_their_statistics),
                                    CT_TEST(dense_blocks_are_one_tensor),
                                    CT_TEST(other_concatenations_copy),
                                    CT_TEST_END};
  int rc = ct_test_main("plan_modes", tests, argc, argv);
  close_devices();
  return rc;
}
