/* The planner with mixed precision: what is of which type, where casts are, and what comes out. */
#include "tests/unit/plan_make.h"

static const ct_dtype_t types[] = {CT_BF16, CT_F16};

static ct_plan_t *low_plan(const ct_graph_t *g, ct_dtype_t t, int training)
{
  return plan_with(REF, g, &(ct_plan_opts_t){.n = 2, .training = training, .compute = t}, NULL);
}

static int is_cast(const ct_plan_op_t *o)
{
  return o->desc.kind == CT_OP_REORDER && o->desc.x.dtype != o->desc.y.dtype;
}

static int count_casts(const ct_plan_t *p, int of_value)
{
  int n = 0;
  for (int i = 0; i < p->ops; i++)
    n += is_cast(&p->op[i]) && (of_value < 0 || p->op[i].in[0] == of_value);
  return n;
}

static const ct_plan_op_t *maker(const ct_plan_t *p, int value)
{
  for (int i = 0; i < p->ops; i++)
    if (p->op[i].out == value) return &p->op[i];
  return NULL;
}

static void check_value(const ct_plan_t *p, int v, ct_dtype_t t)
{
  if (v < 0) return;
  CT_ASSERT_INT(p->value[v].shape.dtype, t);
  CT_ASSERT_INT(p->value[v].bytes, ct_shape_bytes(&p->value[v].shape));
}

/* Each op reads and writes its own types, forward and backward; no cast follows a cast. */
static void check_types(const ct_plan_t *p)
{
  for (int i = 0; i < p->launches; i++) {
    const ct_plan_launch_t *w = &p->launch[i];
    const ct_plan_op_t *o = &p->op[w->op];
    const int like_x[] = {w->x, w->x2, w->dx, w->dx2}, like_y[] = {w->y, w->dy, w->dy2};
    for (int k = 0; k < 4; k++)
      check_value(p, like_x[k], o->desc.x.dtype);
    for (int k = 0; k < 3; k++)
      check_value(p, like_y[k], o->desc.y.dtype);
  }
  for (int i = 0; i < p->ops; i++) {
    const ct_plan_op_t *before = maker(p, p->op[i].in[0]);
    int of_bytes = before && before->desc.x.dtype == CT_U8;
    CU_ASSERT(!is_cast(&p->op[i]) || !before || !is_cast(before) || of_bytes);
  }
}

static void every_op_reads_and_writes_its_type(void)
{
  for (int t = 0; t < 2; t++)
    for (int k = 0; k < ODD_GRAPHS; k++) {
      ct_graph_t *g = odd_graph(k);
      ct_plan_t *p = low_plan(g, types[t], 1);
      check_types(p);
      CU_ASSERT(count_casts(p, p->input) <= 1);
      CT_ASSERT_INT(p->value[p->logits].shape.dtype, CT_F32);
      ct_plan_free(p);
      ct_graph_free(g);
    }
}

static void a_network_is_cast_at_its_ends_only(void)
{
  ct_graph_t *g = family("resnet", 20, ct_shape(4, 1, 3, 8, 8));
  for (int t = 0; t < 2; t++)
    for (int training = 0; training < 2; training++) {
      ct_plan_t *p = low_plan(g, types[t], training);
      CT_ASSERT_INT(count_casts(p, -1), 2);
      CT_ASSERT_INT(count_casts(p, p->input), 1);
      for (int i = 0; i < p->ops; i++) {
        int low = !is_cast(&p->op[i]) && p->op[i].desc.kind != CT_OP_LOSS;
        if (low) CT_ASSERT_INT(p->op[i].desc.x.dtype, types[t]);
      }
      ct_plan_t *wide = plan(g, 2, training);
      CU_ASSERT(3 * p->arena_bytes < 2 * wide->arena_bytes);
      ct_plan_free(wide);
      ct_plan_free(p);
    }
  ct_graph_free(g);
}

/* ---- an input of bytes ---- */

static void bytes_become_what_their_readers_take(void)
{
  static const ct_dtype_t all[] = {CT_F32, CT_BF16, CT_F16};
  ct_graph_t *g = family("resnet", 20, ct_shape(4, 1, 3, 8, 8));
  for (int k = 0; k < 3 * 2 * 2; k++) {
    ct_plan_opts_t o = {
        .n = 2, .training = k % 2, .compute = all[k / 4], .bytes = 1, .channels_last = k / 2 % 2};
    ct_plan_t *p = plan_with(REF, g, &o, NULL);
    const ct_plan_op_t *first = &p->op[0];
    check_types(p);
    CT_ASSERT_INT(count_casts(p, -1), all[k / 4] == CT_F32 ? 1 : 2);
    CT_ASSERT_INT(first->in[0], p->input);
    CT_ASSERT_INT(first->desc.passes, CT_FWD);
    CT_ASSERT_INT(first->desc.x.dtype, CT_U8);
    CT_ASSERT_INT(first->desc.x.layout, o.channels_last ? CT_NHWC : CT_PLAIN);
    CT_ASSERT_INT(first->desc.y.dtype, all[k / 4]);
    CT_ASSERT_INT(p->value[p->input].bytes, 2 * 3 * 8 * 8);
    CT_ASSERT_INT(p->op[1].in[0], first->out);
    ct_plan_free(p);
  }
  ct_graph_free(g);
  for (int t = 0; t < 2; t++)
    for (int k = 0; k < ODD_GRAPHS; k++) {
      g = odd_graph(k);
      ct_plan_t *p = plan_with(
          REF, g, &(ct_plan_opts_t){.n = 2, .training = 1, .compute = types[t], .bytes = 1}, NULL);
      check_types(p);
      CT_ASSERT_INT(count_casts(p, p->input), 1);
      ct_plan_free(p);
      ct_graph_free(g);
    }
}

