/* Element types of weight files, and the checkpoint as one of the formats. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "setup/ct_builtin.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "hdf5io/ct_h5.h"
#include "tests/harness/ct_test.h"
#include "weights/ct_weights.h"

static const char *file_in(const char *dir, const char *name)
{
  static char path[2][600];
  static int turn;
  turn = !turn;
  snprintf(path[turn], sizeof path[0], "%s/%s", dir, name);
  return path[turn];
}

/* ---- elements ---- */

static void halves_are_exact(void)
{
  static const uint16_t bits[] = {0x3c00, 0xc000, 0x7bff, 0x0001, 0x03ff, 0x8001,
                                  0x0400, 0x7c00, 0xfc00, 0x7e00, 0x8000, 0x3555};
  static const float want[] = {1,          -2,        65504,    0x1p-24f,
                               0x3ffp-24f, -0x1p-24f, 0x1p-14f, INFINITY,
                               -INFINITY,  NAN,       -0.0f,    0.333251953125f};
  enum { N = sizeof bits / sizeof *bits };
  float got[N];
  double wide[N];
  ct_elem_floats(CT_ELEM_F16, bits, N, got);
  ct_elem_doubles(CT_ELEM_F16, bits, N, wide);
  for (int i = 0; i < N; i++) {
    CU_ASSERT(isnan(want[i]) ? isnan(got[i]) : got[i] == want[i]);
    CU_ASSERT(isnan(want[i]) ? isnan(wide[i]) : wide[i] == (double)want[i]);
    CT_ASSERT_INT(!signbit(got[i]), !signbit(want[i]));
  }
}

/* Also where they are not aligned. */
static void numbers_of_all_types(void)
{
  char room[64];
  float f[2];
  double d[2];
#define CHECK(elem, type, a, b)                              \
  do {                                                       \
    type v[2] = {(type)(a), (type)(b)};                      \
    memcpy(room + 1, v, sizeof v);                           \
    ct_elem_floats(elem, room + 1, 2, f);                    \
    ct_elem_doubles(elem, room + 1, 2, d);                   \
    CT_ASSERT_INT(ct_elem_bits(elem), 8 * sizeof(type));     \
    CT_ASSERT_INT(ct_elem_has_numbers(elem), 1);             \
    CU_ASSERT(f[0] == (float)v[0] && f[1] == (float)v[1]);   \
    CU_ASSERT(d[0] == (double)v[0] && d[1] == (double)v[1]); \
  } while (0)
  CHECK(CT_ELEM_U8, uint8_t, 0, 255);
  CHECK(CT_ELEM_I8, int8_t, -128, 127);
  CHECK(CT_ELEM_I16, int16_t, -32768, 3);
  CHECK(CT_ELEM_U16, uint16_t, 65535, 3);
  CHECK(CT_ELEM_I32, int32_t, -5, 16777217);
  CHECK(CT_ELEM_U32, uint32_t, 4294967295u, 16777219);
  CHECK(CT_ELEM_I64, int64_t, INT64_MIN, 9007199254740993);
  CHECK(CT_ELEM_U64, uint64_t, UINT64_MAX, 1);
  CHECK(CT_ELEM_F32, float, 1.5f, -3e38f);
  CHECK(CT_ELEM_F64, double, 0.1, 1e300);
#undef CHECK
  ct_elem_floats(CT_ELEM_BOOL, "\0\2", 2, f);
  CU_ASSERT(f[0] == 0 && f[1] == 1);
  ct_elem_floats(CT_ELEM_BF16, "\x80\x3f\x00\xc0", 2, f);
  CU_ASSERT(f[0] == 1 && f[1] == -2);
}

static void types_have_names(void)
{
  ct_dtype_t own;
  for (int t = CT_F32; t <= CT_I64; t++) {
    ct_elem_t e = ct_elem_of_dtype((ct_dtype_t)t);
    CT_ASSERT_INT(ct_elem_dtype(e, &own), 1);
    CT_ASSERT_INT(own, t);
    CT_ASSERT_TEXT(ct_elem_name(e), ct_dtype_name((ct_dtype_t)t));
    CT_ASSERT_INT(ct_elem_bits(e), 8 * ct_dtype_size((ct_dtype_t)t));
  }
  CT_ASSERT_INT(ct_elem_dtype(CT_ELEM_BOOL, &own), 0);
  CT_ASSERT_TEXT(ct_elem_word(CT_ELEM_BF16), "BF16");
  CT_ASSERT_INT(ct_elem_has_numbers(CT_ELEM_F8_E4M3), 0);
}

/* ---- checkpoints ---- */

static const float weights[6] = {1, 2, 3, 4, 5, 6.5f};
static const int64_t counter = 12;

static void write_checkpoint(const char *path)
{
  ct_store_t *s;
  ct_shape_t w = ct_shape(2, 2, 3), scalar = {.dtype = CT_I64};
  CT_ASSERT_OK(ct_store_hdf5.create(path, &s));
  CT_ASSERT_OK(ct_store_hdf5.put(s, "/model/fc.weight", &w, weights));
  CT_ASSERT_OK(ct_store_hdf5.put(s, "/model/bn.num_batches_tracked", &scalar, &counter));
  CT_ASSERT_OK(ct_store_hdf5.put(s, "/optim/exp_avg/fc.weight", &w, weights));
  CT_ASSERT_OK(ct_store_hdf5.put_text(s, "/meta/config", "run: {seed: 1}\n"));
  CT_ASSERT_OK(ct_store_hdf5.commit(s));
}

