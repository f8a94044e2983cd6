/* metrics.jsonl while things go wrong: torn last lines, full disks, files that are removed or
 * replaced in the middle of a run, numbers that JSON does not have. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "tests/harness/ct_test.h"
#include "telemetry/ct_metrics.h"

/* The whole file; a static buffer. */
static char *whole(const char *dir)
{
  static char text[16384];
  char path[600];
  snprintf(path, sizeof path, "%s/metrics.jsonl", dir);
  FILE *f = fopen(path, "r");
  size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
  text[n] = '\0';
  if (f) fclose(f);
  return text;
}

/* The same without what every line has behind its event. */
static const char *content(const char *dir)
{
  static const char last[] = "\"elapsed_s\":";
  char *text = whole(dir);
  for (char *at = text; (at = strstr(at, ",\"run\":"));) {
    char *end = strstr(at, last);
    if (!end) break;
    end += strlen(last);
    end += strspn(end, "0123456789.e-");
    memmove(at, end, strlen(end) + 1);
  }
  return text;
}

static void put(const char *dir, const char *text)
{
  char path[600];
  snprintf(path, sizeof path, "%s/metrics.jsonl", dir);
  CT_ASSERT_OK(ct_file_write(path, text, strlen(text)));
}

static void fields_keep_their_order(void)
{
  const char *dir = ct_test_dir();
  ct_metrics_t *m;
  if (CT_ASSERT_OK(ct_metrics_open(dir, &m)) != CT_OK) return;
  ct_metrics_begin(m, "step");
  ct_metrics_int(m, "step", 1234567890123);
  ct_metrics_num(m, "loss", 0.25);
  ct_metrics_text(m, "a \"name\"", "two\nlines");
  CT_ASSERT_OK(ct_metrics_end(m));
  ct_metrics_begin(m, "end");
  CT_ASSERT_OK(ct_metrics_end(m));
  CT_ASSERT_OK(ct_metrics_close(m));
  CT_ASSERT_TEXT(content(dir), "{\"event\":\"step\",\"step\":1234567890123,\"loss\":0.25,"
                               "\"a \\\"name\\\"\":\"two\\nlines\"}\n{\"event\":\"end\"}\n");
}

/* A start is counted by the lines of those before it, and not by a text that looks like one. */
static void lines_say_which_start(void)
{
  const char *dir = ct_test_dir();
  ct_metrics_t *m;
  char odd[6000];
  int lines = 0, year = 0;
  double elapsed[4] = {0};
  memset(odd, 'x', sizeof odd - 1);
  odd[sizeof odd - 1] = '\0';
  for (int at = 4095; at > 4000; at--) /* wherever a reader cuts it */
    memcpy(odd + at - 17, "{\"event\":\"start\"", 17);
  put(dir, "{\"event\":\"start\"}\n");
  for (int run = 2; run <= 3; run++) {
    if (CT_ASSERT_OK(ct_metrics_open(dir, &m)) != CT_OK) return;
    ct_metrics_begin(m, "start");
    ct_metrics_text(m, "text", odd);
    CT_ASSERT_OK(ct_metrics_end(m));
    ct_metrics_begin(m, "end");
    CT_ASSERT_OK(ct_metrics_end(m));
    CT_ASSERT_OK(ct_metrics_close(m));
  }
  for (char *line = strchr(whole(dir), '\n') + 1; *line; line = strchr(line, '\n') + 1) {
    int run = 0, n = 0;
    CT_ASSERT_INT(sscanf(line,
                         "{\"event\":\"%*[a-z]\",\"run\":%d,\"time\":\"%d-%*d-%*dT%*[0-9:.]Z\","
                         "\"elapsed_s\":%lf%n",
                         &run, &year, &elapsed[lines], &n),
                  3);
    CT_ASSERT_INT(run, 2 + lines / 2);
    CU_ASSERT_TRUE(n > 0 && year >= 2024);
    lines++;
    if (lines == 4) break;
  }
  CT_ASSERT_INT(lines, 4);
  CU_ASSERT_TRUE(elapsed[0] > 0 && elapsed[0] <= elapsed[3]);
}

/* JSON has no other bytes, and an error's text may name any file. */
static void texts_become_utf8(void)
{
  const char *dir = ct_test_dir();
  ct_metrics_t *m;
  if (CT_ASSERT_OK(ct_metrics_open(dir, &m)) != CT_OK) return;
  ct_metrics_begin(m, "end");
  ct_metrics_text(m, "error", "/d\xE9j\xC3\xA0/a.h5");
  CT_ASSERT_OK(ct_metrics_end(m));
  CT_ASSERT_OK(ct_metrics_close(m));
  CT_ASSERT_TEXT(content(dir), "{\"event\":\"end\",\"error\":\"/d?j\xC3\xA0/a.h5\"}\n");
}