/* ---- shortcuts ---- */

static int count_kind(const ct_plan_t *p, ct_op_kind_t kind)
{
  int n = 0;
  for (int i = 0; i < p->ops; i++)
    n += p->op[i].desc.kind == kind;
  return n;
}

/* Where the backend can, linear and attention layers add the shortcut around them, and the
 * backward pass of a layer normalization the gradient of the shortcut: no op of their own is left
 * for them. */
static void shortcuts_of_a_transformer_are_fused(void)
{
  enum { DEPTH = 2 };
  for (int b = REF; b <= CPU; b++) {
    ct_graph_t *g = transformer();
    ct_plan_t *p = plan_on(b, g, 2, 1, NULL);
    int adds = 0, with_sum = 0;
    for (int i = 0; i < p->ops; i++)
      with_sum += ct_op_adds_second(&p->op[i].desc);
    for (int i = 0; i < p->launches; i++)
      adds += p->launch[i].dx_add >= 0;
    CT_ASSERT_INT(with_sum, b == REF ? 2 * DEPTH : 0); /* attention and linear */
    CT_ASSERT_INT(adds, b == REF ? 2 * DEPTH : 0);
    /* on the CPU also the sums of two gradients */
    CT_ASSERT_INT(count_kind(p, CT_OP_ADD), b == REF ? 0 : 4 * DEPTH);
    ct_plan_free(p);
    ct_graph_free(g);
  }
}

/* A linear layer whose own branch is frozen passes the gradient on to the shortcut that it adds. */
static void a_shortcut_of_a_frozen_branch_has_a_gradient(void)
{
  static const char yaml[] = "layers:\n" CONV "  name: a\n- flatten:\n  name: t\n"
                             "- flatten:\n  name: u\n  from: input\n"
                             "- linear: {out: 180}\n  name: l\n- add:\n  from: [l, t]\n"
                             "- linear: {out: 10}\n";
  ct_graph_t *g = layers(yaml, ct_shape(4, 1, 3, 6, 6));
  for (int i = 0; i < g->params; i++)
    g->param[i].frozen = strcmp(g->layer[g->param[i].layer].name, "l") == 0;
  ct_plan_t *p = plan(g, 2, 1);
  int linear = 0, trained = 0;
  for (int i = 0; i < p->launches; i++) {
    const ct_plan_launch_t *w = &p->launch[i];
    int layer = p->op[w->op].layer;
    if (layer < 0 || w->pass & CT_FWD) continue;
    linear += strcmp(g->layer[layer].name, "l") == 0;
    trained += strcmp(g->layer[layer].name, "a") == 0;
  }
  CT_ASSERT_INT(linear, 0);
  CT_ASSERT_INT(trained, 1);
  ct_plan_free(p);
  ct_graph_free(g);
}

/* ---- backends that cannot do everything ---- */

static ct_op_kind_t unable;

static int supports_but_one(ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  if (d->kind == unable && d->x.dtype == CT_F16) {
    strcpy(why, "no such instruction");
    return 0;
  }
  return ct_backend_ref.op->supports(dev, d, why);
}

static int limited_plan(ct_op_kind_t kind, const ct_graph_t *g, ct_plan_t **p)
{
  static ct_op_ops_t ops;
  static ct_backend_t limited;
  ops = *ct_backend_ref.op;
  ops.supports = supports_but_one;
  limited = ct_backend_ref;
  limited.op = &ops;
  unable = kind;
  return ct_plan_make(g, &limited, device(REF),
                      &(ct_plan_opts_t){.n = 2, .training = 1, .compute = CT_F16}, NULL, p);
}

/* The reference backend, claiming every op in reduced precision, as CUDA does. */
static ct_op_desc_t in_float32(const ct_op_desc_t *d)
{
  ct_op_desc_t wide = *d;
  if (d->kind != CT_OP_REORDER) wide.x.dtype = wide.y.dtype = CT_F32;
  return wide;
}

static int supports_all(ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  ct_op_desc_t wide = in_float32(d);
  return ct_backend_ref.op->supports(dev, &wide, why);
}

