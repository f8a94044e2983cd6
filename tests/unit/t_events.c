/* Event files: their records as TensorFlow's format has them, and what happens when there is no
 * room for one.  That TensorBoard reads them is tried in tests/python/tensorboard.test. */
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_hash.h"
#include "base/ct_mem.h"
#include "telemetry/ct_events.h"
#include "tests/harness/ct_test.h"

/* RFC 3720, B.4, and the check value of CRC-32C. */
static void the_checksum_has_the_known_values(void)
{
  unsigned char zeros[32] = {0}, ones[32], up[32];
  memset(ones, 0xff, sizeof ones);
  for (int i = 0; i < 32; i++)
    up[i] = (unsigned char)i;
  CU_ASSERT_EQUAL(ct_crc32c("123456789", 9), 0xe3069283U);
  CU_ASSERT_EQUAL(ct_crc32c(zeros, 32), 0x8a9136aaU);
  CU_ASSERT_EQUAL(ct_crc32c(ones, 32), 0x62a8ab43U);
  CU_ASSERT_EQUAL(ct_crc32c(up, 32), 0x46dd794eU);
}

static ct_events_t *begin(const char *dir, int64_t step, int anew)
{
  ct_events_t *e = NULL;
  CT_ASSERT_OK(ct_events_open(dir, step, anew, &e));
  CU_ASSERT_PTR_NOT_NULL_FATAL(e);
  return e;
}

/* The only file there. */
static size_t content(const char *dir, char **text)
{
  char pattern[CT_PATH_MAX];
  size_t bytes = 0;
  glob_t found;
  snprintf(pattern, sizeof pattern, "%s/events.out.tfevents.*", dir);
  CU_ASSERT_EQUAL_FATAL(glob(pattern, 0, NULL, &found), 0);
  CT_ASSERT_INT(found.gl_pathc, 1);
  CT_ASSERT_OK(ct_file_read(found.gl_pathv[0], text, &bytes));
  globfree(&found);
  return bytes;
}

static uint64_t little(const char *p, int bytes)
{
  uint64_t v = 0;
  for (int i = bytes - 1; i >= 0; i--)
    v = v << 8 | (unsigned char)p[i];
  return v;
}

static uint32_t masked(const char *p, size_t bytes)
{
  uint32_t c = ct_crc32c(p, bytes);
  return (c >> 15 | c << 17) + 0xa282ead8U;
}

/* Length, its sum, data, its sum; one behind the other up to the end. */
static int records(const char *text, size_t bytes)
{
  size_t at = 0;
  int n = 0;
  for (; at + 16 <= bytes; n++) {
    uint64_t length = little(text + at, 8);
    CU_ASSERT_EQUAL_FATAL(little(text + at + 8, 4), masked(text + at, 8));
    CU_ASSERT_FATAL(at + 16 + length <= bytes);
    CU_ASSERT_EQUAL(little(text + at + 12 + length, 4), masked(text + at + 12, length));
    at += 16 + length;
  }
  CU_ASSERT_EQUAL(at, bytes);
  return n;
}

static int has(const char *text, size_t bytes, const char *part, size_t n)
{
  return memmem(text, bytes, part, n) != NULL;
}

static void records_are_whole(void)
{
  char *text = NULL;
  const char *dir = ct_test_dir();
  ct_events_t *e = begin(dir, 0, 0);
  json_t *line = json_pack("{s:s, s:i, s:f, s:f, s:n, s:f}", "event", "step", "step", 7, "loss",
                           0.5, "data_s", 2.0, "grad_norm", "elapsed_s", 3.0);
  json_t *other = json_pack("{s:s, s:i}", "event", "account", "step", 7);
  ct_events_line(e, line);
  ct_events_line(e, other); /* is none of its own */
  ct_events_histogram(e, "weights/w", 7, (float[]){1, 2, 4, INFINITY}, 4);
  ct_events_histogram(e, "weights/nothing", 7, (float[]){NAN}, 1);
  ct_events_end(e, 0);
  ct_events_close(e);
  size_t bytes = content(dir, &text);
  CT_ASSERT_INT(records(text, bytes), 4); /* the version, the line, one histogram, the end */
  CU_ASSERT(has(text, bytes, "brain.Event:2", 13));
  /* Value{tag, simple_value}: 0.5 and 2 as floats, the lowest byte first */
  CU_ASSERT(has(text, bytes, "\x0a\x0atrain/loss\x15\0\0\0\x3f", 17));
  CU_ASSERT(has(text, bytes, "\x0a\x0cspeed/data_s\x15\0\0\0\x40", 19));
  CU_ASSERT(!has(text, bytes, "grad_norm", 9));
  CU_ASSERT(!has(text, bytes, "elapsed_s", 9));
  /* HistogramProto: least 1, largest 4, number 3, sum 7, of squares 21 */
  CU_ASSERT(has(text, bytes,
                "\x09\0\0\0\0\0\0\xf0\x3f\x11\0\0\0\0\0\0\x10\x40\x19\0\0\0\0\0\0\x08\x40"
                "\x21\0\0\0\0\0\0\x1c\x40\x29\0\0\0\0\0\0\x35\x40",
                45));
  json_decref(line);
  json_decref(other);
  ct_mem_free(text);
}

/* Event{step: 46, session_log: {status: START}} behind the time. */
static void a_run_that_goes_on_says_so(void)
{
  char *text = NULL;
  const char *dir = ct_test_dir();
  ct_events_close(begin(dir, 45, 1));
  size_t bytes = content(dir, &text);
  CT_ASSERT_INT(records(text, bytes), 2);
  CU_ASSERT(has(text, bytes, "\x10\x2e\x3a\x02\x08\x01", 6));
  ct_mem_free(text);
}

static void no_room_ends_the_file_not_the_run(void)
{
  char *text = NULL;
  const char *dir = ct_test_dir();
  struct rlimit old, small;
  json_t *line = json_pack("{s:s, s:i, s:f}", "event", "step", "step", 1, "loss", 0.5);
  CU_ASSERT_EQUAL_FATAL(getrlimit(RLIMIT_FSIZE, &old), 0);
  small = old;
  small.rlim_cur = 200;
  signal(SIGXFSZ, SIG_IGN);
  ct_events_t *e = begin(dir, 0, 0);
  setrlimit(RLIMIT_FSIZE, &small);
  for (int i = 0; i < 10; i++)
    ct_events_line(e, line);
  setrlimit(RLIMIT_FSIZE, &old);
  ct_events_line(e, line); /* there would be room again, but what is torn stays at the end */
  ct_events_close(e);
  CT_ASSERT_INT(content(dir, &text), 200);
  json_decref(line);
  ct_mem_free(text);
}

static void without_one_nothing_happens(void)
{
  ct_events_line(NULL, NULL);
  ct_events_graph(NULL, NULL);
  ct_events_text(NULL, "tag", "text");
  ct_events_settings(NULL, NULL);
  ct_events_histogram(NULL, "tag", 0, NULL, 0);
  ct_events_end(NULL, 0);
  ct_events_close(NULL);
  CT_ASSERT_INT(ct_mem_live(), 0);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(the_checksum_has_the_known_values), CT_TEST(records_are_whole),
      CT_TEST(a_run_that_goes_on_says_so),        CT_TEST(no_room_ends_the_file_not_the_run),
      CT_TEST(without_one_nothing_happens),       CT_TEST_END};
  return ct_test_main("events", tests, argc, argv);
}
