/* Programs of torch.export: files that PyTorch wrote (golden/make_pt2.py) are read and simplified;
 * constants that the reader computes are those of PyTorch. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "pt2/ct_pt2.h"
#include "tests/harness/ct_test.h"

static const char *golden(const char *name)
{
  static char path[CT_PATH_MAX];
  snprintf(path, sizeof path, "%s/tests/golden/pt2/%s.pt2", getenv("CT_SRC"), name);
  return path;
}

static ct_pt2_t *opened(const char *name)
{
  ct_pt2_t *g;
  CT_ASSERT_OK(ct_pt2_open(golden(name), &g));
  return g;
}

/* The value of a name in the program or the state dict. */
static const ct_pt2_value_t *value_of(const ct_pt2_t *g, const char *name)
{
  static const ct_pt2_value_t none = {.name = "?", .state = "?"};
  for (int i = 0; i < g->values; i++)
    if (strcmp(g->value[i].name, name) == 0 ||
        (g->value[i].state && strcmp(g->value[i].state, name) == 0))
      return &g->value[i];
  printf("# no value '%s'\n", name);
  CU_FAIL("a value is missing");
  return &none;
}

static int index_of(const ct_pt2_t *g, const char *name)
{
  const ct_pt2_value_t *v = value_of(g, name);
  return *v->name == '?' ? 0 : (int)(v - g->value);
}

/* The node that makes a value. */
static const ct_pt2_node_t *maker(const ct_pt2_t *g, const char *name)
{
  static const ct_pt2_node_t none = {.op = "?", .module = "?", .type = "?"};
  int node = value_of(g, name)->node;
  CU_ASSERT(node >= 0);
  return node >= 0 ? &g->node[node] : &none;
}

static const char *shape_of(const ct_pt2_t *g, const char *name)
{
  static char text[200];
  return ct_pt2_shape(value_of(g, name), text, sizeof text);
}

/* The ops of the live nodes, without "aten.": "linear.default relu.default". */
static const char *live_ops(const ct_pt2_t *g)
{
  static char text[4000];
  size_t used = 0;
  text[0] = '\0';
  for (int i = 0; i < g->nodes; i++)
    if (g->node[i].live) {
      const char *op = g->node[i].op;
      used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used ? " " : "",
                               strncmp(op, "aten.", 5) == 0 ? op + 5 : op);
    }
  return text;
}

/* The name of the first tensor of an argument. */
static const char *tensor_name(const ct_pt2_t *g, const char *made, const char *arg)
{
  const ct_pt2_arg_t *a = ct_pt2_arg(maker(g, made), arg);
  return a && a->tensor && a->tensor[0] >= 0 ? g->value[a->tensor[0]].name : "none";
}

/* ---- what is read ---- */

static void the_signature(void)
{
  static const char *const states[] = {"frozen",         "tok.weight",   "head.weight",
                                       "block.0.weight", "block.0.bias", "pe",
                                       "steps",          "ids"};
  ct_pt2_t *g = opened("graph");
  if (!g) return;
  CT_ASSERT_INT(g->inputs, 2);
  CT_ASSERT_TEXT(g->value[g->input[0]].name, "ids");
  CT_ASSERT_INT(g->value[g->input[0]].type, CT_ELEM_I64);
  CT_ASSERT_TEXT(shape_of(g, "ids"), "5"); /* the buffer: its name in the state dict is first */
  CT_ASSERT_TEXT(g->value[g->input[1]].name, "x");
  CT_ASSERT_TEXT(shape_of(g, "x"), "N x 6");
  CT_ASSERT_INT(g->states, 8);
  for (int i = 0; i < g->states && i < 8; i++)
    CT_ASSERT_TEXT(g->value[g->state[i]].state, states[i]);
  CT_ASSERT_INT(value_of(g, "frozen")->trained, 0);
  CT_ASSERT_INT(value_of(g, "head.weight")->trained, 1);
  CT_ASSERT_INT(value_of(g, "head.weight")->tied, index_of(g, "tok.weight"));
  CT_ASSERT_INT(value_of(g, "block.0.weight")->tied, index_of(g, "block.0.weight"));
  CT_ASSERT_INT(value_of(g, "pe")->persistent, 1);
  CT_ASSERT_INT(value_of(g, "b_ids")->persistent, 0);
  CT_ASSERT_INT(value_of(g, "scale")->kind, CT_PT2_CONSTANT);
  CT_ASSERT_INT(value_of(g, "steps")->becomes, index_of(g, "add_"));
  CT_ASSERT_INT(value_of(g, "pe")->becomes, -1);
  CT_ASSERT_INT(g->dynamic, 1);
  CT_ASSERT_INT(g->batch, 2);
  CT_ASSERT_HAS(g->torch, "2.");
  ct_pt2_close(g);
}

