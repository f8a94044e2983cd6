/* The weights of torch.export's .pt2 files: what PyTorch wrote (golden/make_pth.py) reads as it is;
 * lists with mistakes are refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "tests/harness/ct_test.h"
#include "tests/unit/pth_make.h"
#include "weights/pth/ct_weights_pth.h"

static const ct_weights_ops_t *const pth = &ct_weights_pth;

static const char *in_dir(const char *name)
{
  static char path[CT_PATH_MAX];
  static const char *dir;
  if (!dir) dir = ct_test_dir();
  snprintf(path, sizeof path, "%s/%s", dir, name);
  return path;
}

/* ---- a file of PyTorch ---- */

static int index_of(const ct_weights_t *w, const char *name, ct_tensor_t *t)
{
  for (int i = 0; i < pth->count(w); i++) {
    pth->tensor(w, i, t);
    if (strcmp(t->name, name) == 0) return i;
  }
  CU_FAIL("a tensor is missing");
  return 0;
}

static void a_file_of_pytorch(void)
{
  static const char *const name[] = {
      "conv.weight", "conv.bias", "bn.weight",       "bn.bias",        "head.weight",
      "tied.weight", "turned",    "bn.running_mean", "bn.running_var", "bn.num_batches_tracked",
      "low"};
  char path[CT_PATH_MAX];
  float v[24];
  ct_tensor_t t;
  ct_weights_t *w;
  ct_weights_parts_t parts;
  snprintf(path, sizeof path, "%s/tests/golden/pth/program.pt2", getenv("CT_SRC"));
  if (CT_ASSERT_OK(pth->open(path, "", &w)) != CT_OK) return;
  CT_ASSERT_INT(pth->count(w), sizeof name / sizeof *name);
  for (size_t i = 0; i < sizeof name / sizeof *name; i++)
    (void)index_of(w, name[i], &t);
  int i = index_of(w, "turned", &t); /* arange(24).view(4, 6).t() */
  CT_ASSERT_INT(t.ndim, 2);
  CT_ASSERT_INT(t.dim[0], 6);
  CT_ASSERT_OK(pth->read(w, i, 0, t.count, v));
  for (int k = 0; k < 24; k++)
    CU_ASSERT_EQUAL(v[k], (float)(k % 4 * 6 + k / 4));
  for (int k = 0; k < 2; k++) { /* tied: under both names */
    i = index_of(w, k ? "tied.weight" : "head.weight", &t);
    CT_ASSERT_OK(pth->read(w, i, 0, t.count, v));
    CU_ASSERT_EQUAL(v[5], 5);
  }
  i = index_of(w, "low", &t);
  CT_ASSERT_INT(t.type, CT_ELEM_F16);
  pth->close(w);
  CT_ASSERT_OK(pth->parts(path, &parts));
  CT_ASSERT_INT(parts.all, 0);
  CT_ASSERT_FAILS(pth->open(path, "model", &w), CT_ERR_FORMAT, "has no dict 'model'");
}

static void none_is_written(void)
{
  ct_weights_out_t *out;
  CT_ASSERT_FAILS(pth->create(in_dir("o.pt2"), NULL, 0, NULL, 0, &out), CT_ERR_FORMAT,
                  "torch.export");
}

/* ---- mistakes ---- */

#define ITEM(file, more)    \
  "{\"path_name\": \"" file \
  "\", \"is_param\": true, \"use_pickle\": false, \"tensor_meta\": {" more ", \"layout\": 7}}"
#define META(type, sizes, strides, offset)                                    \
  "\"dtype\": " type ", \"sizes\": [" sizes "], \"strides\": [" strides "], " \
  "\"storage_offset\": " offset
#define N(n)        "{\"as_int\": " n "}"
#define LIST(items) "{\"config\": {" items "}}"
#define GOOD        ITEM("weight_0", META("7", N("2") "," N("3"), N("3") "," N("1"), N("1")))

