/* VGG, DenseNet, MobileNetV2 against torchvision; families of fields against their references;
 * CosmoFlow; layers on volumes. */
#include "tests/unit/model_make.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* ---- names and shapes ---- */

/* FNV-1a of the lines "name shape\n" of the state dict, which stands for the list itself:
 *
 *   h = 0xcbf29ce484222325
 *   for key, value in torchvision.models.get_model(name).state_dict().items():
 *     if not key.endswith("num_batches_tracked"):
 *       for b in f"{key} {'x'.join(map(str, value.shape))}\n".encode():
 *         h = ((h ^ b) * 0x100000001b3) & (2**64 - 1)
 */
static uint64_t fnv(const char *text, uint64_t h)
{
  for (; *text; text++)
    h = (h ^ (unsigned char)*text) * 0x100000001b3u;
  return h;
}

static uint64_t names_hash(const ct_graph_t *g)
{
  uint64_t h = 0xcbf29ce484222325u;
  char shape[80], line[200];
  for (int i = 0; i < g->params; i++) {
    snprintf(line, sizeof line, "%s %s\n", g->param[i].name,
             ct_shape_text(&g->param[i].spec.shape, shape, sizeof shape));
    h = fnv(line, h);
  }
  return h;
}

static void state_dicts_are_torchvisions(void)
{
  static const struct {
    const char *family;
    int depth;
    int64_t count;
    uint64_t hash;
  } nets[] = {
      {"vgg", 11, 132863336, 0xf9c2b3fe02391981},
      {"vgg", 13, 133047848, 0xa79b11f8a39f9a26},
      {"vgg", 16, 138357544, 0xc3c36606220a7498},
      {"vgg", 19, 143667240, 0xe75a518939859d4e},
      {"vgg_bn", 11, 132868840, 0x7fbe2ff658c29279},
      {"vgg_bn", 13, 133053736, 0x15cdeec233804c76},
      {"vgg_bn", 16, 138365992, 0x4f8de2d9008b8449},
      {"vgg_bn", 19, 143678248, 0x0bcce7d167575fa6},
      {"densenet", 121, 7978856, 0x4fb25a5749f36dbf},
      {"densenet", 169, 14149480, 0x0fbd59d073abd459},
      {"densenet", 201, 20013928, 0x15108ffcecc8475d},
      {"densenet", 161, 28681000, 0x542ef37d18e98daa},
      {"mobilenet_v2", 0, 3504872, 0x8241d1db65e4615f},
  };
  for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++) {
    char yaml[80];
    snprintf(yaml, sizeof yaml, "{family: %s, depth: %d}", nets[i].family, nets[i].depth);
    ct_graph_t *g = make(yaml, image(3, 224, 224), 1000);
    if (!g) continue;
    CT_ASSERT_INT(ct_graph_count(g), nets[i].count);
    if (names_hash(g) != nets[i].hash) printf("# %s\n", yaml);
    CU_ASSERT(names_hash(g) == nets[i].hash);
    ct_graph_free(g);
  }
}

/* Hashes as above, of UNet(3, 2) and UNet(3, 2, bilinear=True) of milesial/Pytorch-UNet, and of
 * DeepLabv3_plus(16, 3) of mlcommons/hpc. */
static void state_dicts_of_fields_are_the_references(void)
{
  static const struct {
    const char *yaml;
    int64_t channels, classes, count;
    uint64_t hash;
  } nets[] = {
      {"family: unet", 3, 2, 31037698, 0x4566e7944631949},
      {"{family: unet, widths: [64, 128, 256, 512, 1024]}", 3, 2, 31037698, 0x4566e7944631949},
      {"{family: unet, upsample: linear}", 3, 2, 17263042, 0x416f869d55418f93},
      {"family: deeplabv3plus", 16, 3, 56454720, 0x8f3fb3455b885625},
  };
  for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++) {
    ct_graph_t *g = make(nets[i].yaml, image(nets[i].channels, 64, 96), nets[i].classes);
    if (!g) continue;
    CT_ASSERT_INT(ct_graph_count(g), nets[i].count);
    if (names_hash(g) != nets[i].hash) printf("# %s\n", nets[i].yaml);
    CU_ASSERT(names_hash(g) == nets[i].hash);
    ct_graph_free(g);
  }
}

