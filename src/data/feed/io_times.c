/* The time breakdown of reading threads.  It is written by one thread, so adding to it needs no
 * lock; its numbers are atomic because other threads may read them meanwhile. */
#include "data/feed/ct_io_times.h"

#include <stddef.h>
#include <time.h>

#include "base/ct_trace.h"

/* The current phase of a thread and its start time. */
static _Thread_local struct here {
  ct_io_times_t *times_to;
  ct_io_phase_t phase;
  int64_t since;
} here;

#define NAME(upper, lower, help) #lower,
#define HELP(upper, lower, help) help,
static const char *const names[] = {CT_IO_LIST(NAME)};
static const char *const helps[] = {CT_IO_LIST(HELP)};

const char *ct_io_name(ct_io_phase_t phase)
{
  return names[phase];
}

const char *ct_io_help(ct_io_phase_t phase)
{
  return helps[phase];
}

static int64_t now_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* There is one writer, so the addition need not be atomic. */
static void io_times_add(atomic_llong *to, int64_t n)
{
  long long is = atomic_load_explicit(to, memory_order_relaxed);
  atomic_store_explicit(to, is + n, memory_order_relaxed);
}

static void charge(void)
{
  int64_t now = now_ns();
  io_times_add(&here.times_to->ns[here.phase], now - here.since);
  ct_trace_between(names[here.phase], NULL, -1, 1e-9 * (double)here.since, 1e-9 * (double)now);
  here.since = now;
}

void ct_io_times_begin(ct_io_times_t *t, ct_io_phase_t phase)
{
  if (here.times_to) charge();
  here = (struct here){t, phase, t ? now_ns() : 0};
}

ct_io_phase_t ct_io_enter(ct_io_phase_t phase)
{
  ct_io_phase_t before = here.phase;
  if (!here.times_to || phase == before) return phase;
  charge();
  here.phase = phase;
  return before;
}

void ct_io_count(ct_io_phase_t phase, int64_t bytes)
{
  if (!here.times_to) return;
  io_times_add(&here.times_to->times[phase], 1);
  io_times_add(&here.times_to->bytes[phase], bytes);
}

void ct_io_add(ct_io_times_t *sum, const ct_io_times_t *t)
{
  for (int i = 0; i < CT_IO_COUNT; i++) {
    io_times_add(&sum->ns[i], atomic_load_explicit(&t->ns[i], memory_order_relaxed));
    io_times_add(&sum->times[i], atomic_load_explicit(&t->times[i], memory_order_relaxed));
    io_times_add(&sum->bytes[i], atomic_load_explicit(&t->bytes[i], memory_order_relaxed));
  }
}
