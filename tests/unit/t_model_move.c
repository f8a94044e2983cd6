/* Layers that move elements: their output shapes, which dims grow with the batch, what they refuse,
 * and that nothing is moved where nothing changes. */
#include "backend/ct_strided.h"
#include "tests/unit/model_make.h"

/* A list of layers between a permute that may move the batch, and a linear layer. */
typedef struct shape_row {
  const char *layers; /* the last one is called "x" */
  int ndim;
  int64_t dim[4];
  unsigned batch;
} shape_row_t;

/* Appends the layers of a row to samples of 4 x 6 x 5. */
static int append(ct_graph_t **g, const char *layers)
{
  char yaml[600];
  snprintf(yaml, sizeof yaml,
           "layers:\n%s- reshape: {shape: [N, -1]}\n  name: flat\n  from: x\n- linear: {out: 3}\n",
           layers);
  return make_for(yaml, image(4, 6, 5), 3, g);
}

static void shapes(void)
{
  static const shape_row_t rows[] = {
      {"- reshape: {shape: [N, 24, 5]}\n  name: x\n", 3, {1, 24, 5}, 1},
      {"- reshape: {shape: [4N, -1]}\n  name: x\n", 2, {4, 30}, 1},
      {"- reshape: {shape: [-1, 30]}\n  name: x\n", 2, {4, 30}, 1},
      {"- permute: {dims: [1, 0, 2, 3]}\n- reshape: {shape: [4, 6N, 5]}\n- permute: {dims: [1, 0, "
       "2]}\n  name: x\n",
       3,
       {6, 4, 5},
       1},
      {"- permute: {dims: [1, 0, 2, 3]}\n- reshape: {shape: [4N, 30]}\n- reshape: {shape: [4, N, "
       "30]}\n- permute: {dims: [1, -1, 0]}\n  name: x\n",
       3,
       {1, 30, 4},
       1},
      {"- flatten: {start_dim: 2}\n  name: x\n", 3, {1, 4, 30}, 1},
      {"- flatten: {start_dim: 0, end_dim: 1}\n  name: x\n", 3, {4, 6, 5}, 1},
      {"- slice: {dim: -1, start: -4, end: 100, step: 2}\n  name: x\n", 4, {1, 4, 6, 2}, 1},
      {"- slice: {dim: 0}\n  name: x\n", 4, {1, 4, 6, 5}, 1},
      {"- slice: {dim: 2, start: -9223372036854775807, end: 9223372036854775807}\n  name: x\n",
       4,
       {1, 4, 6, 5},
       1},
      {"- pad: {pad: [1, -2, 0, 3]}\n  name: x\n", 4, {1, 4, 9, 4}, 1},
      {"- pad: {pad: [4, 4], mode: reflect}\n  name: x\n", 4, {1, 4, 6, 13}, 1},
      {"- pad: {pad: [5, 5], mode: circular}\n  name: x\n", 4, {1, 4, 6, 15}, 1},
      {"- roll: {shifts: 3, dims: 2}\n  name: x\n", 4, {1, 4, 6, 5}, 1},
      {"- reshape: {shape: [N, 120]}\n- expand: {shape: [2, -1, 120]}\n- permute: {dims: [1, 0, "
       "2]}\n  name: x\n",
       3,
       {1, 2, 120},
       1},
      {"- repeat: {counts: [1, 2, 1, 3]}\n  name: x\n", 4, {1, 8, 6, 15}, 1},
      {"- pixel_shuffle: {factor: 2}\n  name: x\n", 4, {1, 1, 12, 10}, 1},
      {"- slice: {dim: 3, end: 4}\n- pixel_unshuffle: {factor: 2}\n  name: x\n",
       4,
       {1, 16, 3, 2},
       1},
      {"- unfold: {kernel: [3, 2], padding: [1, 0], stride: 2}\n  name: x\n", 3, {1, 24, 6}, 1},
      {"- reshape: {shape: [N, 120]}\n- windows: {dim: 1, size: 20, step: 50}\n  name: x\n",
       3,
       {1, 3, 20},
       1},
      {"- concat: {dim: 2}\n  from: [input, input, input]\n  name: x\n", 4, {1, 4, 18, 5}, 1}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    ct_graph_t *g = NULL;
    if (CT_ASSERT_OK(append(&g, rows[i].layers)) == CT_OK) {
      const ct_shape_t *x = &layer(g, "x")->out;
      CT_ASSERT_INT(x->ndim, rows[i].ndim);
      CT_ASSERT_INT(x->batch, rows[i].batch);
      for (int k = 0; k < rows[i].ndim && k < 4; k++)
        CT_ASSERT_INT(x->dim[k], rows[i].dim[k]);
    }
    ct_graph_free(g);
  }
}