/* ---- families over tokens ---- */

/* The sum of FNV-1a over the lines of parameters of transformers' GPT2LMHeadModel (weights of
 * Conv1D transposed), LlamaForCausalLM and EsmForMaskedLM (without contact_head), as
 * named_parameters() lists them: a tied head once. */
static uint64_t names_sum(const ct_graph_t *g)
{
  uint64_t sum = 0;
  char shape[80], line[200];
  for (int i = 0; i < g->params; i++) {
    if (g->param[i].spec.buffer) continue;
    snprintf(line, sizeof line, "%s %s\n", g->param[i].name,
             ct_shape_text(&g->param[i].spec.shape, shape, sizeof shape));
    sum += fnv(line, 0xcbf29ce484222325u);
  }
  return sum;
}

static void state_dicts_of_languages_are_transformers(void)
{
  static const struct {
    const char *yaml;
    int64_t vocab, count;
    uint64_t sum;
  } nets[] = {
      {"{family: gpt2, dim: 768, heads: 12, context: 1024}", 50257, 124439808, 0x5b61a7b143e81b7d},
      {"{family: gpt2, depth: 24, dim: 1024, heads: 16, context: 1024}", 50257, 354823168,
       0x11d453e86cc894c3},
      {"{family: gpt2, depth: 36, dim: 1280, heads: 20, context: 1024}", 50257, 774030080,
       0x7eb078648619d29f},
      {"{family: gpt2, depth: 48, dim: 1600, heads: 25, context: 1024}", 50257, 1557611200,
       0xb9b6032391a8ef67},
      {"{family: llama, depth: 32, dim: 4096, heads: 32}", 32000, 6738415616, 0x214e639629facb2},
      {"{family: llama, depth: 32, dim: 4096, heads: 32, kv_heads: 8, hidden: 14336}", 128256,
       8030261248, 0x880b53a413e9b6c},
      {"{family: llama, depth: 16, dim: 2048, heads: 32, kv_heads: 8, hidden: 8192, tie: true}",
       128256, 1235814400, 0xd44c4d6a0ae22588},
      {"{family: esm2, depth: 6, dim: 320, heads: 20}", 33, 7512353, 0xc9aec5e8be0206ea},
  };
  for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++) {
    ct_graph_t *g = make(nets[i].yaml, ct_shape(2, 1, 16), nets[i].vocab);
    if (!g) continue;
    CT_ASSERT_INT(ct_graph_count(g), nets[i].count);
    if (names_sum(g) != nets[i].sum) printf("# %s\n", nets[i].yaml);
    CU_ASSERT(names_sum(g) == nets[i].sum);
    ct_graph_free(g);
  }
}

static void languages_refuse_what_does_not_fit(void)
{
  static const struct {
    const char *yaml, *words;
  } bad[] = {{"{family: gpt2, dim: 60, heads: 7}", "does not divide model.dim"},
             {"{family: llama, dim: 64, heads: 4, kv_heads: 3}", "does not divide model.heads"},
             {"{family: gpt2, kv_heads: 2}", "no meaning with family gpt2"},
             {"{family: gpt2, context: 8}", "less than the 16 tokens"},
             {"{family: llama, hidden: [2, 3]}", "one whole number"},
             {"{family: llama, dim: 12, heads: 4}", "even number"},
             {"{family: esm2, token_dropout: true}", "mask_id"}};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    ct_graph_t *g;
    CT_ASSERT_FAILS(make_for(bad[i].yaml, ct_shape(2, 1, 16), 50, &g), CT_ERR_USAGE, bad[i].words);
  }
}

/* ---- initial values ---- */

static void assert_deviation(const ct_graph_t *g, const char *name, double sd)
{
  const ct_param_t *p = param(g, name);
  float *v = ct_mem_array(p->count, sizeof *v, "test");
  double sum = 0;
  ct_graph_init_param(g, (int)(p - g->param), 1, v);
  for (int64_t i = 0; i < p->count; i++)
    sum += (double)v[i] * v[i];
  double got = sqrt(sum / (double)p->count);
  if (fabs(got - sd) > 5 * sd / sqrt(2.0 * (double)p->count)) printf("# %s: %g\n", name, got);
  CT_ASSERT_NEAR(got, sd, 5 * sd / sqrt(2.0 * (double)p->count));
  ct_mem_free(v);
}