static void the_outputs(void)
{
  static const char *const names[] = {"logits", "aux.0", "aux.1", "none", "three"};
  ct_pt2_t *g = opened("graph");
  if (!g) return;
  CT_ASSERT_INT(g->outputs, 5);
  for (int i = 0; i < 5 && i < g->outputs; i++)
    CT_ASSERT_TEXT(g->output[i].name, names[i]);
  CT_ASSERT_INT(g->output[0].value, index_of(g, "linear_2"));
  CT_ASSERT_INT(g->output[3].value, -1);
  CT_ASSERT_INT(g->output[4].value, -1);
  ct_pt2_close(g);
  g = opened("fixed");
  if (!g) return;
  CT_ASSERT_TEXT(g->output[0].name, "");
  CT_ASSERT_INT(g->dynamic, 0);
  CT_ASSERT_INT(g->batch, 0);
  CT_ASSERT_TEXT(shape_of(g, "input"), "3 x 4");
  ct_pt2_close(g);
}

/* no_grad, shared modules, modules' paths, shapes with a multiple of N. */
static void the_nodes(void)
{
  ct_pt2_t *g = opened("graph");
  if (!g) return;
  CT_ASSERT_TEXT(live_ops(g),
                 "mul.Tensor mean.dim detach.default embedding.default embedding.default "
                 "add.Tensor mul.Tensor add.Tensor linear.default gelu.default linear.default "
                 "gelu.default mul.Tensor add.Tensor dropout.default reshape.default softmax.int "
                 "view.default linear.default sum.default");
  CT_ASSERT_TEXT(maker(g, "linear_1")->module, "block.0");
  CT_ASSERT_TEXT(maker(g, "linear_1")->type, "torch.nn.modules.linear.Linear");
  CT_ASSERT_TEXT(maker(g, "add")->module, "");
  CT_ASSERT_TEXT(tensor_name(g, "linear_1", "weight"), tensor_name(g, "linear", "weight"));
  CT_ASSERT_TEXT(shape_of(g, "reshape"), "3N x 2");
  CT_ASSERT_TEXT(tensor_name(g, "mul_1", "self"), "b_pe"); /* a slice that is everything is gone */
  CT_ASSERT_INT(value_of(g, "slice_1")->uses, 0);
  CT_ASSERT_INT(value_of(g, "view")->uses, 2);
  CT_ASSERT_INT(value_of(g, "linear_2")->on,
                CT_PT2_ON_INPUT | CT_PT2_ON_PARAMETER | CT_PT2_ON_BUFFER);
  CT_ASSERT_INT(value_of(g, "view")->on, CT_PT2_ON_INPUT);
  CT_ASSERT_INT(maker(g, "add_")->live, 0);
  ct_pt2_close(g);
}

/* T x N x D, and N multiplied with the heads. */
static void the_batch_in_any_dim(void)
{
  ct_pt2_t *g = opened("attention");
  int n, tnd = 0, heads = 0;
  const ct_pt2_dim_t *dims;
  char text[200];
  if (!g) return;
  for (int i = 0; i < g->values; i++) {
    ct_pt2_shape(&g->value[i], text, sizeof text);
    tnd += strcmp(text, "5 x N x 6") == 0;
    heads += strcmp(text, "5 x 3N x 2") == 0;
  }
  CU_ASSERT(tnd > 0);
  CU_ASSERT(heads > 0);
  CT_ASSERT_OK(ct_pt2_dims(g, maker(g, "view"), "size", &n, &dims));
  CT_ASSERT_INT(n, 3);
  CT_ASSERT_INT(n == 3 ? dims[1].n : 0, 3);
  CT_ASSERT_INT(n == 3 ? dims[1].batch : 0, 1);
  CT_ASSERT_TEXT(maker(g, "view")->module, "layers.0");
  ct_pt2_close(g);
}

