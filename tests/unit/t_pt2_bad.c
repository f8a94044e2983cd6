/* Programs of torch.export with mistakes are refused with a message that says what is wrong; sizes
 * of all forms. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "pt2/ct_pt2.h"
#include "tests/harness/ct_test.h"
#include "tests/unit/pth_make.h"

static const char *in_dir(const char *name)
{
  static char path[CT_PATH_MAX];
  static const char *dir;
  if (!dir) dir = ct_test_dir();
  snprintf(path, sizeof path, "%s/%s", dir, name);
  return path;
}

/* ---- programs as text ---- */

#define INT(n)  "{\"as_int\":" n "}"
#define EXPR(e) "{\"as_expr\":{\"expr_str\":\"" e "\",\"hint\":{\"as_int\":6}}}"
#define N       EXPR("Symbol('s77', positive=True, integer=True)")
/* A value of rank 1 or 2: "x": {...} */
#define VALUE(name, sizes, strides)                                                               \
  "\"" name "\":{\"dtype\":7,\"sizes\":[" sizes "],\"requires_grad\":false,\"strides\":[" strides \
  "],\"storage_offset\":{\"as_int\":0},\"layout\":7}"
#define ROW(name, n)     VALUE(name, n "," INT("4"), INT("4") "," INT("1"))
#define X                ROW("x", N)
#define Y                ROW("y", N)
#define TENSOR(name)     "{\"as_tensor\":{\"name\":\"" name "\"}}"
#define ARG(name, value) "{\"name\":\"" name "\",\"arg\":" value ",\"kind\":1}"
#define NODE(op, args, outs)                                                           \
  "{\"target\":\"" op "\",\"inputs\":[" args "],\"outputs\":[" outs "],\"metadata\":{" \
  "\"nn_module_stack\":\"L['self'],,Net;L['self'].a[0],L['self'].layers[0].fc,nn.Linear\"}}"
#define RELU(from, to) NODE("torch.ops.aten.relu.default", ARG("self", TENSOR(from)), TENSOR(to))
#define IN_X           "{\"user_input\":{\"arg\":" TENSOR("x") "}}"
#define OUT(name)      "{\"user_output\":{\"arg\":" TENSOR(name) "}}"
#define GRAPH(values, ints, nodes)                                                      \
  "{\"inputs\":[],\"outputs\":[],\"nodes\":[" nodes "],\"tensor_values\":{" values "}," \
  "\"sym_int_values\":{" ints "}}"
#define PROGRAM(graph, ins, outs)                                              \
  "{\"schema_version\":{\"major\":8,\"minor\":20},\"torch_version\":\"2.15\"," \
  "\"graph_module\":{\"graph\":" graph ",\"signature\":{\"input_specs\":[" ins \
  "],\"output_specs\":[" outs "]},\"module_call_graph\":[]}}"
#define SIMPLE(values, nodes) PROGRAM(GRAPH(values, "", nodes), IN_X, OUT("y"))

static int open_text(const char *text, ct_pt2_t **g)
{
  CU_ASSERT(pt2_program(in_dir("p.pt2"), text, strlen(text)));
  return ct_pt2_open(in_dir("p.pt2"), g);
}

/* ---- mistakes ---- */

