/* What `pack` reads: csv, IDX, gzip. */
#include <libdeflate.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "pack/ct_pack_in.h"
#include "tests/harness/ct_test.h"

static int64_t taken; /* samples, of a source */

/* The path of a new file; static storage for three of them. */
static const char *file(const void *data, size_t bytes)
{
  static char path[3][600];
  static int n;
  char *p = path[n++ % 3];
  if (!*p) snprintf(p, sizeof path[0], "%s/f", ct_test_dir());
  CT_ASSERT_OK(ct_file_write(p, data, bytes));
  taken = 0;
  return p;
}

static const char *text_file(const char *text)
{
  return file(text, strlen(text));
}

/* The next samples of the source whose file was written last. */
static int take(const ct_pack_source_t *in, int n, void *x, int32_t *y)
{
  size_t bytes = (size_t)ct_shape_sample(&in->x) * ct_dtype_size(in->x.dtype);
  for (int i = 0; i < n; i++, taken++) {
    ct_pack_sample_t to = {.x = (char *)x + (size_t)i * bytes};
    int rc = in->read(in->state, taken, &to);
    if (rc != CT_OK) return rc;
    y[i] = in->label(in->state, taken);
  }
  return CT_OK;
}

/* ---- csv ---- */

static int open_csv(const char *text, const ct_shape_t *shape, int64_t label, ct_pack_source_t *in)
{
  ct_pack_csv_t o = {.label = label};
  if (shape) o.shape = *shape;
  return ct_pack_open_csv(text_file(text), &o, in);
}

static void csv_of_bytes(void)
{
  ct_pack_source_t in;
  uint8_t x[8];
  int32_t y[2];
  ct_shape_t shape = ct_shape(4, 1, 1, 2, 2);
  if (CT_ASSERT_OK(open_csv("0,1,2,255,3\r\n4, 5 ,6\t,7,0\r\n\r\n", &shape, -1, &in)) != CT_OK)
    return;
  CT_ASSERT_INT(in.samples, 2);
  CT_ASSERT_INT(in.x.dtype, CT_U8);
  CT_ASSERT_INT(in.x.ndim, 4);
  CT_ASSERT_INT(in.classes, 4);
  CT_ASSERT_OK(take(&in, 1, x, y));
  CT_ASSERT_OK(take(&in, 1, x + 4, y + 1));
  CT_ASSERT_INT(memcmp(x, (uint8_t[]){0, 1, 2, 255, 4, 5, 6, 7}, 8), 0);
  CT_ASSERT_INT(y[0], 3);
  CT_ASSERT_INT(y[1], 0);
  in.close(in.state);
}

static void csv_of_floats_with_a_header(void)
{
  ct_pack_source_t in;
  float x[4];
  int32_t y[2];
  if (CT_ASSERT_OK(open_csv("class,a,b\n1,-0.5,2\n0,1e3,256\n", NULL, 0, &in)) != CT_OK) return;
  CT_ASSERT_INT(in.x.dtype, CT_F32);
  CT_ASSERT_INT(ct_shape_sample(&in.x), 2);
  CT_ASSERT_INT(in.samples, 2);
  CT_ASSERT_OK(take(&in, 2, x, y));
  CT_ASSERT_NEAR(x[0], -0.5, 0);
  CT_ASSERT_NEAR(x[2], 1000, 0);
  CT_ASSERT_INT(y[0], 1);
  in.close(in.state);
}

static void csv_label_in_the_middle(void)
{
  ct_pack_source_t in;
  uint8_t x[2];
  int32_t y;
  if (CT_ASSERT_OK(open_csv("1,7,2\n", NULL, 1, &in)) != CT_OK) return;
  CT_ASSERT_OK(take(&in, 1, x, &y));
  CT_ASSERT_INT(y, 7);
  CT_ASSERT_INT(x[1], 2);
  in.close(in.state);
}

static void check_csv_refused(const char *text, const ct_shape_t *shape, int64_t label,
                              const char *word)
{
  ct_pack_source_t in;
  CT_ASSERT_FAILS(open_csv(text, shape, label, &in), CT_ERR_FORMAT, word);
}

