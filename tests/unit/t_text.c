/* Base layer: errors and texts. */
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "tests/harness/ct_test.h"

/* ---- errors ---- */

static int fails_inside(int fail)
{
  int rc = CT_OK;
  if (fail) CT_FAIL(CT_ERR_FORMAT, "%s: expected %d\nlines", "a.csv", 3);
  rc = CT_ERR_ARG; /* not reached with fail */
out:
  return rc;
}

static int tries(int fail)
{
  int rc = CT_OK;
  CT_TRY(fails_inside(fail));
out:
  return rc;
}

static void err_is_recorded_once(void)
{
  CT_ASSERT_FAILS(tries(1), CT_ERR_FORMAT, "a.csv: expected 3 lines");
  CT_ASSERT_TEXT(ct_err_last()->file, "unit/t_text.c");
  CU_ASSERT(ct_err_last()->line > 0);
  CT_ASSERT_INT(ct_err_last()->rank, -1);
  CT_ASSERT_INT(tries(0), CT_ERR_ARG);
}

static void err_prefix_goes_in_front(void)
{
  ct_err_set(CT_ERR_USAGE, "f.c", 1, "unknown key");
  CT_ASSERT_INT(ct_err_prefix(CT_ERR_USAGE, "%s:%d: ", "train.yaml", 3), CT_ERR_USAGE);
  CT_ASSERT_TEXT(ct_err_last()->text, "train.yaml:3: unknown key");
}

static void err_text_is_cut_not_overrun(void)
{
  char longer[2000];
  const size_t most = sizeof ct_err_last()->text - 1;
  memset(longer, 'x', sizeof longer - 1);
  longer[sizeof longer - 1] = '\0';
  ct_err_set(CT_ERR_IO, longer, 1, "%s", longer);
  CU_ASSERT(strlen(ct_err_last()->text) <= most && strlen(ct_err_last()->text) > most - 80);
  CT_ASSERT_INT(strlen(ct_err_last()->file), sizeof ct_err_last()->file - 1);
  ct_err_prefix(CT_ERR_IO, "front: ");
  CU_ASSERT(strlen(ct_err_last()->text) <= most);
  CT_ASSERT_INT(strncmp(ct_err_last()->text, "front: xxx", 10), 0);
  ct_err_prefix(CT_ERR_IO, "%s", longer);
  CU_ASSERT(strlen(ct_err_last()->text) <= most);
}

/* "/begin/" and so many bytes of \a piece, again and again, "/tail.h5" */
static const char *long_path(const char *piece, size_t bytes)
{
  static char path[5000];
  strcpy(path, "/begin/");
  while (strlen(path) < bytes)
    strcat(path, piece);
  return strcat(path, "/tail.h5");
}

static void expect_shortened(const char *begin, const char *end)
{
  const char *text = ct_err_last()->text;
  CU_ASSERT(strlen(text) < sizeof ct_err_last()->text);
  CU_ASSERT(ct_text_is_utf8(text));
  CT_ASSERT_HAS(text, "…");
  CT_ASSERT_INT(strncmp(text, begin, strlen(begin)), 0);
  if (strlen(text) > strlen(end)) text += strlen(text) - strlen(end);
  CT_ASSERT_TEXT(text, end);
}

/* Whatever the names in it are like, its beginning, the file at the end of a path and the reason
 * stay. */
static void err_text_keeps_the_reason(void)
{
  static const char *const pieces[] = {"abcdefgh", "abc/", "\xC3\xA9", "a\xE2\x82\xAC", "a b "};
  for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++)
    for (size_t bytes = 560; bytes < 640; bytes++) {
      ct_err_set(CT_ERR_IO, "f.c", 1, "%s: cannot open: %s", long_path(pieces[i], bytes), "why");
      if (strlen(long_path(pieces[i], bytes)) > 600)
        expect_shortened("/begin/", "/tail.h5: cannot open: why");
    }
  ct_err_set(CT_ERR_IO, "f.c", 1, "%s: no", long_path("abc/", 4000));
  expect_shortened("/begin/abc/", "/abc//tail.h5: no");
  CT_ASSERT_HAS(ct_err_last()->text, "/abc/…/abc/"); /* between two names */
  ct_err_suffix(" (rank 3 on %s)", "node");
  expect_shortened("/begin/abc/", "/tail.h5: no (rank 3 on node)");
  ct_err_prefix(CT_ERR_USAGE, "%s:12: data.val: ", long_path("xyz", 4000));
  expect_shortened("/begin/xyz", "/tail.h5: no (rank 3 on node)");
  CT_ASSERT_HAS(ct_err_last()->text, "/tail.h5:12: data.val: /begin/");
  ct_err_set(CT_ERR_IO, "f.c", 1, "'%s' is '%s'", "x", long_path("\x80", 4000)); /* no UTF-8 */
  CT_ASSERT_HAS(ct_err_last()->text, "'x' is '/begin/");
  CT_ASSERT_HAS(ct_err_last()->text, "/tail.h5'");
}

