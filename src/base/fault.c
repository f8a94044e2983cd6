/* Fault injection: CTRAIN_FAULTS names points in the code, the pass at which each fails, and the
 * kind of failure.  Tests use it to cause failures that are rare in hardware and file systems. */
#include "base/ct_fault.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_log.h"

enum { MAX_FAULTS = 16, SLOW_MS = 20, SLOW_MS_MAX = 100 * 1000 };
typedef enum { DO_FAIL, DO_KILL, DO_SLEEP, DO_SLOW } action_t;

typedef struct fault {
  char point[64];
  long long nth; /* the pass that fails or the first pass that is slow, counted from 1 */
  action_t action;
  int slow_ms;
  atomic_llong passes;
} fault_t;

static fault_t faults[MAX_FAULTS]; /* faults of this rank */
static int nfaults;

/* "slow" or "slow=MILLISECONDS" */
static int parse_slow(const char *text, fault_t *f)
{
  int end = 0;
  f->action = DO_SLOW;
  f->slow_ms = SLOW_MS;
  if (strcmp(text, "slow") == 0) return 1;
  return sscanf(text, "slow=%d%n", &f->slow_ms, &end) == 1 && !text[end] && f->slow_ms > 0 &&
         f->slow_ms <= SLOW_MS_MAX;
}

/* Parses one "point@rank:nth[:action]".  Returns 1: for this rank; 0: for another rank; -1:
 * invalid. */
static int parse(const char *text, int rank, fault_t *f)
{
  char who[16], action[16] = "";
  int end = 0;
  int n = sscanf(text, "%63[^@]@%15[^:]:%lld%n:%15s%n", f->point, who, &f->nth, &end, action, &end);
  if (n < 3 || text[end] || f->nth < 1) return -1;
  if (n == 3)
    f->action = DO_FAIL;
  else if (strcmp(action, "kill") == 0)
    f->action = DO_KILL;
  else if (strcmp(action, "sleep") == 0)
    f->action = DO_SLEEP;
  else if (!parse_slow(action, f))
    return -1;
  atomic_store(&f->passes, 0);
  if (strcmp(who, "*") == 0) return 1;
  char *rest;
  long wanted = strtol(who, &rest, 10);
  return *rest ? -1 : wanted == rank;
}

void ct_fault_setup(int rank)
{
  const char *list = getenv("CTRAIN_FAULTS");
  nfaults = 0;
  while (list && *list) {
    char item[128];
    size_t len = strcspn(list, ",");
    snprintf(item, sizeof item, "%.*s", (int)len, list);
    int taken =
        nfaults < MAX_FAULTS && len < sizeof item ? parse(item, rank, &faults[nfaults]) : -1;
    if (taken < 0)
      ct_log(CT_LOG_WARN,
             "CTRAIN_FAULTS: '%s' is ignored: expected point@rank:nth, and up to %d of them", item,
             MAX_FAULTS);
    else
      nfaults += taken;
    list += len + (list[len] == ',');
  }
}

static int happen(const fault_t *f)
{
  if (f->action == DO_KILL) raise(SIGKILL);
  while (f->action == DO_SLEEP)
    pause();
  return ct_err_set(CT_ERR_FAULT, __FILE__, __LINE__, "injected fault at '%s', pass %lld", f->point,
                    f->nth);
}

static void dawdle(int ms)
{
  struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
  while (nanosleep(&left, &left) != 0) {
  } /* continue the sleep after a signal */
}

int ct_fault(const char *point)
{
  int rc = CT_OK;
  for (int i = 0; i < nfaults; i++) {
    fault_t *f = &faults[i];
    if (strcmp(f->point, point) != 0) continue;
    long long pass = atomic_fetch_add(&f->passes, 1) + 1;
    if (f->action == DO_SLOW && pass >= f->nth) dawdle(f->slow_ms);
    if (f->action != DO_SLOW && pass == f->nth) rc = happen(f);
  }
  return rc;
}