#define DAMAGED CT_ERR_FORMAT
static const struct {
  const char *program;
  int code;
  const char *text;
} bad[] = {
    {"", DAMAGED, "p.pt2: program: not JSON: line 1"},
    {"[]", DAMAGED, "expected a JSON object"},
    {"{\"a\":1,\"a\":2}", DAMAGED, "not JSON"},
    {"{}", DAMAGED, "no number schema_version.major"},
    {"{\"schema_version\":{\"major\":7},\"torch_version\":\"2.6\"}", DAMAGED,
     "program of version 7 (PyTorch 2.6), expected 8: export the model with PyTorch 2.9 or later"},
    {"{\"schema_version\":{\"major\":8}}", DAMAGED, "no graph with tensor_values"},
    {PROGRAM("1", IN_X, OUT("y")), DAMAGED, "no graph with tensor_values"},
    {PROGRAM(GRAPH(X, "", ""), IN_X "," IN_X, OUT("x")), DAMAGED, "'x' is defined twice"},
    {SIMPLE(X "," Y, RELU("x", "y") "," RELU("x", "y")), DAMAGED, "'y' is defined twice"},
    {SIMPLE(X "," Y, RELU("y", "y")), DAMAGED, "'y' is used before it is defined"},
    {SIMPLE(X "," Y "," ROW("z", N), RELU("z", "y") "," RELU("y", "z")), DAMAGED,
     "'z' is used before"},
    {SIMPLE(X, RELU("x", "y")), DAMAGED, "'y' has no entry in tensor_values"},
    {SIMPLE(X, ""), DAMAGED, "'y' is used before"},
    {SIMPLE(X "," Y, RELU("x\\u0007", "y")), DAMAGED, "'?' is used before"},
    {SIMPLE(X "," ROW("y\\u000a", N), RELU("x", "y\\u000a")), DAMAGED, "not printable"},
    {SIMPLE(X "," ROW("y-z", N), RELU("x", "y-z")), DAMAGED, "has letters, digits"},
    {SIMPLE(X "," Y, NODE("a\\u001b[31m", "", TENSOR("y"))), DAMAGED, "the op of each node"},
    {SIMPLE(X "," Y, "7"), DAMAGED, "the op of each node"},
    {SIMPLE(X "," Y, NODE("f", "7", TENSOR("y"))), DAMAGED, "a name and a value of each input"},
    {SIMPLE(X "," Y, NODE("f", ARG("a", "{\"as_int\":1,\"b\":2}"), TENSOR("y"))), DAMAGED,
     "a name and a value"},
    {SIMPLE(X "," Y, NODE("f", ARG("a", "{\"as_int\":\"1\"}"), TENSOR("y"))), DAMAGED,
     "f: argument 'a': expected a whole number"},
    {SIMPLE(X "," Y, NODE("f", ARG("a", "{\"as_ints\":1}"), TENSOR("y"))), DAMAGED, "a list"},
    {SIMPLE(X "," Y, NODE("f", ARG("a", "{\"as_bool\":1}"), TENSOR("y"))), DAMAGED, "true or"},
    {SIMPLE(X "," Y, NODE("f", ARG("a", "{\"as_float\":\"inf\"}"), TENSOR("y"))), DAMAGED,
     "a number"},
    {SIMPLE(X "," Y, NODE("f", ARG("a", "{\"as_string\":\"\\u0001\"}"), TENSOR("y"))), DAMAGED,
     "printable text"},
    {SIMPLE(X "," Y, NODE("f", ARG("a", "{\"as_sym_int\":{\"as_name\":\"q\"}}"), TENSOR("y"))),
     DAMAGED, "a whole number that the program describes"},
    {SIMPLE(X "," Y, NODE("torch.ops.aten.relu.default", "", TENSOR("y"))), DAMAGED,
     "aten.relu.default in module 'layers.0.fc': argument 'self' is missing"},
    {SIMPLE(X "," Y, NODE("torch.ops.aten.relu.default",
                          ARG("self", TENSOR("x")) "," ARG("q", TENSOR("x")), TENSOR("y"))),
     CT_ERR_UNSUP, "has an argument 'q' that is unknown"},
    {SIMPLE(X "," Y, NODE("torch.ops.aten.relu_.default", ARG("self", INT("1")), TENSOR("y"))),
     CT_ERR_UNSUP, "changes something else than one tensor"},
    {SIMPLE(X "," Y,
            NODE("torch.ops.aten.squeeze_.default", ARG("self", TENSOR("x")), TENSOR("y"))),
     CT_ERR_UNSUP, "changes the shape of a tensor in place"},
    {SIMPLE(X "," VALUE("y", INT("-1"), INT("1")), RELU("x", "y")), DAMAGED, "a negative size"},
    {SIMPLE(X "," VALUE("y", INT("9000000000000000000") "," INT("9"), INT("1") "," INT("1")),
            RELU("x", "y")),
     DAMAGED, "its elements are too many"},
    {SIMPLE(X "," VALUE("y", INT("4"), ""), RELU("x", "y")), DAMAGED, "as many strides"},
    {SIMPLE(X "," VALUE("y", "7", INT("1")), RELU("x", "y")), DAMAGED, "a whole number or an"},
    {SIMPLE(X "," ROW("y", EXPR("Symbol('s78')")), RELU("x", "y")), CT_ERR_UNSUP,
     "aten.relu.default in module 'layers.0.fc': the size of 'y' in dim 0 is neither a number nor"},
    {PROGRAM(GRAPH(ROW("x", N) "," Y, "", RELU("x", "y")), IN_X,
             "{\"loss_output\":{\"arg\":{\"name\":\"y\"}}}"),
     CT_ERR_UNSUP, "an output of kind 'loss_output'"},
    {PROGRAM(GRAPH(X, "", ""), "{\"token\":{\"arg\":{\"name\":\"x\"}}}", OUT("x")), CT_ERR_UNSUP,
     "an input of kind 'token'"},
    {PROGRAM(GRAPH(X, "", ""), "{\"user_input\":{\"arg\":{\"as_sym_int\":{\"as_name\":\"x\"}}}}",
             OUT("x")),
     CT_ERR_UNSUP, "an input of the model is not a tensor"},
    {PROGRAM(GRAPH(X, "", ""), IN_X,
             "{\"buffer_mutation\":{\"arg\":{\"name\":\"x\"},\"buffer_name\":\"b\"}}"),
     DAMAGED, "changes a tensor that does not exist"},
    {PROGRAM(GRAPH(VALUE("w", INT("15"), INT("1")), "", ""),
             "{\"parameter\":{\"arg\":{\"name\":\"w\"},\"parameter_name\":\"w\"}}", OUT("w")),
     DAMAGED, "tensor 'w' has another shape or type than in the program"},
    {PROGRAM(GRAPH(VALUE("a", INT("16"), INT("1")) "," VALUE("b", INT("16"), INT("1")), "", ""),
             "{\"parameter\":{\"arg\":{\"name\":\"a\"},\"parameter_name\":\"w\"}},"
             "{\"parameter\":{\"arg\":{\"name\":\"b\"},\"parameter_name\":\"w\"}}",
             OUT("a")),
     DAMAGED, "the parameter 'w' is there twice"},
};