static void err_place_names_file_or_command_line(void)
{
  ct_err_set(CT_ERR_USAGE, "f.c", 1, "unknown key");
  CT_ASSERT_INT(ct_err_location(CT_ERR_USAGE, NULL, 3), CT_ERR_USAGE);
  CT_ASSERT_TEXT(ct_err_last()->text, "unknown key");
  CT_ASSERT_INT(ct_err_location(CT_ERR_USAGE, "train.yaml", 3), CT_ERR_USAGE);
  CT_ASSERT_TEXT(ct_err_last()->text, "train.yaml:3: unknown key");
  ct_err_set(CT_ERR_USAGE, "f.c", 1, "unknown key");
  ct_err_location(CT_ERR_USAGE, "train.yaml", 0);
  CT_ASSERT_TEXT(ct_err_last()->text, "--set: unknown key");
}

static void err_text_may_quote_the_last(void)
{
  ct_err_set(CT_ERR_IO, "f.c", 1, "no space");
  ct_err_set(CT_ERR_IO, "f.c", 2, "checkpoint: %s", ct_err_last()->text);
  CT_ASSERT_TEXT(ct_err_last()->text, "checkpoint: no space");
}

static void *other_thread(void *arg)
{
  ct_err_set(CT_ERR_DATA, "f.c", 1, "in the feed");
  *(ct_err_info_t *)arg = *ct_err_last();
  return NULL;
}

static void err_is_per_thread_and_can_be_adopted(void)
{
  pthread_t thread;
  ct_err_info_t info;
  ct_err_set(CT_ERR_IO, "f.c", 1, "mine");
  CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, other_thread, &info), 0);
  pthread_join(thread, NULL);
  CT_ASSERT_TEXT(ct_err_last()->text, "mine");
  info.rank = 3;
  ct_err_put(&info);
  CT_ASSERT_TEXT(ct_err_last()->text, "in the feed");
  CT_ASSERT_INT(ct_err_last()->rank, 3);
  CT_ASSERT_INT(ct_err_last()->code, CT_ERR_DATA);
}

static void err_names_and_exit_codes(void)
{
  CT_ASSERT_TEXT(ct_err_name(CT_ERR_IO), "CT_ERR_IO");
  CT_ASSERT_TEXT(ct_err_name(12345), "CT_ERR_UNKNOWN");
  CT_ASSERT_TEXT(ct_err_meaning(CT_ERR_FAULT), "injected fault");
  CT_ASSERT_TEXT(ct_err_meaning(-1), "unknown error");
  CT_ASSERT_INT(ct_err_exit_status(CT_OK), 0);
  CT_ASSERT_INT(ct_err_exit_status(CT_ERR_USAGE), 2);
  CT_ASSERT_INT(ct_err_exit_status(CT_ERR_COMM), 1);
  CU_ASSERT(CT_ERR_LAST_ < 0);
}

/* ---- text ---- */

static void str_grows(void)
{
  ct_str_t s = {0};
  for (int i = 0; i < 1000; i++)
    CT_ASSERT_OK(ct_str_add(&s, "%03d,", i));
  CT_ASSERT_INT(s.len, 4000);
  CT_ASSERT_INT(strlen(s.data), 4000);
  CT_ASSERT_TEXT(s.data + 3996, "999,");
  ct_str_clear(&s);
  CU_ASSERT_PTR_NULL(s.data);
  ct_mem_fail_at(1);
  CT_ASSERT_FAILS(ct_str_add(&s, "x"), CT_ERR_NOMEM, "text");
  ct_str_clear(&s);
}

static void text_format_says_if_it_fitted(void)
{
  char buf[8];
  CT_ASSERT_OK(ct_text_format(buf, sizeof buf, "%s", "1234567"));
  CT_ASSERT_TEXT(buf, "1234567");
  CT_ASSERT_FAILS(ct_text_format(buf, sizeof buf, "%s", "12345678"), CT_ERR_USAGE, "name too long");
}

