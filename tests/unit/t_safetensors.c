/* safetensors: the reference's files are read and written to the byte, and what it refuses is
 * refused. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "tests/harness/ct_test.h"
#include "weights/safetensors/ct_weights_safetensors.h"

static const ct_weights_ops_t *const ops = &ct_weights_safetensors;
static const ct_weights_ops_t *const formats[] = {&ct_weights_safetensors, NULL};

static const char *file_in(const char *dir, const char *name)
{
  static char path[2][600];
  static int turn;
  turn = !turn;
  snprintf(path[turn], sizeof path[0], "%s/%s", dir, name);
  return path[turn];
}

static const char *golden(const char *name)
{
  static char dir[500];
  snprintf(dir, sizeof dir, "%s/tests/golden", getenv("CT_SRC") ? getenv("CT_SRC") : ".");
  return file_in(dir, name);
}

/* A file of a header and some bytes. */
static const char *write_file(const char *dir, const char *header, int64_t length, size_t data)
{
  static const char zeros[64];
  const char *path = file_in(dir, "x.safetensors");

  uint64_t n = length < 0 ? strlen(header) : (uint64_t)length;
  FILE *f = fopen(path, "wb");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  fwrite(&n, sizeof n, 1, f);
  fwrite(header, strlen(header), 1, f);
  fwrite(zeros, 1, data, f);
  fclose(f);

  return path;
}

static int find(const ct_weights_file_t *f, const char *name)
{
  ct_tensor_t t;
  for (int i = 0; i < f->ops->count(f->w); i++) {
    f->ops->tensor(f->w, i, &t);
    if (strcmp(t.name, name) == 0) return i;
  }
  return -1;
}

/* ---- the reference's files ---- */

static void all_types_are_read(void)
{
  static const char *const words[] = {"float64", "float32", "float16", "bfloat16", "int64",
                                      "int32",   "int16",   "int8",    "uint64",   "uint32",
                                      "uint16",  "uint8",   "bool"};
  ct_weights_file_t f;
  CT_ASSERT_OK(ct_weights_open(formats, golden("types.safetensors"), "", &f));
  CT_ASSERT_INT(f.ops->count(f.w), 20);
  for (int i = 0; i < 13; i++) {
    char name[40];
    float got[32];
    ct_tensor_t t;
    snprintf(name, sizeof name, "types.%s", words[i]);
    int k = find(&f, name);
    CU_ASSERT_FATAL(k >= 0);
    f.ops->tensor(f.w, k, &t);
    CT_ASSERT_TEXT(ct_elem_name(t.type), words[i]);
    CT_ASSERT_INT(t.count, 3 + i);
    CT_ASSERT_OK(ct_weights_floats(&f, k, got));
    for (int j = 0; j < t.count; j++) {
      double want = i < 4 ? j / 2.0 - 1 : i == 12 ? j % 3 == 0 : j;
      CU_ASSERT(got[j] == (float)want);
    }
  }
  ct_weights_close(&f);
}

static void rare_types_are_refused_by_name(void)
{
  float got[8];
  ct_weights_file_t f;
  CT_ASSERT_OK(ct_weights_open(formats, golden("types.safetensors"), NULL, &f));
  CT_ASSERT_FAILS(ct_weights_floats(&f, find(&f, "types.float8_e5m2"), got), CT_ERR_FORMAT,
                  "'types.float8_e5m2' is of type float8_e5m2");
  ct_weights_close(&f);
}

static void complex_numbers_are_pairs(void)
{
  static const float pairs[4] = {1, 0, 1, 0};
  float got[4];
  ct_weights_file_t f;
  CT_ASSERT_OK(ct_weights_open(formats, golden("types.safetensors"), NULL, &f));
  CT_ASSERT_OK(ct_weights_floats(&f, find(&f, "types.complex64"), got));
  CT_ASSERT_ARRAY(got, pairs, 4, 0);
  ct_weights_close(&f);
}

static void dropped_names_are_back(void)
{
  float a[6], b[6];
  ct_weights_file_t f;
  CT_ASSERT_OK(ct_weights_open(formats, golden("tied.safetensors"), NULL, &f));
  CT_ASSERT_INT(f.ops->count(f.w), 2);
  CT_ASSERT_OK(ct_weights_floats(&f, find(&f, "embed.weight"), a));
  CT_ASSERT_OK(ct_weights_floats(&f, find(&f, "head.weight"), b));
  CT_ASSERT_ARRAY(b, a, 6, 0);
  CU_ASSERT(a[5] == 5);
  CT_ASSERT_HAS(f.ops->remark(f.w), "1 name of tensors with two names");
  ct_weights_close(&f);
}

