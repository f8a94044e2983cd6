/* Elementwise layers: broadcast shapes with the batch in any dim, the ops they become, and how
 * plans fuse chains of them. */
#include "model/layer_usual.h"
#include "plan/passes.h"
#include "tests/unit/plan_make.h"

static const ct_layer_t *layer_of(const ct_graph_t *g, const char *name)
{
  for (int i = 0; i < g->layers; i++)
    if (strcmp(g->layer[i].name, name) == 0) return &g->layer[i];
  CU_FAIL("no such layer");
  return &g->layer[0];
}

#define PARAMETER(name, shape) "- {parameter: {shape: " shape "}, name: " name "}\n"

static void shapes_are_broadcast(void)
{
  static const char yaml[] = "layers:\n" CONV "  name: x\n" PARAMETER("c", "[5, 1, 1]")
      PARAMETER("r", "[1, 7]") "- {mul: {}, from: [x, c], name: xc}\n"
                               "- {add: {}, from: [c, r], name: cr}\n"
                               "- {sub: {}, from: [cr, xc], name: all}\n"
                               "- {add: {}, from: [all, xc], name: sum}\n"
                               "- {add: {value: 2}, name: more}\n" TAIL;
  ct_graph_t *g = layers(yaml, ct_shape(4, 1, 2, 6, 7));
  const ct_layer_t *cr = layer_of(g, "cr"), *all = layer_of(g, "all");
  ct_shape_t weights = ct_shape(3, 5, 1, 7), batch = ct_shape(4, 1, 5, 6, 7);
  CU_ASSERT(ct_shape_same(&cr->out, &weights) && cr->out.batch == 0);
  CU_ASSERT(ct_shape_same(&all->out, &batch) && all->out.batch == 1);
  for (int i = 0; i < g->layers; i++) {
    ct_op_desc_t d;
    ct_graph_op(g, i, 3, &d);
    const char *name = g->layer[i].name;
    if (strcmp(name, "sum") == 0) CT_ASSERT_INT(d.kind, CT_OP_ADD);
    if (strcmp(name, "cr") == 0 || strcmp(name, "more") == 0) CT_ASSERT_INT(d.kind, CT_OP_EXPR);
    if (strcmp(name, "all") == 0) CU_ASSERT(d.x.dim[0] == 5 && d.y.dim[0] == 3);
  }
  ct_graph_free(g);
}

static void check_broadcast(ct_shape_t a, unsigned of_a, ct_shape_t b, unsigned of_b,
                            unsigned batch)
{
  ct_shape_t in[2] = {a, b}, out;
  in[0].batch = of_a;
  in[1].batch = of_b;
  int rc = ct__layer_broadcast(in, 2, &out);
  if (batch == ~0u) {
    CT_ASSERT_INT(rc, CT_ERR_SHAPE);
  } else {
    CT_ASSERT_OK(rc);
    CT_ASSERT_INT(out.batch, batch);
  }
}

static void the_batch_is_broadcast(void)
{
  enum { NONE = -1 };
  check_broadcast(ct_shape(3, 1, 4, 5), 1, ct_shape(1, 5), 0, 1);
  check_broadcast(ct_shape(3, 4, 1, 5), 2, ct_shape(3, 4, 1, 5), 0, 2);
  check_broadcast(ct_shape(2, 1, 5), 1, ct_shape(3, 4, 1, 1), 0, 2); /* N x 5 against 4 x 1 x 1 */
  check_broadcast(ct_shape(2, 12, 7), 1, ct_shape(2, 12, 1), 1, 1);
  check_broadcast(ct_shape(2, 12, 7), 1, ct_shape(2, 1, 7), 1, (unsigned)NONE); /* 12N, N */
  check_broadcast(ct_shape(2, 1, 7), 1, ct_shape(2, 4, 7), 0, (unsigned)NONE);  /* N, 4 */
  check_broadcast(ct_shape(2, 1, 7), 1, ct_shape(1, 6), 0, (unsigned)NONE);
}

static int count_of(const ct_plan_t *p, ct_op_kind_t kind)
{
  int n = 0;
  for (int i = 0; i < p->ops; i++)
    n += p->op[i].desc.kind == kind;
  return n;
}

/* x sigmoid(x) g + y is one op; the gate's own sigmoid, which is smaller, stays one. */
static void chains_are_fused(void)
{
  static const char yaml[] =
      "layers:\n" CONV "  name: x\n" CONV "  name: y\n  from: x\n"
      "- {global_avgpool: {}, name: mean, from: x}\n- {sigmoid: {}, name: g}\n"
      "- {sigmoid: {}, from: x, name: s}\n- {mul: {}, from: [x, s], name: a}\n"
      "- {mul: {}, from: [a, g], name: b}\n- {sub: {}, from: [b, y], name: c}\n" TAIL;
  ct_graph_t *g = layers(yaml, ct_shape(4, 1, 2, 6, 7));
  for (int b = 0; b < BACKENDS; b++) {
    ct_plan_t *p = plan_on(b, g, 2, 1, NULL);
    CT_ASSERT_INT(count_of(p, CT_OP_EXPR), 1);
    CT_ASSERT_INT(count_of(p, CT_OP_ACT), 1);
    for (int i = 0; i < p->ops; i++)
      if (p->op[i].desc.kind == CT_OP_EXPR) CT_ASSERT_INT(p->op[i].desc.u.expr.steps, 4);
    ct_plan_free(p);
  }
  ct_graph_free(g);
}

/* A value with two readers, and a fourth input, are not put into a program. */
static void what_does_not_fit_stays(void)
{
  static const char yaml[] =
      "layers:\n" CONV "  name: x\n" CONV "  name: y\n  from: x\n" CONV "  name: z\n  from: y\n"
      "- {mul: {}, from: [x, y], name: a}\n- {sub: {}, from: [a, z], name: b}\n"
      "- {div: {}, from: [b, a], name: c}\n" CONV "  name: w\n  from: z\n"
      "- {maximum: {}, from: [c, w], name: d}\n" TAIL;
  ct_graph_t *g = layers(yaml, ct_shape(4, 1, 2, 6, 7));
  ct_plan_t *p = plan_on(REF, g, 2, 1, NULL);
  CT_ASSERT_INT(count_of(p, CT_OP_EXPR), 2); /* a; b, c and d read a, z and w */
  ct_plan_free(p);
  ct_graph_free(g);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(shapes_are_broadcast), CT_TEST(the_batch_is_broadcast),
                                    CT_TEST(chains_are_fused), CT_TEST(what_does_not_fit_stays),
                                    CT_TEST_END};
  int rc = ct_test_main("elementwise", tests, argc, argv);
  close_devices();
  return rc;
}
