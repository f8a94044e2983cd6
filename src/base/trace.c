/* Events of a timeline, stored in one array per process and converted to JSON at the end.  The
 * array has a lock, which is taken only while tracing is on. */
#include "base/ct_trace.h"

#include <pthread.h>
#include <string.h>

#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"

atomic_int ct__trace_on;

typedef struct event {
  const char *name, *pass;
  int64_t number;
  double begin, end;
  int lane;   /* number of the thread; the main thread is 0 */
  int flight; /* 1: may overlap other events */
} event_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* under the lock: */
static event_t *events;
static int64_t count, room, lost_events;
static double started;
static int lanes;

static _Thread_local int lane = -1;

int ct_trace_start(int64_t most)
{
  event_t *fresh = ct_mem_array(most, sizeof *fresh, "a timeline");
  if (!fresh) return CT_ERR_NOMEM;
  memset(fresh, 0xff, (size_t)most * sizeof *fresh); /* touch all pages now, so that recording
                                                        causes no page faults */
  pthread_mutex_lock(&lock);
  ct_mem_free(events);
  events = fresh;
  room = most;
  count = lost_events = 0;
  started = ct_clock();
  if (lanes == 0) lanes = 1;
  lane = 0;
  pthread_mutex_unlock(&lock);
  atomic_store(&ct__trace_on, 1);
  return CT_OK;
}

void ct_trace_stop(void)
{
  atomic_store(&ct__trace_on, 0);
}

void ct_trace_clear(void)
{
  ct_trace_stop();
  pthread_mutex_lock(&lock);
  ct_mem_free(events);
  events = NULL;
  count = room = 0;
  pthread_mutex_unlock(&lock);
}

double ct_trace_now(void)
{
  return ct_trace_is_on() ? ct_clock() : 0;
}

static void trace_keep(event_t e)
{
  pthread_mutex_lock(&lock);
  if (lane < 0) lane = lanes++;
  e.lane = lane;
  if (e.begin < started) e.begin = started;
  if (count == room)
    lost_events++;
  else if (e.end >= e.begin)
    events[count++] = e;
  pthread_mutex_unlock(&lock);
}

void ct_trace_between(const char *name, const char *pass, int64_t number, double begin, double end)
{
  if (ct_trace_is_on()) trace_keep((event_t){name, pass, number, begin, end, 0, 0});
}

void ct_trace_span(const char *name, const char *pass, int64_t number, double begin)
{
  if (ct_trace_is_on()) trace_keep((event_t){name, pass, number, begin, ct_clock(), 0, 0});
}

void ct_trace_flight(const char *name, int64_t number, double begin)
{
  if (ct_trace_is_on()) trace_keep((event_t){name, NULL, number, begin, ct_clock(), 0, 1});
}

/* ---- text ---- */

static int trace_add_name(const event_t *e, ct_str_t *out)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(out, "\"name\":\"%s%s%s", e->name, e->pass ? " " : "", e->pass ? e->pass : ""));
  CT_TRY(e->number < 0 ? ct_str_add(out, "\"") : ct_str_add(out, " %lld\"", (long long)e->number));
out:
  return rc;
}

/* A span is one event; a flight is two events with the same id. */
static int add_event(const event_t *e, int pid, int64_t id, double from, double to, ct_str_t *out)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(out, "{"));
  CT_TRY(trace_add_name(e, out));
  CT_TRY(ct_str_add(out, ",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,", pid, e->lane, 1e6 * from));
  if (!e->flight) {
    CT_TRY(ct_str_add(out, "\"ph\":\"X\",\"dur\":%.3f},\n", 1e6 * (to - from)));
    return CT_OK;
  }
  CT_TRY(ct_str_add(out, "\"ph\":\"b\",\"cat\":\"message\",\"id2\":{\"local\":\"%lld\"}},\n{",
                    (long long)id));
  CT_TRY(trace_add_name(e, out));
  CT_TRY(ct_str_add(out,
                    ",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"ph\":\"e\",\"cat\":\"message\","
                    "\"id2\":{\"local\":\"%lld\"}},\n",
                    pid, e->lane, 1e6 * to, (long long)id));
out:
  return rc;
}

static int add_names(int pid, const char *name, ct_str_t *out)
{
  int rc = CT_OK;
  CT_TRY(
      ct_str_add(out,
                 "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":\"%s\"}},\n"
                 "{\"name\":\"process_sort_index\",\"ph\":\"M\",\"pid\":%d,"
                 "\"args\":{\"sort_index\":%d}},\n",
                 pid, name, pid, pid));
  for (int i = 0; i < lanes; i++)
    CT_TRY(ct_str_add(out,
                      "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,"
                      "\"args\":{\"name\":\"%s\"}},\n",
                      pid, i, i ? "reader" : "steps"));
out:
  return rc;
}

int ct_trace_json(int pid, const char *name, double (*convert)(const void *ctx, double s),
                  const void *ctx, ct_str_t *out, int64_t *lost)
{
  int rc = CT_OK;
  pthread_mutex_lock(&lock);
  *lost = lost_events;
  CT_TRY(add_names(pid, name, out));
  for (int64_t i = 0; i < count; i++)
    CT_TRY(add_event(&events[i], pid, i, convert(ctx, events[i].begin), convert(ctx, events[i].end),
                     out));
out:
  pthread_mutex_unlock(&lock);
  return rc;
}
