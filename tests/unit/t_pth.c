/* PyTorch's .pth files: what torch.save() wrote (golden/make_pth.py) reads as it is, also in
 * pieces; what is written reads back, and lies where a map of the file needs it. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "tests/harness/ct_test.h"
#include "weights/pth/ct_weights_pth.h"
#include "weights/pth/ct_zip.h"

static const ct_weights_ops_t *const pth = &ct_weights_pth;
static const ct_weights_ops_t *const formats[] = {&ct_weights_pth, NULL};

static const char *golden(const char *name)
{
  static char path[CT_PATH_MAX];
  snprintf(path, sizeof path, "%s/tests/golden/pth/%s.pth", getenv("CT_SRC"), name);
  return path;
}

static const char *in_dir(const char *name)
{
  static char path[2][CT_PATH_MAX];
  static const char *dir;
  static int next;
  char *buf = path[next++ % 2];
  if (!dir) dir = ct_test_dir();
  snprintf(buf, CT_PATH_MAX, "%s/%s", dir, name);
  return buf;
}

/* Tensor i in pieces of `step` elements, as float32. */
static void take(ct_weights_t *w, int i, int64_t step, float *out)
{
  ct_tensor_t t;
  char piece[8 * 64];
  pth->tensor(w, i, &t);
  for (int64_t first = 0; first < t.count; first += step) {
    int64_t n = t.count - first < step ? t.count - first : step;
    CT_ASSERT_OK(pth->read(w, i, first, n, piece));
    ct_elem_floats(t.type, piece, n, out + first);
  }
}

/* ---- views ---- */

enum { VIEWS = 10 };

typedef struct view {
  const char *name;
  int ndim;
  int64_t dim[4], step[4];
  float first;
} view_t;

/* Of numbers that count: a tensor's element is its first one and what each index adds. */
static const view_t views[VIEWS] = {
    {"table", 2, {4, 6}, {6, 1}, 0},
    {"turned", 2, {6, 4}, {1, 6}, 0},
    {"part", 2, {2, 3}, {6, 1}, 8},
    {"column", 1, {4}, {6}, 4},
    {"expanded", 2, {4, 3}, {6, 0}, 0},
    {"last", 4, {2, 3, 2, 4}, {24, 8, 4, 1}, 0},
    {"moved", 4, {1, 2, 4, 3}, {4, 24, 1, 8}, 4},
    {"scalar", 0, {0}, {0}, 15},
    {"empty", 2, {0, 6}, {6, 1}, 0},
    {"weight", 1, {6}, {1}, 0},
};

static float wanted(const view_t *v, int64_t i)
{
  float sum = v->first;
  for (int d = v->ndim - 1; d >= 0; i /= v->dim[d], d--)
    sum += (float)(i % v->dim[d] * v->step[d]);
  return sum;
}

static void expect_views(ct_weights_t *w, int64_t step)
{
  float got[64];
  CT_ASSERT_INT(pth->count(w), VIEWS);
  for (int i = 0; i < VIEWS && i < pth->count(w); i++) {
    ct_tensor_t t;
    pth->tensor(w, i, &t);
    CT_ASSERT_TEXT(t.name, views[i].name);
    CT_ASSERT_INT(t.type, CT_ELEM_F32);
    CT_ASSERT_INT(t.ndim, views[i].ndim);
    int64_t count = 1;
    for (int d = 0; d < views[i].ndim; count *= views[i].dim[d++])
      CT_ASSERT_INT(t.dim[d], views[i].dim[d]);
    CT_ASSERT_INT(t.count, count);
    take(w, i, step, got);
    for (int64_t k = 0; k < count; k++)
      CT_ASSERT_NEAR(got[k], wanted(&views[i], k), 0);
  }
}