static void csv_mistakes_name_the_line(void)
{
  ct_shape_t four = ct_shape(2, 1, 4);
  check_csv_refused("1,2,0\n1,2\n", NULL, -1, "f:2: found 2 numbers, expected 3");
  check_csv_refused("a,b,c\n1,2,0\n1,x,0\n", NULL, -1, "f:3: column 1: 'x,0' is not a number");
  check_csv_refused("1,2,0\n", &four, -1, "f:1: found 3 numbers, expected 5");
  check_csv_refused("1,2,0.5\n", NULL, -1, "f:1: column 2: the label 0.5 is not a class number");
  check_csv_refused("1,2,-1\n", NULL, -1, "the label -1");
  check_csv_refused("1,nan,1\n", NULL, -1, "f:1: column 1 is not finite");
  check_csv_refused("1,1e39,1\n", NULL, -1, "f:1: column 1 is not finite");
  check_csv_refused("1,2,0\n1,2x,0\n", NULL, -1, "f:2: column 1: '2x,0' is not a number");
  check_csv_refused("info,label\n", NULL, -1, "contains no samples");
  check_csv_refused("", NULL, -1, "contains no samples");
  check_csv_refused("1,2,0\n", NULL, 3, "the label should be number 3");
  check_csv_refused("1,,0\n", NULL, -1, "f:1: column 1: ',0' is not a number");
  check_csv_refused("a,b\n1,2,0\n", NULL, -1, "names 2 columns, but the first row has 3");
}

/* What strtod() would make of the beginning of a cell, or of half a row, is no number here. */
static void csv_numbers_are_whole_and_decimal(void)
{
  static const char *const cells[] = {"1,5",  "1 000", "1.000,5", "0x10", "1_0", "1d3",    "1;2",
                                      "1\t2", "2%",    "1e",      ".",    "--1", "\"1\"2", "\"1"};
  static const char separators[] = ",;\t ";
  for (size_t i = 0; i < sizeof cells / sizeof *cells; i++)
    for (int k = 0; k < 4; k++) {
      char row[80], text[200], c = separators[k];
      if (strchr(cells[i], c)) continue; /* it would be two cells */
      snprintf(row, sizeof row, "%s%c2%c0\n", cells[i], c, c);
      snprintf(text, sizeof text, "3%c4%c1\n%s", c, c, row);
      int is_other = c == ' ' || (c == ',' && strchr(cells[i], ';')) ||
                     (c == ',' && strchr(cells[i], '\t')) || (c == '\t' && strchr(cells[i], ';'));
      check_csv_refused(text, NULL, -1, "f:2: ");
      /* the same as the first row, which is no header because of it */
      snprintf(text, sizeof text, "%s3%c4%c1\n", row, c, c);
      check_csv_refused(text, NULL, -1, is_other ? "f:" : "f:1: column 0");
    }
}

static void csv_with_one_of_four_separators(void)
{
  static const char separators[] = ",;\t ";
  for (int k = 0; k < 4; k++) {
    ct_pack_source_t in;
    char text[80], c = separators[k];
    uint8_t x[4];
    int32_t y[2];
    snprintf(text, sizeof text, "a%cb%clabel\n\"1\"%c+2%c\"0\"\n3%c\"4\"%c1\n", c, c, c, c, c, c);
    if (CT_ASSERT_OK(open_csv(text, NULL, -1, &in)) != CT_OK) continue;
    CT_ASSERT_INT(in.samples, 2);
    CT_ASSERT_OK(take(&in, 2, x, y));
    CT_ASSERT_INT(memcmp(x, (uint8_t[]){1, 2, 3, 4}, 4), 0);
    CT_ASSERT_INT(y[1], 1);
    in.close(in.state);
  }
}

static int64_t count_rows(const char *text, int header)
{
  ct_pack_source_t in;
  ct_pack_csv_t o = {.label = -1, .header = header};
  if (ct_pack_open_csv(text_file(text), &o, &in) != CT_OK) return -1;
  int64_t n = in.samples;
  in.close(in.state);
  return n;
}

/* A first row that is damaged is an error as any other row is; a header is one without a number. */
static void csv_first_rows(void)
{
  static const char *const damaged[] = {",2,0", "NA,2,0",   "x,2,0", "NA,NA,0", "nan,2,0",
                                        "1,,0", "NA,NA,NA", ",,x,",  "1,5;2;0"};
  for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
    char text[80];
    snprintf(text, sizeof text, "%s\n3,4,1\n5,6,0\n", damaged[i]);
    CT_ASSERT_INT(count_rows(text, 0), -1);
  }
  CT_ASSERT_INT(count_rows("a,b,label\n3,4,1\n5,6,0\n", 0), 2);
  CT_ASSERT_INT(count_rows("1st,2nd,label\n3,4,1\n5,6,0\n", 0), 2);
  CT_ASSERT_INT(count_rows("# text\n3,4,1\n5,6,0\n", 0), 2);
  CT_ASSERT_INT(count_rows("0,1,2\n3,4,1\n5,6,0\n", 0), 3);
  CT_ASSERT_INT(count_rows("0,1,2\n3,4,1\n5,6,0\n", 1), 2);
  CT_ASSERT_INT(count_rows("a,b,label\n3,4,1\n5,6,0\n", 2), -1);
}

