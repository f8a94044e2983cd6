/* `watch`: shows the progress of a run in the terminal, from its metrics.jsonl.  The run may be on
 * a cluster whose file system is mounted here; its directory is only read. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "commands/ct_commands.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "telemetry/ct_runlog.h"

static double now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int speaks_utf8(void)
{
  static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
  for (int i = 0; i < 3; i++) {
    const char *value = getenv(names[i]);
    if (value && *value) return strstr(value, "UTF-8") || strstr(value, "utf8");
  }
  return 0;
}

static int columns_of_terminal(void)
{
  struct winsize size;
  int known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

/* Draws the status; on a terminal it replaces the previous one. */
static int watch_draw(const ct_runlog_t *r, int live)
{
  int rc = CT_OK;
  ct_str_t text = {0};
  if (live) CT_TRY(ct_str_add(&text, "\033[H\033[2J"));
  CT_TRY(ct_runlog_text(r, columns_of_terminal(), speaks_utf8(), now(), &text));
  CT_TRY(ct_app_print(text.data));
out:
  ct_str_clear(&text);
  return rc;
}

/* Reports once that the run has not written metrics yet, for example because its job is queued. */
static int wait_for(const ct_runlog_t *r, int *told)
{
  char text[CT_PATH_MAX + 80];
  if (!(*told)++) {
    snprintf(text, sizeof text, "waiting for %s/metrics.jsonl\n", r->dir);
    return ct_app_print(text);
  }
  return CT_OK;
}

static int follow(ct_runlog_t *r, int64_t every_s)
{
  int rc = CT_OK, told = 0;
  int64_t lines;
  for (;; sleep((unsigned)every_s)) {
    rc = ct_runlog_more(r, &lines);
    if (rc == CT_ERR_IO && r->run == 0) { /* the run has not started */
      CT_TRY(wait_for(r, &told));
      continue;
    }
    CT_TRY(rc);
    if (r->run == 0) {
      CT_TRY(wait_for(r, &told));
      continue;
    }
    CT_TRY(watch_draw(r, 1));
    if (r->end[0] || ct_runlog_is_killed(r)) break;
  }
out:
  return rc;
}

int ct_cmd_watch(const ct_args_t *a, const ct_topo_t *topo, int *status)
{
  int rc = CT_OK;
  int64_t every_s, lines;
  ct_runlog_t r = {0};
  (void)topo;
  (void)status;
  CT_TRY(ct_args_int(a, "interval", 2, 1, 86400, &every_s));
  CT_TRY(ct_runlog_open(a->rest[0], &r));
  if (!ct_args_get(a, "once") && isatty(STDOUT_FILENO)) {
    CT_TRY(follow(&r, every_s));
    goto out;
  }
  CT_TRY(ct_runlog_more(&r, &lines));
  if (r.run == 0) CT_FAIL(CT_ERR_FORMAT, "%s/metrics.jsonl: no run has begun yet", r.dir);
  CT_TRY(watch_draw(&r, 0));
out:
  ct_runlog_close(&r);
  return rc;
}