static void views_are_gathered(void)
{
  static const char *const files[] = {"views", "views-old"};
  for (int f = 0; f < 2; f++) {
    int64_t live = ct_mem_live();
    ct_weights_t *w;
    if (CT_ASSERT_OK(pth->open(golden(files[f]), NULL, &w)) != CT_OK) continue;
    for (int64_t step = 1; step < 50; step += step)
      expect_views(w, step);
    CU_ASSERT_PTR_NULL(pth->remark(w));
    CU_ASSERT_PTR_NULL(pth->text(w, "config"));
    pth->close(w);
    CT_ASSERT_INT(ct_mem_live(), live);
  }
}

static void all_types(void)
{
  static const ct_elem_t order[] = {CT_ELEM_F16,     CT_ELEM_BF16, CT_ELEM_F32, CT_ELEM_F64,
                                    CT_ELEM_I8,      CT_ELEM_I16,  CT_ELEM_I32, CT_ELEM_I64,
                                    CT_ELEM_U8,      CT_ELEM_U16,  CT_ELEM_U32, CT_ELEM_U64,
                                    CT_ELEM_F8_E4M3, CT_ELEM_C64,  CT_ELEM_BOOL};
  ct_weights_file_t f;
  if (CT_ASSERT_OK(ct_weights_open(formats, golden("types"), "", &f)) != CT_OK) return;
  CT_ASSERT_INT(pth->count(f.w), sizeof order / sizeof *order);
  for (int i = 0; i < pth->count(f.w); i++) {
    ct_tensor_t t;
    float got[10]; /* complex64: pairs */
    pth->tensor(f.w, i, &t);
    CT_ASSERT_INT(t.type, order[i]);
    CT_ASSERT_TEXT(t.name, ct_elem_name(order[i]));
    if (t.type == CT_ELEM_C64) {
      CT_ASSERT_OK(ct_weights_floats(&f, i, got));
      for (int k = 0; k < 5; k++)
        CT_ASSERT_NEAR(got[2 * k], k, 0);
      continue;
    }
    if (!ct_elem_has_numbers(t.type)) {
      CT_ASSERT_FAILS(ct_weights_floats(&f, i, got), CT_ERR_FORMAT, t.name);
      continue;
    }
    CT_ASSERT_OK(ct_weights_floats(&f, i, got));
    for (int k = 0; k < 5; k++)
      CT_ASSERT_NEAR(got[k], t.type == CT_ELEM_BOOL ? k % 2 : k, 0);
  }
  ct_weights_close(&f);
}

/* ---- dicts in dicts ---- */

static void expect_net(ct_weights_t *w, float more)
{
  static const char *const names[] = {"0.weight",
                                      "0.bias",
                                      "1.weight",
                                      "1.bias",
                                      "1.running_mean",
                                      "1.running_var",
                                      "1.num_batches_tracked"};
  float got[4];
  CT_ASSERT_INT(pth->count(w), 7);
  for (int i = 0; i < 7 && i < pth->count(w); i++) {
    ct_tensor_t t;
    pth->tensor(w, i, &t);
    CT_ASSERT_TEXT(t.name, names[i]);
    take(w, i, 4, got);
    for (int64_t k = 0; k < t.count; k++)
      CT_ASSERT_NEAR(got[k], (float)k + more, 0);
  }
}

static void one_dict_is_meant(void)
{
  static const char *const files[] = {"nested", "nested-old"};
  for (int f = 0; f < 2; f++) {
    ct_weights_t *w;
    if (CT_ASSERT_OK(pth->open(golden(files[f]), "", &w)) != CT_OK) continue;
    CT_ASSERT_TEXT(pth->remark(w), "takes the tensors of 'model'");
    expect_net(w, 0);
    pth->close(w);
    if (CT_ASSERT_OK(pth->open(golden(files[f]), "averages.slow.ema", &w)) != CT_OK) continue;
    expect_net(w, 1);
    pth->close(w);
    CT_ASSERT_FAILS(pth->open(golden(files[f]), "averages", &w), CT_ERR_FORMAT,
                    ".pth: 'averages' is a dict without tensors, expected a dict of tensors");
    CT_ASSERT_FAILS(pth->open(golden(files[f]), "args", &w), CT_ERR_FORMAT,
                    "'args' is argparse.Namespace, expected a dict of tensors");
    CT_ASSERT_FAILS(pth->open(golden(files[f]), "slow", &w), CT_ERR_FORMAT,
                    "key 'slow' not found; dicts with tensors are 'model', 'averages.slow.ema'");
    CT_ASSERT_FAILS(pth->open(golden(files[f]), "/", &w), CT_ERR_FORMAT,
                    "'/' is a dict without tensors, expected a dict of tensors");
    CU_ASSERT_PTR_NULL(w);
  }
}