static void programs_with_mistakes(void)
{
  int64_t live = ct_mem_live();
  ct_pt2_t *g;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    CT_ASSERT_FAILS(open_text(bad[i].program, &g), bad[i].code, bad[i].text);
    CT_ASSERT_HAS(ct_err_last()->text, "p.pt2: ");
    CU_ASSERT_PTR_NULL(g);
    CT_ASSERT_INT(ct_mem_live(), live);
  }
}

/* The same program without a mistake; dead nodes need not be representable. */
static void a_program_without_mistakes(void)
{
  static const char text[] =
      SIMPLE(X "," Y "," ROW("z", EXPR("Symbol('s78')")), RELU("x", "y") "," RELU("x", "z"));
  ct_pt2_t *g;
  if (CT_ASSERT_OK(open_text(text, &g)) != CT_OK) return;
  CT_ASSERT_INT(g->nodes, 2);
  CT_ASSERT_INT(g->node[0].live, 1);
  CT_ASSERT_INT(g->node[1].live, 0);
  CT_ASSERT_TEXT(g->node[0].module, "layers.0.fc");
  CT_ASSERT_TEXT(g->node[0].type, "nn.Linear");
  CT_ASSERT_TEXT(g->output[0].name, "0"); /* the file does not say how outputs are called */
  ct_pt2_close(g);
}

/* ---- archives ---- */

static void other_archives(void)
{
  static const char config[] = "{\"config\":{}}";
  static const pth_record_t head[] = {{"x/archive_format", "pt2", 3},
                                      {"x/archive_version", "0", 1},
                                      {"x/byteorder", "little", 6},
                                      {"x/data/weights/model_weights_config.json", config, 13},
                                      {"x/data/constants/model_constants_config.json", config, 13},
                                      {"x/models/a.json", "{}", 2},
                                      {"x/models/b.json", "{}", 2}};
  static const struct {
    int n;
    const char *text;
  } cases[] = {{4, "without record 'data/constants/model_constants_config.json': save it with"},
               {5, "has no program 'models/model.json': save it by torch.export.save()"},
               {7, "has several programs, 'x/models/a.json' and 'x/models/b.json'"}};
  const pth_record_t old[] = {{"x/serialized_exported_program.json", "{}", 2}};
  const pth_record_t weights[] = {{"x/data.pkl", "\x80\x02}.", 4}};
  ct_pt2_t *g;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    CU_ASSERT(pth_zip(in_dir("a.pt2"), head, cases[i].n));
    CT_ASSERT_FAILS(ct_pt2_open(in_dir("a.pt2"), &g), CT_ERR_FORMAT, cases[i].text);
  }
  CU_ASSERT(pth_zip(in_dir("a.pt2"), old, 1));
  CT_ASSERT_FAILS(ct_pt2_open(in_dir("a.pt2"), &g), CT_ERR_FORMAT, "early version of PyTorch");
  CU_ASSERT(pth_zip(in_dir("a.pt2"), weights, 1));
  CT_ASSERT_FAILS(ct_pt2_open(in_dir("a.pt2"), &g), CT_ERR_FORMAT, "weights without a program");
  CT_ASSERT_FAILS(ct_pt2_open(in_dir("none.pt2"), &g), CT_ERR_IO, "none.pt2");
}