static void families_begin_as_torchvision(void)
{
  ct_graph_t *g = make("family: vgg_bn\ndepth: 11", image(3, 32, 32), 10);
  if (!g) return;
  assert_deviation(g, "features.0.weight", sqrt(2.0 / (64 * 9)));
  assert_deviation(g, "features.0.bias", 0);
  assert_deviation(g, "features.4.weight", sqrt(2.0 / (128 * 9)));
  assert_deviation(g, "features.1.weight", 1);
  assert_deviation(g, "classifier.6.weight", 0.01);
  assert_deviation(g, "classifier.6.bias", 0);
  ct_graph_free(g);
  g = make("family: densenet", image(3, 64, 64), 10);
  if (!g) return;
  assert_deviation(g, "features.conv0.weight", sqrt(2.0 / (3 * 49)));
  assert_deviation(g, "features.denseblock1.denselayer2.conv1.weight", sqrt(2.0 / 96));
  assert_deviation(g, "features.denseblock1.denselayer2.conv2.weight", sqrt(2.0 / (128 * 9)));
  assert_deviation(g, "classifier.weight", 1 / sqrt(3.0 * 1024));
  assert_deviation(g, "classifier.bias", 0);
  ct_graph_free(g);
  g = make("family: mobilenet_v2", image(3, 64, 64), 10);
  if (!g) return;
  assert_deviation(g, "features.0.0.weight", sqrt(2.0 / (32 * 9)));
  assert_deviation(g, "features.2.conv.1.0.weight", sqrt(2.0 / (96 * 9)));
  assert_deviation(g, "features.2.conv.2.weight", sqrt(2.0 / 24));
  assert_deviation(g, "classifier.1.weight", 0.01);
  ct_graph_free(g);
}

static void languages_begin_as_gpt2(void)
{
  ct_graph_t *g = make("{family: gpt2, depth: 8, dim: 96}", ct_shape(2, 1, 16), 200);
  if (!g) return;
  assert_deviation(g, "transformer.wte.weight", 0.02);
  assert_deviation(g, "transformer.wpe.weight", 0.02);
  assert_deviation(g, "transformer.h.7.attn.c_attn.weight", 0.02);
  assert_deviation(g, "transformer.h.7.attn.c_proj.weight", 0.02 / 4);
  assert_deviation(g, "transformer.h.0.mlp.c_proj.weight", 0.02 / 4);
  assert_deviation(g, "transformer.h.0.mlp.c_proj.bias", 0);
  assert_deviation(g, "transformer.h.0.ln_1.weight", 1);
  ct_graph_free(g);
  g = make("{family: llama, depth: 2, dim: 96}", ct_shape(2, 1, 16), 200);
  if (!g) return;
  assert_deviation(g, "lm_head.weight", 0.02);
  assert_deviation(g, "model.layers.0.mlp.up_proj.weight", 0.02);
  assert_deviation(g, "model.layers.1.mlp.down_proj.weight", 0.01);
  ct_graph_free(g);
}

static void deeplab_begins_as_its_reference(void)
{
  ct_graph_t *g = make("{family: deeplabv3plus, depth: 1}", image(16, 32, 32), 3);
  if (!g) return;
  assert_deviation(g, "xception_features.block3.rep.0.conv1.weight", sqrt(2.0 / 9));
  assert_deviation(g, "xception_features.block3.skip.weight", sqrt(2.0 / 256));
  assert_deviation(g, "bottleneck.aspp2.atrous_convolution.weight", sqrt(2.0 / (2048 * 9)));
  assert_deviation(g, "bottleneck.conv.weight", 1 / sqrt(3.0 * 1280));
  assert_deviation(g, "bottleneck.global_avg_pool.global_average_pool.2.weights", 1);
  assert_deviation(g, "bottleneck.global_avg_pool.global_average_pool.2.bias", 0);
  assert_deviation(g, "upsample.deconv1.0.weight", 1 / sqrt(3.0 * 256 * 9));
  ct_graph_free(g);
}

