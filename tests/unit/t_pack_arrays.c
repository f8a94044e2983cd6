/* What `pack` reads of NumPy and CIFAR: orders of bytes and elements, types, labels, refusals. */
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "pack/ct_pack_in.h"
#include "tests/harness/ct_test.h"

static const ct_shape_t as_it_is;

/* An npy file in the test's directory; static storage for four names. */
static const char *npy(const char *descr, const char *fortran, const char *shape, const void *data,
                       size_t bytes)
{
  static char path[4][600];
  static int n;
  char *p = path[n & 3], file[1024] = "\x93NUMPY\1\0", *head = file + 10;
  int len =
      sprintf(head, "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }", descr, fortran, shape);
  memset(head + len, ' ', (size_t)(117 - len));
  head[117] = '\n';
  file[8] = 118;
  memcpy(head + 118, data, bytes);
  snprintf(p, sizeof path[0], "%s/%d.npy", ct_test_dir(), n++ & 3);
  CT_ASSERT_OK(ct_file_write(p, file, 128 + bytes));
  return p;
}

static const char *labels(int n)
{
  char shape[32];
  uint8_t y[8] = {2, 0, 1};
  snprintf(shape, sizeof shape, "(%d,)", n);
  return npy("|u1", "False", shape, y, (size_t)n);
}

static void big_endian_in_fortrans_order(void)
{
  /* x[n][h][w] = 100 n + 10 h + w, the first dim's elements side by side */
  const uint8_t x[] = {0, 0, 0, 100, 0, 10, 0, 110, 0, 1, 0, 101, 0, 11, 0, 111};
  const int16_t want[2][4] = {{0, 1, 10, 11}, {100, 101, 110, 111}};
  ct_pack_source_t in;
  int16_t got[4];
  ct_pack_sample_t to = {.x = got};
  if (CT_ASSERT_OK(ct_pack_open_npy(npy(">i2", "True", "(2, 2, 2)", x, sizeof x), labels(2),
                                    &as_it_is, &in)) != CT_OK)
    return;
  CT_ASSERT_INT(in.samples, 2);
  CT_ASSERT_INT(in.classes, 3);
  CT_ASSERT_INT(in.x.dtype, CT_I16);
  CT_ASSERT_INT(in.x.ndim, 4);
  for (int i = 1; i >= 0; i--) {
    CT_ASSERT_OK(in.read(in.state, i, &to));
    CT_ASSERT_INT(memcmp(got, want[i], sizeof got), 0);
  }
  CT_ASSERT_INT(in.label(in.state, 0), 2);
  in.close(in.state);
}

static void channels_last_are_put_first(void)
{
  const uint8_t x[] = {1, 2, 3, 4, 5, 6};
  ct_pack_source_t in;
  uint8_t got[6];
  ct_pack_sample_t to = {.x = got};
  if (CT_ASSERT_OK(ct_pack_open_npy(npy("|u1", "False", "(1, 2, 1, 3)", x, 6), labels(1), &as_it_is,
                                    &in)) != CT_OK)
    return;
  CT_ASSERT_OK(in.read(in.state, 0, &to));
  CT_ASSERT_INT(memcmp(got, (uint8_t[]){1, 4, 2, 5, 3, 6}, 6), 0);
  CT_ASSERT_INT(in.x.dim[1], 3);
  in.close(in.state);
}

static void floats_are_targets(void)
{
  const double y[] = {0.5, -2, 1, 3};
  const uint64_t x[] = {5, UINT64_C(1) << 63};
  ct_pack_source_t in;
  int64_t got;
  float target[2];
  ct_pack_sample_t to = {.x = &got, .targets = target};
  if (CT_ASSERT_OK(ct_pack_open_npy(npy("<u8", "False", "(2, 1)", x, sizeof x),
                                    npy("<f8", "False", "(2, 2)", y, sizeof y), &as_it_is, &in)) !=
      CT_OK)
    return;
  CT_ASSERT_INT(in.targets, 2);
  CT_ASSERT_OK(in.read(in.state, 0, &to));
  CT_ASSERT_INT(got, 5);
  CT_ASSERT_NEAR(target[1], -2, 0);
  CT_ASSERT_FAILS(in.read(in.state, 1, &to), CT_ERR_DATA, "does not fit into int64");
  in.close(in.state);
}

static void refused(void)
{
  static const struct {
    const char *descr, *shape, *words;
    size_t bytes;
  } bad[] = {{"<c8", "(1,)", "holds elements of type '<c8'", 8},
             {"|O", "(1,)", "holds elements of type '|O'", 8},
             {"<i4", "(3,)", "its header says 3 elements of int32, but there are 8 bytes", 8},
             {"<i4", "()", "has 0 dims, expected 1 to 8", 4},
             {"<i4", "(0, 2)", "contains no samples", 0},
             {"<i4", "(4294967296, 4294967296)", "its header says", 8},
             {"<i4", "(-1,)", "the header is not one that NumPy writes", 4}};
  const char data[8] = {0};
  ct_pack_source_t in;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    CT_ASSERT_FAILS(ct_pack_open_npy(npy(bad[i].descr, "False", bad[i].shape, data, bad[i].bytes),
                                     labels(1), &as_it_is, &in),
                    CT_ERR_FORMAT, bad[i].words);
  const char *x = npy("|u1", "False", "(2, 1)", data, 2);
  CT_ASSERT_FAILS(ct_pack_open_npy(x, labels(3), &as_it_is, &in), CT_ERR_FORMAT,
                  "has 2 samples, but");
  CT_ASSERT_FAILS(ct_pack_open_npy(x, npy("|i1", "False", "(2,)", "\1\377", 2), &as_it_is, &in),
                  CT_ERR_FORMAT, "-1 is not a class number");
}