/* Of a list of parts, by name and number of tensors. */
static int likeliest(const char *text)
{
  ct_weights_parts_t list = {0};
  for (int n; *text; text += n + strspn(text + n, " ")) {
    int rank, tensors;
    CU_ASSERT_EQUAL_FATAL(sscanf(text, "%d:%d%n", &rank, &tensors, &n), 2);
    list.v[list.n++] = (ct_weights_part_t){.rank = (ct_weights_rank_t)rank, .tensors = tensors};
  }
  return ct_weights_likeliest(&list);
}

static void names_go_before_numbers(void)
{
  CT_ASSERT_INT(likeliest(""), -1);
  CT_ASSERT_INT(likeliest("1:1 0:3"), 1); /* a stray tensor in the root */
  CT_ASSERT_INT(likeliest("1:90 0:3 2:3"), 1);
  CT_ASSERT_INT(likeliest("2:90 1:3 3:90"), 1); /* an average, an optimizer */
  CT_ASSERT_INT(likeliest("1:7 1:9 1:8"), 1);
  CT_ASSERT_INT(likeliest("1:9 1:9"), -1);
  CT_ASSERT_INT(likeliest("0:9 0:9 1:100"), -1);
  CT_ASSERT_INT(likeliest("1:5 1:5 1:6"), 2);
}

