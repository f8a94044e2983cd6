/* Stop requests: the signal handlers, and an encoding in which the request with the highest
 * precedence is the largest number, so that ranks agree by a maximum. The handler only sets a flag
 * and writes to the wake descriptor. */
#include "job/ct_stop.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/ct_clock.h"

static const struct {
  int number;
  const char *name;
} signals[CT_STOP_SIGNALS] = {
    {SIGTERM, "SIGTERM"}, {SIGINT, "SIGINT"}, {SIGUSR1, "SIGUSR1"}, {SIGUSR2, "SIGUSR2"}};

/* One Ctrl-C may arrive twice, from the terminal and from a launcher. */
static const double same_s = 0.1;

/* The handler may run in any thread, and in several at once. */
static atomic_int asked, interrupts;
static _Atomic double interrupted_at = -1; /* ct_clock(); -1: never */
static atomic_int wake = -1;               /* an eventfd */
static atomic_int logged;
_Static_assert(ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_LLONG_LOCK_FREE == 2,
               "a signal handler takes no lock");

/* Returns the number of interrupts so far; a duplicate of the last one is not counted. */
static int count_interrupts(void)
{
  double now = ct_clock(), before = interrupted_at;
  /* if one Ctrl-C interrupts several threads at once, only the first counts it */
  if (now - before >= same_s && atomic_compare_exchange_strong(&interrupted_at, &before, now))
    return atomic_fetch_add(&interrupts, 1) + 1;
  return interrupts;
}

static void stop_note(int sig)
{
  static const uint64_t once = 1;
  int before = errno, fd = atomic_load(&wake), nobody = 0;
  atomic_compare_exchange_strong(&asked, &nobody, sig);
  if (sig == SIGINT && count_interrupts() > (fd >= 0 ? 2 : 1)) {
    signal(SIGINT, SIG_DFL);
    raise(SIGINT); /* takes effect when this handler returns */
  }
  if (sig == SIGINT && fd >= 0) (void)!write(fd, &once, sizeof once);
  errno = before;
}

void ct_stop_wake(int fd)
{
  atomic_store(&wake, fd);
}

int ct_stop_interrupts(void)
{
  return interrupts;
}

int ct_stop_first_report(void)
{
  return !atomic_exchange(&logged, 1);
}

void ct_stop_setup(void)
{
  struct sigaction act = {.sa_handler = stop_note, .sa_flags = SA_RESTART};
  sigemptyset(&act.sa_mask);
  for (int i = 0; i < CT_STOP_SIGNALS; i++)
    sigaddset(&act.sa_mask, signals[i].number);
  for (int i = 0; i < CT_STOP_SIGNALS; i++)
    sigaction(signals[i].number, &act, NULL);
}

void ct_stop_hold(ct_stop_held_t *h)
{
  sigset_t free; /* signals that libraries may use */
  sigemptyset(&free);
  sigaddset(&free, SIGUSR1);
  sigaddset(&free, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &free, &h->mask);
  for (int i = 0; i < CT_STOP_SIGNALS; i++)
    sigaction(signals[i].number, NULL, &h->act[i]);
}

void ct_stop_release(const ct_stop_held_t *h)
{
  for (int i = 0; i < CT_STOP_SIGNALS; i++)
    sigaction(signals[i].number, &h->act[i], NULL);
  pthread_sigmask(SIG_SETMASK, &h->mask, NULL);
}

int ct_stop_asked(void)
{
  return asked;
}

/* Fields of a packed request, from high to low bits: reason, rank (lower ranks give larger values),
 * signal. */
enum { RANK_SHIFT = 8, REASON_SHIFT = 40, SIGNAL_MASK = 0xff };

int64_t ct_stop_pack(ct_stop_t s)
{
  if (s.reason == CT_STOP_NO) return 0;
  return (int64_t)s.reason << REASON_SHIFT | (int64_t)(INT32_MAX - s.rank) << RANK_SHIFT |
         (s.signal & SIGNAL_MASK);
}

ct_stop_t ct_stop_unpack(int64_t word)
{
  if (word == 0) return (ct_stop_t){0};
  return (ct_stop_t){.reason = (ct_stop_reason_t)(word >> REASON_SHIFT),
                     .rank = INT32_MAX - (int32_t)(word >> RANK_SHIFT & INT32_MAX),
                     .signal = (int)(word & SIGNAL_MASK)};
}

int64_t ct_stop_with_signal(int64_t word, int rank)
{
  int sig = asked;
  if (!sig) return word;
  int64_t mine = ct_stop_pack((ct_stop_t){CT_STOP_SIGNAL, rank, sig});
  return mine > word ? mine : word;
}

const char *ct_stop_name(ct_stop_reason_t reason)
{
  static const char *const names[] = {"done", "walltime", "signal"};
  return names[reason];
}

const char *ct_stop_text(ct_stop_t s, char *buf, size_t cap)
{
  const char *name = "a signal";
  for (int i = 0; i < CT_STOP_SIGNALS; i++)
    if (signals[i].number == s.signal) name = signals[i].name;
  if (s.reason == CT_STOP_SIGNAL)
    snprintf(buf, cap, "rank %d got %s", s.rank, name);
  else
    snprintf(buf, cap, "%s", s.reason == CT_STOP_WALLTIME ? "the job's time is over" : "");
  return buf;
}
