/* End of the job from the configuration or environment, and whether time is left for another step
 * and a checkpoint. */
#include "job/ct_walltime.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/ct_clock.h"
#include "base/ct_log.h"
#include "base/ct_text.h"

enum { MINUTE = 60, HOUR = 3600, DAY = 86400 };

/* ---- configuration ---- */

/* [days-]hours:minutes:seconds; digits only, and no part may reach the next larger unit. */
static int colons(const char *text, double *seconds)
{
  unsigned days = 0, hours, minutes, sec;
  int used = 0, days_used = 0;
  if (strspn(text, "0123456789:-") != strlen(text)) return CT_ERR_ARG;
  if (strchr(text, '-') && (sscanf(text, "%6u-%n", &days, &days_used) != 1 || !days_used))
    return CT_ERR_ARG;
  text += days_used;
  if (sscanf(text, "%6u:%2u:%2u%n", &hours, &minutes, &sec, &used) != 3 || text[used])
    return CT_ERR_ARG;
  if (strchr(text, '-') || minutes >= 60 || sec >= 60 || (days_used && hours >= 24))
    return CT_ERR_ARG;
  *seconds = (double)days * DAY + (double)hours * HOUR + minutes * MINUTE + sec;
  return CT_OK;
}

/* Parses a number, with or without a unit. */
static int walltime_number(const char *text, double *seconds)
{
  static const struct {
    char name;
    double seconds;
  } units[] = {{'s', 1}, {'m', MINUTE}, {'h', HOUR}, {'d', DAY}};
  char digits[32];
  size_t n = strlen(text);
  double unit = 1, value;
  if (n == 0 || n >= sizeof digits) return CT_ERR_ARG;
  memcpy(digits, text, n + 1);
  for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
    if (digits[n - 1] != units[i].name) continue;
    unit = units[i].seconds;
    digits[n - 1] = '\0';
  }
  if (ct_text_double(digits, &value) != CT_OK) return CT_ERR_ARG;
  *seconds = value * unit;
  return CT_OK;
}

int ct_walltime_duration(const char *text, double *seconds)
{
  int rc = strchr(text, ':') ? colons(text, seconds) : walltime_number(text, seconds);
  if (rc == CT_OK && !(*seconds > 0 && isfinite(*seconds))) rc = CT_ERR_ARG;
  return rc;
}

int ct_walltime_check(const char *text)
{
  int rc = CT_OK;
  double seconds;
  if (strcmp(text, "auto") == 0 || strcmp(text, "off") == 0) return CT_OK;
  if (ct_walltime_duration(text, &seconds) != CT_OK)
    CT_FAIL(CT_ERR_USAGE,
            "job.walltime is '%s': expected auto, off or a duration such as 1-12:00:00, 11:30:00, "
            "90m or 5400 (seconds)",
            text);
out:
  return rc;
}

/* ---- environment ---- */

static double epoch_now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Takes the end time in a variable; ignores it if it is in the past. */
static void walltime_take(const char *source, const char *text, ct_walltime_t *w)
{
  char over[32];
  double now = epoch_now(), end;
  if (!text || !*text) return;
  if (ct_text_double(text, &end) != CT_OK || !isfinite(end))
    ct_log(CT_LOG_WARN, "%s is '%s': ignored, not a Unix timestamp", source, text);
  else if (end <= now)
    ct_log(CT_LOG_WARN, "%s was %s ago: ignored, not the end of this job", source,
           ct_text_seconds(now - end, over, sizeof over));
  else
    *w = (ct_walltime_t){.source = source, .end_s = end, .end_clock_s = ct_clock() + (end - now)};
}

static void from_environment(const ct_job_t *job, ct_walltime_t *w)
{
  walltime_take("CTRAIN_END_TIME", getenv("CTRAIN_END_TIME"), w);
  for (int i = 0; i < CT_JOB_ENDS && !w->source; i++)
    walltime_take(job->end[i].source, job->end[i].text, w);
}

static void from_duration(double seconds, ct_walltime_t *w)
{
  double left = seconds - ct_clock_since_exec();
  *w = (ct_walltime_t){.source = "job.walltime",
                       .end_s = epoch_now() + left,
                       .end_clock_s = ct_clock() + left,
                       .by_clock = 1};
}

int ct_walltime_open(const char *text, const ct_job_t *job, ct_walltime_t *out)
{
  int rc = CT_OK;
  double seconds;
  *out = (ct_walltime_t){0};
  CT_TRY(ct_walltime_check(text));
  if (ct_walltime_duration(text, &seconds) == CT_OK)
    from_duration(seconds, out);
  else if (strcmp(text, "auto") == 0)
    from_environment(job, out);
out:
  return rc;
}

/* ---- time left ---- */

double ct_walltime_left(const ct_walltime_t *w, double epoch_s, double clock_s)
{
  if (!w->source) return INFINITY;
  double by_clock = w->end_clock_s - clock_s;
  return w->by_clock ? by_clock : fmin(by_clock, w->end_s - epoch_s);
}

double ct_walltime_left_now(const ct_walltime_t *w)
{
  return ct_walltime_left(w, epoch_now(), ct_clock());
}

int ct_walltime_is_last(double left_s, const ct_walltime_need_t *need)
{
  double saves = need->writing ? 2 : 1;
  return left_s < 2 * need->step_s + saves * need->save_s + need->margin_s;
}

double ct_walltime_slowest(double before_s, double now_s)
{
  const double fades = 0.97; /* halves in 23 steps */
  return fmax(now_s, fades * before_s);
}

double ct_walltime_guess_save(double bytes)
{
  return 1 + bytes / 50e6;
}