static void checkpoint_is_a_state_dict(void)
{
  const char *path = file_in(ct_test_dir(), "a.h5");
  ct_weights_file_t f;
  ct_tensor_t t;
  float got[6];
  write_checkpoint(path);
  CT_ASSERT_OK(ct_weights_open(ct_builtin_weights, path, NULL, &f));
  CT_ASSERT_INT(f.ops->count(f.w), 2);
  f.ops->tensor(f.w, 0, &t);
  CT_ASSERT_TEXT(t.name, "fc.weight");
  CT_ASSERT_INT(t.type, CT_ELEM_F32);
  CU_ASSERT(t.ndim == 2 && t.dim[0] == 2 && t.dim[1] == 3 && t.count == 6);
  CT_ASSERT_OK(f.ops->read(f.w, 0, 2, 3, got));
  CT_ASSERT_ARRAY(got, weights + 2, 3, 0);
  f.ops->tensor(f.w, 1, &t);
  CU_ASSERT(t.ndim == 0 && t.count == 1);
  CT_ASSERT_OK(ct_weights_floats(&f, 1, got));
  CU_ASSERT(got[0] == 12);
  CT_ASSERT_OK(ct_weights_floats(&f, 0, got));
  CT_ASSERT_ARRAY(got, weights, 6, 0);
  CT_ASSERT_TEXT(f.ops->text(f.w, "config"), "run: {seed: 1}\n");
  CU_ASSERT_PTR_NULL(f.ops->text(f.w, "versions"));
  CU_ASSERT_PTR_NULL(f.ops->text(f.w, "other"));
  CU_ASSERT_PTR_NULL(f.ops->remark(f.w));
  ct_weights_close(&f);
}

static void key_names_a_group(void)
{
  const char *path = file_in(ct_test_dir(), "a.h5");
  ct_weights_file_t f;
  ct_tensor_t t;
  write_checkpoint(path);
  CT_ASSERT_OK(ct_weights_open(ct_builtin_weights, path, "optim/exp_avg", &f));
  CT_ASSERT_INT(f.ops->count(f.w), 1);
  f.ops->tensor(f.w, 0, &t);
  CT_ASSERT_TEXT(t.name, "fc.weight");
  CT_ASSERT_HAS(f.ops->remark(f.w), "/optim/exp_avg");
  ct_weights_close(&f);
  CT_ASSERT_OK(ct_weights_open(ct_builtin_weights, path, "/", &f));
  CT_ASSERT_INT(f.ops->count(f.w), 3);
  f.ops->tensor(f.w, 2, &t);
  CT_ASSERT_TEXT(t.name, "/optim/exp_avg/fc.weight");
  ct_weights_close(&f);
  CT_ASSERT_FAILS(ct_weights_open(ct_builtin_weights, path, "optim/exp", &f), CT_ERR_FORMAT,
                  "'/optim/exp/'");
  ct_weights_close(&f);
}

/* In one piece and in several. */
static void checkpoint_is_written(void)
{
  const char *path = file_in(ct_test_dir(), "out.h5");
  static const int64_t dim[] = {2, 3};
  const ct_tensor_t list[] = {{"fc.weight", CT_ELEM_F32, 2, dim, 6},
                              {"n", CT_ELEM_I64, 0, NULL, 1}};
  const ct_weights_text_t text[] = {{"config", "model: {}\n"}};
  const ct_weights_ops_t *ops = &ct_weights_hdf5;
  ct_weights_out_t *o;
  ct_store_t *s;
  char *config;
  float got[6];
  ct_shape_t w = ct_shape(2, 2, 3);
  CT_ASSERT_OK(ops->create(path, list, 2, text, 1, &o));
  CT_ASSERT_OK(ops->put(o, 0, 0, 4, weights));
  CT_ASSERT_OK(ops->put(o, 0, 4, 2, weights + 4));
  CT_ASSERT_OK(ops->put(o, 1, 0, 1, &counter));
  CT_ASSERT_OK(ops->commit(o));
  CT_ASSERT_OK(ct_store_hdf5.open(path, &s));
  CT_ASSERT_OK(ct_store_hdf5.get(s, "/model/fc.weight", &w, got));
  CT_ASSERT_ARRAY(got, weights, 6, 0);
  CT_ASSERT_OK(ct_store_hdf5.get_text(s, "/meta/config", &config));
  CT_ASSERT_TEXT(config, "model: {}\n");
  ct_mem_free(config);
  ct_store_hdf5.close(s);
}

static void what_no_checkpoint_holds(void)
{
  const char *path = file_in(ct_test_dir(), "out.h5");
  static const int64_t dim[] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  const ct_tensor_t flag = {"flag", CT_ELEM_BOOL, 0, NULL, 1},
                    deep = {"deep", CT_ELEM_F32, 9, dim, 1};
  ct_weights_out_t *o;
  CT_ASSERT_FAILS(ct_weights_hdf5.create(path, &flag, 1, NULL, 0, &o), CT_ERR_FORMAT,
                  "'flag', bool");
  CT_ASSERT_FAILS(ct_weights_hdf5.create(path, &deep, 1, NULL, 0, &o), CT_ERR_FORMAT,
                  "float32 of 9 dims");
  CT_ASSERT_INT(ct_file_exists(path), 0);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(halves_are_exact),         CT_TEST(numbers_of_all_types),
      CT_TEST(types_have_names),         CT_TEST(checkpoint_is_a_state_dict),
      CT_TEST(key_names_a_group),        CT_TEST(checkpoint_is_written),
      CT_TEST(what_no_checkpoint_holds), CT_TEST_END};
  return ct_test_main("weights", tests, argc, argv);
}
