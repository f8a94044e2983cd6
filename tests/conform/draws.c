/* Command-line options for a range of random cases, and messages about failed ones. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/conform/draw.h"
#include "tests/harness/ct_test.h"

enum { SECONDS_MAX = 600 /* time limit of one draw, which takes milliseconds: ends only hangs */ };

static int to_number(const char *text, int64_t *out)
{
  char *end;
  *out = strtoll(text, &end, 10);
  return end != text && *end == 0 && *out >= 0;
}

/* Parses "S:I". */
static int to_draw(const char *text, draws_t *out)
{
  char *end;
  out->seed = strtoull(text, &end, 10);
  out->count = 1;
  return end != text && *end == ':' && to_number(end + 1, &out->first);
}

int draws_options(draws_t *out, int *argc, char **argv)
{
  int left = 1;
  for (int i = 1; i < *argc; i++) {
    const char *value = i + 1 < *argc ? argv[i + 1] : "";
    int64_t number = 0;
    int fine = 1;
    if (strcmp(argv[i], "--draw") == 0) {
      fine = to_number(value, &out->count);
    } else if (strcmp(argv[i], "--seed") == 0) {
      fine = to_number(value, &number);
      out->seed = (uint64_t)number;
    } else if (strcmp(argv[i], "--draw-one") == 0) {
      fine = to_draw(value, out);
    } else {
      argv[left++] = argv[i];
      continue;
    }
    if (!fine) {
      printf("Bail out! %s '%s': it takes a number, --draw-one SEED:DRAW\n", argv[i], value);
      return 0;
    }
    out->asked = 1;
    i++;
  }
  argv[ *argc = left] = NULL;
  return 1;
}

/* ---- the current draw ---- */

static char now[600];
static const char *program = "";

static void on_signal(int number)
{
  static const char said[] = "# a crash, or no end, in ";
  ssize_t n = write(STDOUT_FILENO, said, sizeof said - 1);
  n += write(STDOUT_FILENO, now, strlen(now));
  signal(number, SIG_DFL);
  if (n) raise(number);
}

static const int watched[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM};
enum { WATCHED = sizeof watched / sizeof watched[0] };

void draws_begin(const char *name)
{
  program = name;
  for (int i = 0; i < WATCHED; i++)
    signal(watched[i], on_signal);
}

unsigned draws_next(uint64_t seed, int64_t i, const char *text)
{
  snprintf(now, sizeof now, "%s --draw-one %" PRIu64 ":%" PRId64 ": %s\n", program, seed, i, text);
  fflush(stdout);
  alarm(SECONDS_MAX);
  return CU_get_number_of_failure_records();
}

void draws_done(unsigned failed_before)
{
  if (CU_get_number_of_failure_records() > failed_before) printf("# wrong: %s", now);
}

void draws_end(void)
{
  alarm(0);
  for (int i = 0; i < WATCHED; i++)
    signal(watched[i], SIG_DFL);
}