static void numbers_read_back_exactly(void)
{
  static const double values[] = {1.0 / 3, 2.3025850929940459, 1e-300, 123456789.123456789};
  const char *dir = ct_test_dir();
  ct_metrics_t *m;
  if (CT_ASSERT_OK(ct_metrics_open(dir, &m)) != CT_OK) return;
  for (int i = 0; i < 4; i++) {
    double back = 0;
    ct_metrics_begin(m, "x");
    ct_metrics_num(m, "v", values[i]);
    CT_ASSERT_OK(ct_metrics_end(m));
    const char *text = content(dir), *last = text + strlen(text) - 1;
    while (last > text && last[-1] != '\n')
      last--;
    CT_ASSERT_INT(sscanf(last, "{\"event\":\"x\",\"v\":%lf}", &back), 1);
    CT_ASSERT_NEAR(back, values[i], 0);
  }
  CT_ASSERT_OK(ct_metrics_close(m));
}

static void what_is_not_finite_is_null(void)
{
  const char *dir = ct_test_dir();
  ct_metrics_t *m;
  if (CT_ASSERT_OK(ct_metrics_open(dir, &m)) != CT_OK) return;
  ct_metrics_begin(m, "x");
  ct_metrics_num(m, "a", NAN);
  ct_metrics_num(m, "b", -INFINITY);
  CT_ASSERT_OK(ct_metrics_end(m));
  CT_ASSERT_OK(ct_metrics_close(m));
  CT_ASSERT_TEXT(content(dir), "{\"event\":\"x\",\"a\":null,\"b\":null}\n");
}

static void appends_and_drops_a_torn_line(void)
{
  const char *dir = ct_test_dir();
  ct_metrics_t *m;
  put(dir, "{\"event\":\"start\"}\n{\"event\":\"st");
  if (CT_ASSERT_OK(ct_metrics_open(dir, &m)) != CT_OK) return;
  ct_metrics_begin(m, "end");
  CT_ASSERT_OK(ct_metrics_end(m));
  CT_ASSERT_OK(ct_metrics_close(m));
  CT_ASSERT_TEXT(content(dir), "{\"event\":\"start\"}\n{\"event\":\"end\"}\n");
}

static void a_file_of_one_torn_line_is_emptied(void)
{
  const char *dir = ct_test_dir();
  ct_metrics_t *m;
  char torn[3001];
  memset(torn, 'x', sizeof torn - 1);
  torn[sizeof torn - 1] = '\0';
  put(dir, torn);
  CT_ASSERT_OK(ct_metrics_open(dir, &m));
  CT_ASSERT_OK(ct_metrics_close(m));
  CT_ASSERT_TEXT(content(dir), "");
}

/* The end is looked for block by block, from behind. */
static void a_torn_line_of_a_long_file(void)
{
  enum { LINES = 300, LONG = 5000 };
  const char *dir = ct_test_dir();
  ct_metrics_t *m;
  ct_str_t text = {0};
  char torn[LONG + 1], path[600];
  memset(torn, 'x', LONG);
  torn[LONG] = '\0';
  snprintf(path, sizeof path, "%s/metrics.jsonl", dir);
  for (int bytes = 1; bytes <= LONG; bytes += LONG - 1) {
    text.len = 0;
    for (int i = 0; i < LINES; i++)
      CT_ASSERT_OK(ct_str_add(&text, "{\"event\":\"step\",\"step\":%d}\n", i));
    size_t whole = text.len, n = 0;
    char *now = NULL;
    CT_ASSERT_OK(ct_str_add(&text, "%.*s", bytes, torn));
    put(dir, text.data);
    CT_ASSERT_OK(ct_metrics_open(dir, &m));
    CT_ASSERT_OK(ct_metrics_close(m));
    CT_ASSERT_OK(ct_file_read(path, &now, &n));
    CT_ASSERT_INT(n, whole);
    CU_ASSERT(now && memcmp(now, text.data, whole) == 0);
    ct_mem_free(now);
  }
  ct_str_clear(&text);
}

static void a_full_disk_is_an_error_and_leaves_whole_lines(void)
{
  const char *dir = ct_test_dir();
  ct_metrics_t *m;
  struct rlimit old, small;
  getrlimit(RLIMIT_FSIZE, &old);
  if (CT_ASSERT_OK(ct_metrics_open(dir, &m)) != CT_OK) return;
  ct_metrics_begin(m, "first");
  CT_ASSERT_OK(ct_metrics_end(m));
  small = old;
  small.rlim_cur = 30;
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  ct_metrics_begin(m, "second");
  ct_metrics_text(m, "text", "longer than the room that is left");
  CT_ASSERT_FAILS(ct_metrics_end(m), CT_ERR_IO, "metrics.jsonl");
  setrlimit(RLIMIT_FSIZE, &old);
  CT_ASSERT_FAILS(ct_metrics_close(m), CT_ERR_IO, "metrics.jsonl");
  CT_ASSERT_TEXT(content(dir), "{\"event\":\"first\"}\n");
}

