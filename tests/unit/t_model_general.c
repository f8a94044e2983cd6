/* Kinds of layers that take a batch in any dim: shapes of their outputs, and what they refuse. */
#include "model/ct_layer.h"

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "tests/harness/ct_test.h"

/* A shape of one sample, with a bit set of the dims that grow with the batch. */
typedef struct dims {
  int n;
  int64_t dim[6];
  unsigned batch;
} dims_t;

typedef struct general {
  const char *kind, *options;
  dims_t in[3];
  dims_t out;       /* n 0: it is refused */
  const char *text; /* of the error */
} general_t;

static ct_shape_t shape_of(const dims_t *d)
{
  int64_t dim[CT_MAX_DIMS] = {0};
  for (int i = 0; i < d->n; i++)
    dim[i] = d->dim[i];
  ct_shape_t s = ct_shape_dims(d->n, dim);
  s.batch = d->batch;
  return s;
}

static int infer(const general_t *c, ct_shape_t *out)
{
  int rc = CT_OK;
  const ct_layer_ops_t *ops = ct_layer_find(c->kind);
  ct_shape_t in[3] = {{0}};
  ct_yaml_t *map = NULL;
  void *opts = ct_mem_alloc(ops->opts_bytes + 1, "options");
  for (int i = 0; i < 3 && c->in[i].n; i++)
    in[i] = shape_of(&c->in[i]);
  CT_TRY(ct_yaml_parse(c->options, strlen(c->options), "m.yaml", &map));
  CT_TRY(ct_opt_defaults(ops->opts, opts));
  CT_TRY(ct_opt_read(ops->opts, opts, map, "m.yaml", c->kind, NULL));
  *out = in[0];
  if (ops->infer) CT_TRY(ops->infer(opts, in, out));
out:
  if (opts) ct_opt_clear(ops->opts, opts);
  ct_mem_free(opts);
  ct_yaml_free(map);
  return rc;
}

static void check_case(const general_t *c)
{
  ct_shape_t out, want = shape_of(&c->out);
  char text[80], expected[80];
  if (!c->out.n) {
    CT_ASSERT_FAILS(infer(c, &out), CT_ERR_SHAPE, c->text);
    return;
  }
  if (CT_ASSERT_OK(infer(c, &out)) != CT_OK) return;
  CT_ASSERT_TEXT(ct_shape_text(&out, text, sizeof text),
                 ct_shape_text(&want, expected, sizeof expected));
  CT_ASSERT_INT((int)out.batch, (int)c->out.batch);
}

static void check_all(const general_t *c, size_t n)
{
  for (size_t i = 0; i < n; i++)
    check_case(&c[i]);
}
#define CHECK(cases) check_all(cases, sizeof(cases) / sizeof(cases)[0])

