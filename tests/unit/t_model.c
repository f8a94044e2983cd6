/* Layer kinds, the model families, initial values, hash and summary of a graph. */
#include "model/ct_family.h"

#include <math.h>
#include <stdio.h>

#include "tests/unit/model_make.h"
#include "tests/unit/model_names.h"

static void assert_shape(const ct_graph_t *g, const char *name, const char *expected)
{
  char text[80];
  CT_ASSERT_TEXT(ct_shape_text(&layer(g, name)->out, text, sizeof text), expected);
}

/* ---- kinds ---- */

static void kinds_are_found_by_word(void)
{
  for (int i = 0; ct_layer_kinds[i]; i++) {
    const ct_layer_ops_t *k = ct_layer_kinds[i];
    CU_ASSERT_PTR_EQUAL(ct_layer_find(k->kind), k);
    CU_ASSERT(k->help[0] != '\0');
    CU_ASSERT(k->inputs >= 0 && k->inputs <= CT_OP_INPUTS);
  }
  CU_ASSERT_PTR_NULL(ct_layer_find("conv"));
  CU_ASSERT_PTR_NULL(ct_layer_find(""));
}

static void infers_shapes_as_pytorch(void)
{
  static const struct {
    int64_t c, h, w;
    const char *kind, *opts, *out; /* out: what torch.nn gives */
  } cases[] = {
      {4, 7, 5, "conv2d",
       "out: 6, kernel: [3, 2], stride: [2, 1], padding: [1, 0], dilation: [1, 2], groups: 2",
       "1x6x4x3"},
      {1, 13, 11, "conv2d", "out: 3, kernel: 5, stride: 3", "1x3x3x3"},
      {2, 1, 9, "conv2d", "out: 3, kernel: [1, 4], stride: [1, 2], padding: [0, 2], dilation: 3",
       "1x3x1x2"},
      {2, 1, 1, "conv2d", "out: 3, kernel: [5, 3], padding: 2", "1x3x1x3"},
      {2, 7, 8, "maxpool", "kernel: 3, stride: 2, padding: 1", "1x2x4x4"},
      {2, 7, 5, "maxpool", "kernel: 2", "1x2x3x2"},
      {2, 4, 9, "maxpool", "kernel: [3, 2], stride: [1, 3], padding: [1, 0]", "1x2x4x3"},
      {2, 5, 3, "avgpool", "kernel: [3, 1], padding: [1, 0]", "1x2x2x3"},
      {3, 5, 7, "global_avgpool", "", "1x3x1x1"},
      {3, 5, 7, "flatten", "", "1x105"},
      {3, 5, 7, "batchnorm", "", "1x3x5x7"},
      {3, 5, 7, "relu", "", "1x3x5x7"},
      {3, 5, 7, "dropout", "", "1x3x5x7"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    int id = -1;
    ct_graph_t *g = empty(image(cases[i].c, cases[i].h, cases[i].w));
    CT_ASSERT_OK(ct_graph_add(g, &id, "it", cases[i].kind, -1, -2, "%s", cases[i].opts));
    if (g->layers == 1) assert_shape(g, "it", cases[i].out);
    ct_graph_free(g);
  }
}

static void features_pass_through(void)
{
  ct_graph_t *g = make("layers: [linear: {out: 12, bias: false}, batchnorm, relu, "
                       "dropout: {p: 0.2}, {linear: {out: 4}, name: out}]",
                       ct_shape(2, 1, 7), 4);
  if (!g) return;
  assert_shape(g, "batchnorm1", "1x12");
  assert_shape(g, "dropout1", "1x12");
  CT_ASSERT_INT(ct_graph_count(g), 7 * 12 + 2 * 12 + 12 * 4 + 4);
  CT_ASSERT_INT(g->params, 1 + 4 + 2);
  CT_ASSERT_INT(param(g, "batchnorm1.running_mean")->count, 12);
  ct_graph_free(g);
}

/* The op of one layer, for a batch of 5. */
static ct_op_desc_t lowered(const char *kind, const char *opts)
{
  int id = -1;
  ct_op_desc_t d = {0};
  ct_graph_t *g = empty(image(8, 6, 7));
  CT_ASSERT_OK(ct_graph_add(g, &id, "first", "relu", -1, -2, NULL));
  CT_ASSERT_OK(ct_graph_add(g, &id, "it", kind, id, -2, "%s", opts));
  if (g->layers == 2) ct_graph_op(g, 1, 5, &d);
  ct_graph_free(g);
  return d;
}

static void lowers_to_ops(void)
{
  char text[160];
  ct_op_desc_t d = lowered("conv2d", "out: 4, kernel: [3, 2], stride: [2, 1], padding: [1, 0], "
                                     "dilation: [1, 2], groups: 2");
  CT_ASSERT_TEXT(ct_op_text(&d, text, sizeof text),
                 "conv 5x8x6x7 -> 5x4x3x5 k3x2 s2x1 p1x0 d1x2 g2 bias");
  d = lowered("maxpool", "kernel: 2");
  CT_ASSERT_TEXT(ct_op_text(&d, text, sizeof text), "pool 5x8x6x7 -> 5x8x3x3 max k2x2 s2 p0");
  d = lowered("avgpool", "kernel: 3, stride: 1, padding: 1");
  CT_ASSERT_TEXT(ct_op_text(&d, text, sizeof text),
                 "pool 5x8x6x7 -> 5x8x6x7 average k3x3 s1 p1 include_pad");
  d = lowered("avgpool", "kernel: 2, count_include_pad: false");
  CT_ASSERT_INT(d.u.pool.include_pad, 0);
  d = lowered("global_avgpool", "");
  CT_ASSERT_TEXT(ct_op_text(&d, text, sizeof text), "pool 5x8x6x7 -> 5x8x1x1 average global");
  d = lowered("batchnorm", "momentum: 0.25");
  CT_ASSERT_INT(d.kind, CT_OP_BNORM);
  CU_ASSERT(d.u.bnorm.eps == 1e-5 && d.u.bnorm.momentum == 0.25 && !d.u.bnorm.add);
  d = lowered("groupnorm", "num_groups: 4, eps: 0.25");
  CT_ASSERT_TEXT(ct_op_text(&d, text, sizeof text), "gnorm 5x8x6x7 -> 5x8x6x7 g4 affine");
  CU_ASSERT(d.u.gnorm.eps == 0.25);
  d = lowered("instancenorm", "");
  CT_ASSERT_TEXT(ct_op_text(&d, text, sizeof text), "gnorm 5x8x6x7 -> 5x8x6x7 g8");
  CU_ASSERT(d.u.gnorm.eps == 1e-5);
  d = lowered("dropout", "");
  CT_ASSERT_INT(d.kind, CT_OP_DROPOUT);
  CU_ASSERT(d.u.dropout.p == 0.5 && d.u.dropout.layer == 1);
  d = lowered("flatten", "");
  CT_ASSERT_TEXT(ct_op_text(&d, text, sizeof text), "reorder 5x8x6x7 -> 5x336 plain -> plain");
  d = lowered("relu", "");
  CT_ASSERT_INT(d.kind, CT_OP_RELU);
}

/* ---- families ---- */

static void families_have_the_known_parameter_counts(void)
{
  static const struct {
    const char *yaml;
    int64_t c, size, classes, count;
  } cases[] = {
      /* torchvision's models */
      {"{family: resnet}", 3, 224, 1000, 11689512},
      {"{family: resnet, depth: 34}", 3, 224, 1000, 21797672},
      {"{family: resnet, depth: 50}", 3, 224, 1000, 25557032},
      {"{family: resnet, depth: 101}", 3, 224, 1000, 44549160},
      {"{family: resnet, depth: 152}", 3, 224, 1000, 60192808},
      /* the same with the small stem */
      {"{family: resnet, depth: 18}", 3, 32, 10, 11173962},
      {"{family: resnet, depth: 34}", 3, 32, 10, 21282122},
      {"{family: resnet, depth: 50}", 3, 32, 10, 23520842},
      /* the paper's 0.27, 0.46, 0.66, 0.85 and 1.7 million, and 2752 for option B */
      {"{family: resnet, depth: 20}", 3, 32, 10, 269722 + 2752},
      {"{family: resnet, depth: 32}", 3, 32, 10, 464154 + 2752},
      {"{family: resnet, depth: 44}", 3, 32, 10, 658586 + 2752},
      {"{family: resnet, depth: 56}", 3, 32, 10, 853018 + 2752},
      {"{family: resnet, depth: 110}", 3, 32, 10, 1727962 + 2752},
      {"{family: lenet}", 1, 28, 10, 61706},
      {"{family: lenet}", 1, 8, 10, 160 + 4640 + 128 * 120 + 120 + 10164 + 850},
      {"{family: mlp}", 1, 28, 10, 784 * 128 + 128 + 1290},
      {"{family: mlp, hidden: [20, 30]}", 1, 8, 10, 64 * 20 + 20 + 20 * 30 + 30 + 310},
      {"{family: mlp, hidden: []}", 3, 8, 7, 192 * 7 + 7},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    ct_graph_t *g =
        make(cases[i].yaml, image(cases[i].c, cases[i].size, cases[i].size), cases[i].classes);
    if (!g) continue;
    CT_ASSERT_INT(ct_graph_count(g), cases[i].count);
    CT_ASSERT_INT(g->layer[g->layers - 1].out.dim[1], cases[i].classes);
    ct_graph_free(g);
  }
}

/* The state dict as lines "name shape", compared with a list. */
static void assert_state_dict(const char *yaml, const char *expected)
{
  char shape[80];
  const char *at = expected;
  ct_graph_t *g = make(yaml, image(3, 224, 224), 1000);
  if (!g) return;
  for (int i = 0; i < g->params; i++) {
    char line[200], wanted[200];
    size_t len = strcspn(at, "\n");
    snprintf(line, sizeof line, "%s %s", g->param[i].name,
             ct_shape_text(&g->param[i].spec.shape, shape, sizeof shape));
    snprintf(wanted, sizeof wanted, "%.*s", (int)len, at);
    CT_ASSERT_TEXT(line, wanted);
    at += len + (at[len] == '\n');
  }
  CT_ASSERT_TEXT(at, "");
  ct_graph_free(g);
}

static void state_dicts_are_torchvisions(void)
{
  assert_state_dict("{family: resnet, depth: 18}", torchvision_resnet18);
  assert_state_dict("{family: resnet, depth: 50}", torchvision_resnet50);
}

static void resnet_shapes_at_odd_sizes(void)
{
  ct_graph_t *g = make("{family: resnet, depth: 50}", image(3, 97, 131), 10);
  if (!g) return;
  assert_shape(g, "conv1", "1x64x49x66");
  assert_shape(g, "maxpool", "1x64x25x33");
  assert_shape(g, "layer1.2.relu", "1x256x25x33");
  assert_shape(g, "layer2.0.conv1", "1x128x25x33"); /* v1.5: the 3x3 strides */
  assert_shape(g, "layer2.0.conv2", "1x128x13x17");
  assert_shape(g, "layer3.5.add", "1x1024x7x9");
  assert_shape(g, "layer4.2.relu", "1x2048x4x5");
  assert_shape(g, "fc", "1x10");
  ct_graph_free(g);
}

static int has_large_stem(const char *yaml, int64_t h, int64_t w)
{
  ct_graph_t *g = make(yaml, image(1, h, w), 10);
  if (!g) return -1;
  int kernel = (int)param(g, "conv1.weight")->spec.shape.dim[2];
  int pooled = 0;
  for (int i = 0; i < g->layers; i++)
    pooled |= strcmp(g->layer[i].ops->kind, "maxpool") == 0;
  CT_ASSERT_INT(kernel, pooled ? 7 : 3);
  CT_ASSERT_INT(g->layer[0].out.dim[2], pooled ? (h + 1) / 2 : h);
  ct_graph_free(g);
  return pooled;
}

static void stem_follows_the_size(void)
{
  CT_ASSERT_INT(has_large_stem("family: resnet", 64, 64), 1);
  CT_ASSERT_INT(has_large_stem("family: resnet", 63, 200), 0);
  CT_ASSERT_INT(has_large_stem("family: resnet", 200, 63), 0);
  CT_ASSERT_INT(has_large_stem("family: resnet", 8, 8), 0);
  CT_ASSERT_INT(has_large_stem("{family: resnet, depth: 20}", 96, 96), 0);
}

static void cifar_resnets_project_where_the_shape_changes(void)
{
  ct_graph_t *g = make("{family: resnet, depth: 20}", image(3, 32, 32), 10);
  if (!g) return;
  CT_ASSERT_INT(ct_graph_find_param(g, "layer1.0.downsample.0.weight"), -1);
  CT_ASSERT_INT(param(g, "layer2.0.downsample.0.weight")->count, 32 * 16);
  CT_ASSERT_INT(param(g, "layer3.0.downsample.1.running_var")->count, 64);
  CT_ASSERT_INT(ct_graph_find_param(g, "layer2.1.downsample.0.weight"), -1);
  CT_ASSERT_INT(ct_graph_find_param(g, "layer4.0.conv1.weight"), -1);
  CT_ASSERT_INT(layer(g, "layer2.1.add")->in[0], layer(g, "layer2.1.bn2") - g->layer);
  CT_ASSERT_INT(layer(g, "layer2.1.add")->in[1], layer(g, "layer2.0.relu") - g->layer);
  assert_shape(g, "layer3.2.relu", "1x64x8x8");
  ct_graph_free(g);
}

static void mlp_takes_features_and_images(void)
{
  ct_graph_t *g = make("{family: mlp, hidden: 20}", ct_shape(2, 1, 9), 3);
  if (!g) return;
  CT_ASSERT_TEXT(g->layer[0].name, "fc1");
  CT_ASSERT_TEXT(g->layer[1].name, "relu1");
  CT_ASSERT_TEXT(g->layer[2].name, "fc2");
  CT_ASSERT_INT(g->layers, 3);
  ct_graph_free(g);
}

/* ---- initial values ---- */

static float *values(const ct_graph_t *g, const char *name, uint64_t seed)
{
  const ct_param_t *p = param(g, name);
  float *v = ct_mem_array(p->count, sizeof *v, "test");
  ct_graph_init_param(g, (int)(p - g->param), seed, v);
  return v;
}

typedef struct {
  double mean, sd, most; /* most: the largest absolute value */
  double inner;          /* share of values within one standard deviation */
} moments_t;

static moments_t moments(const ct_graph_t *g, const char *name)
{
  moments_t m = {0};
  int64_t n = param(g, name)->count;
  float *v = values(g, name, 1);
  for (int64_t i = 0; i < n; i++) {
    m.mean += v[i] / (double)n;
    m.sd += (double)v[i] * v[i] / (double)n;
    m.most = fmax(m.most, fabs(v[i]));
  }
  m.sd = sqrt(m.sd - m.mean * m.mean);
  for (int64_t i = 0; i < n; i++)
    m.inner += fabs(v[i] - m.mean) < m.sd ? 1.0 / (double)n : 0;
  ct_mem_free(v);
  return m;
}

static void assert_uniform(const ct_graph_t *g, const char *name, double bound)
{
  moments_t m = moments(g, name);
  double n = (double)param(g, name)->count;
  CT_ASSERT_NEAR(m.mean, 0, 5 * bound / sqrt(3 * n));
  CT_ASSERT_NEAR(m.sd, bound / sqrt(3), 5 * bound / sqrt(n));
  CU_ASSERT(m.most <= bound && m.most > bound * (1 - 20 / n));
  CT_ASSERT_NEAR(m.inner, 1 / sqrt(3), 3 / sqrt(n));
}

static void assert_normal(const ct_graph_t *g, const char *name, double sd)
{
  moments_t m = moments(g, name);
  double n = (double)param(g, name)->count;
  CT_ASSERT_NEAR(m.mean, 0, 5 * sd / sqrt(n));
  CT_ASSERT_NEAR(m.sd, sd, 5 * sd / sqrt(2 * n));
  CU_ASSERT(m.most > 3 * sd && m.most < 7 * sd);
  CT_ASSERT_NEAR(m.inner, 0.6827, 3 / sqrt(n));
}

static void assert_constant(const ct_graph_t *g, const char *name, float value)
{
  float *v = values(g, name, 1);
  for (int64_t i = 0; i < param(g, name)->count; i++)
    CU_ASSERT(v[i] == value);
  ct_mem_free(v);
}

static void begins_as_pytorch(void)
{
  ct_graph_t *g = make("layers: [{conv2d: {out: 128, kernel: [3, 2], groups: 4}, name: c}, "
                       "{batchnorm: , name: bn}, "
                       "{conv2d: {out: 64, kernel: 3, groups: 2, init: he_fan_out}, name: he}, "
                       "flatten, {linear: {out: 300}, name: fc}]",
                       image(32, 8, 8), 300);
  if (!g) return;
  assert_uniform(g, "c.weight", 1 / sqrt(8 * 3 * 2));
  assert_uniform(g, "c.bias", 1 / sqrt(8 * 3 * 2));
  assert_constant(g, "bn.weight", 1);
  assert_constant(g, "bn.bias", 0);
  assert_constant(g, "bn.running_mean", 0);
  assert_constant(g, "bn.running_var", 1);
  CT_ASSERT_INT(param(g, "bn.bias")->spec.buffer, 0);
  CT_ASSERT_INT(param(g, "bn.running_mean")->spec.buffer, 1);
  assert_normal(g, "he.weight", sqrt(2.0 / (64 * 9))); /* PyTorch's fan out ignores groups */
  assert_uniform(g, "he.bias", 1 / sqrt(64 * 9));
  assert_uniform(g, "fc.weight", 1 / sqrt(64 * 4 * 5));
  assert_uniform(g, "fc.bias", 1 / sqrt(64 * 4 * 5));
  ct_graph_free(g);
}

static void resnet_begins_as_torchvision(void)
{
  ct_graph_t *g = make("family: resnet", image(3, 64, 64), 10);
  if (!g) return;
  assert_normal(g, "conv1.weight", sqrt(2.0 / (64 * 49)));
  assert_normal(g, "layer2.0.downsample.0.weight", sqrt(2.0 / 128));
  assert_constant(g, "layer1.0.bn2.weight", 1);
  assert_uniform(g, "fc.weight", 1 / sqrt(512));
  ct_graph_free(g);
}

static int same_values(const float *a, const float *b, int64_t n)
{
  return memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

static void initial_values_depend_on_seed_and_name_only(void)
{
  ct_graph_t *a =
      make("layers: [flatten, {linear: {out: 64}, name: x}, {linear: {out: 64}, name: y}]",
           image(1, 8, 8), 64);
  ct_graph_t *b = make("layers: [dropout, {conv2d: {out: 1, kernel: 1, bias: false}, name: z}, "
                       "flatten, {linear: {out: 64}, name: y}]",
                       image(1, 8, 8), 64);
  if (!a || !b) return;
  int64_t n = 64 * 64;
  float *y = values(a, "y.weight", 1), *other = values(b, "y.weight", 1);
  float *x = values(a, "x.weight", 1), *seed = values(a, "y.weight", 2);
  CU_ASSERT(ct_graph_find_param(a, "y.weight") != ct_graph_find_param(b, "y.weight"));
  CU_ASSERT(same_values(y, other, n));
  CU_ASSERT(!same_values(y, x, n));
  CU_ASSERT(!same_values(y, seed, n));
  ct_mem_free(y);
  ct_mem_free(other);
  ct_mem_free(x);
  ct_mem_free(seed);
  ct_graph_free(a);
  ct_graph_free(b);
}

/* ---- hash and summary ---- */

static void hash_sees_every_change(void)
{
  static const char *const yaml[] = {
      "layers: [conv2d: {out: 4, kernel: 3}, relu, flatten, linear: {out: 10}]",
      "layers: [conv2d: {out: 5, kernel: 3}, relu, flatten, linear: {out: 10}]",
      "layers: [conv2d: {out: 4, kernel: 3, padding: 1, dilation: 2}, relu, flatten, linear: {out: "
      "10}]",
      "layers: [conv2d: {out: 4, kernel: 3, groups: 2}, relu, flatten, linear: {out: 10}]",
      "layers: [conv2d: {out: 4, kernel: 3, bias: no}, relu, flatten, linear: {out: 10}]",
      "layers: [conv2d: {out: 4, kernel: 3, init: he_fan_out}, relu, flatten, linear: {out: 10}]",
      "layers: [{conv2d: {out: 4, kernel: 3}, name: c}, relu, flatten, linear: {out: 10}]",
      "layers: [conv2d: {out: 4, kernel: 3}, {relu: , name: r}, flatten, linear: {out: 10}]",
      "layers: [conv2d: {out: 4, kernel: 3}, dropout, flatten, linear: {out: 10}]",
      "layers: [conv2d: {out: 4, kernel: 3}, dropout: {p: 0.4}, flatten, linear: {out: 10}]",
      "layers: [conv2d: {out: 4, kernel: 3}, batchnorm, flatten, linear: {out: 10}]",
      "layers: [conv2d: {out: 4, kernel: 3}, batchnorm: {eps: 1e-4}, flatten, linear: {out: 10}]",
      "layers: [conv2d: {out: 4, kernel: 3}, relu, {add: , from: [relu1, relu1]}, flatten, "
      "linear: {out: 10}]",
      "layers: [conv2d: {out: 4, kernel: 3}, relu, {add: , from: [relu1, conv2d1]}, flatten, "
      "linear: {out: 10}]",
  };
  enum { N = sizeof yaml / sizeof yaml[0] };
  uint64_t hash[N + 1];
  for (int i = 0; i <= N; i++) {
    ct_graph_t *g = make(yaml[i % N], i < N ? image(2, 8, 8) : image(2, 8, 9), 10);
    hash[i] = g ? ct_graph_hash(g) : 0;
    if (g) CU_ASSERT(hash[i] == ct_graph_hash(g));
    ct_graph_free(g);
    for (int j = 0; j < i; j++)
      CU_ASSERT(hash[i] != hash[j]);
  }
}

static void summary_is_a_table_with_totals(void)
{
  ct_str_t s = {0};
  ct_graph_t *g = make("family: resnet", image(3, 224, 224), 1000);
  if (!g) return;
  CT_ASSERT_OK(ct_graph_summary(g, &s));
  CT_ASSERT_HAS(s.data,
                "layer                  kind            output      parameters      MFLOP\n");
  CT_ASSERT_HAS(s.data,
                "conv1                  conv2d          64x112x112       9,408    236.028\n");
  CT_ASSERT_HAS(s.data, "\nlayer4.1.add           add             512x7x7              -");
  CT_ASSERT_HAS(s.data, "\ninput       3x224x224\n");
  CT_ASSERT_HAS(s.data, "\nparameters  11,689,512 (45 MiB in float32)\n");
  CT_ASSERT_HAS(s.data, "\nbuffers     9,600 (running statistics)\n");
  CT_ASSERT_HAS(s.data, "MFLOP per sample (a multiply-add is two)\n");
  size_t width = strcspn(s.data, "\n");
  const char *line = s.data;
  for (int i = 0; i < g->layers + 4; i++, line += strcspn(line, "\n") + 1)
    CT_ASSERT_INT(strcspn(line, "\n"), width);
  CT_ASSERT_HAS(line, "\ninput");
  ct_str_clear(&s);
  ct_graph_free(g);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(kinds_are_found_by_word),
                                    CT_TEST(infers_shapes_as_pytorch),
                                    CT_TEST(features_pass_through),
                                    CT_TEST(lowers_to_ops),
                                    CT_TEST(families_have_the_known_parameter_counts),
                                    CT_TEST(state_dicts_are_torchvisions),
                                    CT_TEST(resnet_shapes_at_odd_sizes),
                                    CT_TEST(stem_follows_the_size),
                                    CT_TEST(cifar_resnets_project_where_the_shape_changes),
                                    CT_TEST(mlp_takes_features_and_images),
                                    CT_TEST(begins_as_pytorch),
                                    CT_TEST(resnet_begins_as_torchvision),
                                    CT_TEST(initial_values_depend_on_seed_and_name_only),
                                    CT_TEST(hash_sees_every_change),
                                    CT_TEST(summary_is_a_table_with_totals),
                                    CT_TEST_END};
  return ct_test_main("model", tests, argc, argv);
}