static void other_objects_are_refused_by_name(void)
{
  static const struct {
    const char *file, *text;
  } cases[] = {
      {"tensor", "is a tensor, expected a dict of tensors"},
      {"object", "is torch.nn.modules.linear.Linear, expected a dict"},
      {"script", "TorchScript archive"},
      {"sparse", "no tensor that can be read: 'w' (is made by torch._utils._rebuild_sparse_"},
      {"complex128", "no tensor that can be read: 'w' (is in a torch.ComplexDoubleStorage)"},
      {"conjugate", "no tensor that can be read: 'w' (is a conjugate or negated view)"},
      {"none", "cannot open: No such file"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int64_t live = ct_mem_live();
    ct_weights_t *w;
    CT_ASSERT_FAILS(pth->open(golden(cases[i].file), NULL, &w), i < 6 ? CT_ERR_FORMAT : CT_ERR_IO,
                    cases[i].text);
    CT_ASSERT_HAS(ct_err_last()->text, golden(cases[i].file));
    CT_ASSERT_INT(ct_mem_live(), live);
  }
}

static void newer_protocols_are_read(void)
{
  ct_weights_t *w;
  float got[3];
  if (CT_ASSERT_OK(pth->open(golden("protocol4"), NULL, &w)) != CT_OK) return;
  CT_ASSERT_INT(pth->count(w), 1);
  take(w, 0, 3, got);
  CT_ASSERT_NEAR(got[1], 1, 0);
  CT_ASSERT_NEAR(got[2], 2, 0);
  pth->close(w);
}

static void kinds_of_pytorch_alone_are_left_out(void)
{
  static const char *const files[] = {"kinds", "kinds-old"};
  for (int i = 0; i < 2; i++) {
    int64_t live = ct_mem_live();
    ct_weights_t *w;
    float got[3];
    if (CT_ASSERT_OK(pth->open(golden(files[i]), NULL, &w)) != CT_OK) continue;
    CT_ASSERT_INT(pth->count(w), 1);
    take(w, 0, 3, got);
    CT_ASSERT_NEAR(got[2], 2, 0);
    CT_ASSERT_TEXT(pth->remark(w),
                   "leaves out tensors that cannot be read: 'wide' (is in a "
                   "torch.ComplexDoubleStorage), 'conjugate' (is a conjugate or negated view), "
                   "'sparse' (is made by torch._utils._rebuild_sparse_tensor), 'half' (is of type "
                   "torch.complex32), 'int8' (is made by torch._utils._rebuild_qtensor)");
    pth->close(w);
    CT_ASSERT_INT(ct_mem_live(), live);
  }
}

static void wide_numbers(void)
{
  ct_weights_t *w;
  float got[3];
  if (CT_ASSERT_OK(pth->open(golden("zip64"), NULL, &w)) != CT_OK) return;
  take(w, 0, 3, got);
  CT_ASSERT_NEAR(got[2], 2, 0);
  pth->close(w);
}

/* ---- written ---- */

/* A copy of the file at `from`, in pieces of `step` elements. */
static void copy(const char *from, const char *to, int64_t step)
{
  static const ct_weights_text_t texts[] = {{"config", "model: {}\n"}, {"versions", "1"}};
  ct_weights_t *w;
  ct_weights_out_t *o;
  ct_tensor_t list[20];
  char piece[8 * 64];
  if (CT_ASSERT_OK(pth->open(from, NULL, &w)) != CT_OK) return;
  int n = pth->count(w);
  for (int i = 0; i < n; i++)
    pth->tensor(w, i, &list[i]);
  CT_ASSERT_OK(pth->create(to, list, n, texts, 2, &o));
  for (int i = 0; i < n; i++)
    for (int64_t first = 0; first < list[i].count; first += step) {
      int64_t k = list[i].count - first < step ? list[i].count - first : step;
      CT_ASSERT_OK(pth->read(w, i, first, k, piece));
      CT_ASSERT_OK(pth->put(o, i, first, k, piece));
    }
  CU_ASSERT(!ct_file_exists(to));
  CT_ASSERT_OK(pth->commit(o));
  pth->close(w);
}

static void what_is_written_reads_back(void)
{
  int64_t live = ct_mem_live();
  ct_weights_t *w;
  copy(golden("views"), in_dir("views.pth"), 5);
  CU_ASSERT(!ct_file_exists(in_dir("views.pth.tmp")));
  CT_ASSERT_OK(pth->open(in_dir("views.pth"), NULL, &w));
  expect_views(w, 7);
  CT_ASSERT_TEXT(pth->text(w, "config"), "model: {}\n");
  CT_ASSERT_TEXT(pth->text(w, "versions"), "1");
  CU_ASSERT_PTR_NULL(pth->text(w, "other"));
  pth->close(w);
  CT_ASSERT_INT(ct_mem_live(), live);
}

/* Types too: a copy of a copy has the same bytes. */
static void the_same_weights_are_the_same_bytes(void)
{
  char *a = NULL, *b = NULL;
  size_t an = 0, bn = 1;
  copy(golden("types"), in_dir("a.pth"), 50);
  copy(in_dir("a.pth"), in_dir("b.pth"), 1);
  CT_ASSERT_OK(ct_file_read(in_dir("a.pth"), &a, &an));
  CT_ASSERT_OK(ct_file_read(in_dir("b.pth"), &b, &bn));
  CU_ASSERT(an == bn && memcmp(a, b, an) == 0);
  ct_mem_free(a);
  ct_mem_free(b);
}

static void contents_lie_at_multiples_of_64(void)
{
  struct stat st;
  ct_zip_t zip;
  copy(golden("types"), in_dir("places.pth"), 50);
  int fd = open(in_dir("places.pth"), O_RDONLY | O_CLOEXEC);
  CT_ASSERT_INT(fstat(fd, &st), 0);
  CT_ASSERT_OK(ct_zip_open(fd, "places.pth", st.st_size, &zip));
  CT_ASSERT_INT(zip.n, 15 + 5);
  CU_ASSERT_PTR_NOT_NULL(ct_zip_find(&zip, "archive/version"));
  for (int64_t i = 0; i < zip.n; i++)
    CT_ASSERT_INT(zip.record[i].at % 64, 0);
  ct_zip_clear(&zip);
  close(fd);
}

/* What is begun and not ended leaves nothing. */
static void nothing_half_written(void)
{
  int64_t live = ct_mem_live(), dim = 4;
  const ct_tensor_t one = {"w", CT_ELEM_F32, 1, &dim, 4}, half = {"h", CT_ELEM_F4, 1, &dim, 4};
  const float x[4] = {0};
  ct_weights_out_t *o;
  CT_ASSERT_OK(pth->create(in_dir("d.pth"), &one, 1, NULL, 0, &o));
  CT_ASSERT_OK(pth->put(o, 0, 0, 2, x));
  CT_ASSERT_FAILS(pth->put(o, 0, 3, 1, x), CT_ERR_ARG, "not put in their order");
  CT_ASSERT_FAILS(pth->put(o, 0, 2, 3, x), CT_ERR_ARG, "more bytes");
  CT_ASSERT_FAILS(pth->commit(o), CT_ERR_ARG, "record 'archive/data/0' is incomplete");
  CT_ASSERT_OK(pth->create(in_dir("d.pth"), &one, 1, NULL, 0, &o));
  CU_ASSERT(ct_file_exists(in_dir("d.pth.tmp")));
  pth->discard(o);
  pth->discard(NULL);
  CU_ASSERT(!ct_file_exists(in_dir("d.pth.tmp")) && !ct_file_exists(in_dir("d.pth")));
  CT_ASSERT_FAILS(pth->create(in_dir("d.pth"), &half, 1, NULL, 0, &o), CT_ERR_FORMAT,
                  "tensor 'h' is of float4_e2m1fn_x2, which a .pth file does not hold");
  CT_ASSERT_FAILS(pth->create(in_dir("no/d.pth"), &one, 1, NULL, 0, &o), CT_ERR_IO,
                  "no/d.pth.tmp: cannot create: No such file");
  CT_ASSERT_INT(ct_mem_live(), live);
}

static void memory_may_fail_anywhere(void)
{
  for (int64_t n = 1; n < 10000; n++) {
    int64_t live = ct_mem_live();
    ct_weights_t *w;
    ct_mem_fail_at(n);
    int rc = pth->open(golden("nested"), NULL, &w);
    ct_mem_fail_at(0);
    if (rc == CT_OK) {
      CU_ASSERT(n > 20);
      pth->close(w);
      return;
    }
    CT_ASSERT_INT(rc, CT_ERR_NOMEM);
    CT_ASSERT_INT(ct_mem_live(), live);
  }
  CU_FAIL("it never came to an end");
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(views_are_gathered),
                                    CT_TEST(all_types),
                                    CT_TEST(one_dict_is_meant),
                                    CT_TEST(names_go_before_numbers),
                                    CT_TEST(other_objects_are_refused_by_name),
                                    CT_TEST(newer_protocols_are_read),
                                    CT_TEST(kinds_of_pytorch_alone_are_left_out),
                                    CT_TEST(wide_numbers),
                                    CT_TEST(what_is_written_reads_back),
                                    CT_TEST(the_same_weights_are_the_same_bytes),
                                    CT_TEST(contents_lie_at_multiples_of_64),
                                    CT_TEST(nothing_half_written),
                                    CT_TEST(memory_may_fail_anywhere),
                                    CT_TEST_END};
  return ct_test_main("pth", tests, argc, argv);
}