static void dropout_is_the_familys_or_the_given(void)
{
  static const struct {
    const char *yaml, *layer;
    double p;
  } cases[] = {
      {"family: vgg", "classifier.2", 0.5},
      {"{family: vgg, dropout: 0}", "classifier.5", 0},
      {"family: mobilenet_v2", "classifier.0", 0.2},
      {"{family: densenet, dropout: 0.1}", "features.denseblock4.denselayer16.dropout", 0.1}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    ct_graph_t *g = make(cases[i].yaml, image(3, 64, 64), 10);
    if (!g) continue;
    const ct_layer_t *l = layer(g, cases[i].layer);
    ct_op_desc_t d;
    ct_graph_op(g, (int)(l - g->layer), 1, &d);
    CT_ASSERT_NEAR(d.u.dropout.p, cases[i].p, 0);
    ct_graph_free(g);
  }
}

/* ---- volumes ---- */

static void assert_out(const ct_graph_t *g, const char *name, const char *want)
{
  char text[80];
  CT_ASSERT_TEXT(ct_shape_text(&layer(g, name)->out, text, sizeof text), want);
}

static void cosmoflow_scales_with_the_volume(void)
{
  static const struct {
    int side, stages;
    int64_t features;
  } cases[] = {{128, 5, 256 * 64}, {32, 5, 256}, {16, 4, 128}, {8, 3, 64}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    int64_t s = cases[i].side;
    ct_graph_t *g = make("family: cosmoflow", ct_shape(5, 1, 4, s, s, s), 4);
    if (!g) continue;
    CT_ASSERT_INT(layer(g, "flatten")->out.dim[1], cases[i].features);
    CT_ASSERT_INT(g->layers, 3 * cases[i].stages + 1 + 6 + 2);
    ct_graph_free(g);
  }
  ct_graph_t *g;
  CT_ASSERT_FAILS(make_for("family: cosmoflow", image(3, 16, 16), 4, &g), CT_ERR_USAGE, "volumes");
}

