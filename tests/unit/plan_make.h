/* Making models and plans, for the tests of src/plan. */
#ifndef PLAN_MAKE_H
#define PLAN_MAKE_H
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "cpu/ct_cpu.h"
#include "plan/ct_plan.h"
#include "ref/ct_ref.h"
#include "tests/harness/ct_test.h"
#include <string.h>

/* The cpu backend, with other wishes about layouts: one op's output is seldom as the next would
 * like it. */
static ct_backend_t fickle;
static ct_op_ops_t fickle_ops;

static const ct_backend_t *const backends[] = {&ct_backend_ref, &ct_backend_cpu, &fickle};
enum { REF, CPU, FICKLE, BACKENDS };
static ct_dev_t *devs[BACKENDS];

#define CONV "- conv2d: {out: 5, kernel: 3, padding: 1}\n"
#define TAIL "- flatten:\n- linear: {out: 10}\n"

/* Graphs that no family has.  5 channels fill no vector of any machine. */
static const char read_twice[] = "layers:\n" CONV "  name: a\n"
                                 "- relu:\n  name: r\n"
                                 "- add:\n  from: [a, r]\n" TAIL;

static const char three_readers[] =
    "layers:\n" CONV "  name: a\n" CONV "  name: b\n  from: a\n" CONV "  name: c\n  from: a\n"
    "- add:\n  name: s\n  from: [b, c]\n"
    "- add:\n  name: t\n  from: [s, a]\n" TAIL;

/* t: a sum without ReLU that two read. */
static const char read_sum[] = "layers:\n" CONV "  name: a\n"
                               "- avgpool: {kernel: 2}\n  name: p\n"
                               "- maxpool: {kernel: 2}\n  name: q\n  from: a\n"
                               "- add:\n  name: t\n  from: [p, q]\n- relu:\n" CONV "  name: d\n"
                               "- add:\n  from: [d, t]\n" TAIL;

static const char with_itself[] =
    "layers:\n" CONV "  name: a\n"
    "- add:\n  name: s\n  from: [a, a]\n- relu:\n  name: sr\n" CONV "- batchnorm:\n  name: b\n"
    "- add:\n  name: t\n  from: [b, b]\n" CONV "  name: c\n"
    "- add:\n  from: [c, t]\n" TAIL;

/* Two readers of the input, which needs no gradient; once it is the shortcut of a batchnorm. */
static const char with_input[] =
    "layers:\n- conv2d: {out: 3, kernel: 3, padding: 1}\n  name: a\n"
    "- add:\n  name: s\n  from: [input, a]\n- relu:\n  name: sr\n"
    "- conv2d: {out: 3, kernel: 1}\n  name: b\n- batchnorm:\n  name: bn\n"
    "- add:\n  name: t\n  from: [bn, input]\n- relu:\n  name: tr\n"
    "- add:\n  from: [tr, sr]\n" TAIL;

static const char residual[] =
    "layers:\n" CONV "- relu:\n  name: ar\n" CONV "- batchnorm:\n- relu:\n" CONV
    "- batchnorm:\n  name: bn\n- add:\n  from: [bn, ar]\n- relu:\n  name: br\n" CONV
    "- batchnorm:\n  name: cn\n- conv2d: {out: 5, kernel: 1}\n  name: short\n  from: br\n"
    "- add:\n  from: [cn, short]\n- relu:\n- maxpool: {kernel: 2}\n"
    "- flatten:\n- linear: {out: 9}\n- relu:\n- dropout: {p: 0.3}\n- linear: {out: 10}\n";

/* What is added comes behind a ReLU that is fused already, or a sum that is. */
static const char preactivation[] =
    "layers:\n" CONV "  name: a\n" CONV "- batchnorm:\n- relu:\n  name: r\n"
    "- add:\n  name: s\n  from: [a, r]\n" CONV "- batchnorm:\n  name: bn\n"
    "- add:\n  name: t\n  from: [s, bn]\n- add:\n  from: [t, a]\n" TAIL;

/* The first ops could work in place, but the input's memory is not theirs. */
static const char touches_input[] = "layers:\n- relu:\n- dropout: {p: 0.2}\n- batchnorm:\n" TAIL;

/* Shortcuts around layer normalizations and linear layers, as in a transformer; the last normalizes
 * what it is added to. */
static const char prenorm[] =
    "layers:\n" CONV "- tokens:\n  name: a\n- layernorm:\n- linear: {out: 12}\n- gelu:\n"
    "- linear: {out: 5}\n  name: l\n- add:\n  name: s\n  from: [l, a]\n- layernorm:\n"
    "- linear: {out: 5}\n  name: m\n- add:\n  name: t\n  from: [s, m]\n- relu:\n  name: tr\n"
    "- layernorm:\n  name: n\n- add:\n  from: [n, tr]\n" TAIL;

