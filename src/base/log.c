/* The log on standard error: one write() per line, so that lines of different ranks do not mix.
 * The progress bar shares the terminal and is cleared before each line. */
#include "base/ct_log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/ct_terminal.h"
#include "base/ct_text.h"

#define CLEAR_LINE "\r\033[K"

static int log_rank;
static int log_size = 1;
static ct_log_level_t log_threshold = CT_LOG_INFO;
static atomic_int bar_shown; /* the feed thread logs too */

void ct_log_setup(int rank, int size, ct_log_level_t threshold)
{
  log_rank = rank;
  log_size = size;
  log_threshold = threshold;
}

/* Writes to standard error.  A failure to write the log cannot be reported. */
static void log_put(const char *line, size_t len)
{
  ssize_t n = write(STDERR_FILENO, line, len);
  (void)n;
}

static void write_line(ct_log_level_t level, int with_rank, const char *fmt, va_list args)
{
  static const char *const letters[] = {"E ", "W ", "", ""};
  char line[4096], clock[16], who[32] = "";
  time_t now = time(NULL);
  struct tm tm;
  strftime(clock, sizeof clock, "%H:%M:%S", localtime_r(&now, &tm));
  if (with_rank) snprintf(who, sizeof who, "[rank %d] ", log_rank);
  const char *clear = atomic_exchange(&bar_shown, 0) ? CLEAR_LINE : "";
  int head = snprintf(line, sizeof line, "%s%s %s%s", clear, clock, who, letters[level]);
  size_t room = sizeof line - (size_t)head - 1; /* the last byte is for the newline */
  ct_text_vfit(line + head, room, fmt, args);
  size_t len = strlen(line + head);
  for (char *p = line + head; p < line + head + len; p++)
    if (*p == '\n' || *p == '\r') *p = ' ';
  len += (size_t)head;
  line[len++] = '\n';
  log_put(line, len);
}

void ct_log(ct_log_level_t level, const char *fmt, ...)
{
  if (level > log_threshold || log_rank != 0) return;
  va_list args;
  va_start(args, fmt);
  write_line(level, 0, fmt, args);
  va_end(args);
}

void ct_log_all(ct_log_level_t level, const char *fmt, ...)
{
  if (level > log_threshold) return;
  va_list args;
  va_start(args, fmt);
  write_line(level, log_size > 1, fmt, args);
  va_end(args);
}

void ct_log_fatal(const char *text)
{
  char line[4096];
  const char *clear = atomic_exchange(&bar_shown, 0) ? CLEAR_LINE : "";
  int n = snprintf(line, sizeof line, "%sctrain-hpc: error: %s", clear, text);
  size_t len = (size_t)n < sizeof line ? (size_t)n : sizeof line - 1;
  line[len++] = '\n'; /* over the end of the text */
  log_put(line, len);
}

int ct_log_has_bar(void)
{
  static int launcher = -1;
  const char *wish = getenv("CTRAIN_PROGRESS");
  if (log_rank != 0) return 0;
  if (wish && *wish) return strcmp(wish, "0") != 0;
  if (isatty(STDERR_FILENO)) return 1;
  if (launcher < 0) launcher = ct_terminal_of_launcher();
  return launcher;
}

void ct_log_progress(const char *text)
{
  if (!ct_log_has_bar()) return;
  char line[512];
  int n = snprintf(line, sizeof line, CLEAR_LINE "%s", text ? text : "");
  if (text) {
    log_put(line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
    atomic_store(&bar_shown, 1);
  } else if (atomic_exchange(&bar_shown, 0)) {
    log_put(CLEAR_LINE, strlen(CLEAR_LINE));
  }
}