/* Layers after which the batch is the second dim, or that are made of a parameter. */
#define SECOND "- permute: {dims: [1, 0, 2, 3]}\n"

static void refusals(void)
{
  static const char *const rows[][2] = {
      {"- reshape: {shape: [4, 30]}\n  name: x\n", "depend on the batch size"},
      {"- reshape: {shape: [2, 60]}\n  name: x\n", "write N in place"},
      {"- reshape: {shape: [N, 7, -1]}\n  name: x\n", "has 120 elements"},
      {"- reshape: {shape: [N, N, 120]}\n  name: x\n", "more than one size grows"},
      {"- reshape: {shape: [N, -1, -1]}\n  name: x\n", "more than one size is -1"},
      {"- reshape: {shape: [2, 2N, 30]}\n  name: x\n", "places of a sample's elements"},
      {SECOND "- reshape: {shape: [N, 120]}\n  name: x\n", "places of a sample's elements"},
      {"- reshape: {shape: [N12, 10]}\n  name: x\n", "'N12' is not a size"},
      {"- reshape: {shape: [0, 120]}\n  name: x\n", "'0' is not a size"},
      {"- reshape: {shape: [-N, 120]}\n  name: x\n", "'-N' is not a size"},
      {"- reshape: {shape: [99999999999999999999, 1]}\n  name: x\n", "is not a size"},
      {"- permute: {dims: [0, 1, 2]}\n  name: x\n", "expected 4"},
      {"- permute: {dims: [0, 1, 1, 2]}\n  name: x\n", "twice"},
      {"- permute: {dims: [0, 1, 2, 4]}\n  name: x\n", "no dim 4"},
      {"- permute: {dims: [0, 1, 2, 1.5]}\n  name: x\n", "no dim 1.5"},
      {"- slice: {dim: 0, end: 1}\n  name: x\n", "to cut it would mix samples"},
      {SECOND "- slice: {dim: 1, start: 1}\n  name: x\n", "to cut it would mix samples"},
      {"- slice: {dim: 2, start: 3, end: 3}\n  name: x\n", "cuts nothing"},
      {"- pad: {pad: [0, 0, 0, 0, 0, 0, 1, 0]}\n  name: x\n", "to pad it would mix samples"},
      {"- pad: {pad: [1]}\n  name: x\n", "two numbers for each"},
      {"- pad: {pad: [5, 0], mode: reflect}\n  name: x\n", "to reflect 5"},
      {"- pad: {pad: [6, 0], mode: circular}\n  name: x\n", "at the other end"},
      {"- pad: {pad: [-3, -2]}\n  name: x\n", "nothing is left"},
      {"- roll: {shifts: 1, dims: 0}\n  name: x\n", "to roll it would mix samples"},
      {"- roll: {shifts: [1, 2], dims: 1}\n  name: x\n", "2 shifts for 1 dims"},
      {"- flip: {dims: 0}\n  name: x\n", "to reverse it would mix samples"},
      {"- expand: {shape: [7, 4, 6, 5]}\n  name: x\n", "is the batch: write 1N"},
      {"- expand: {shape: [N, 8, 6, 5]}\n  name: x\n", "has the size 4"},
      {"- expand: {shape: [6, 5]}\n  name: x\n", "at least 4"},
      {"- expand: {shape: [-1, N, 4, 6, 5]}\n  name: x\n", "-1 in place of a new dim"},
      {"- repeat: {counts: [2, 1, 1, 1]}\n  name: x\n", "to repeat it would mix samples"},
      {"- repeat: {counts: [0, 1, 1, 1]}\n  name: x\n", "below 1"},
      {"- pixel_shuffle: {factor: 3}\n  name: x\n", "not a multiple of 9"},
      {"- pixel_unshuffle: {factor: 2}\n  name: x\n", "not multiples of 2"},
      {SECOND "- pixel_shuffle: {factor: 1}\n  name: x\n", "to shuffle it would mix samples"},
      {SECOND "- unfold: {kernel: 2}\n  name: x\n", "to cut into windows it would mix samples"},
      {"- unfold: {kernel: 9}\n  name: x\n", "does not fit"},
      {"- windows: {dim: 0, size: 1}\n  name: x\n", "to cut into windows it would mix samples"},
      {"- windows: {dim: 1, size: 5}\n  name: x\n", "does not fit"},
      {"- concat: {dim: 0}\n  from: [input, input]\n  name: x\n",
       "to join two of them it would mix"},
      {"- concat: {dim: 4}\n  from: [input, input]\n  name: x\n", "no dim 4"},
      {"- concat: {dim: last}\n  from: [input, input]\n  name: x\n", "whole number or auto"},
      {"- parameter: {shape: [1, 4, 6, 5]}\n  name: p\n- concat: {dim: 1}\n  from: [input, p]\n  "
       "name: x\n",
       "not the same dim of its inputs"},
      {"- flatten: {start_dim: 3, end_dim: 2}\n  name: x\n", "after end_dim"},
      {"- embedding: {rows: 16777217, dim: 2}\n  name: x\n", "rows"},
      {"- embedding: {rows: 4, dim: 2, padding_idx: 4}\n  name: x\n", "padding_idx 4 is not one"},
      {"- parameter: {shape: [3, 2]}\n  name: p\n- rows:\n  from: [input, p]\n  name: x\n",
       "to take rows of it would mix samples"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    ct_graph_t *g = NULL;
    CT_ASSERT_FAILS(append(&g, rows[i][0]), CT_ERR_USAGE, rows[i][1]);
    ct_graph_free(g);
  }
}

/* A permute that moves only dims of size 1 is the tensor itself. */
static void what_moves(void)
{
  static const struct {
    const char *layers;
    int keeps;
  } rows[] = {
      {"- reshape: {shape: [N, 1, 120, 1]}\n- permute: {dims: [0, 2, 1, 3]}\n  name: x\n", 1},
      {"- slice: {dim: 1, end: 4}\n  name: x\n", 1},
      {"- expand: {shape: [1, -1, 4, 6, 5]}\n- permute: {dims: [1, 0, 2, 3, 4]}\n  name: x\n", 1},
      {"- permute: {dims: [0, 2, 1, 3]}\n  name: x\n", 0},
      {"- slice: {dim: 1, end: 3}\n  name: x\n", 0},
      {"- flip: {dims: 1}\n  name: x\n", 0}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    ct_graph_t *g = NULL;
    ct_op_desc_t d;
    if (CT_ASSERT_OK(append(&g, rows[i].layers)) == CT_OK) {
      ct_graph_op(g, (int)(layer(g, "x") - g->layer), 3, &d);
      CT_ASSERT_INT(ct_strided_keeps(&d), rows[i].keeps);
    }
    ct_graph_free(g);
  }
}

/* More than two inputs of a concat are a chain of layers. */
static void chains(void)
{
  ct_graph_t *g = NULL;
  CT_ASSERT_OK(
      append(&g, "- relu\n- concat: {dim: 1}\n  from: [input, relu1, input, relu1]\n  name: x\n"));
  if (!g) return;
  CT_ASSERT_INT(layer(g, "x.1")->out.dim[1], 8);
  CT_ASSERT_INT(layer(g, "x.2")->out.dim[1], 12);
  CT_ASSERT_INT(layer(g, "x")->out.dim[1], 16);
  ct_graph_free(g);
  CT_ASSERT_FAILS(append(&g, "- concat:\n  from: [input, input, nobody]\n  name: x\n"),
                  CT_ERR_USAGE, "no layer before this one is called 'nobody'");
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(shapes), CT_TEST(refusals), CT_TEST(what_moves),
                                    CT_TEST(chains), CT_TEST_END};
  return ct_test_main("model, moving", tests, argc, argv);
}