static const char ends_flat[] = "layers:\n- conv2d: {out: 10, kernel: 3}\n- global_avgpool:\n"
                                "- flatten:\n";

/* Values that are read in several shapes, and moved. */
static const char moved[] =
    "layers:\n" CONV "  name: a\n- reshape: {shape: [N, 5, 36]}\n  name: r\n"
    "- permute: {dims: [0, 2, 1]}\n- slice: {dim: 1, end: 18}\n- reshape: {shape: [N, 5, 3, 6]}\n"
    "- pad: {pad: [0, 0, 3, 0]}\n  name: q\n- add:\n  name: s\n  from: [q, a]\n"
    "- concat:\n  name: c\n  from: [s, a]\n- flatten:\n  name: f\n  from: r\n"
    "- flatten:\n  name: g\n  from: c\n- concat:\n  from: [f, g]\n- linear: {out: 10}\n";

static const char *const odd_graphs[] = {read_twice, three_readers, read_sum,      with_itself,
                                         with_input, residual,      preactivation, touches_input,
                                         ends_flat,  prenorm,       moved};
enum { ODD_GRAPHS = sizeof odd_graphs / sizeof *odd_graphs };

static inline ct_graph_t *family(const char *name, int64_t depth, ct_shape_t input)
{
  ct_graph_t *g = NULL;
  ct_model_opts_t m = {.family = (char *)(uintptr_t)name, .depth = depth};
  CT_ASSERT_OK(ct_graph_make(&m, &input, NULL, 10, "test", &g));
  CU_ASSERT_PTR_NOT_NULL_FATAL(g);
  return g;
}

static inline ct_graph_t *transformer(void)
{
  ct_graph_t *g = NULL;
  ct_shape_t input = ct_shape(4, 1, 3, 8, 8);
  ct_model_opts_t m = {
      .family = (char *)(uintptr_t) "vit", .depth = 2, .patch = {4, 4}, .dim = 32, .heads = 4};
  CT_ASSERT_OK(ct_graph_make(&m, &input, NULL, 10, "test", &g));
  CU_ASSERT_PTR_NOT_NULL_FATAL(g);
  return g;
}

static inline ct_graph_t *layers(const char *yaml, ct_shape_t input)
{
  ct_graph_t *g = NULL;
  ct_model_opts_t m = {.family = (char *)(uintptr_t) ""};
  ct_yaml_t *root = NULL;
  CT_ASSERT_OK(ct_yaml_parse(yaml, strlen(yaml), "test", &root));
  m.layers = root ? ct_yaml_find(root, "layers") : NULL;
  CT_ASSERT_OK(ct_graph_make(&m, &input, NULL, 10, "test", &g));
  CU_ASSERT_PTR_NOT_NULL_FATAL(g);
  ct_yaml_free(root);
  return g;
}

static inline ct_graph_t *odd_graph(int i)
{
  return layers(odd_graphs[i], ct_shape(4, 1, 3, 6, 6));
}

static inline ct_layout_t fickle_wants(ct_dev_t *dev, const ct_op_desc_t *d)
{
  if (d->kind == CT_OP_ADD) return (d->x.layout + 1) % 4;
  if (d->kind == CT_OP_CONV) return (ct_layout_t)((d->u.conv.kernel[0] + d->x.dim[2]) % 4);
  return ct_backend_cpu.op->wants(dev, d);
}

static inline ct_dev_t *device(int b)
{
  fickle_ops = *ct_backend_cpu.op;
  fickle_ops.wants = fickle_wants;
  fickle = ct_backend_cpu;
  fickle.op = &fickle_ops;
  if (!devs[b]) CT_ASSERT_OK(backends[b]->open(&(ct_dev_opts_t){.threads = 1}, &devs[b]));
  CU_ASSERT_PTR_NOT_NULL_FATAL(devs[b]);
  return devs[b];
}

static inline ct_plan_t *plan_with(int b, const ct_graph_t *g, const ct_plan_opts_t *o,
                                   const ct_plan_t *like)
{
  ct_plan_t *p = NULL;
  CT_ASSERT_OK(ct_plan_make(g, backends[b], device(b), o, like, &p));
  CU_ASSERT_PTR_NOT_NULL_FATAL(p);
  return p;
}

static inline ct_plan_t *plan_on(int b, const ct_graph_t *g, int n, int training,
                                 const ct_plan_t *like)
{
  return plan_with(b, g, &(ct_plan_opts_t){.n = n, .training = training}, like);
}

static inline ct_plan_t *plan(const ct_graph_t *g, int n, int training)
{
  return plan_on(0, g, n, training, NULL);
}

static inline void close_devices(void)
{
  for (int b = 0; b < BACKENDS; b++)
    backends[b]->close(devs[b]);
}

#endif