static const struct {
  const char *list, *text; /* of the message */
} bad[] = {
    {"", "not a list of weights"},
    {"[]", "no object 'config'"},
    {"{\"config\": 1}", "no object 'config'"},
    {LIST("\"w\": " GOOD ", \"w\": " GOOD), "duplicate"},
    {LIST(""), "no weights"},
    {LIST("\"w\": 5"), "only PyTorch has"},
    {LIST("\"w\": " ITEM("weight_0", META("9", "", "", N("0")))), "only PyTorch has"},
    {LIST("\"w\": " ITEM("weight_2", META("7", "", "", N("0")))),
     "'x/data/weights/weight_2' is miss"},
    {LIST("\"w\": " ITEM("", META("7", "", "", N("0")))), "path_name"},
    {LIST("\"w\": " ITEM("weight_0", META("7", N("2"), "", N("0")))), "as many strides"},
    {LIST("\"w\": " ITEM("weight_0", META("7", N("2"), N("1"), "null"))), "numbers of at least 0"},
    {LIST("\"w\": " ITEM("weight_0", META("7", N("-2"), N("1"), N("0")))), "numbers of at least 0"},
    {LIST("\"w\": " ITEM("weight_0", META("7", "{\"as_expr\": \"s0\"}", N("1"), N("0")))),
     "numbers of at least 0"},
    {LIST("\"w\": " ITEM("weight_0", META("7", N("17"), N("1"), N("0")))), "past its storage"},
    {LIST("\"w\": " ITEM("weight_0", META("7", N("2"), N("16"), N("0")))), "past its storage"},
    {LIST("\"w\": " ITEM("weight_0", META("8", N("8"), N("1"), N("1")))), "past its storage"},
    {LIST("\"w\": " ITEM(
         "weight_0", META("7", N("9000000000000000000") "," N("9"), N("1") "," N("1"), N("0")))),
     "too large"},
};

static void lists_that_are_refused(void)
{
  int64_t live = ct_mem_live();
  ct_weights_t *w;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    CU_ASSERT(pt2_make(in_dir("bad.pt2"), bad[i].list, strlen(bad[i].list)));
    CT_ASSERT_FAILS(pth->open(in_dir("bad.pt2"), "", &w), CT_ERR_FORMAT, bad[i].text);
    CT_ASSERT_HAS(ct_err_last()->text, "bad.pt2: ");
    CT_ASSERT_INT(ct_mem_live(), live);
  }
}

/* The same list without a mistake, and with a tensor that is left out. */
static void the_list_without_a_mistake(void)
{
  static const char list[] =
      LIST("\"w\": " GOOD ", \"z\": " ITEM("weight_1", META("11", "", "", N("0"))));
  ct_weights_t *w;
  unsigned char got[24];
  CU_ASSERT(pt2_make(in_dir("good.pt2"), list, strlen(list)));
  if (CT_ASSERT_OK(pth->open(in_dir("good.pt2"), "/", &w)) != CT_OK) return;
  CT_ASSERT_INT(pth->count(w), 1);
  CT_ASSERT_HAS(pth->remark(w), "'z' (of a type that only PyTorch has)");
  CT_ASSERT_OK(pth->read(w, 0, 0, 6, got));
  CT_ASSERT_INT(got[0], 4);
  CT_ASSERT_INT(got[23], 27);
  pth->close(w);
}

/* Other versions of the archive. */
static void other_versions(void)
{
  static const struct {
    pth_record_t r[3];
    const char *text;
  } other[] = {
      {{{"x/archive_format", "pt2", 3}, {"x/archive_version", "1", 1}}, "is '1', expected '0'"},
      {{{"x/archive_format", "pt3", 3}, {"x/archive_version", "0", 1}}, "is 'pt3', expected 'pt2'"},
      {{{"x/archive_format", "pt2", 3}, {"x/byteorder", "big", 3}}, "without record 'archive_ver"},
      {{{"x/archive_format", "pt2", 3}, {"x/archive_version", "0", 1}, {"x/byteorder", "big", 3}},
       "is 'big', expected 'little'"},
      {{{"x/archive_format", "pt2", 3},
        {"x/archive_version", "0", 1},
        {"x/byteorder", "little", 6}},
       "PyTorch 2.9"},
      {{{"x/serialized_exported_program.json", "{}", 2}}, "early version of PyTorch"},
  };
  ct_weights_t *w;
  for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
    int n = 0;
    while (n < 3 && other[i].r[n].name)
      n++;
    CU_ASSERT(pth_zip(in_dir("other.pt2"), other[i].r, n));
    CT_ASSERT_FAILS(pth->open(in_dir("other.pt2"), "", &w), CT_ERR_FORMAT, other[i].text);
  }
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(a_file_of_pytorch),      CT_TEST(none_is_written),
      CT_TEST(lists_that_are_refused), CT_TEST(the_list_without_a_mistake),
      CT_TEST(other_versions),         CT_TEST_END};
  return ct_test_main(".pt2", tests, argc, argv);
}
