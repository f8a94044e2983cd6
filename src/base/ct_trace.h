/** \file ct_trace.h  What this process does when, for a timeline of a few steps.  Layer 0.
 *
 * Whoever does something that is worth to be seen tells it when it is over:
 *
 *     double begin = ct_trace_now();
 *     work();
 *     ct_trace_span("conv", "forward", 3, begin);
 *
 * While nothing is traced, which is nearly always, both cost one comparison. */
#ifndef CT_TRACE_H
#define CT_TRACE_H
#include <stdatomic.h>
#include <stdint.h>

#include "base/ct_text.h"

/** 1 while events are kept. */
extern atomic_int ct__trace_on;

static inline int ct_trace_is_on(void)
{
  return atomic_load_explicit(&ct__trace_on, memory_order_relaxed);
}

/** Local.  From now on events are kept: up to \a most of them, of any thread.  The calling thread
 * is the main one.  CT_ERR_NOMEM. */
int ct_trace_start(int64_t most);
/** Local.  What comes from now on is not kept. */
void ct_trace_stop(void);
/** Local.  Forgets all events. */
void ct_trace_clear(void);

/** Local, Hot, any thread.  ct_clock(); 0 while nothing is traced. */
double ct_trace_now(void);
/** Local, Hot, any thread.  Something that this thread did from \a begin until now; spans of a
 * thread lie one in another or apart.  Names are string literals; \a pass may be NULL; \a number
 * -1: it has none.  Begun before ct_trace_start(): it counts from there. */
void ct_trace_span(const char *name, const char *pass, int64_t number, double begin);
/** The same from \a begin to \a end. */
void ct_trace_between(const char *name, const char *pass, int64_t number, double begin, double end);
/** Local, Hot, any thread.  A message that was on its way from \a begin until now; several may be
 * at once. */
void ct_trace_flight(const char *name, int64_t number, double begin);

/** Local.  The events as members of Chrome's and Perfetto's JSON array `traceEvents`, each followed
 * by a comma and a newline, in microseconds: those of process \a pid, called \a name.  \a place
 * gives a time of this process its place on the clock that all share, in seconds.  *lost: how many
 * were too many. */
int ct_trace_json(int pid, const char *name, double (*place)(const void *ctx, double s),
                  const void *ctx, ct_str_t *out, int64_t *lost);

#endif