static void utf8_is_told_from_other_bytes(void)
{
  static const char *const good[] = {"",
                                     "a/b",
                                     "\xC3\xA9",
                                     "\xE2\x82\xAC",
                                     "\xF0\x9F\x98\x80",
                                     "\xED\x9F\xBF",
                                     "\xF4\x8F\xBF\xBF"};
  /* cut off, too long a form, a surrogate, beyond the last, no first byte */
  static const char *const bad[] = {"\xC3",         "a\xE2\x82",        "\xC0\xAF", "\xE0\x9F\xBF",
                                    "\xED\xA0\x80", "\xF4\x90\x80\x80", "\x80",     "\xFF",
                                    "\xC3(",        "\xF0\x8F\xBF\xBF"};
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    CU_ASSERT(ct_text_is_utf8(good[i]));
    char *copy = ct_text_utf8_copy(good[i]);
    CT_ASSERT_TEXT(copy, good[i]);
    ct_mem_free(copy);
  }
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    CU_ASSERT_FALSE(ct_text_is_utf8(bad[i]));
    char *copy = ct_text_utf8_copy(bad[i]);
    CU_ASSERT(ct_text_is_utf8(copy));
    CT_ASSERT_INT(strlen(copy), strlen(bad[i]));
    CT_ASSERT_HAS(copy, "?");
    ct_mem_free(copy);
  }
}

/* The vectors of RFC 4648, and every byte but 0. */
static void base64_there_and_back(void)
{
  static const char *const pairs[][2] = {{"", ""},
                                         {"f", "Zg=="},
                                         {"fo", "Zm8="},
                                         {"foo", "Zm9v"},
                                         {"foob", "Zm9vYg=="},
                                         {"fooba", "Zm9vYmE="},
                                         {"foobar", "Zm9vYmFy"}};
  static const char *const bad[] = {
      "Z", "Zg=", "Zg=a", "Zg==Zg==", "Z===", "====", "Zm9-", "Zm9vY"};
  char all[256] = "", lines[] = " Zm9v\n\tYmFy\r\n";
  size_t len = 99;
  ct_str_t s = {0};
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
    char back[16];
    CT_ASSERT_OK(ct_str_add(&s, "%s", ""));
    CT_ASSERT_OK(ct_text_base64(pairs[i][0], &s));
    CT_ASSERT_TEXT(s.data, pairs[i][1]);
    strcpy(back, pairs[i][1]);
    CT_ASSERT_INT(ct_text_unbase64(back, &len), CT_OK);
    CT_ASSERT_TEXT(back, pairs[i][0]);
    CT_ASSERT_INT(len, strlen(pairs[i][0]));
    ct_str_clear(&s);
  }
  for (int i = 0; i < 255; i++)
    all[i] = (char)(i + 1);
  CT_ASSERT_OK(ct_text_base64(all, &s));
  CT_ASSERT_INT(ct_text_unbase64(s.data, &len), CT_OK);
  CT_ASSERT_INT(len, 255);
  CU_ASSERT(strcmp(s.data, all) == 0);
  CT_ASSERT_INT(ct_text_unbase64(lines, &len), CT_OK);
  CT_ASSERT_TEXT(lines, "foobar");
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    char text[16];
    strcpy(text, bad[i]);
    CT_ASSERT_INT(ct_text_unbase64(text, &len), CT_ERR_ARG);
  }
  ct_str_clear(&s);
}

static void text_nearest_word(void)
{
  static const char *const keys[] = {"lr", "momentum", "weight_decay"};
  CT_ASSERT_TEXT(ct_text_nearest("lrr", keys, 3), "lr");
  CT_ASSERT_TEXT(ct_text_nearest("momentun", keys, 3), "momentum");
  CT_ASSERT_TEXT(ct_text_nearest("weightdecay", keys, 3), "weight_decay");
  CU_ASSERT_PTR_NULL(ct_text_nearest("nesterov", keys, 3));
  CU_ASSERT_PTR_NULL(ct_text_nearest("x", keys, 3));
  CU_ASSERT_PTR_NULL(ct_text_nearest("", keys, 3));
  char longer[300];
  memset(longer, 'l', sizeof longer - 1);
  longer[sizeof longer - 1] = '\0';
  CU_ASSERT_PTR_NULL(ct_text_nearest(longer, keys, 3));
}

static void text_numbers(void)
{
  int64_t i = 0;
  double d = 0;
  CT_ASSERT_INT(ct_text_int("-9223372036854775808", &i), CT_OK);
  CT_ASSERT_INT(i, INT64_MIN);
  CT_ASSERT_INT(ct_text_int("+12", &i), CT_OK);
  CT_ASSERT_INT(i, 12);
  static const char *const no_int[] = {"",  " 1", "1 ", "1.0", "0x10", "9223372036854775808",
                                       "-", "1-"};
  for (size_t k = 0; k < sizeof no_int / sizeof no_int[0]; k++)
    CT_ASSERT_INT(ct_text_int(no_int[k], &i), CT_ERR_ARG);
  CT_ASSERT_INT(i, 12);
  CT_ASSERT_INT(ct_text_double("1e-4", &d), CT_OK);
  CT_ASSERT_NEAR(d, 1e-4, 0);
  CT_ASSERT_INT(ct_text_double("-.5", &d), CT_OK);
  CT_ASSERT_NEAR(d, -0.5, 0);
  static const char *const no_double[] = {"",    " 1",    "1 ", "0x1p3", "inf",
                                          "nan", "1e999", "1e", "."};
  for (size_t k = 0; k < sizeof no_double / sizeof no_double[0]; k++)
    CT_ASSERT_INT(ct_text_double(no_double[k], &d), CT_ERR_ARG);
}

