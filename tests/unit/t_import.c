/* The translation of PyTorch's programs.  Small models of golden/make_import.py become the layers
 * that are written here; others are refused by name.  tests/import/check_layers.py compares
 * larger ones with PyTorch. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "import/ct_import.h"
#include "tests/harness/ct_test.h"

static int open_golden(const char *name, ct_import_t **out)
{
  char path[CT_PATH_MAX];
  snprintf(path, sizeof path, "%s/tests/golden/import/%s.pt2", getenv("CT_SRC"), name);
  return ct_import_open(path, out);
}

/* Opens a file whose layers are as given. */
static ct_import_t *has_layers(const char *name, const char *layers)
{
  ct_import_t *im = NULL;
  if (CT_ASSERT_OK(open_golden(name, &im)) != CT_OK) return NULL;
  CT_ASSERT_TEXT(ct_import_layers(im), layers);
  return im;
}

static void attention_is_one_layer(void)
{
  ct_import_t *im = has_layers(
      "vit", "- {conv2d: {out: 8, kernel: 4, stride: 4}, name: \"conv\", from: \"input\"}\n"
             "- {tokens: {}, name: \"tokens\", weights: [\"token\", \"place\"]}\n"
             "- {layernorm: {}, name: \"norm\"}\n"
             "- {attention: {heads: 2}, name: \"attention\"}\n"
             "- {add: {}, name: \"add\", from: [\"tokens\", \"attention\"]}\n"
             "- {select: {index: 0}, name: \"select\"}\n"
             "- {linear: {out: 3}, name: \"head\"}\n");
  ct_import_close(im);
  im = has_layers("packed", "- {attention: {heads: 2}, name: \"out\", from: \"input\", weights: "
                            "[\"qkv.weight\", \"qkv.bias\", \"out.weight\", \"out.bias\"]}\n");
  ct_import_close(im);
}

/* Queries and keys are exchanged: only following the elements shows it. */
static void other_attention_is_composed(void)
{
  ct_import_t *im = NULL;
  if (CT_ASSERT_OK(open_golden("swapped", &im)) != CT_OK) return;
  CU_ASSERT(!strstr(ct_import_layers(im), "attention"));
  CT_ASSERT_HAS(ct_import_layers(im), "softmax: {dim: 3}");
  CT_ASSERT_HAS(ct_import_layers(im), "{mul: {value: 0.5}, name: \"mul\", from: \"permute_2\"}");
  ct_import_close(im);
}

static void patterns(void)
{
  ct_import_close(has_layers("depth", "- {linear: {out: 4}, name: \"a\", from: \"input\"}\n"
                                      "- {silu: {}, name: \"silu\"}\n"
                                      "- {drop_path: {p: 0.25}, name: \"drop_path\"}\n"
                                      "- {add: {}, name: \"add\", from: [\"input\", "
                                      "\"drop_path\"]}\n"));
  ct_import_close(has_layers("dense",
                             "- {conv2d: {out: 2, kernel: 1}, name: \"a\", from: \"input\"}\n"
                             "- {conv2d: {out: 2, kernel: 1}, name: \"a_2\", weights: "
                             "[\"a.weight\", \"a.bias\"]}\n"
                             "- {concat: {}, name: \"concat\", from: [\"input\", \"a_2\"]}\n"
                             "- {conv2d: {out: 2, kernel: 3, padding: 1}, name: \"b\"}\n"
                             "- {concat: {}, name: \"concat_2\", from: [\"concat\", \"b\"]}\n"
                             "- {conv2d: {out: 2, kernel: 1}, name: \"c\"}\n"
                             "- {global_avgpool: {}, name: \"global_avgpool\"}\n"
                             "- {flatten: {}, name: \"flatten\"}\n"));
}

static void tied_weights(void)
{
  ct_import_t *im =
      has_layers("tied", "- {parameter: {shape: [7, 4]}, name: \"tok.weight\"}\n"
                         "- {rows: {}, name: \"tok\", from: [\"tok.weight\", \"input\"]}\n"
                         "- {mean: {dims: [1]}, name: \"mean\"}\n"
                         "- {matmul: {transpose_b: yes}, name: \"head\", from: [\"mean\", "
                         "\"tok.weight\"]}\n");
  if (!im) return;
  CT_ASSERT_INT(ct_import_inputs(im), 1);
  CT_ASSERT_INT(ct_import_input(im, 0)->integer, 1);
  CT_ASSERT_TEXT(ct_import_input(im, 0)->name, "x");
  CT_ASSERT_INT(ct_import_states(im), 1);
  CT_ASSERT_INT(ct_import_state(im, 0)->kind, CT_IMPORT_TIED);
  CT_ASSERT_TEXT(ct_import_state(im, 0)->name, "head.weight");
  CT_ASSERT_TEXT(ct_import_state(im, 0)->with, "tok.weight");
  ct_import_close(im);
}