/* ---- arguments ---- */

static void the_arguments(void)
{
  int64_t n[2], correction;
  double x;
  int yes, count, t;
  const int *list;
  const char *text;
  ct_pt2_t *g = opened("arguments");
  if (!g) return;
  CT_ASSERT_OK(ct_pt2_ints(g, maker(g, "conv2d"), "padding", 2, n));
  CT_ASSERT_INT(n[0] * 10 + n[1], 10);
  CT_ASSERT_OK(ct_pt2_ints(g, maker(g, "conv2d"), "dilation", 2, n)); /* left out: 1 */
  CT_ASSERT_INT(n[0] * 10 + n[1], 11);
  CT_ASSERT_OK(ct_pt2_bool(g, maker(g, "max_pool2d"), "ceil_mode", &yes));
  CT_ASSERT_INT(yes, 1);
  CT_ASSERT_INT(ct_pt2_arg(maker(g, "max_pool2d"), "stride")->n, 0);
  CT_ASSERT_INT(ct_pt2_arg(maker(g, "upsample_nearest2d"), "scale_factors")->kind, CT_PT2_FLOATS);
  CU_ASSERT_EQUAL(ct_pt2_arg(maker(g, "upsample_nearest2d"), "scale_factors")->number[1], 3.0);
  CT_ASSERT_INT(ct_pt2_is_none(maker(g, "upsample_nearest2d"), "output_size"), 1);
  CT_ASSERT_OK(ct_pt2_number(g, maker(g, "masked_fill"), "value", &x));
  CU_ASSERT(isinf(x) && x < 0);
  CT_ASSERT_OK(ct_pt2_number(g, maker(g, "where"), "self", &x));
  CU_ASSERT(isnan(x));
  CT_ASSERT_OK(ct_pt2_number(g, maker(g, "eq"), "other", &x)); /* a whole number */
  CU_ASSERT_EQUAL(x, 0);
  CT_ASSERT_INT(ct_pt2_is_none(maker(g, "clamp"), "max"), 1);
  CT_ASSERT_INT(ct_pt2_arg(maker(g, "to"), "dtype")->dim[0].n, CT_ELEM_F64);
  CT_ASSERT_INT(ct_pt2_arg(maker(g, "to_1"), "memory_format")->kind, CT_PT2_FORMAT);
  CT_ASSERT_OK(ct_pt2_tensors(g, maker(g, "cat"), "tensors", &count, &list));
  CT_ASSERT_INT(count, 3);
  CT_ASSERT_INT(list ? list[0] : -1, index_of(g, "getitem"));
  CT_ASSERT_OK(ct_pt2_tensors(g, maker(g, "index"), "indices", &count, &list));
  CT_ASSERT_INT(list ? list[0] : 0, -1);
  CT_ASSERT_INT(list ? list[1] : -1, index_of(g, "c_lifted_tensor_0"));
  CT_ASSERT_OK(ct_pt2_int(g, maker(g, "std"), "correction", &correction));
  CT_ASSERT_INT(correction, 0);
  CT_ASSERT_INT(ct_pt2_arg(maker(g, "div"), "other")->dim[0].batch, 1);
  CT_ASSERT_INT(maker(g, "getitem_1")->outs, 2);
  CT_ASSERT_INT(maker(g, "getitem_1")->out[1], index_of(g, "getitem_1"));
  CT_ASSERT_OK(ct_pt2_tensor(g, maker(g, "conv2d"), "bias", 1, &t));
  CT_ASSERT_INT(t, index_of(g, "conv.bias"));
  CT_ASSERT_INT(ct_pt2_is(maker(g, "conv2d"), "aten.conv2d"), 1);
  CT_ASSERT_INT(ct_pt2_is(maker(g, "conv2d"), "aten.conv"), 0);
  ct_pt2_close(g);
  g = opened("graph");
  if (!g) return;
  CT_ASSERT_OK(ct_pt2_text(g, maker(g, "gelu"), "approximate", &text));
  CT_ASSERT_TEXT(text, "tanh");
  CT_ASSERT_OK(ct_pt2_tensor(g, maker(g, "linear_2"), "bias", 1, &t));
  CT_ASSERT_INT(t, -1);
  ct_pt2_close(g);
}