/* Reads all of a file and writes it anew. */
static int copy(const char *from, const char *to, int64_t step)
{
  int rc = CT_OK, n;
  ct_weights_t *w = NULL;
  ct_weights_out_t *o = NULL;
  ct_tensor_t list[64];
  char piece[1024];
  CT_TRY(ops->open(from, NULL, &w));
  n = ops->count(w);
  for (int i = 0; i < n; i++)
    ops->tensor(w, n - 1 - i, &list[i]); /* backwards: the writer sorts */
  CT_TRY(ops->create(to, list, n, NULL, 0, &o));
  for (int i = 0; i < n; i++)
    for (int64_t k = 0; k < list[i].count; k += step) {
      int64_t m = list[i].count - k < step ? list[i].count - k : step;
      CT_TRY(ops->read(w, n - 1 - i, k, m, piece));
      CT_TRY(ops->put(o, i, k, m, piece));
    }
  rc = ops->commit(o);
  o = NULL;
out:
  ops->discard(o);
  ops->close(w);
  return rc;
}

static void bytes_are_the_references(void)
{
  for (int64_t step = 3; step <= 100; step += 97) {
    char *a, *b, to[600];
    size_t n, m;
    snprintf(to, sizeof to, "%s/copy.safetensors", ct_test_dir());
    CT_ASSERT_OK(copy(golden("types.safetensors"), to, step));
    CT_ASSERT_OK(ct_file_read(golden("types.safetensors"), &a, &n));
    CT_ASSERT_OK(ct_file_read(to, &b, &m));
    CT_ASSERT_INT(n, m);
    CU_ASSERT(n == m && memcmp(a, b, n) == 0);
    ct_mem_free(a);
    ct_mem_free(b);
  }
}

/* ---- what is accepted, and what not ---- */

#define F32(begin, end) "{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[" #begin "," #end "]}"

static void odd_headers_are_accepted(void)
{
  static const struct {
    const char *header;
    int data, count;
  } good[] = {
      {"{}", 0, 0},
      {" \n{\"a\":" F32(0, 4) "}  ", 4, 1},
      {"{\"b\":" F32(4, 8) ",\"a\":" F32(0, 4) "}", 8, 2},
      {"{\"a\":[\"F32\",[1],[0,4]]}", 4, 1},
      {"{\"__metadata__\":null,\"\":" F32(0, 4) "}", 4, 1},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4],\"more\":[{}]}}", 4, 1},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[0,9],\"data_offsets\":[0,0]},\"b\":" F32(0, 4) "}", 4,
       2},
      {"{\"a\":{\"dtype\":\"F4\",\"shape\":[2],\"data_offsets\":[0,1]}}", 1, 1},
      {"{\"a\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[0,1]},\"b\":" F32(1, 5) "}", 5, 2},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[0,9000000000000000000,9],\"data_offsets\":[0,0]}}", 0,
       1},
  };
  const char *dir = ct_test_dir();
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    ct_weights_t *w;
    const char *path = write_file(dir, good[i].header, -1, (size_t)good[i].data);
    if (ct_test_ok(ops->open(path, NULL, &w), good[i].header, __FILE__, __LINE__)) continue;
    CT_ASSERT_INT(ops->count(w), good[i].count);
    ops->close(w);
  }
}