static void products_have_shapes(void)
{
  static const general_t cases[] = {
      /* N x 4 by a weight; N x T x D by a weight; heads */
      {"matmul", "{}", {{2, {1, 4}, 1}, {2, {4, 7}, 0}}, {2, {1, 7}, 1}, 0},
      {"matmul", "{}", {{3, {1, 5, 4}, 1}, {2, {4, 7}, 0}}, {3, {1, 5, 7}, 1}, 0},
      {"matmul",
       "{transpose_b: yes}",
       {{3, {12, 5, 4}, 1}, {3, {12, 5, 4}, 1}},
       {3, {12, 5, 5}, 1},
       0},
      {"matmul", "{transpose_a: yes}", {{3, {1, 4, 5}, 1}, {2, {4, 7}, 0}}, {3, {1, 5, 7}, 1}, 0},
      /* a weight on the left; weights of groups; a batch in the rows or the columns */
      {"matmul", "{}", {{2, {3, 4}, 0}, {3, {1, 4, 5}, 1}}, {3, {1, 3, 5}, 1}, 0},
      {"matmul", "{}", {{4, {1, 3, 5, 4}, 1}, {3, {3, 4, 7}, 0}}, {4, {1, 3, 5, 7}, 1}, 0},
      {"matmul", "{}", {{3, {6, 1, 4}, 2}, {3, {6, 4, 7}, 0}}, {3, {6, 1, 7}, 2}, 0},
      {"matmul", "{}", {{2, {3, 4}, 0}, {2, {4, 1}, 2}}, {2, {3, 1}, 2}, 0},
      {"matmul", "{}", {{2, {3, 4}, 0}, {2, {4, 5}, 0}}, {2, {3, 5}, 0}, 0},
      /* sums over the batch; all pairs of samples; a batch of 5 by 5 weights */
      {"matmul", "{transpose_a: yes}", {{2, {1, 4}, 1}, {2, {1, 4}, 1}}, {0}, "mix samples"},
      {"matmul", "{transpose_b: yes}", {{2, {1, 4}, 1}, {2, {1, 4}, 1}}, {0}, "all samples"},
      {"matmul", "{}", {{3, {5, 2, 4}, 1}, {3, {5, 4, 7}, 0}}, {0}, "broadcast"},
      {"matmul", "{}", {{2, {1, 4}, 1}, {2, {5, 7}, 0}}, {0}, "have 4 elements"},
      {"matmul", "{}", {{2, {1, 4}, 1}, {1, {4}, 0}}, {0}, "2 dims or more"},
      {"sdpa",
       "{}",
       {{4, {1, 2, 5, 4}, 1}, {4, {1, 2, 7, 4}, 1}, {4, {1, 2, 7, 3}, 1}},
       {4, {1, 2, 5, 3}, 1},
       0},
      {"sdpa",
       "{}",
       {{3, {12, 5, 4}, 1}, {3, {12, 7, 4}, 1}, {3, {12, 7, 4}, 1}},
       {3, {12, 5, 4}, 1},
       0},
      {"sdpa", "{}", {{3, {2, 1, 4}, 2}, {3, {2, 1, 4}, 2}, {3, {2, 1, 4}, 2}}, {0}, "mix samples"},
      {"sdpa",
       "{}",
       {{3, {1, 5, 4}, 1}, {3, {1, 7, 4}, 0}, {3, {1, 7, 4}, 1}},
       {0},
       "same dims before"},
      {"sdpa",
       "{}",
       {{3, {1, 5, 4}, 1}, {3, {1, 7, 5}, 1}, {3, {1, 7, 4}, 1}},
       {0},
       "needs queries"},
      {"sdpa", "{heads: 2, causal: yes}", {{3, {1, 5, 24}, 1}}, {3, {1, 5, 8}, 1}, 0},
      {"sdpa", "{heads: 4, kv_heads: 2}", {{3, {1, 5, 24}, 1}}, {3, {1, 5, 12}, 1}, 0},
      {"sdpa",
       "{heads: 4, kv_heads: 2}",
       {{3, {1, 5, 8}, 1}, {3, {1, 7, 4}, 1}, {3, {1, 7, 6}, 1}},
       {3, {1, 5, 12}, 1},
       0},
      {"sdpa",
       "{heads: 4, mask: keys}",
       {{3, {1, 5, 8}, 1}, {3, {1, 7, 16}, 1}, {2, {1, 7}, 1}},
       {3, {1, 5, 8}, 1},
       0},
      {"sdpa",
       "{heads: 2, mask: bias}",
       {{3, {1, 5, 24}, 1}, {3, {2, 5, 5}, 0}},
       {3, {1, 5, 8}, 1},
       0},
      {"sdpa",
       "{heads: 2, mask: first}",
       {{3, {1, 5, 24}, 1}, {2, {1, 6}, 1}},
       {0},
       "one number per query"},
      {"sdpa", "{heads: 2, mask: first}", {{3, {1, 5, 24}, 1}}, {0}, "mask is missing"},
      {"sdpa", "{heads: 5}", {{3, {1, 5, 24}, 1}}, {0}, "multiple of the heads"},
      {"sdpa", "{heads: 2}", {{3, {5, 1, 24}, 2}}, {0}, "not dim 0"},
      {"sdpa", "{mask: keys}", {{3, {1, 5, 24}, 1}}, {0}, "need `heads`"},
      {"linear", "{out: 7}", {{3, {5, 1, 4}, 2}}, {3, {5, 1, 7}, 2}, 0},
      {"linear", "{out: 7}", {{4, {64, 7, 7, 4}, 1}}, {4, {64, 7, 7, 7}, 1}, 0},
      {"linear", "{out: 7}", {{2, {4, 1}, 2}}, {0}, "mix samples"},
      {"linear", "{out: 7}", {{1, {4}, 0}}, {0}, "N x ... x features"},
  };
  CHECK(cases);
}