/* Errors name the file, the op, the module and the argument. */
static void arguments_of_other_kinds(void)
{
  int64_t n[3];
  double x;
  int t, count;
  const int *list;
  const char *text;
  const ct_pt2_dim_t *dims;
  ct_pt2_t *g = opened("arguments");
  if (!g) return;
  const ct_pt2_node_t *conv = maker(g, "conv2d"), *div = maker(g, "div");
  CT_ASSERT_FAILS(ct_pt2_int(g, conv, "input", n), CT_ERR_UNSUP,
                  "arguments.pt2: aten.conv2d.default in module 'conv': argument 'input': expected "
                  "a whole number");
  CT_ASSERT_FAILS(ct_pt2_int(g, conv, "size", n), CT_ERR_UNSUP, "has no argument 'size'");
  CT_ASSERT_FAILS(ct_pt2_ints(g, conv, "stride", 3, n), CT_ERR_UNSUP, "expected 3 whole numbers");
  CT_ASSERT_FAILS(ct_pt2_tensor(g, conv, "stride", 1, &t), CT_ERR_UNSUP, "expected a tensor");
  CT_ASSERT_FAILS(ct_pt2_tensor(g, maker(g, "clamp"), "max", 0, &t), CT_ERR_UNSUP, "a tensor");
  CT_ASSERT_FAILS(ct_pt2_tensors(g, conv, "input", &count, &list), CT_ERR_UNSUP, "a list of tens");
  CT_ASSERT_FAILS(ct_pt2_bool(g, conv, "input", &t), CT_ERR_UNSUP, "true or false");
  CT_ASSERT_FAILS(ct_pt2_text(g, conv, "input", &text), CT_ERR_UNSUP, "a text");
  CT_ASSERT_FAILS(ct_pt2_dims(g, conv, "input", &count, &dims), CT_ERR_UNSUP, "multiples of the");
  CT_ASSERT_FAILS(ct_pt2_number(g, div, "other", &x), CT_ERR_UNSUP,
                  "aten.div.Tensor in the model's forward(): argument 'other': expected a number "
                  "that does not depend on the batch size");
  ct_pt2_close(g);
}

/* ---- ops that change values ---- */

static void changes_of_data(void)
{
  ct_pt2_t *g = opened("changes");
  if (!g) return;
  CT_ASSERT_TEXT(live_ops(g),
                 "linear.default relu.default add.Tensor view.default transpose.int select.int "
                 "mul.Tensor select_scatter.default permute.default view.default slice.Tensor "
                 "add.Tensor slice_scatter.default expand.default slice_scatter.default mul.Tensor "
                 "view.default transpose.int");
  CT_ASSERT_TEXT(tensor_name(g, "relu_", "self"), "linear");
  CT_ASSERT_TEXT(tensor_name(g, "add", "self"), "relu_"); /* linear is changed, too */
  CT_ASSERT_TEXT(tensor_name(g, "add", "other"), "relu_");
  CT_ASSERT_TEXT(maker(g, tensor_name(g, "mul", "self"))->op, "aten.slice_scatter.default");
  CT_ASSERT_TEXT(g->node[g->value[g->output[1].value].node].op, "aten.transpose.int");
  ct_pt2_close(g);
}

static void random_numbers(void)
{
  double p;
  ct_pt2_t *g = opened("random");
  if (!g) return;
  CT_ASSERT_TEXT(live_ops(g), "bernoulli.p div.Tensor mul.Tensor randn_like.default add.Tensor");
  CT_ASSERT_OK(ct_pt2_number(g, maker(g, "bernoulli_"), "p", &p));
  CU_ASSERT_EQUAL(p, 0.75);
  CT_ASSERT_TEXT(shape_of(g, "bernoulli_"), "N x 1");
  CT_ASSERT_INT(value_of(g, "div_")->on, CT_PT2_ON_RANDOM);
  CT_ASSERT_INT(value_of(g, "randn_like")->on, CT_PT2_ON_RANDOM); /* x: for its shape alone */
  CT_ASSERT_INT(value_of(g, "x")->uses, 1);
  ct_pt2_close(g);
}

