/* What is being done is written by one thread and read by another one, which must never wait for
 * it: relaxed atomics, and only the name of a file, which is longer than an atomic can be, has a
 * lock. */
#include "base/ct_beat.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_clock.h"

static _Atomic int64_t step, calls, detail = -1;
static _Atomic int local = 1, begun;
static _Atomic(const char *) doing = "the start";
static _Atomic double since_s, progress_s;

#define STORE(to, value) atomic_store_explicit(&(to), (value), memory_order_relaxed)
#define LOAD(from)       atomic_load_explicit(&(from), memory_order_relaxed)

static void set(const char *what, int64_t number, int alone)
{
  STORE(doing, what);
  STORE(detail, number);
  STORE(local, alone);
  STORE(since_s, ct_clock());
}

void ct_beat_at(const char *what, int64_t number)
{
  set(what, number, 1);
}

void ct_beat_enter(const char *what, int64_t number)
{
  STORE(calls, LOAD(calls) + 1);
  set(what, number, 0);
}

void ct_beat_progress(void)
{
  STORE(progress_s, ct_clock());
}

void ct_beat_step(int64_t done)
{
  STORE(step, done);
  STORE(begun, 1);
  ct_beat_progress();
}

void ct_beat_read(ct_beat_t *out)
{
  *out = (ct_beat_t){.step = LOAD(step),
                     .calls = LOAD(calls),
                     .doing = LOAD(doing),
                     .detail = LOAD(detail),
                     .local = LOAD(local),
                     .since_s = LOAD(since_s),
                     .progress_s = LOAD(progress_s),
                     .begun = LOAD(begun)};
}

/* ---- the file ---- */

static pthread_mutex_t file_lock = PTHREAD_MUTEX_INITIALIZER;
static char file[256];

void ct_beat_file(const char *path)
{
  size_t n = path ? strlen(path) : 0;
  if (path) ct_beat_progress();
  pthread_mutex_lock(&file_lock);
  if (n < sizeof file)
    snprintf(file, sizeof file, "%s", path ? path : "");
  else
    snprintf(file, sizeof file, "...%s", path + n - (sizeof file - 4));
  pthread_mutex_unlock(&file_lock);
}

void ct_beat_file_read(char *buf, size_t cap)
{
  pthread_mutex_lock(&file_lock);
  snprintf(buf, cap, "%s", file);
  pthread_mutex_unlock(&file_lock);
}
