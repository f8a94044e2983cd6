/* A rank's watch: its thread looks at the time, at the start and at its neighbours, and its life
 * goes from the first message of a program to behind MPI's end.  What the thread sees it leaves to
 * ask.c to find out about; what it hears comes by pump.c, which gives packets to ask.c, too. */
#include "watch/ct_watch.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/ct_clock.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "base/ct_thread.h"
#include "comm/ct_agree.h"
#include "comm/ct_mpi.h"
#include "job/ct_stop.h"
#include "watch/thread.h"

enum { STACK_BYTES = 512 << 10 };

static const double start_limit_s = 600; /* the default of job.watchdog_s */
/* A slow file system pauses too, and Slurm kills 30 s after its signal. */
static const double blocked_s = 15;
static const double end_s = 60;
static const double asked_s = 0.7; /* between two deaths of a job that is killed */

static ct_watch_t *_Atomic watching; /* for last words */

/* ---- time ---- */

/* All ranks notice at about the same time, and one is to ask. */
static double patience(const ct_watch_t *w)
{
  return w->rank ? 1.5 + 0.05 * (w->rank < 50 ? w->rank : 50) : 0;
}

static void look_at_time(ct_watch_t *w)
{
  double limit_s = atomic_load(&w->limit_s);
  if (!limit_s || w->idle_s < limit_s) return;
  if (w->ask_at == 0) w->ask_at = ct_clock() + patience(w);
  if (ct_clock() >= w->ask_at) ct__watch_ask(w);
}

/* ---- the start ---- */

/* Who waits for a core is not blocked. */
static int main_thread_runs(const ct_watch_t *w)
{
  char seen[sizeof w->state->seen];
  ct__watch_see_thread(w->main_thread, seen, sizeof seen);
  return strcmp(seen, "runs") == 0;
}

/* A request to any rank counts for all of them, also if those that hear of it are blocked. */
static void look_at_start(ct_watch_t *w)
{
  if (w->beat.begun) return;
  if (!w->request) {
    w->request = ct_stop_with_signal(0, w->rank);
    w->asked_s = 0;
    return;
  }
  double quiet_s = w->quiet_s < w->asked_s ? w->quiet_s : w->asked_s;
  if (!w->told && w->asked_s >= patience(w)) ct__watch_tell_request(w);
  if (!w->beat.local || quiet_s < blocked_s + patience(w)) return;
  if (main_thread_runs(w))
    w->quiet_s = 0;
  else
    ct__watch_report_blocked(w);
}

static const double says_s = 5, again_s = 30;

/* A start that takes its time says what it is in. */
static void show_start(ct_watch_t *w)
{
  char file[200], took[32];
  const ct_beat_t *b = &w->beat;
  double now = ct_clock(), in_s = now - b->since_s;
  if (w->rank || b->begun || !atomic_load(&w->shows_start) || b->since_s <= 0) return;
  if (in_s < says_s || (w->said == b->doing && now - w->said_at < again_s)) return;
  w->said = b->doing;
  w->said_at = now;
  ct_beat_file_read(file, sizeof file);
  ct_log(CT_LOG_INFO, "starting: %s%s for %s%s%s", b->doing, b->local ? "" : " with all ranks",
         ct_text_seconds(in_s, took, sizeof took), *file ? ", now " : "", file);
}

/* ---- requests to stop ---- */

/* Somebody sits there who waits for an answer.  Other signals come from batch systems, and from
 * launchers that are ending the job. */
static void look_at_interrupts(ct_watch_t *w)
{
  int64_t mine =
      ct_stop_pack((ct_stop_t){.reason = CT_STOP_SIGNAL, .rank = w->rank, .signal = SIGINT});
  int interrupts = ct_stop_interrupts();
  if (!interrupts) return;
  if (interrupts > 1) ct__watch_quit(w);
  if (w->rank == 0)
    ct__watch_acknowledge(w, mine);
  else if (!w->passed_on++)
    ct__watch_pass_on(w, mine);
}

/* ---- the end ---- */

/* Each rank is on its own: others may have left. */
static void look_at_end(ct_watch_t *w)
{
  double limit_s = atomic_load(&w->limit_s);
  if (ct_stop_asked() && (!limit_s || limit_s > end_s)) limit_s = end_s;
  if (!limit_s || w->idle_s < limit_s) return;
  ct_log(
      CT_LOG_WARN,
      "MPI_Finalize has not come to its end in %.0f s: left without it, when all the rest was done",
      w->idle_s);
  _Exit(atomic_load(&w->status));
}

/* ---- the thread ---- */