static void cifar_records(void)
{
  static char file[2 * 3074] = {3, 70};
  char path[600];
  uint8_t got[3072];
  ct_pack_source_t in;
  ct_pack_sample_t to = {.x = got};
  snprintf(path, sizeof path, "%s/test.bin", ct_test_dir());
  file[3074] = 19;
  file[3075] = 99;
  file[3076] = 42;
  CT_ASSERT_OK(ct_file_write(path, file, sizeof file));
  for (int coarse = 0; coarse < 2; coarse++) {
    if (CT_ASSERT_OK(ct_pack_open_cifar(path, coarse, &in)) != CT_OK) return;
    CT_ASSERT_INT(in.samples, 2);
    CT_ASSERT_INT(in.label(in.state, 1), coarse ? 19 : 99);
    CT_ASSERT_OK(in.read(in.state, 1, &to));
    CT_ASSERT_INT(got[0], 42);
    in.close(in.state);
  }
  CT_ASSERT_OK(ct_file_write(path, file, 3073));
  CT_ASSERT_FAILS(ct_pack_open_cifar(path, 1, &in), CT_ERR_USAGE, "no coarse labels");
  CT_ASSERT_OK(ct_file_write(path, file, 3072));
  CT_ASSERT_FAILS(ct_pack_open_cifar(path, 0, &in), CT_ERR_FORMAT, "is not a CIFAR file");
}

/* A record of CIFAR-10, with a name a line beside it. */
static void cifar_names_in_lines(void)
{
  static const char record[3074] = {3, 70};
  static const char ten[] =
      "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n";
  char path[600], names[600];
  ct_pack_source_t in;
  const char *dir = ct_test_dir();
  snprintf(path, sizeof path, "%s/ten.bin", dir);
  snprintf(names, sizeof names, "%s/batches.meta.txt", dir);
  CT_ASSERT_OK(ct_file_write(path, record, 3073));
  if (CT_ASSERT_OK(ct_pack_open_cifar(path, 0, &in)) != CT_OK) return;
  uint64_t unnamed = in.identity;
  CT_ASSERT_INT(in.classes, 4);
  CU_ASSERT(!in.class_names);
  in.close(in.state);
  CT_ASSERT_OK(ct_file_write(names, ten, sizeof ten - 1));
  if (CT_ASSERT_OK(ct_pack_open_cifar(path, 0, &in)) != CT_OK) return;
  CT_ASSERT_INT(in.classes, 10);
  CT_ASSERT_TEXT(in.class_names[0], "airplane");
  CT_ASSERT_TEXT(in.class_names[9], "truck");
  CT_ASSERT_TEXT(in.inputs[1], names);
  CU_ASSERT(in.identity != unnamed);
  in.close(in.state);
  CT_ASSERT_OK(ct_file_write(names, ten, 30));
  CT_ASSERT_FAILS(ct_pack_open_cifar(path, 0, &in), CT_ERR_FORMAT, "expected the names of 10");
  CT_ASSERT_OK(ct_file_write(names, "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\n", 22));
  CT_ASSERT_FAILS(ct_pack_open_cifar(path, 0, &in), CT_ERR_FORMAT, "expected the names of 10");
}

/* A record of CIFAR-100, with Python's pickle beside it. */
static void cifar_names_in_a_pickle(void)
{
  static const char record[3074] = {3, 70};
  char path[600], names[600], meta[2000];
  ct_pack_source_t in;
  size_t n = (size_t)snprintf(meta, sizeof meta, "%c%c}U%cfine_label_names](", 0x80, 2, 16);
  for (int i = 0; i < 100; i++)
    n += (size_t)snprintf(meta + n, sizeof meta - n, "U%cf%02d", 3, i);
  n += (size_t)snprintf(meta + n, sizeof meta - n, "esU%ccoarse_label_names](", 18);
  for (int i = 0; i < 20; i++)
    n += (size_t)snprintf(meta + n, sizeof meta - n, "U%cc%02d", 3, i);
  n += (size_t)snprintf(meta + n, sizeof meta - n, "es.");
  const char *dir = ct_test_dir();
  snprintf(path, sizeof path, "%s/hundred.bin", dir);
  snprintf(names, sizeof names, "%s/meta", dir);
  CT_ASSERT_OK(ct_file_write(path, record, 3074));
  for (int coarse = 0; coarse < 2; coarse++) {
    CT_ASSERT_OK(ct_file_write(names, meta, n));
    if (CT_ASSERT_OK(ct_pack_open_cifar(path, coarse, &in)) != CT_OK) return;
    CT_ASSERT_INT(in.classes, coarse ? 20 : 100);
    CT_ASSERT_TEXT(in.class_names[19], coarse ? "c19" : "f19");
    in.close(in.state);
    CT_ASSERT_OK(ct_file_write(names, meta, n / 2));
    CT_ASSERT_FAILS(ct_pack_open_cifar(path, coarse, &in), CT_ERR_FORMAT, "meta");
  }
}

static void nothing_stays_allocated(void)
{
  CT_ASSERT_INT(ct_mem_live(), 0);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(big_endian_in_fortrans_order),
                                    CT_TEST(channels_last_are_put_first),
                                    CT_TEST(floats_are_targets),
                                    CT_TEST(refused),
                                    CT_TEST(cifar_records),
                                    CT_TEST(cifar_names_in_lines),
                                    CT_TEST(cifar_names_in_a_pickle),
                                    CT_TEST(nothing_stays_allocated),
                                    CT_TEST_END};
  return ct_test_main("pack_arrays", tests, argc, argv);
}