static void fields_have_the_size_of_the_sample(void)
{
  static const struct {
    const char *yaml, *layer, *out;
    int dims;
    int64_t dim[CT_MAX_DIMS];
  } cases[] = {
      {"{family: unet, depth: 2, widths: 4, norm: none}",
       "outc.conv",
       "1x5x8x12x4",
       5,
       {1, 2, 8, 12, 4}},
      {"{family: unet, widths: [4, 6], norm: instance}", "outc.conv", "1x5x6", 3, {1, 2, 6}},
      {"{family: deeplabv3plus, depth: 1}",
       "upsample.last_deconv.0",
       "1x5x32x48",
       4,
       {1, 4, 32, 48}},
      {"{family: vit, head: field, patch: [2, 3], depth: 1}", "field", "1x5x8x9", 4, {1, 7, 8, 9}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    ct_graph_t *g = make(cases[i].yaml, ct_shape_dims(cases[i].dims, cases[i].dim), 5);
    if (g) assert_out(g, cases[i].layer, cases[i].out);
    ct_graph_free(g);
  }
}

static void families_of_fields_refuse_what_they_cannot_do(void)
{
  static const struct {
    const char *yaml, *word;
  } cases[] = {
      {"family: unet", "4 levels need a size that is a multiple of 16, not 20"},
      {"{family: unet, widths: [4, 8], depth: 2}",
       "model.widths has 2 widths, but model.depth 2 needs one or 3"},
      {"{family: unet, widths: []}", "give the width of the first level"},
      {"{family: unet, widths: 4.5}", "expected whole numbers"},
      {"{family: unet, widths: 4, depth: 13}", "at most 12 levels"},
      {"{family: unet, widths: 4, depth: 1, norm: group}", "num_groups 8 must divide its 4"},
      {"family: deeplabv3plus", "must be multiples of 16"},
      {"{family: vit, patch: [4, 8]}", "model.patch: 4 x 8 does not divide"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    ct_graph_t *g;
    CT_ASSERT_FAILS(make_for(cases[i].yaml, image(3, 20, 20), 5, &g), CT_ERR_USAGE, cases[i].word);
  }
}

static void infers_volumes_as_pytorch(void)
{
  static const struct {
    const char *kind, *opts, *out; /* of 2x7x5x6 */
  } cases[] = {
      {"conv3d", "out: 4, kernel: [3, 2, 1], stride: [2, 1, 3], padding: [1, 0, 0]", "1x4x4x4x2"},
      {"conv3d", "out: 6, kernel: 3, dilation: [1, 2, 1], groups: 2", "1x6x5x1x4"},
      {"maxpool3d", "kernel: 2", "1x2x3x2x3"},
      {"avgpool3d", "kernel: [3, 2, 2], stride: 1, padding: [1, 0, 1]", "1x2x7x4x7"},
      {"global_avgpool", "", "1x2x1x1x1"},
      {"batchnorm", "", "1x2x7x5x6"},
      {"leaky_relu", "negative_slope: 0.2", "1x2x7x5x6"},
      {"flatten", "", "1x420"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    int id = -1;
    ct_graph_t *g = empty(ct_shape(5, 1, 2, 7, 5, 6));
    CT_ASSERT_OK(ct_graph_add(g, &id, "it", cases[i].kind, -1, -2, "%s", cases[i].opts));
    if (g->layers == 1) assert_out(g, "it", cases[i].out);
    ct_graph_free(g);
  }
}

static void what_does_not_fit_is_refused(void)
{
  static const struct {
    const char *kind, *opts, *word;
  } cases[] = {{"conv2d", "out: 4, kernel: 3", "needs images"},
               {"maxpool", "kernel: 2", "needs images"},
               {"conv3d", "out: 4, kernel: 9", "spans 9x9x9 pixels"},
               {"conv3d", "out: 4, kernel: [1, 2]", "a list of three"},
               {"avgpool3d", "kernel: 2, padding: 2", "more than half"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    int id = -1;
    ct_graph_t *g = empty(ct_shape(5, 1, 2, 7, 5, 6));
    int rc = ct_graph_add(g, &id, "it", cases[i].kind, -1, -2, "%s", cases[i].opts);
    CU_ASSERT(rc == CT_ERR_SHAPE || rc == CT_ERR_USAGE);
    CT_ASSERT_HAS(ct_err_last()->text, cases[i].word);
    ct_graph_free(g);
  }
}

static void concatenation_adds_channels(void)
{
  ct_graph_t *g = make("layers: [{conv2d: {out: 5, kernel: 1}, name: a}, {concat: , from: [a, "
                       "input], name: c}, flatten, linear: {out: 2}]",
                       image(3, 4, 6), 2),
             *bad;
  if (!g) return;
  assert_out(g, "c", "1x8x4x6");
  ct_graph_free(g);
  CT_ASSERT_FAILS(
      make_for("layers: [{maxpool: {kernel: 2}, name: a}, {concat: , from: [a, input]}, "
               "flatten, linear: {out: 2}]",
               image(3, 4, 6), 2, &bad),
      CT_ERR_USAGE, "differ in channels only");
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(state_dicts_are_torchvisions),
                                    CT_TEST(families_begin_as_torchvision),
                                    CT_TEST(state_dicts_of_fields_are_the_references),
                                    CT_TEST(deeplab_begins_as_its_reference),
                                    CT_TEST(state_dicts_of_languages_are_transformers),
                                    CT_TEST(languages_refuse_what_does_not_fit),
                                    CT_TEST(languages_begin_as_gpt2),
                                    CT_TEST(fields_have_the_size_of_the_sample),
                                    CT_TEST(families_of_fields_refuse_what_they_cannot_do),
                                    CT_TEST(dropout_is_the_familys_or_the_given),
                                    CT_TEST(cosmoflow_scales_with_the_volume),
                                    CT_TEST(infers_volumes_as_pytorch),
                                    CT_TEST(what_does_not_fit_is_refused),
                                    CT_TEST(concatenation_adds_channels),
                                    CT_TEST_END};
  return ct_test_main("families", tests, argc, argv);
}