static void write_event(ct_metrics_t *m, const char *event)
{
  ct_metrics_begin(m, event);
  CT_ASSERT_OK(ct_metrics_end(m));
}

/* Each time it is told once. */
static void lines_are_left_out_while_the_disk_is_full(void)
{
  const char *dir = ct_test_dir();
  char text[4096] = "";
  int ends[2], saved = dup(STDERR_FILENO), told = 0;
  ct_metrics_t *m;
  struct rlimit old, small;
  getrlimit(RLIMIT_FSIZE, &old);
  if (CT_ASSERT_OK(ct_metrics_open(dir, &m)) != CT_OK) return;
  ct_metrics_forgive(m);
  small = old;
  small.rlim_cur = 10;
  signal(SIGXFSZ, SIG_IGN);
  CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
  dup2(ends[1], STDERR_FILENO);
  ct_log_setup(0, 1, CT_LOG_WARN);
  for (int times = 0; times < 2; times++) {
    setrlimit(RLIMIT_FSIZE, &small);
    write_event(m, "lost");
    write_event(m, "lost");
    setrlimit(RLIMIT_FSIZE, &old);
    write_event(m, "later");
  }
  ct_log_setup(0, 1, CT_LOG_ERROR);
  dup2(saved, STDERR_FILENO);
  close(saved);
  close(ends[1]);
  CT_ASSERT_OK(ct_metrics_close(m));
  CT_ASSERT_TEXT(content(dir), "{\"event\":\"later\"}\n{\"event\":\"later\"}\n");
  CU_ASSERT(read(ends[0], text, sizeof text - 1) > 0);
  close(ends[0]);
  for (const char *p = text; (p = strstr(p, "lines are dropped")); p++)
    told++;
  CT_ASSERT_INT(told, 2);
}

static void a_removed_file_is_begun_anew(void)
{
  char dir[600], moved[610], path[620];
  ct_metrics_t *m;
  snprintf(dir, sizeof dir, "%s/a/run", ct_test_dir());
  snprintf(moved, sizeof moved, "%s.moved", dir);
  snprintf(path, sizeof path, "%s/metrics.jsonl", dir);
  CT_ASSERT_OK(ct_file_mkdirs(dir));
  if (CT_ASSERT_OK(ct_metrics_open(dir, &m)) != CT_OK) return;
  write_event(m, "one");
  CT_ASSERT_INT(unlink(path), 0);
  write_event(m, "two");
  CT_ASSERT_TEXT(content(dir), "{\"event\":\"two\"}\n");
  CT_ASSERT_INT(rename(dir, moved), 0);
  write_event(m, "three");
  CT_ASSERT_TEXT(content(dir), "{\"event\":\"three\"}\n");
  CT_ASSERT_TEXT(content(moved), "{\"event\":\"two\"}\n");
  CT_ASSERT_OK(ct_metrics_close(m));
}

static void a_missing_directory_is_an_error(void)
{
  ct_metrics_t *m;
  CT_ASSERT_FAILS(ct_metrics_open("/nowhere/at/all", &m), CT_ERR_IO,
                  "/nowhere/at/all/metrics.jsonl");
  CU_ASSERT_PTR_NULL(m);
}

static void no_metrics_is_fine(void)
{
  ct_metrics_begin(NULL, "x");
  ct_metrics_int(NULL, "a", 1);
  ct_metrics_num(NULL, "a", 1);
  ct_metrics_text(NULL, "a", "b");
  CT_ASSERT_OK(ct_metrics_end(NULL));
  CT_ASSERT_OK(ct_metrics_close(NULL));
}

static void nothing_stays_allocated(void)
{
  CT_ASSERT_INT(ct_mem_live(), 0);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(fields_keep_their_order),
                                    CT_TEST(lines_say_which_start),
                                    CT_TEST(texts_become_utf8),
                                    CT_TEST(numbers_read_back_exactly),
                                    CT_TEST(what_is_not_finite_is_null),
                                    CT_TEST(appends_and_drops_a_torn_line),
                                    CT_TEST(a_file_of_one_torn_line_is_emptied),
                                    CT_TEST(a_torn_line_of_a_long_file),
                                    CT_TEST(a_full_disk_is_an_error_and_leaves_whole_lines),
                                    CT_TEST(lines_are_left_out_while_the_disk_is_full),
                                    CT_TEST(a_removed_file_is_begun_anew),
                                    CT_TEST(a_missing_directory_is_an_error),
                                    CT_TEST(no_metrics_is_fine),
                                    CT_TEST(nothing_stays_allocated),
                                    CT_TEST_END};
  ct_log_setup(0, 1, CT_LOG_ERROR); /* the warnings are meant */
  return ct_test_main("metrics", tests, argc, argv);
}