static void reductions_have_shapes(void)
{
  static const general_t cases[] = {
      {"mean", "{dims: [2, 3], keepdim: yes}", {{4, {1, 3, 5, 6}, 1}}, {4, {1, 3, 1, 1}, 1}, 0},
      {"mean", "{dims: [-1, -2]}", {{4, {1, 3, 5, 6}, 1}}, {2, {1, 3}, 1}, 0},
      {"sum", "{dims: [0]}", {{3, {5, 1, 4}, 2}}, {2, {1, 4}, 1}, 0},
      {"sum", "{dims: 1}", {{2, {12, 4}, 1}}, {1, {12}, 1}, 0},
      {"sum", "{}", {{2, {3, 4}, 0}}, {1, {1}, 0}, 0},
      {"norm", "{dims: [1, 2], p: inf, keepdim: yes}", {{3, {3, 4, 5}, 0}}, {3, {3, 1, 1}, 0}, 0},
      {"max", "{dim: -1}", {{3, {1, 4, 5}, 1}}, {2, {1, 4}, 1}, 0},
      {"var", "{dims: [1]}", {{2, {1, 2}, 1}}, {1, {1}, 1}, 0},
      {"cumsum", "{dim: 1}", {{2, {1, 9}, 1}}, {2, {1, 9}, 1}, 0},
      {"softmax", "{dim: 0}", {{2, {3, 1}, 2}}, {2, {3, 1}, 2}, 0},
      {"sum", "{}", {{2, {1, 4}, 1}}, {0}, "the sum over the batch, dim 0"},
      {"mean", "{dims: [0, 2]}", {{3, {1, 4, 5}, 1}}, {0}, "number of ranks"},
      {"max", "{dim: 1}", {{3, {5, 1, 4}, 2}}, {0}, "the max over the batch, dim 1"},
      {"softmax", "{dim: 0}", {{2, {1, 4}, 1}}, {0}, "a softmax over the batch"},
      {"log_softmax", "{dim: -2}", {{2, {1, 4}, 1}}, {0}, "a softmax over the batch"},
      {"cumsum", "{dim: 0}", {{2, {1, 4}, 1}}, {0}, "the cumulative sum over the batch"},
      {"sum", "{dims: [2]}", {{2, {1, 4}, 1}}, {0}, "dims: 2 is not a dim"},
      {"sum", "{dims: [1, -1]}", {{2, {1, 4}, 1}}, {0}, "dim 1 is listed twice"},
      {"softmax", "{dim: 1.5}", {{2, {1, 4}, 1}}, {0}, "dim: 1.5 is not a dim"},
      {"std", "{dims: [1]}", {{2, {1, 1}, 1}}, {0}, "more values than its correction"},
  };
  CHECK(cases);
}

static void normalisations_have_shapes(void)
{
  static const general_t cases[] = {
      {"layernorm", "{}", {{3, {5, 1, 4}, 2}}, {3, {5, 1, 4}, 2}, 0},
      {"layernorm", "{shape: [5, 4]}", {{3, {1, 5, 4}, 1}}, {3, {1, 5, 4}, 1}, 0},
      {"layernorm",
       "{shape: [5, 4]}",
       {{3, {5, 1, 4}, 2}},
       {0},
       "dim 1 of its input, 5x1x4, is not 5"},
      {"layernorm", "{shape: [1, 4]}", {{3, {5, 1, 4}, 2}}, {0}, "a normalisation over the batch"},
      {"layernorm", "{shape: [3, 4, 5]}", {{2, {1, 4}, 1}}, {0}, "needs 3 dims"},
      {"groupnorm", "{num_groups: 2}", {{3, {12, 4, 9}, 1}}, {3, {12, 4, 9}, 1}, 0},
      {"groupnorm", "{num_groups: 2}", {{3, {4, 1, 9}, 2}}, {0}, "a normalisation over the batch"},
      {"instancenorm", "{}", {{3, {1, 4, 9}, 1}}, {3, {1, 4, 9}, 1}, 0},
      {"instancenorm", "{}", {{3, {1, 64, 27}, 0}}, {3, {1, 64, 27}, 0}, 0},
      {"instancenorm", "{}", {{2, {1, 4}, 1}}, {0}, "more than one value"},
      {"batchnorm", "{}", {{3, {1, 4, 9}, 1}}, {3, {1, 4, 9}, 1}, 0},
      {"dropout", "{}", {{3, {5, 1, 4}, 2}}, {3, {5, 1, 4}, 2}, 0},
      {"dropout", "{}", {{2, {5, 4}, 0}}, {0}, "needs a batch"},
  };
  CHECK(cases);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(products_have_shapes), CT_TEST(reductions_have_shapes),
                                    CT_TEST(normalisations_have_shapes), CT_TEST_END};
  return ct_test_main("model_general", tests, argc, argv);
}