/* A launcher may kill ranks that it has asked to stop: this rank is then given time to be killed
 * as well, and nothing is reported. */
static void look_at_link(ct_watch_t *w, const ct__watch_link_t *l)
{
  double silent_s = l->silent_s + (ct_stop_asked() ? asked_s : 0);
  if (l->died_at > 0 && ct_clock() - l->died_at >= silent_s && !atomic_load(&w->closing))
    ct__watch_report_death(w, l->peer);
}

static void *run(void *arg)
{
  ct_watch_t *w = arg;
  ct__watch_tick_from_now(w);
  while (!atomic_load(&w->closing)) {
    int soon = w->next.died_at > 0 || w->prev.died_at > 0 || w->ask_at > 0;
    ct__watch_pump(w, soon ? CT__WATCH_TICK_S / 10 : CT__WATCH_TICK_S);
    ct__watch_tick(w);
    if (atomic_load(&w->ending)) {
      look_at_end(w);
      continue;
    }
    look_at_link(w, &w->next);
    look_at_link(w, &w->prev);
    look_at_interrupts(w);
    show_start(w);
    look_at_time(w);
    look_at_start(w);
  }
  return NULL;
}

/* ---- last words ---- */

static void farewell(void)
{
  ct_watch_t *w = atomic_load(&watching);
  if (!w) return;
  atomic_store(&w->closing, 1);
  ct__watch_tell_end(w);
}

static void await_cause(void)
{
  struct timespec left = {.tv_sec = 3};
  while (atomic_load(&watching) && nanosleep(&left, &left) != 0) {
  } /* launchers send signals to those that are left over */
}

static struct sigaction before_abort;

/* UCX aborts a process whose peer has died within a message.  When this returns, the abort goes on.
 */
static void note_abort(int sig)
{
  (void)sig;
  await_cause();
}

static void catch_abort(void)
{
  struct sigaction act = {.sa_handler = note_abort};
  sigemptyset(&act.sa_mask);
  sigaction(SIGABRT, &act, &before_abort);
}

static const ct_panic_hook_t last_words = {.await_cause = await_cause, .farewell = farewell};

/* ---- life ---- */

static void free_watch(ct_watch_t *w)
{
  ct__watch_link_t *link[] = {&w->next, &w->prev};
  for (int i = 0; i < 2; i++)
    if (link[i]->fd >= 0) close(link[i]->fd);
  ct__watch_net_close(&w->net);
  if (w->wake >= 0) close(w->wake);
  ct_mem_free(w->card);
  ct_mem_free(w->state);
  ct_mem_free(w);
}

static ct_watch_t *new_watch(const ct_topo_t *t)
{
  ct_watch_t *w = ct_mem_alloc(sizeof *w, "the watch");
  if (!w) return NULL;
  w->t = t;
  w->limit_s = start_limit_s;
  w->rank = t->rank;
  w->ranks = t->size;
  w->awaited = -1;
  w->take = ct__watch_take;
  w->main_thread = gettid();
  w->net = (ct__watch_net_t){.udp = -1, .listener = -1};
  w->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  /* One neighbour reports a death, and at once: launchers kill the others.  The other neighbour
   * reports it if the first one has died as well. */
  w->next = (ct__watch_link_t){.peer = (t->rank + 1) % t->size, .fd = -1};
  w->prev =
      (ct__watch_link_t){.peer = (t->rank + t->size - 1) % t->size, .fd = -1, .silent_s = 1.4};
  w->card = ct_mem_array(t->size, sizeof *w->card, "the watch");
  w->state = ct_mem_array(t->size, sizeof *w->state, "the watch");
  if (w->card && w->state) return w;
  free_watch(w);
  return NULL;
}

static int start_thread(ct_watch_t *w)
{
  w->runs = ct_thread_start(&w->thread, STACK_BYTES, run, w, "for the watch") == CT_OK;
  return w->runs;
}

static void stop_thread(ct_watch_t *w)
{
  static const uint64_t once = 1;
  if (!w->runs) return;
  atomic_store(&w->closing, 1);
  (void)!write(w->wake, &once, sizeof once);
  pthread_join(w->thread, NULL);
  w->runs = 0;
}

/* All cards, and the key.  0: this rank has no sockets. */
static int exchange(ct_watch_t *w)
{
  const ct_topo_t *t = w->t;
  ct__watch_card_t mine = {0};
  ct__watch_describe(&mine, t->host);
  int open = t->size == 1 || ct__watch_net_open(&w->net, &mine) == 0;
  if (getrandom(&w->key, sizeof w->key, 0) != sizeof w->key) w->key = (uint64_t)(ct_clock() * 1e9);
  w->card[0] = mine;
  if (t->size == 1) return 1;
  ct_mpi_bcast(t, t->world, &w->key, sizeof w->key, 0);
  CT_MPI(t, MPI_Allgather(&mine, sizeof mine, MPI_BYTE, w->card, sizeof mine, MPI_BYTE, t->world));
  return open;
}