static int prepare_all(ct_dev_t *dev, const ct_op_desc_t *d, const ct_op_t *like, ct_op_t **out,
                       ct_op_info_t *info)
{
  ct_op_desc_t wide = in_float32(d);
  return ct_backend_ref.op->prepare(dev, &wide, like, out, info);
}

/* A layer normalization has float32 inside, but reads and writes what its neighbours do. */
static void a_transformer_is_cast_at_its_ends_only(void)
{
  ct_op_ops_t ops = *ct_backend_ref.op;
  ct_backend_t able = ct_backend_ref;
  ct_graph_t *g = transformer();
  able.op = &ops;
  ops.supports = supports_all;
  ops.prepare = prepare_all;
  for (int t = 0; t < 2; t++) {
    ct_plan_t *p = NULL;
    ct_plan_opts_t o = {.n = 2, .training = 1, .compute = types[t]};
    CT_ASSERT_OK(ct_plan_make(g, &able, device(REF), &o, NULL, &p));
    check_types(p);
    CT_ASSERT_INT(count_casts(p, -1), 2);
    CT_ASSERT_INT(count_casts(p, p->input), 1);
    ct_plan_free(p);
  }
  ct_graph_free(g);
}

static void what_the_backend_cannot_stays_in_float32(void)
{
  ct_plan_t *p = NULL;
  ct_graph_t *g =
      layers("layers:\n" CONV "- maxpool: {kernel: 2}\n" CONV TAIL, ct_shape(4, 1, 3, 6, 6));
  CT_ASSERT_OK(limited_plan(CT_OP_POOL, g, &p));
  check_types(p);
  CT_ASSERT_INT(count_casts(p, -1), 4); /* input, before and behind the pool, logits */
  for (int i = 0; i < p->ops; i++)
    if (p->op[i].desc.kind == CT_OP_POOL) CT_ASSERT_INT(p->op[i].desc.x.dtype, CT_F32);
  ct_plan_free(p);
  ct_graph_free(g);
}

static void a_product_never_stays_in_float32(void)
{
  ct_plan_t *p = NULL;
  ct_graph_t *g = layers(residual, ct_shape(4, 1, 3, 6, 6));
  CT_ASSERT_FAILS(limited_plan(CT_OP_LINEAR, g, &p), CT_ERR_UNSUP, "no such instruction");
  CU_ASSERT_PTR_NULL(p);
  CU_ASSERT(strstr(ct_err_last()->text, "float16") != NULL);
  CU_ASSERT(strstr(ct_err_last()->text, "set train.amp to bf16") != NULL);
  ct_graph_free(g);
}

/* How a layer computes must not depend on the batch or the passes: they share its parameters. */
static void plans_of_other_batches_and_passes_share_parameters(void)
{
  static const int batches[] = {1, 3, 40};
  ct_graph_t *g = family("resnet", 18, ct_shape(4, 1, 3, 224, 224));
  ct_plan_opts_t o = {.n = 16, .training = 1, .compute = CT_BF16};
  ct_plan_t *first = plan_with(CPU, g, &o, NULL);
  for (int i = 0; i < 6; i++) {
    o.n = batches[i / 2];
    o.training = i % 2;
    ct_plan_free(plan_with(CPU, g, &o, first));
  }
  ct_plan_free(first);
  ct_graph_free(g);
}

static void no_memory_is_an_error_and_leaks_nothing(void)
{
  ct_graph_t *g = layers(residual, ct_shape(4, 1, 3, 6, 6));
  ct_plan_opts_t o = {.n = 2, .training = 1, .compute = CT_BF16};
  ct_plan_t *p = plan_with(REF, g, &o, NULL);
  ct_plan_free(p);
  int64_t live = ct_mem_live();
  for (int64_t n = 1; n < 10000; n++) {
    ct_mem_fail_at(n);
    int rc = ct_plan_make(g, backends[REF], devs[REF], &o, NULL, &p);
    ct_mem_fail_at(0);
    if (rc == CT_OK) break;
    CT_ASSERT_INT(rc, CT_ERR_NOMEM);
    CT_ASSERT_INT(ct_mem_live(), live);
  }
  ct_plan_free(p);
  CT_ASSERT_INT(ct_mem_live(), live);
  ct_graph_free(g);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(every_op_reads_and_writes_its_type),
                                    CT_TEST(a_network_is_cast_at_its_ends_only),
                                    CT_TEST(a_transformer_is_cast_at_its_ends_only),
                                    CT_TEST(bytes_become_what_their_readers_take),
                                    CT_TEST(shortcuts_of_a_transformer_are_fused),
                                    CT_TEST(a_shortcut_of_a_frozen_branch_has_a_gradient),
                                    CT_TEST(what_the_backend_cannot_stays_in_float32),
                                    CT_TEST(a_product_never_stays_in_float32),
                                    CT_TEST(plans_of_other_batches_and_passes_share_parameters),
                                    CT_TEST(no_memory_is_an_error_and_leaks_nothing),
                                    CT_TEST_END};
  int rc = ct_test_main("plan_low", tests, argc, argv);
  close_devices();
  return rc;
}