static void bad_headers_are_refused(void)
{
  static const struct {
    const char *header;
    int64_t length; /* -1: as it is */
    int data;
    const char *word;
  } bad[] = {
      {"", -1, 0, "JSON"},
      {"{}", 100000001, 0, "a header of 100000001 bytes"},
      {"{}", 3, 0, "within its header"},
      {"{\"a\":" F32(0, 4) "}", -1, 3, "4 bytes of data, but it has 3"},
      {"{\"a\":" F32(0, 4) "}", -1, 5, "4 bytes of data, but it has 5"},
      {"{} x", -1, 0, "JSON"},
      {"[]", -1, 0, "expected an object"},
      {"\xef\xbb\xbf{}", -1, 0, "JSON"},
      {"{\"a\xff\":1}", -1, 0, "JSON"},
      {"{\"a\":1}", -1, 0, "'a' has no dtype"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", -1, 0, "'a' has no data_offsets"},
      {"{\"a\":{\"dtype\":\"C128\",\"shape\":[1],\"data_offsets\":[0,16]}}", -1, 16, "'C128'"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", -1, 4,
       "the shape of 'a'"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", -1, 4, "integers"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4e0]}}", -1, 4, "integers"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,2,4]}}", -1, 4, "3 numbers"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", -1, 4, "need 8 bytes"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", -1, 4,
       "occupies bytes 4 to 0"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[9000000000000000000,9,0],\"data_offsets\":[0,0]}}", -1,
       0, "is too large"},
      {"{\"a\":{\"dtype\":\"F64\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}", -1, 0,
       "is too large"},
      {"{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}", -1, 1, "whole bytes"},
      {"{\"a\":" F32(0, 4) ",\"b\":" F32(8, 12) "}", -1, 12, "expected 4"},
      {"{\"a\":" F32(0, 4) ",\"b\":" F32(2, 6) "}", -1, 6, "expected 4"},
      {"{\"a\":" F32(4, 8) "}", -1, 8, "expected 0"},
      {"{\"a\":" F32(0, 4) ",\"a\":" F32(4, 8) "}", -1, 8, "duplicate"},
      {"{\"__metadata__\":{\"x\":1}}", -1, 0, "'x' in __metadata__"},
      {"{\"__metadata__\":7}", -1, 0, "__metadata__ is not an object"},
      {"{\"a\\u0000b\":" F32(0, 4) "}", -1, 4, "JSON"},
  };
  const char *dir = ct_test_dir();
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    ct_weights_t *w;
    const char *path = write_file(dir, bad[i].header, bad[i].length, (size_t)bad[i].data);
    ct_test_fails(ops->open(path, NULL, &w), CT_ERR_FORMAT, bad[i].word, bad[i].header, __FILE__,
                  __LINE__);
    CT_ASSERT_HAS(ct_err_last()->text, "x.safetensors");
    CU_ASSERT_PTR_NULL(w);
  }
}

static void bombs_are_measured_first(void)
{
  const char *dir = ct_test_dir();
  ct_weights_t *w;
  ct_str_t deep = {0}, wide = {0};
  for (int i = 0; i < 128; i++)
    ct_str_add(&deep, "[");
  ct_str_add(&wide, "{\"a\":[0");
  for (int i = 0; i < 4000000; i++)
    ct_str_add(&wide, ",0");
  CT_ASSERT_FAILS(ops->open(write_file(dir, deep.data, -1, 0), NULL, &w), CT_ERR_FORMAT,
                  "too deep");
  CT_ASSERT_FAILS(ops->open(write_file(dir, wide.data, -1, 0), NULL, &w), CT_ERR_FORMAT,
                  "too many values");
  ct_str_clear(&deep);
  ct_str_clear(&wide);
  CT_ASSERT_FAILS(ops->open(golden("types.safetensors"), "model", &w), CT_ERR_FORMAT, "'model'");
}

static void messages_have_no_commands(void)
{
  ct_weights_t *w;
  const char *path = write_file(ct_test_dir(), "{\"\\u001b[2Ja\":1}", -1, 0);
  CT_ASSERT_FAILS(ops->open(path, NULL, &w), CT_ERR_FORMAT, "' [2Ja' has no dtype");
}

/* ---- writing ---- */

static void texts_come_back(void)
{
  const char *path = file_in(ct_test_dir(), "t.safetensors");
  const ct_weights_text_t text[] = {{"config", "run: {name: \"\xc3\xa9\"}\n"}, {"versions", ""}};
  ct_weights_out_t *o;
  ct_weights_t *w;
  CT_ASSERT_OK(ops->create(path, NULL, 0, text, 2, &o));
  CT_ASSERT_OK(ops->commit(o));
  CT_ASSERT_OK(ops->open(path, NULL, &w));
  CT_ASSERT_INT(ops->count(w), 0);
  CT_ASSERT_TEXT(ops->text(w, "config"), text[0].text);
  CT_ASSERT_TEXT(ops->text(w, "versions"), "");
  CU_ASSERT_PTR_NULL(ops->text(w, "other"));
  ops->close(w);
}

static void names_that_cannot_be(void)
{
  const char *path = file_in(ct_test_dir(), "t.safetensors");
  ct_tensor_t t[] = {{"a", CT_ELEM_F32, 0, NULL, 1}, {"a", CT_ELEM_I8, 0, NULL, 1}};
  ct_weights_out_t *o;
  CT_ASSERT_FAILS(ops->create(path, t, 2, NULL, 0, &o), CT_ERR_FORMAT,
                  "two tensors have the name 'a'");
  t[0].name = "__metadata__";
  CT_ASSERT_FAILS(ops->create(path, t, 1, NULL, 0, &o), CT_ERR_FORMAT, "'__metadata__'");
  t[0].name = "\xff";
  CT_ASSERT_FAILS(ops->create(path, t, 1, NULL, 0, &o), CT_ERR_FORMAT, "cannot contain a tensor");
  t[0].name = "x";
  t[0].type = CT_ELEM_F4;
  CT_ASSERT_FAILS(ops->create(path, t, 1, NULL, 0, &o), CT_ERR_FORMAT, "cannot be written");
  CT_ASSERT_OK(ops->create(path, t + 1, 1, NULL, 0, &o));
  ops->discard(o);
  CT_ASSERT_INT(ct_file_exists(path), 0);
  CT_ASSERT_FAILS(ops->create("/nowhere/t.safetensors", t + 1, 1, NULL, 0, &o), CT_ERR_IO,
                  "/nowhere/t.safetensors.tmp");
}