static void text_sizes_and_times(void)
{
  char b[32];
  size_t n = 0;
  static const char *const no_size[] = {"",    "0",   "G",   "8X",  "-1G",
                                        "1GG", "1iB", "8 G", "1e3", "9e18T"};
  static const struct {
    const char *text;
    size_t bytes;
  } sizes[] = {{"800M", 800u << 20}, {"1.5g", 3u << 29}, {"4GiB", (size_t)4 << 30},
               {"2KB", 2048},        {"12345", 12345},   {"1T", (size_t)1 << 40}};
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
    CT_ASSERT_OK(ct_text_size(sizes[k].text, &n));
    CT_ASSERT_INT(n, sizes[k].bytes);
  }
  for (size_t k = 0; k < sizeof no_size / sizeof *no_size; k++)
    CT_ASSERT_INT(ct_text_size(no_size[k], &n), CT_ERR_ARG);
  CT_ASSERT_TEXT(ct_text_bytes(0, b, sizeof b), "0 B");
  CT_ASSERT_TEXT(ct_text_bytes(1023, b, sizeof b), "1023 B");
  CT_ASSERT_TEXT(ct_text_bytes(12 * 1024, b, sizeof b), "12 KiB");
  CT_ASSERT_TEXT(ct_text_bytes(1.5 * (1 << 30), b, sizeof b), "1.5 GiB");
  CT_ASSERT_TEXT(ct_text_bytes(1024.0 * 1024 - 1, b, sizeof b), "1.0 MiB");
  CT_ASSERT_TEXT(ct_text_seconds(0.0123, b, sizeof b), "0.012 s");
  CT_ASSERT_TEXT(ct_text_seconds(12.34, b, sizeof b), "12.3 s");
  CT_ASSERT_TEXT(ct_text_seconds(59.99, b, sizeof b), "1m00s");
  CT_ASSERT_TEXT(ct_text_seconds(190, b, sizeof b), "3m10s");
  CT_ASSERT_TEXT(ct_text_seconds(3599.9, b, sizeof b), "1h00m");
  CT_ASSERT_TEXT(ct_text_seconds(3720, b, sizeof b), "1h02m");
}

static void paths(void)
{
  char b[32];
  CT_ASSERT_OK(ct_path_join(b, sizeof b, "runs/a", "x.h5"));
  CT_ASSERT_TEXT(b, "runs/a/x.h5");
  CT_ASSERT_OK(ct_path_join(b, sizeof b, "runs/", "x.h5"));
  CT_ASSERT_TEXT(b, "runs/x.h5");
  CT_ASSERT_OK(ct_path_join(b, sizeof b, "runs", "/x.h5"));
  CT_ASSERT_TEXT(b, "/x.h5");
  CT_ASSERT_OK(ct_path_join(b, sizeof b, "", "x.h5"));
  CT_ASSERT_TEXT(b, "x.h5");
  CT_ASSERT_FAILS(ct_path_join(b, 8, "runs/a", "x.h5"), CT_ERR_USAGE, "too long");
  static const char *const dirs[][2] = {{"a/b/c", "a/b"}, {"a", "."},    {"/a", "/"}, {"a/b/", "a"},
                                        {"/", "/"},       {"a//b", "a"}, {"", "."}};
  for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++) {
    CT_ASSERT_OK(ct_path_dir(b, sizeof b, dirs[i][0]));
    CT_ASSERT_TEXT(b, dirs[i][1]);
  }
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(err_is_recorded_once),
                                    CT_TEST(err_prefix_goes_in_front),
                                    CT_TEST(err_text_is_cut_not_overrun),
                                    CT_TEST(err_text_keeps_the_reason),
                                    CT_TEST(err_place_names_file_or_command_line),
                                    CT_TEST(err_text_may_quote_the_last),
                                    CT_TEST(err_is_per_thread_and_can_be_adopted),
                                    CT_TEST(err_names_and_exit_codes),
                                    CT_TEST(str_grows),
                                    CT_TEST(text_format_says_if_it_fitted),
                                    CT_TEST(utf8_is_told_from_other_bytes),
                                    CT_TEST(base64_there_and_back),
                                    CT_TEST(text_nearest_word),
                                    CT_TEST(text_numbers),
                                    CT_TEST(text_sizes_and_times),
                                    CT_TEST(paths),
                                    CT_TEST_END};
  return ct_test_main("text", tests, argc, argv);
}