/* Labels follow the rule of all sources (t_pack_labels). */
static void csv_labels_may_be_names(void)
{
  ct_pack_source_t in;
  uint8_t x[3];
  int32_t y[3];
  if (CT_ASSERT_OK(open_csv("1,cat10\n2,cat2\n3,\"cat10\"\n", NULL, -1, &in)) != CT_OK) return;
  CT_ASSERT_INT(in.classes, 2);
  CT_ASSERT_TEXT(in.class_names[0], "cat2");
  CT_ASSERT_OK(take(&in, 3, x, y));
  CT_ASSERT_INT(memcmp(y, (int32_t[]){1, 0, 1}, sizeof y), 0);
  in.close(in.state);
  check_csv_refused("1,cat\n2,3\n", NULL, -1, "f:2: column 1: the label '3' is a number");
}

/* The same three samples, whichever way the lines end, and the last one need not. */
static void csv_lines_end_in_three_ways(void)
{
  static const char *const texts[] = {
      "1,2,0\n3,4,1\n5,6,0\n",           "1,2,0\r\n3,4,1\r\n5,6,0\r\n",
      "1,2,0\r3,4,1\r5,6,0\r",           "1,2,0\n3,4,1\n5,6,0",
      "1,2,0\r\n3,4,1\r\n5,6,0",         "1,2,0\r3,4,1\r5,6,0",
      "a,b,c\r1,2,0\r\r3,4,1\r5,6,0\r\r"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    ct_pack_source_t in;
    uint8_t x[6];
    int32_t y[3];
    if (CT_ASSERT_OK(open_csv(texts[i], NULL, -1, &in)) != CT_OK) continue;
    CT_ASSERT_INT(in.samples, 3);
    if (in.samples == 3) {
      CT_ASSERT_OK(take(&in, 3, x, y));
      CT_ASSERT_INT(memcmp(x, (uint8_t[]){1, 2, 3, 4, 5, 6}, 6), 0);
      CT_ASSERT_INT(memcmp(y, (int32_t[]){0, 1, 0}, sizeof y), 0);
    }
    in.close(in.state);
  }
  check_csv_refused("1,2,0\n3,4,1\r\n", NULL, -1,
                    "f:2: ends in CR LF, but the lines before it in LF");
  check_csv_refused("1,2,0\r\n3,4,1\n", NULL, -1,
                    "f:2: ends in LF, but the lines before it in CR LF");
  check_csv_refused("1,2,0\r\n3,4,1\r5,6,0\r\n", NULL, -1, "f:2: ends in CR, but");
  check_csv_refused("1,2,0\n\n3,4,1\r5,6,0\n", NULL, -1, "f:3: ends in CR, but");
  check_csv_refused("1,2,0\r3,4,1\r5,6,0\n", NULL, -1,
                    "f:3: ends in LF, but the lines before it in CR:");
}

/* Nor is a first line a header because of what an editor put before it. */
static void csv_with_a_byte_order_mark(void)
{
  ct_pack_source_t in;
  if (CT_ASSERT_OK(open_csv("\xEF\xBB\xBF"
                            "1,2,0\n3,4,1\n",
                            NULL, -1, &in)) != CT_OK)
    return;
  CT_ASSERT_INT(in.samples, 2);
  in.close(in.state);
}

/* ---- gzip ---- */

static size_t gzip(const char *text, char *to, size_t cap)
{
  struct libdeflate_compressor *c = libdeflate_alloc_compressor(6);
  size_t n = libdeflate_gzip_compress(c, text, strlen(text), to, cap);
  libdeflate_free_compressor(c);
  return n;
}

static void gzip_is_unpacked(void)
{
  char packed[2000], *data, zeros[20001];
  size_t bytes, n = gzip("1,2,", packed, sizeof packed);
  n += gzip("0\n", packed + n, sizeof packed - n); /* a second member */
  if (CT_ASSERT_OK(ct_pack_read_file(file(packed, n), &data, &bytes)) != CT_OK) return;
  CT_ASSERT_TEXT(data, "1,2,0\n");
  ct_mem_free(data);
  memset(zeros, '0', sizeof zeros - 1); /* much smaller when packed */
  zeros[sizeof zeros - 1] = '\0';
  n = gzip(zeros, packed, sizeof packed);
  if (CT_ASSERT_OK(ct_pack_read_file(file(packed, n), &data, &bytes)) != CT_OK) return;
  CT_ASSERT_INT(bytes, sizeof zeros - 1);
  ct_mem_free(data);
  packed[n / 2] ^= 0x55;
  CT_ASSERT_FAILS(ct_pack_read_file(file(packed, n), &data, &bytes), CT_ERR_FORMAT,
                  "gzip data is damaged");
}

