/* The heartbeat: one thread writes the record, another one reads it and must never block.  All
 * fields are relaxed atomics, except the name of a file, which is too long for an atomic and has a
 * lock. */
#include "base/ct_heartbeat.h"

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

static void heartbeat_set(const char *what, int64_t number, int alone)
{
  STORE(doing, what);
  STORE(detail, number);
  STORE(local, alone);
  STORE(since_s, ct_clock());
}

void ct_heartbeat_at(const char *what, int64_t number)
{
  heartbeat_set(what, number, 1);
}

void ct_heartbeat_enter(const char *what, int64_t number)
{
  STORE(calls, LOAD(calls) + 1);
  heartbeat_set(what, number, 0);
}

void ct_heartbeat_progress(void)
{
  STORE(progress_s, ct_clock());
}

void ct_heartbeat_step(int64_t done)
{
  STORE(step, done);
  STORE(begun, 1);
  ct_heartbeat_progress();
}

void ct_heartbeat_read(ct_heartbeat_t *out)
{
  *out = (ct_heartbeat_t){.step = LOAD(step),
                          .calls = LOAD(calls),
                          .doing = LOAD(doing),
                          .detail = LOAD(detail),
                          .local = LOAD(local),
                          .since_s = LOAD(since_s),
                          .progress_s = LOAD(progress_s),
                          .begun = LOAD(begun)};
}

/* ---- files ---- */

enum { FILES = 64 };

/* One slot for each waiting thread; if more threads wait, some are not recorded. */
static struct {
  int64_t turn; /* sequence number of the wait: the thread with the lowest one has waited longest;
                   0: the slot is free */
  char path[256];
} file[FILES];
static int64_t turns;
static pthread_mutex_t file_lock = PTHREAD_MUTEX_INITIALIZER;

static void write_path(const char *path, char *to, size_t cap)
{
  size_t n = strlen(path);
  if (n < cap)
    snprintf(to, cap, "%s", path);
  else
    snprintf(to, cap, "...%s", path + n - (cap - 4));
}

void ct_heartbeat_file(const char *path)
{
  static _Thread_local int mine = -1;
  if (path) ct_heartbeat_progress();
  pthread_mutex_lock(&file_lock);
  if (mine >= 0) file[mine].turn = 0;
  mine = -1;
  for (int i = 0; path && mine < 0 && i < FILES; i++)
    if (!file[i].turn) mine = i;
  if (mine >= 0) {
    file[mine].turn = ++turns;
    write_path(path, file[mine].path, sizeof file[mine].path);
  }
  pthread_mutex_unlock(&file_lock);
}

void ct_heartbeat_file_read(char *buf, size_t cap)
{
  int first = -1;
  pthread_mutex_lock(&file_lock);
  for (int i = 0; i < FILES; i++)
    if (file[i].turn && (first < 0 || file[i].turn < file[first].turn)) first = i;
  snprintf(buf, cap, "%s", first < 0 ? "" : file[first].path);
  pthread_mutex_unlock(&file_lock);
}