/* The next rank in the ring can be connected to, and gets packets. */
static int reach_next(ct_watch_t *w)
{
  enum { TRIES = 300, PAUSE_US = 10000, ASK_EVERY = 50 };
  int next = w->next.peer;
  ct__watch_hello_t hello = {.key = w->key, .from = w->rank, .to = next};
  int fd = ct__watch_net_connect(&w->net, &w->card[w->rank], &w->card[next], &hello);
  if (fd < 0) return 0;
  atomic_store(&w->next.fd, fd);
  for (int i = 0; i < TRIES && !atomic_load(&w->heard); i++) {
    if (i % ASK_EVERY == 0) ct__watch_greet(w, next);
    usleep(PAUSE_US);
  }
  return atomic_load(&w->heard);
}

/* Why a rank cannot take part, lowest rank first; the same answer on all ranks. */
static int works(ct_watch_t *w, int open)
{
  const ct_topo_t *t = w->t;
  int first = open && start_thread(w) ? t->size : t->rank;
  if (t->size > 1) ct_mpi_allreduce(t, t->world, &first, 1, MPI_INT, MPI_MIN);
  if (first < t->size) {
    ct_log(CT_LOG_WARN, "rank %d (%s) has no sockets or no thread to spare", first,
           w->card[first].host);
    return 0;
  }
  if (t->size == 1) return 1;
  first = reach_next(w) ? t->size : t->rank;
  ct_mpi_allreduce(t, t->world, &first, 1, MPI_INT, MPI_MIN);
  if (first == t->size) return 1;
  int next = (first + 1) % t->size;
  ct_log(CT_LOG_WARN, "rank %d (%s) does not reach rank %d (%s) over TCP and UDP", first,
         w->card[first].host, next, w->card[next].host);
  return 0;
}

/* This rank takes its leave: what neighbours are told they find in the connection before its end.
 */
static void say_bye(const ct_watch_t *w)
{
  static const char bye = 'B';
  int to[] = {atomic_load(&w->next.fd), atomic_load(&w->prev.fd)};
  for (int i = 0; i < 2; i++)
    if (to[i] >= 0) (void)!send(to[i], &bye, 1, MSG_NOSIGNAL);
}

int ct_watch_open(const ct_topo_t *t, ct_watch_t **out)
{
  int rc = CT_OK;
  *out = NULL;
  ct_beat_enter("opening the watch", -1);
  ct_watch_t *w = new_watch(t);
  CT_TRY_ALL(t, w ? CT_OK : CT_ERR_NOMEM);
  ct__watch_stack_open();
  if (works(w, exchange(w))) {
    atomic_store(&watching, w);
    ct_panic_tell(&last_words);
    ct_stop_wake(w->wake);
    if (t->size > 1) catch_abort();
    *out = w;
    return CT_OK;
  }
  ct_log(CT_LOG_WARN, "a rank that hangs or dies will not be noticed");
  say_bye(w);
  ct_watch_close(w);
  return CT_OK;
out:
  if (w) free_watch(w);
  return rc;
}

void ct_watch_show_start(void)
{
  ct_watch_t *w = atomic_load(&watching);
  if (w) atomic_store(&w->shows_start, 1);
}

void ct_watch_limit(double limit_s)
{
  ct_watch_t *w = atomic_load(&watching);
  if (w) atomic_store(&w->limit_s, limit_s);
}

/* Nobody leaves before all are here: until then the others are watched. */
void ct_watch_end(ct_watch_t *w, int status)
{
  if (!w) return;
  ct_beat_enter("the end of all ranks", -1);
  if (w->ranks > 1) ct_mpi_barrier(w->t, w->t->world);
  if (w->ranks > 1) sigaction(SIGABRT, &before_abort, NULL);
  ct_panic_tell(NULL);
  ct_stop_wake(-1);
  atomic_store(&watching, NULL);
  ct_beat_enter("MPI_Finalize", -1);
  atomic_store(&w->status, status);
  atomic_store(&w->ending, 1);
  say_bye(w);
}

void ct_watch_close(ct_watch_t *w)
{
  if (!w) return;
  stop_thread(w);
  ct__watch_stack_close();
  free_watch(w);
}