static void casts(void)
{
  ct_pt2_t *g = opened("cast");
  if (!g) return;
  CT_ASSERT_INT(g->autocast, 1);
  CT_ASSERT_TEXT(live_ops(g), "linear.default to.dtype");
  CT_ASSERT_TEXT(maker(g, "g1.linear")->module, "fc");
  ct_pt2_close(g);
}

/* ---- constants ---- */

/* The constant that an output is, perhaps expanded; -1: it is none. */
static int constant_of(const ct_pt2_t *g, int v)
{
  if (g->value[v].kind == CT_PT2_NODE && ct_pt2_is(&g->node[g->value[v].node], "aten.expand"))
    v = ct_pt2_arg(&g->node[g->value[v].node], "self")->tensor[0];
  return g->value[v].kind == CT_PT2_FOLDED ? v : -1;
}

enum { MOST = 400 /* elements of a constant */ };

/* How far numbers are apart, in units of 1e-6 and of their size. */
static double distance(double a, double b)
{
  if (a == b || (isnan(a) && isnan(b))) return 0;
  double d = fabs(a - b) / (1 + fabs(b)) / 1e-6;
  return isnan(d) ? INFINITY : d;
}

static int equals_buffer(const ct_pt2_t *g, const ct_pt2_output_t *o)
{
  char want[100];
  double a[MOST], b[MOST];
  snprintf(want, sizeof want, "want_%s", o->name);
  int c = constant_of(g, o->value), w = index_of(g, want);
  const ct_pt2_value_t *x = &g->value[c < 0 ? 0 : c], *y = &g->value[w];
  int64_t n = ct_pt2_count(y);
  if (c < 0 || x->type != y->type || x->ndim != y->ndim || n > MOST || ct_pt2_count(x) != n)
    return 0;
  for (int i = 0; i < x->ndim; i++)
    if (x->dim[i].n != y->dim[i].n) return 0;
  if (ct_pt2_doubles(g, c, a) != CT_OK || ct_pt2_doubles(g, w, b) != CT_OK) return 0;
  for (int64_t i = 0; i < n; i++)
    if (distance(a[i], b[i]) > 1) {
      printf("# %s[%d]: %g, expected %g\n", o->name, (int)i, a[i], b[i]);
      return 0;
    }
  return 1;
}

static void constants_of(const char *file)
{
  ct_pt2_t *g = opened(file);
  if (!g) return;
  for (int i = 1; i < g->outputs; i++) {
    int good = equals_buffer(g, &g->output[i]);
    if (!good) printf("# %s: constant '%s' is not PyTorch's\n", file, g->output[i].name);
    CU_ASSERT(good);
  }
  CT_ASSERT_TEXT(live_ops(g), "mul.Tensor");
  ct_pt2_close(g);
}

