/* Retries failed reads. A file server restart, a stale handle (ESTALE) or a shard that is being
 * copied again causes errors that may disappear in a moment, and should not end a long job. The
 * wait doubles after each try; each try counts as progress for the watch. */
#include "hdf5io/read/h5_retry.h"

#include <time.h>

#include "base/ct_heartbeat.h"
#include "base/ct_clock.h"
#include "base/ct_log.h"

static const double first_wait_s = 0.05, longest_wait_s = 5;

static void sleep_s(double s)
{
  struct timespec t = {(time_t)s, (long)(1e9 * (s - (double)(time_t)s))};
  nanosleep(&t, NULL);
}

/* Returns 1 for errors that may be transient. Invalid content is damage, unless the file could not
 * be read a moment before: then it may be in the process of being written. */
static int may_pass(const ct__h5_retry_t *t, int code)
{
  return code == CT_ERR_IO || (code == CT_ERR_FORMAT && t->tries > 0);
}

int ct__h5_retry_again(ct__h5_retry_t *t, int code, double most_s)
{
  double now = ct_clock();
  if (!may_pass(t, code)) return 0;
  if (t->tries++ == 0) {
    t->began_s = now;
    t->wait_s = first_wait_s;
    t->first = *ct_err_last();
    if (most_s > 0)
      ct_log_all(CT_LOG_WARN, "%s; retrying for up to %g s (data.retry_s)", t->first.text, most_s);
  }
  double left = t->began_s + most_s - now;
  if (left <= 0) {
    ct_err_put(&t->first);
    if (t->tries > 1) ct_err_suffix(" (tried %d times in %.1f s)", t->tries, now - t->began_s);
    return 0;
  }
  ct_heartbeat_progress();
  sleep_s(t->wait_s < left ? t->wait_s : left);
  t->wait_s = 2 * t->wait_s < longest_wait_s ? 2 * t->wait_s : longest_wait_s;
  return 1;
}

void ct__h5_retry_done(const ct__h5_retry_t *t, const char *path)
{
  if (t->tries == 0) return;
  ct_log_all(CT_LOG_WARN, "%s: read after %d tries in %.1f s", path, t->tries + 1,
             ct_clock() - t->began_s);
}