/* ---- sizes ---- */

/* Opens a program whose input is N x 4, and whose output has the size `e`. */
static int size_of(const char *e, ct_pt2_dim_t *out)
{
  char text[8000];
  ct_pt2_t *g;
  snprintf(
      text, sizeof text,
      SIMPLE(X "," VALUE("y", "{\"as_expr\":{\"expr_str\":\"%s\"}}", INT("1")), RELU("x", "y")), e);
  int rc = open_text(text, &g);
  if (rc != CT_OK) return rc;
  *out = g->value[1].dim[0];
  ct_pt2_close(g);
  return CT_OK;
}

static void sizes(void)
{
  static const struct {
    const char *text;
    int64_t n;
    int batch; /* -1: neither n nor n * N */
  } cases[] = {
      {"Symbol('s77', positive=True, integer=True)", 1, 1},
      {"s77", 1, 1},
      {"Integer(5)", 5, 0},
      {"Mul(Integer(12), Symbol('s77', positive=True, integer=True))", 12, 1},
      {"Mul(Integer(3), Mul(Symbol('s77'), Integer(2)))", 6, 1},
      {"Mul(Integer(2), Integer(3), Symbol('s77'))", 6, 1},
      {"Add(Symbol('s77'), Symbol('s77'))", 2, 1},
      {"Add(Mul(Integer(3), Symbol('s77')), Mul(Integer(-1), Symbol('s77')))", 2, 1},
      {"FloorDiv(Mul(Integer(8), Symbol('s77')), Integer(4))", 2, 1},
      {"Add(Integer(7), Mul(Integer(0), Symbol('s77')))", 7, 0},
      {"FloorDiv(Integer(7), Integer(2))", 3, 0},
      {"Mod(Mul(Integer(4), Symbol('s77')), Integer(2))", 0, 0},
      {"Max(Integer(1), Integer(3))", 3, 0},
      {"Add(Symbol('s77'), Integer(1))", 0, -1},
      {"Mul(Symbol('s77'), Symbol('s77'))", 0, -1},
      {"Mul(Integer(2), Symbol('s78'))", 0, -1},
      {"FloorDiv(Symbol('s77'), Integer(2))", 0, -1},
      {"FloorDiv(Integer(1), Integer(0))", 0, -1},
      {"Max(Integer(1), Symbol('s77'))", 0, -1},
      {"Pow(Symbol('s77'), Integer(2))", 0, -1},
      {"Mul(Integer(9223372036854775807), Mul(Integer(2), Symbol('s77')))", 0, -1},
      {"Integer(99999999999999999999)", 0, -1},
      {"Mul(Integer(2), Symbol('s77')", 0, -1},
      {"Symbol('s77", 0, -1},
      {"Symbol(", 0, -1},
      {"Mul()", 0, -1},
      {"", 0, -1},
      {"1.5", 0, -1},
      {"-", 0, -1},
      {"s77 s77", 0, -1},
      {"Mul(Integer(-2), Symbol('s77'))", 0, -1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ct_pt2_dim_t d = {0};
    if (cases[i].batch < 0) {
      CT_ASSERT_FAILS(size_of(cases[i].text, &d), CT_ERR_UNSUP, "the size of 'y' in dim 0");
      continue;
    }
    CT_ASSERT_OK(size_of(cases[i].text, &d));
    CT_ASSERT_INT(d.n, cases[i].n);
    CT_ASSERT_INT(d.batch, cases[i].batch);
  }
}

/* Expressions and subgraphs that are nested deeply. */
static void deep_programs(void)
{
  ct_pt2_dim_t d;
  ct_str_t text = {0};
  for (int i = 0; i < 200; i++)
    CT_ASSERT_OK(ct_str_add(&text, "Mul(Integer(1), "));
  CT_ASSERT_OK(ct_str_add(&text, "Symbol('s77')"));
  for (int i = 0; i < 200; i++)
    CT_ASSERT_OK(ct_str_add(&text, ")"));
  CT_ASSERT_FAILS(size_of(text.data, &d), CT_ERR_UNSUP, "the size of 'y'");
  ct_str_clear(&text);
}

/* no_grad() in no_grad() ...: `depth` subgraphs around relu. */
static int nested(int depth, const char *flag)
{
  static const char head[] =
      "{\"target\":\"torch.ops.higher_order.wrap_with_set_grad_enabled\",\"inputs\":["
      "{\"name\":\"\",\"arg\":{\"as_bool\":%s},\"kind\":1},"
      "{\"name\":\"\",\"arg\":{\"as_graph\":{\"name\":\"g\",\"graph\":{"
      "\"inputs\":[" TENSOR("x") "],\"outputs\":[" TENSOR(
          "y") "],\"tensor_values\":{" X "," Y "},\"sym_int_values\":{},\"nodes\":[";
  static const char tail[] =
      "]}}},\"kind\":1}," ARG("", TENSOR("x")) "],\"outputs\":[" TENSOR("y") "],\"metadata\":{}}";
  ct_str_t text = {0};
  ct_pt2_t *g = NULL;
  int rc = ct_str_add(&text, "%s", RELU("x", "y"));
  for (int i = 0; i < depth && rc == CT_OK; i++) {
    ct_str_t more = {0};
    rc = ct_str_add(&more, head, i % 2 ? flag : "false");
    if (rc == CT_OK) rc = ct_str_add(&more, "%s%s", text.data, tail);
    ct_str_clear(&text);
    text = more;
  }
  ct_str_t program = {0};
  if (rc == CT_OK) rc = ct_str_add(&program, SIMPLE(X "," Y, "%s"), text.data);
  if (rc == CT_OK) rc = open_text(program.data, &g);
  if (rc == CT_OK) CT_ASSERT_INT(g->nodes, depth + 1);
  if (rc == CT_OK) CT_ASSERT_TEXT(g->node[0].op, "aten.relu.default");
  ct_pt2_close(g);
  ct_str_clear(&text);
  ct_str_clear(&program);
  return rc;
}

static void nested_subgraphs(void)
{
  CT_ASSERT_OK(nested(1, "false"));
  CT_ASSERT_OK(nested(8, "false"));
  CT_ASSERT_FAILS(nested(9, "false"), CT_ERR_UNSUP, "nested too deeply");
  CT_ASSERT_OK(nested(2, "true")); /* no_grad() in enable_grad() */
  CT_ASSERT_FAILS(nested(3, "true"), CT_ERR_UNSUP, "enable_grad() in no_grad()");
}

/* Constants that would be too large. */
static void large_constants(void)
{
  static const char text[] =
      PROGRAM(GRAPH(X "," VALUE("y", INT("100000000"), INT("1")), "",
                    NODE("torch.ops.aten.ones.default", ARG("size", "{\"as_ints\":[100000000]}"),
                         TENSOR("y"))),
              IN_X, OUT("y"));
  static const char many[] = PROGRAM(
      GRAPH(X "," VALUE("a", INT("40000000"), INT("1")) "," VALUE("y", INT("40000000"), INT("1")),
            "",
            NODE("torch.ops.aten.ones.default", ARG("size", "{\"as_ints\":[40000000]}"),
                 TENSOR("a")) "," NODE("torch.ops.aten.relu.default", ARG("self", TENSOR("a")),
                                       TENSOR("y"))),
      IN_X, OUT("y"));
  ct_pt2_t *g;
  if (CT_ASSERT_OK(open_text(text, &g)) == CT_OK) CT_ASSERT_INT(g->value[1].kind, CT_PT2_NODE);
  ct_pt2_close(g);
  CT_ASSERT_FAILS(open_text(many, &g), CT_ERR_UNSUP, "have more than 67108864 elements in all");
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(programs_with_mistakes), CT_TEST(a_program_without_mistakes),
      CT_TEST(other_archives),         CT_TEST(sizes),
      CT_TEST(deep_programs),          CT_TEST(nested_subgraphs),
      CT_TEST(large_constants),        CT_TEST_END};
  return ct_test_main("program with mistakes", tests, argc, argv);
}
