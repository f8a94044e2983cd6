/* The rules for calls of the fake NCCL, injected failures, and what is drawn (fake_nccl.h). */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/cuda/emu/fake_nccl.h"

static char last_error[256];
static int world_rank; /* in the newest communicator that is not a split */
static atomic_int misuses;

void fake_nccl_world(int rank)
{
  world_rank = rank;
}

ncclResult_t fake_nccl_refuse(ncclResult_t r, const char *why)
{
  snprintf(last_error, sizeof last_error, "%s", why);
  return r;
}

ncclResult_t fake_nccl_misuse(const char *function, ncclResult_t r, const char *why, ...)
{
  char text[200];
  va_list args;
  va_start(args, why);
  vsnprintf(text, sizeof text, why, args);
  va_end(args);
  fprintf(stderr, "fake nccl: misuse on rank %d: %s: %s\n", world_rank, function, text);
  atomic_fetch_add(&misuses, 1);
  snprintf(last_error, sizeof last_error, "misuse of %s: %s", function, text);
  return r;
}

int fake_nccl_misuses(void)
{
  return atomic_exchange(&misuses, 0);
}

const char *ncclGetLastError(ncclComm_t c)
{
  return c && c->last[0] ? c->last : last_error;
}

/* ---- injected failures ---- */

enum { FUNCTIONS = 32 };
static struct {
  const char *name;
  int64_t calls;
} counts[FUNCTIONS];

static int64_t count(const char *function)
{
  for (int i = 0; i < FUNCTIONS; i++) {
    if (!counts[i].name) counts[i].name = function;
    if (strcmp(counts[i].name, function) == 0) return ++counts[i].calls;
  }
  return 0;
}

static fake_fate_t fate_in(const char *entry, const char *function, int64_t call)
{
  size_t len = strlen(function);
  long long n;
  int rank, read = 0;
  if (strncmp(entry, function, len) != 0 || entry[len] != ':') return FAKE_FINE;
  if (sscanf(entry + len, ":%lld:%d%n", &n, &rank, &read) != 2 || rank != world_rank || n != call)
    return FAKE_FINE;
  snprintf(last_error, sizeof last_error, "an injected failure of %s", function);
  if (strncmp(entry + len + read, ":hang", 5) == 0) return FAKE_HANGS;
  return strncmp(entry + len + read, ":async", 6) == 0 ? FAKE_ASYNC : FAKE_FAILS;
}

fake_fate_t fake_nccl_fate(const char *function)
{
  static char seen[256];
  const char *text = getenv("CTRAIN_FAKE_NCCL_FAIL");
  if (text && strcmp(text, seen) != 0) { /* the setting of another test */
    snprintf(seen, sizeof seen, "%s", text);
    memset(counts, 0, sizeof counts);
  }
  int64_t call = count(function);
  for (const char *entry = text; entry;) {
    fake_fate_t f = fate_in(entry, function, call);
    if (f != FAKE_FINE) return f;
    entry = strchr(entry, ',');
    if (entry) entry++;
  }
  return FAKE_FINE;
}

static void write_counts(const char *prefix)
{
  char path[300];
  snprintf(path, sizeof path, "%s.%d", prefix, world_rank);
  FILE *f = fopen(path, "w");
  if (!f) return;
  for (int i = 0; i < FUNCTIONS && counts[i].name; i++)
    fprintf(f, "%s %lld\n", counts[i].name, (long long)counts[i].calls);
  fclose(f);
}

__attribute__((destructor)) static void end_with_misuse(void)
{
  const char *prefix = getenv("CTRAIN_FAKE_NCCL_CALLS");
  for (struct ncclComm *c = fake_comms; c; c = c->next)
    if (!c->gone)
      fake_nccl_misuse("exit", ncclInvalidUsage, "a communicator is neither destroyed nor aborted");
  if (prefix) write_counts(prefix);
  if (atomic_load(&misuses) == 0) return;
  fflush(NULL);
  _exit(86);
}

/* ---- progress ---- */

static unsigned draw(unsigned below)
{
  static uint64_t state;
  const char *text = getenv("CTRAIN_FAKE_NCCL_PROGRESS");
  if (!text || strcmp(text, "always") == 0) return below - 1;
  if (!state) state = strtoull(text, NULL, 10) * 2 + 1 + (uint64_t)world_rank * 0x9e3779b97f4a7c15u;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)(state >> 33) % below;
}

int fake_nccl_draws_progress(void)
{
  return draw(2) == 1;
}

int fake_nccl_draws_polls(void)
{
  return (int)draw(4);
}

/* ---- rules ---- */

static struct ncclComm *busy_relative(const struct ncclComm *c)
{
  for (struct ncclComm *other = fake_comms; other; other = other->next)
    if (other->family == c->family && !other->gone && fake_nccl_busy(other)) return other;
  return NULL;
}

static int is_known(const struct ncclComm *c)
{
  for (struct ncclComm *other = fake_comms; other; other = other->next)
    if (other == c) return 1;
  return 0;
}

ncclResult_t fake_nccl_enter(struct ncclComm *c, const char *function, int allowed)
{
  if (!c) return fake_nccl_misuse(function, ncclInvalidArgument, "the communicator is NULL");
  if (!is_known(c)) return fake_nccl_misuse(function, ncclInvalidArgument, "no communicator");
  if (c->gone) return fake_nccl_misuse(function, ncclInvalidArgument, "it is destroyed or aborted");
  if (c->finalized && !(allowed & FAKE_FINALIZED_OK))
    return fake_nccl_misuse(function, ncclInvalidUsage, "called after ncclCommFinalize");
  if (fake_nccl_in_group() && !(allowed & FAKE_GROUP_OK))
    return fake_nccl_misuse(function, ncclInvalidUsage, "called within a group");
  if (!(allowed & FAKE_BUSY_OK) && busy_relative(c))
    return fake_nccl_misuse(function, ncclInvalidArgument,
                            "the previous call on %s has not returned ncclSuccess",
                            busy_relative(c) == c ? "it" : "a communicator of its family");
  if (atomic_fetch_add(&c->inside, 1) > 0)
    fake_nccl_misuse(function, ncclInvalidUsage, "another thread is in a call on it");
  return ncclSuccess;
}

ncclResult_t fake_nccl_leave(struct ncclComm *c, ncclResult_t r)
{
  atomic_fetch_sub(&c->inside, 1);
  return r;
}