static void constants_of_pytorch(void)
{
  static const char *const files[] = {
      "fold_whole",       "fold_types",  "fold_real",    "fold_real_lists", "fold_moved",
      "fold_moved_parts", "fold_chosen", "fold_changed", "fold_masks",      "fold_swin"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    constants_of(files[i]);
}

/* Constants whose shape has N have size 1 there; a view of a buffer stays a node. */
static void constants_of_a_batch(void)
{
  float f[3];
  ct_pt2_t *g = opened("fold_batch");
  if (!g) return;
  for (int i = 1; i < 9; i++) {
    int good = equals_buffer(g, &g->output[i]);
    if (!good) printf("# constant '%s' is not PyTorch's\n", g->output[i].name);
    CU_ASSERT(good);
  }
  CT_ASSERT_TEXT(shape_of(g, "cat"), "N x 3");
  CT_ASSERT_TEXT(shape_of(g, "index"), "N x 1 x 2"); /* each sample chooses its own element */
  CT_ASSERT_INT(maker(g, "arange_2")->live, 0);
  CT_ASSERT_TEXT(shape_of(g, "ones_1"), "4N x 2");
  CT_ASSERT_TEXT(maker(g, "slice_2")->op, "aten.slice.Tensor");
  CT_ASSERT_TEXT(tensor_name(g, "slice_2", "self"), "b_pe");
  CT_ASSERT_TEXT(maker(g, "sum_1")->op, "aten.sum.default"); /* over the batch: not known */
  CT_ASSERT_OK(ct_pt2_floats(g, constant_of(g, g->output[1].value), f));
  CU_ASSERT_EQUAL(f[2], 1.0F);
  CT_ASSERT_HAS(g->value[constant_of(g, g->output[1].value)].state, "folded.");
  ct_pt2_close(g);
}

static void numbers_of_tensors(void)
{
  float f[20];
  double d[20];
  ct_pt2_t *g = opened("graph");
  if (!g) return;
  CT_ASSERT_INT(ct_pt2_count(value_of(g, "pe")), 20);
  CT_ASSERT_INT(ct_pt2_count(value_of(g, "x")), -1);
  CT_ASSERT_OK(ct_pt2_floats(g, index_of(g, "pe"), f));
  CU_ASSERT_EQUAL(f[7], 7.0F);
  CT_ASSERT_OK(ct_pt2_doubles(g, index_of(g, "b_ids"), d));
  CU_ASSERT_EQUAL(d[4], 4.0);
  CT_ASSERT_OK(ct_pt2_floats(g, index_of(g, "scale"), f));
  CU_ASSERT_EQUAL(f[3], 4.0F);
  ct_pt2_close(g);
}

/* ---- programs that are refused ---- */

static void refused_programs(void)
{
  static const char *const bad[][2] = {
      {"two", "input 'input' has dims that vary independently of each other (N x ? x 4, dim 1)"},
      {"memory", "uses 'reshape', which may share memory"},
      {"parameter", "aten.clamp_.default in the model's forward(): changes the parameter 'w'"},
      {"position", "aten.arange.default in the model's forward(): makes numbers that depend on"},
      {"plus", "aten.slice.Tensor in the model's forward(): the size of 'slice_1' in dim 0"},
  };
  int64_t live = ct_mem_live();
  ct_pt2_t *g;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    CT_ASSERT_FAILS(ct_pt2_open(golden(bad[i][0]), &g), CT_ERR_UNSUP, bad[i][1]);
    CT_ASSERT_HAS(ct_err_last()->text, ".pt2: ");
    CU_ASSERT_PTR_NULL(g);
    CT_ASSERT_INT(ct_mem_live(), live);
  }
}

/* Each allocation fails once. */
static void memory_that_fails(void)
{
  static const char *const files[] = {"graph", "changes", "fold_batch"};
  int64_t live = ct_mem_live();
  for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
    int rc = CT_ERR_NOMEM, n = 0;
    ct_pt2_t *g = NULL;
    while (rc != CT_OK && ++n < 2000) {
      ct_mem_fail_at(n);
      rc = ct_pt2_open(golden(files[k]), &g);
      CU_ASSERT(rc == CT_OK || rc == CT_ERR_NOMEM);
      if (rc != CT_OK) CT_ASSERT_INT(ct_mem_live(), live);
    }
    ct_mem_fail_at(0);
    CU_ASSERT(n > 20 && rc == CT_OK);
    ct_pt2_close(g);
    CT_ASSERT_INT(ct_mem_live(), live);
  }
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(the_signature),
                                    CT_TEST(the_outputs),
                                    CT_TEST(the_nodes),
                                    CT_TEST(the_batch_in_any_dim),
                                    CT_TEST(the_arguments),
                                    CT_TEST(arguments_of_other_kinds),
                                    CT_TEST(changes_of_data),
                                    CT_TEST(random_numbers),
                                    CT_TEST(casts),
                                    CT_TEST(constants_of_pytorch),
                                    CT_TEST(constants_of_a_batch),
                                    CT_TEST(numbers_of_tensors),
                                    CT_TEST(refused_programs),
                                    CT_TEST(memory_that_fails),
                                    CT_TEST_END};
  return ct_test_main("program of torch.export", tests, argc, argv);
}