/* ---- sets ---- */

/* One float of a name in a file. */
static void write_one(const char *path, const char *name, float value)
{
  const ct_tensor_t t = {name, CT_ELEM_F32, 0, NULL, 1};
  ct_weights_out_t *o;
  CT_ASSERT_OK(ops->create(path, &t, 1, NULL, 0, &o));
  CT_ASSERT_OK(ops->put(o, 0, 0, 1, &value));
  CT_ASSERT_OK(ops->commit(o));
}

static const char *write_index(const char *dir, const char *text)
{
  const char *path = file_in(dir, "m.safetensors.index.json");
  CT_ASSERT_OK(ct_file_write(path, text, strlen(text)));
  return path;
}

static void sets_are_one(void)
{
  const char *dir = ct_test_dir();
  ct_weights_file_t f;
  float a = 0, b = 0;
  write_one(file_in(dir, "m-1.safetensors"), "a", 1);
  write_one(file_in(dir, "m-2.safetensors"), "b", 2);
  const char *path = write_index(dir, "{\"metadata\":{\"total_size\":\"?\"},\"weight_map\":"
                                      "{\"b\":\"m-2.safetensors\",\"a\":\"m-1.safetensors\"}}");
  CT_ASSERT_OK(ct_weights_open(formats, path, NULL, &f));
  CT_ASSERT_INT(f.ops->count(f.w), 2);
  CT_ASSERT_OK(ct_weights_floats(&f, find(&f, "a"), &a));
  CT_ASSERT_OK(ct_weights_floats(&f, find(&f, "b"), &b));
  CU_ASSERT(a == 1 && b == 2);
  CT_ASSERT_TEXT(f.ops->remark(f.w), "is a set of 2 files");
  ct_weights_close(&f);
}

static void sets_that_do_not_fit(void)
{
  static const struct {
    const char *index, *word;
    int code;
  } bad[] = {
      {"{}", "expected an object weight_map", CT_ERR_FORMAT},
      {"{\"weight_map\":{}}", "is empty", CT_ERR_FORMAT},
      {"{\"weight_map\":{\"a\":\"../m-1.safetensors\"}}", "expected a plain name", CT_ERR_FORMAT},
      {"{\"weight_map\":{\"a\":1}}", "expected a plain name", CT_ERR_FORMAT},
      {"{\"weight_map\":{\"a\":\"m-9.safetensors\"}}", "m-9.safetensors", CT_ERR_IO},
      {"{\"weight_map\":{\"a\":\"m-1.safetensors\",\"c\":\"m-1.safetensors\"}}",
       "'c' is not in 'm-1.safetensors'", CT_ERR_FORMAT},
      {"{\"weight_map\":{\"c\":\"m-1.safetensors\"}}", "the index does not list it", CT_ERR_FORMAT},
      {"{\"weight_map\":{\"a\":\"m-2.safetensors\",\"b\":\"m-1.safetensors\"}}",
       "the index names another file", CT_ERR_FORMAT},
  };
  const char *dir = ct_test_dir();
  write_one(file_in(dir, "m-1.safetensors"), "a", 1);
  write_one(file_in(dir, "m-2.safetensors"), "b", 2);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    ct_weights_t *w;
    ct_test_fails(ops->open(write_index(dir, bad[i].index), NULL, &w), bad[i].code, bad[i].word,
                  bad[i].index, __FILE__, __LINE__);
  }
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(all_types_are_read),        CT_TEST(rare_types_are_refused_by_name),
      CT_TEST(complex_numbers_are_pairs), CT_TEST(dropped_names_are_back),
      CT_TEST(bytes_are_the_references),  CT_TEST(odd_headers_are_accepted),
      CT_TEST(bad_headers_are_refused),   CT_TEST(bombs_are_measured_first),
      CT_TEST(messages_have_no_commands), CT_TEST(texts_come_back),
      CT_TEST(names_that_cannot_be),      CT_TEST(sets_are_one),
      CT_TEST(sets_that_do_not_fit),      CT_TEST_END};
  return ct_test_main("safetensors", tests, argc, argv);
}