/* ---- IDX ---- */

static const uint8_t images[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 1, 10, 11, 20, 21};
static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 3, 1};

static void idx_of_images(void)
{
  ct_pack_source_t in;
  uint8_t x[4];
  int32_t y[2];
  const char *a = file(images, sizeof images), *b = file(labels, sizeof labels);
  if (CT_ASSERT_OK(ct_pack_open_idx(a, b, &in)) != CT_OK) return;
  CT_ASSERT_INT(in.samples, 2);
  CT_ASSERT_INT(in.classes, 4);
  CT_ASSERT_INT(in.x.ndim, 4);
  CT_ASSERT_INT(in.x.dim[2], 2);
  CT_ASSERT_INT(in.x.dim[3], 1);
  CT_ASSERT_OK(take(&in, 2, x, y));
  CT_ASSERT_INT(memcmp(x, images + 16, 4), 0);
  CT_ASSERT_INT(y[1], 1);
  in.close(in.state);
}

/* Dims are of four bytes, the highest first; with four of them the second is that of channels. */
static void idx_of_large_images(void)
{
  enum { ROWS = 0x010203, HEADER = 20 };
  static uint8_t large[HEADER + ROWS] = {0, 0, 8, 4, 0, 0, 0, 1, 0, 0,
                                         0, 1, 0, 1, 2, 3, 0, 0, 0, 1};
  static const uint8_t one[] = {0, 0, 8, 1, 0, 0, 0, 1, 9};
  ct_pack_source_t in;
  const char *a = file(large, sizeof large), *b = file(one, sizeof one);
  if (CT_ASSERT_OK(ct_pack_open_idx(a, b, &in)) != CT_OK) return;
  CT_ASSERT_INT(in.x.ndim, 4);
  CT_ASSERT_INT(in.x.dim[1], 1);
  CT_ASSERT_INT(in.x.dim[2], ROWS);
  CT_ASSERT_INT(in.x.dim[3], 1);
  CT_ASSERT_INT(in.classes, 10);
  in.close(in.state);
}

static void check_idx_refused(const uint8_t *a, size_t na, const uint8_t *b, size_t nb,
                              const char *word)
{
  ct_pack_source_t in;
  const char *pa = file(a, na), *pb = file(b, nb);
  CT_ASSERT_FAILS(ct_pack_open_idx(pa, pb, &in), CT_ERR_FORMAT, word);
}

static void idx_mistakes(void)
{
  static const uint8_t one[] = {0, 0, 8, 1, 0, 0, 0, 1, 3};
  static const uint8_t floats[] = {0, 0, 13, 1, 0, 0, 0, 1, 3, 0, 0, 0};
  check_idx_refused(images, sizeof images, one, sizeof one, "has 2 samples");
  check_idx_refused(images, sizeof images - 1, labels, sizeof labels,
                    "says 4 elements, but there are 3");
  check_idx_refused(labels, sizeof labels, labels, sizeof labels, "has 1 dims, expected 2 to 4");
  check_idx_refused(floats, sizeof floats, labels, sizeof labels, "IDX type 0x0d");
  check_idx_refused((const uint8_t *)"not at all", 10, labels, sizeof labels, "is not an IDX file");
  check_idx_refused(images, 6, labels, sizeof labels, "is not an IDX file");
}

static void nothing_stays_allocated(void)
{
  CT_ASSERT_INT(ct_mem_live(), 0);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(csv_of_bytes),
                                    CT_TEST(csv_of_floats_with_a_header),
                                    CT_TEST(csv_label_in_the_middle),
                                    CT_TEST(csv_mistakes_name_the_line),
                                    CT_TEST(csv_numbers_are_whole_and_decimal),
                                    CT_TEST(csv_with_one_of_four_separators),
                                    CT_TEST(csv_first_rows),
                                    CT_TEST(csv_labels_may_be_names),
                                    CT_TEST(csv_with_a_byte_order_mark),
                                    CT_TEST(csv_lines_end_in_three_ways),
                                    CT_TEST(gzip_is_unpacked),
                                    CT_TEST(idx_of_images),
                                    CT_TEST(idx_of_large_images),
                                    CT_TEST(idx_mistakes),
                                    CT_TEST(nothing_stays_allocated),
                                    CT_TEST_END};
  return ct_test_main("pack_input", tests, argc, argv);
}
