/** \file ct_trace.h  Records events of this process for a timeline of a few steps.  Layer 0.
 *
 * An operation is recorded when it ends:
 *
 *     double begin = ct_trace_now();
 *     work();
 *     ct_trace_span("conv", "forward", 3, begin);
 *
 * While tracing is off, each call costs one comparison. */
#ifndef CT_TRACE_H
#define CT_TRACE_H
#include <stdatomic.h>
#include <stdint.h>

#include "base/ct_text.h"

/** The steps of a timeline. */
typedef struct ct_trace_steps {
  int64_t from, to; /**< counted from 1, inclusive; 0, 0: none */
} ct_trace_steps_t;

/** 1 while tracing is on. */
extern atomic_int ct__trace_on;

static inline int ct_trace_is_on(void)
{
  return atomic_load_explicit(&ct__trace_on, memory_order_relaxed);
}

/** Local.  Starts tracing; \a most: maximum number of events of all threads together.  The calling
 * thread becomes the main thread of the timeline.  CT_ERR_NOMEM. */
int ct_trace_start(int64_t most);
/** Local.  Stops tracing; the events are kept. */
void ct_trace_stop(void);
/** Local.  Deletes all events. */
void ct_trace_clear(void);

/** Local, Hot, any thread.  Returns ct_clock(), or 0 while tracing is off. */
double ct_trace_now(void);
/** Local, Hot, any thread.  Records an operation of this thread from \a begin until now; spans of a
 * thread are nested or disjoint.  Names are string literals; \a pass may be NULL; \a number -1:
 * none.  A span that began before ct_trace_start() is recorded from that call on. */
void ct_trace_span(const char *name, const char *pass, int64_t number, double begin);
/** Local, Hot, any thread.  Records an operation as ct_trace_span() does, from \a begin to \a end.
 */
void ct_trace_between(const char *name, const char *pass, int64_t number, double begin, double end);
/** Local, Hot, any thread.  Records a message in flight from \a begin until now; messages may
 * overlap. */
void ct_trace_flight(const char *name, int64_t number, double begin);

/** Local.  Appends the events as members of the JSON array `traceEvents` of Chrome and Perfetto,
 * each followed by a comma and a newline, in microseconds, for process \a pid with the name \a
 * name.  \a convert turns a time of this process to the common clock, in seconds.  *lost: number
 * of events that did not fit. */
int ct_trace_json(int pid, const char *name, double (*convert)(const void *ctx, double s),
                  const void *ctx, ct_str_t *out, int64_t *lost);

#endif