/* A sequence with the batch in dim 1; the last level's reverse state alone is used. */
static void recurrent(void)
{
  ct_import_t *im = NULL;
  if (CT_ASSERT_OK(open_golden("rnn", &im)) != CT_OK) return;
  CU_ASSERT(!strstr(ct_import_layers(im), "permute"));
  CT_ASSERT_HAS(ct_import_layers(im), "- {lstm: {hidden: 4}, name: \"r\", from: \"input\"}\n");
  CT_ASSERT_HAS(ct_import_layers(im), "\"r.weight_ih_l1_reverse\"");
  CT_ASSERT_HAS(ct_import_layers(im), "- {select: {index: 0}, name: \"r_5\"}\n");
  CT_ASSERT_INT(ct_import_states(im), 4); /* those of the other direction are not used */
  CT_ASSERT_INT(ct_import_state(im, 0)->kind, CT_IMPORT_UNUSED);
  CT_ASSERT_TEXT(ct_import_output(im, 0)->layer, "r_5");
  CT_ASSERT_INT(ct_import_output(im, 0)->shape.dim[1], 4);
  ct_import_close(im);
}

/* Only the three frequencies that are used are computed, and only these are transformed back. */
static void spectra(void)
{
  ct_import_t *im = NULL;
  float m[48];
  if (CT_ASSERT_OK(open_golden("spectral", &im)) != CT_OK) return;
  const char *layers = ct_import_layers(im);
  CT_ASSERT_HAS(layers, "- {constant: {shape: [8, 6]}, name: \"constant\"}\n"
                        "- {matmul: {}, name: \"matmul\", from: [\"input\", \"constant\"]}\n"
                        "- {reshape: {shape: [N, 2, 3, 2]}, name: \"reshape\"}\n");
  CT_ASSERT_HAS(layers, "- {parameter: {shape: [2, 2, 3, 2], complex: yes}, name: \"w\"}\n");
  CT_ASSERT_HAS(layers, "- {constant: {shape: [6, 8]}, name: \"constant_2\"}\n");
  CU_ASSERT(!strstr(layers, "slice"));
  CT_ASSERT_INT(ct_import_states(im), 1);
  CT_ASSERT_TEXT(ct_import_state(im, 0)->name, "unused");
  CT_ASSERT_INT(ct_import_state(im, 0)->complex, 1);
  CT_ASSERT_INT(ct_import_state(im, 0)->shape.dim[1], 2);
  for (int i = 0; i < ct_import_constants(im); i++) {
    if (strcmp(ct_import_constant(im, i)->name, "constant") != 0) continue;
    CT_ASSERT_OK(ct_import_read(im, i, m));
    for (int k = 0; k < 48; k++) { /* cos and -sin of element k / 6, frequency k % 6 / 2 */
      double angle = 2 * 3.14159265358979323846 * (k / 6) * (k % 6 / 2) / 8;
      CU_ASSERT(fabs((double)m[k] - (k % 2 ? -sin(angle) : cos(angle))) < 1e-7);
    }
  }
  ct_import_close(im);
}

static void refusals(void)
{
  ct_import_t *im = NULL;
  CT_ASSERT_FAILS(open_golden("refused", &im), CT_ERR_UNSUP, "complex aten.tanh.default");
  CT_ASSERT_HAS(ct_err_last()->text, "in module 'spectrum'");
  CT_ASSERT_HAS(ct_err_last()->text,
                "aten.mean.dim in the model's forward(): combines the samples");
  CU_ASSERT_PTR_NULL(im);
  CT_ASSERT_FAILS(open_golden("fixed", &im), CT_ERR_UNSUP, "dynamic_shapes");
  CT_ASSERT_FAILS(open_golden("missing", &im), CT_ERR_IO, "missing.pt2");
  CT_ASSERT_INT(ct_mem_live(), 0);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(attention_is_one_layer),
                                    CT_TEST(other_attention_is_composed),
                                    CT_TEST(patterns),
                                    CT_TEST(tied_weights),
                                    CT_TEST(recurrent),
                                    CT_TEST(spectra),
                                    CT_TEST(refusals),
                                    CT_TEST_END};
  return ct_test_main("import", tests, argc, argv);
}
