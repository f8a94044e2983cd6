/* The watch of a rank. Its thread checks the time limit, the startup and its neighbours, from the
 * start of the program until after MPI_Finalize. Queries and reactions are in ask.c; incoming data
 * is read by pump.c, which passes packets to ask.c. */
#include "watch/ct_watch.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/ct_clock.h"
#include "base/ct_fault.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "host/ct_thread.h"
#include "comm/ct_agree.h"
#include "comm/ct_mpi.h"
#include "job/ct_stop.h"
#include "watch/thread.h"

enum { STACK_BYTES = 512 << 10 };

static const double start_limit_s = 600; /* the default of job.watchdog_s */
/* A slow file system may also pause for a while, and Slurm kills 30 s after its signal. */
static const double blocked_s = 15;
static const double end_s = 60;
static const double asked_s = 0.7; /* delay between two deaths in a job that is being killed */

static ct_watch_t *_Atomic watching; /* for the panic hooks */

/* ---- time ---- */

/* Extra delay of a rank before it asks: all ranks notice a hang at about the same time, but one
 * should ask. */
static double patience(const ct_watch_t *w)
{
  return w->rank ? 1.5 + 0.05 * (w->rank < 50 ? w->rank : 50) : 0;
}

static void check_time(ct_watch_t *w)
{
  double limit_s = atomic_load(&w->limit_s);
  if (!limit_s || w->idle_s < limit_s) return;
  if (w->ask_at == 0) w->ask_at = ct_clock() + patience(w);
  if (ct_clock() >= w->ask_at) ct__watch_ask(w);
}

/* ---- the start ---- */

/* Returns 1 if the main thread runs or waits for a core, which does not count as blocked. */
static int main_thread_runs(const ct_watch_t *w)
{
  char seen[sizeof w->state->seen];
  ct__watch_see_thread(w->main_thread, seen, sizeof seen);
  return strcmp(seen, "runs") == 0;
}

/* Checks a blocked startup. A request to stop on any rank counts for all ranks, even for blocked
 * ones. */
static void check_start(ct_watch_t *w)
{
  if (w->heartbeat.begun) return;
  if (!w->request) {
    w->request = ct_stop_with_signal(0, w->rank);
    w->asked_s = 0;
    return;
  }
  double quiet_s = w->quiet_s < w->asked_s ? w->quiet_s : w->asked_s;
  if (!w->told && w->asked_s >= patience(w)) ct__watch_log_request(w);
  if (!w->heartbeat.local || quiet_s < blocked_s + patience(w)) return;
  if (main_thread_runs(w))
    w->quiet_s = 0;
  else
    ct__watch_report_blocked(w);
}

static const double says_s = 5, again_s = 30;

/* Logs what a slow start is doing. */
static void show_start(ct_watch_t *w)
{
  char file[200], took[32];
  const ct_heartbeat_t *b = &w->heartbeat;
  double now = ct_clock(), in_s = now - b->since_s;
  if (w->rank || b->begun || !atomic_load(&w->shows_start) || b->since_s <= 0) return;
  if (in_s < says_s || (w->said == b->doing && now - w->said_at < again_s)) return;
  w->said = b->doing;
  w->said_at = now;
  ct_heartbeat_file_read(file, sizeof file);
  ct_log(CT_LOG_INFO, "starting: %s%s for %s%s%s", b->doing, b->local ? "" : " with all ranks",
         ct_text_seconds(in_s, took, sizeof took), *file ? ", now " : "", file);
}

/* ---- requests to stop ---- */

/* Forwards SIGINT, since a user at a terminal waits for a reaction. Other signals come from batch
 * systems, and from launchers that are ending the job. */
static void check_interrupts(ct_watch_t *w)
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

/* Each rank decides on its own, since others may have exited. */
static void check_finalize(ct_watch_t *w)
{
  double limit_s = atomic_load(&w->limit_s);
  if (ct_stop_asked() && (!limit_s || limit_s > end_s)) limit_s = end_s;
  if (!limit_s || w->idle_s < limit_s) return;
  ct_log(CT_LOG_WARN, "MPI_Finalize did not return within %.0f s; exiting (all work is complete)",
         w->idle_s);
  _Exit(atomic_load(&w->status));
}

/* ---- the thread ---- */

/* Reports the death of a neighbour. A launcher may kill ranks that it has asked to stop: this rank
 * then gets time to be killed too, and nothing is reported. */
static void check_link(ct_watch_t *w, const ct__watch_link_t *l)
{
  double silent_s = l->silent_s + (ct_stop_asked() ? asked_s : 0);
  if (l->died_at > 0 && ct_clock() - l->died_at >= silent_s && !atomic_load(&w->closing))
    ct__watch_report_death(w, l->peer);
}

static void *watch_run(void *arg)
{
  ct_watch_t *w = arg;
  ct__watch_tick_from_now(w);
  while (!atomic_load(&w->closing)) {
    int soon = w->next.died_at > 0 || w->prev.died_at > 0 || w->ask_at > 0;
    ct__watch_pump(w, soon ? CT__WATCH_TICK_S / 10 : CT__WATCH_TICK_S);
    ct__watch_tick(w);
    if (atomic_load(&w->ending)) {
      check_finalize(w);
      continue;
    }
    check_link(w, &w->next);
    check_link(w, &w->prev);
    check_interrupts(w);
    show_start(w);
    check_time(w);
    check_start(w);
  }
  return NULL;
}

/* ---- panic hooks ---- */

static void farewell(void)
{
  ct_watch_t *w = atomic_load(&watching);
  if (!w) return;
  atomic_store(&w->closing, 1);
  ct__watch_log_end(w);
}

static void await_cause(void)
{
  struct timespec left = {.tv_sec = 3};
  while (atomic_load(&watching) && nanosleep(&left, &left) != 0) {
  } /* the launcher signals the remaining ranks */
}

static struct sigaction before_abort;

/* Handler of SIGABRT: UCX aborts a process if its peer dies during a message. The abort continues
 * when it returns. */
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

/* ---- creation and destruction ---- */

static void close_links(ct_watch_t *w)
{
  ct__watch_link_t *link[] = {&w->next, &w->prev};
  for (int i = 0; i < 2; i++) {
    int fd = atomic_exchange(&link[i]->fd, -1);
    if (fd >= 0) close(fd);
    link[i]->bye = link[i]->lost = 0;
  }
  ct__watch_door_clear(&w->door);
  ct__watch_net_close(&w->net);
}

static void free_watch(ct_watch_t *w)
{
  close_links(w);
  if (w->wake >= 0) close(w->wake);
  ct_mem_free(w->card);
  ct_mem_free(w->addresses);
  ct_mem_free(w->state);
  ct_mem_free(w->had);
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
  ct__watch_door_init(&w->door);
  w->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  /* One neighbour reports a death at once, since launchers kill the other ranks. The second one
   * reports it only if the first is dead too. */
  w->next = (ct__watch_link_t){.peer = (t->rank + 1) % t->size, .fd = -1};
  w->prev =
      (ct__watch_link_t){.peer = (t->rank + t->size - 1) % t->size, .fd = -1, .silent_s = 1.4};
  w->card = ct_mem_array(t->size, sizeof *w->card, "the watch");
  w->state = ct_mem_array(t->size, sizeof *w->state, "the watch");
  w->addresses = ct_mem_array(t->size, sizeof *w->addresses, "the watch");
  w->had = ct_mem_array(t->size, sizeof *w->had, "the watch");
  if (w->card && w->state && w->addresses && w->had) return w;
  free_watch(w);
  return NULL;
}

static int start_thread(ct_watch_t *w)
{
  atomic_store(&w->closing, 0);
  w->runs = ct_thread_start(&w->thread, STACK_BYTES, watch_run, w, "for the watch") == CT_OK;
  return w->runs;
}

static void wake_thread(ct_watch_t *w)
{
  static const uint64_t once = 1;
  (void)!write(w->wake, &once, sizeof once);
}

static void stop_thread(ct_watch_t *w)
{
  if (!w->runs) return;
  atomic_store(&w->closing, 1);
  wake_thread(w);
  pthread_join(w->thread, NULL);
  w->runs = 0;
}

/* ---- the start ---- */

/* Gathers all cards except the socket addresses, the nodes' addresses, and the key, which is never
 * sent over the watch's sockets. */
static int exchange(ct_watch_t *w)
{
  int rc = CT_OK;
  const ct_topo_t *t = w->t;
  ct__watch_card_t mine = {0};
  ct__watch_addresses_t own = {.network = ct__watch_network()};
  ct__watch_describe(&mine, t->host);
  ct__watch_addresses(&own);
  CT_TRY_ALL(t, t->rank ? CT_OK : ct_random(&w->key, sizeof w->key));
  w->card[0] = mine;
  if (t->size == 1) goto out;
  ct_mpi_bcast(t, t->world, &w->key, sizeof w->key, 0);
  CT_MPI(t, MPI_Allgather(&mine, sizeof mine, MPI_BYTE, w->card, sizeof mine, MPI_BYTE, t->world));
  CT_MPI(t,
         MPI_Allgather(&own, sizeof own, MPI_BYTE, w->addresses, sizeof own, MPI_BYTE, t->world));
out:
  return rc;
}

/* Opens sockets at that address and gathers the sockets of the other ranks. */
static int take_sockets(ct_watch_t *w, const struct in6_addr *at)
{
  const ct_topo_t *t = w->t;
  ct__watch_sockets_t mine = {0}, *all = ct_mem_array(w->ranks, sizeof *all, "the watch");
  if (at) ct__watch_net_open(&w->net, at, &w->ports, &mine);
  if (ct_agree(t, all ? CT_OK : CT_ERR_NOMEM) == CT_OK) {
    CT_MPI(t, MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, t->world));
    for (int r = 0; r < w->ranks; r++)
      w->card[r].sockets = all[r];
  }
  ct_mem_free(all);
  return w->card[w->rank].sockets.open;
}

/* Connects to the next rank; -1 if it does not accept. */
static int knock(const ct_watch_t *w)
{
  static const double once_s = 2;
  ct__watch_pair_t pair = {.key = w->key, .from = w->rank, .to = w->next.peer};
  int fd = ct__watch_net_connect(&w->card[w->next.peer].sockets, once_s);
  if (fd < 0 || ct__watch_knock(fd, &pair)) return fd;
  close(fd);
  return -1;
}

/* Checks that the next rank in the ring accepts connections and packets. */
static int reach_next(ct_watch_t *w)
{
  enum { TRIES = 300, PAUSE_US = 10000, ASK_EVERY = 50 };
  static const double patience_s = 8;
  double end = ct_clock() + patience_s;
  int fd;
  if (ct_fault("watch.reach") != CT_OK) return 0;
  while ((fd = knock(w)) < 0 && ct_clock() < end)
    usleep(PAUSE_US); /* other connections may have pushed this one out of the queue */
  if (fd < 0) return 0;
  atomic_store(&w->next.fd, fd);
  for (int i = 0; i < TRIES && !atomic_load(&w->heard); i++) {
    if (i % ASK_EVERY == 0) ct__watch_greet(w, w->next.peer);
    usleep(PAUSE_US);
  }
  return atomic_load(&w->heard);
}

/* Returns the lowest rank for which the condition is false, or the number of ranks; identical on
 * all ranks. */
static int first_without(const ct_watch_t *w, int is_so)
{
  int first = is_so ? w->ranks : w->rank;
  if (w->ranks > 1) ct_mpi_allreduce(w->t, w->t->world, &first, 1, MPI_INT, MPI_MIN);
  return first;
}

static void say_no_place(const ct_watch_t *w, int rank)
{
  if (w->ports.low)
    ct_log(CT_LOG_WARN, "rank %d (%s) has no free port in CTRAIN_WATCH_PORTS=%d:%d", rank,
           w->card[rank].host, w->ports.low, w->ports.high);
  else
    ct_log(CT_LOG_WARN, "rank %d (%s) has no sockets to spare", rank, w->card[rank].host);
}

static void say_not_reached(const ct_watch_t *w, int rank)
{
  char at[64];
  int next = (rank + 1) % w->ranks;
  const ct__watch_card_t *to = &w->card[next];
  ct_log(CT_LOG_WARN, "rank %d (%s) does not reach rank %d (%s, %s) over TCP and UDP", rank,
         w->card[rank].host, next, to->host,
         ct__watch_address_text(&to->sockets.at, at, sizeof at));
}

/* Returns 1 on all ranks if all of them listen at this choice of addresses and each reaches the
 * next one. Logs why the lowest failing rank cannot. */
static int works_at(ct_watch_t *w, const struct in6_addr *at)
{
  int first = w->ranks > 1 ? first_without(w, take_sockets(w, at)) : w->ranks;
  if (first < w->ranks) {
    say_no_place(w, first);
    return 0;
  }
  first = first_without(w, start_thread(w));
  if (first < w->ranks) {
    ct_log(CT_LOG_WARN, "rank %d (%s) has no thread to spare", first, w->card[first].host);
    return 0;
  }
  if (w->ranks == 1) return 1;
  first = first_without(w, reach_next(w));
  if (first < w->ranks) say_not_reached(w, first);
  return first == w->ranks;
}

/* Announces this rank's exit: the neighbours find a byte in the connection before its end. */
static void say_bye(const ct_watch_t *w)
{
  static const char bye = 'B';
  int to[] = {atomic_load(&w->next.fd), atomic_load(&w->prev.fd)};
  for (int i = 0; i < 2; i++)
    if (to[i] >= 0) (void)!send(to[i], &bye, 1, MSG_NOSIGNAL);
}

/* Closes the sockets, so that another address can be tried. */
static void shut(ct_watch_t *w)
{
  say_bye(w);
  stop_thread(w);
  close_links(w);
  atomic_store(&w->heard, 0);
}

/* Tries each network that all nodes share, then the routes to the other nodes. */
static int works(ct_watch_t *w)
{
  struct in6_addr at;
  if (w->ranks == 1) return works_at(w, NULL);
  for (int choice = 0; ct__watch_choose(w->addresses, w->ranks, w->rank, choice, &at); choice++) {
    if (works_at(w, &at)) return 1;
    shut(w);
  }
  const ct__watch_addresses_t *far = ct__watch_far(w->addresses, w->ranks, w->rank);
  if (!far) return 0; /* on all ranks: there is a single node */
  return works_at(w, ct__watch_route(far, &at) ? &at : NULL);
}

/* Accepts no further connections. */
static void settle(ct_watch_t *w)
{
  ct_mem_free(w->addresses);
  w->addresses = NULL;
  atomic_store(&w->agreed, 1);
  wake_thread(w);
}

int ct_watch_open(const ct_topo_t *t, ct_watch_t **out)
{
  int rc = CT_OK;
  *out = NULL;
  ct_heartbeat_enter("opening the watch", -1);
  ct_watch_t *w = new_watch(t);
  CT_TRY_ALL(t, w ? CT_OK : CT_ERR_NOMEM);
  CT_TRY_ALL(t, ct__watch_ports(getenv("CTRAIN_WATCH_PORTS"), &w->ports));
  CT_TRY(exchange(w));
  ct__watch_stack_open();
  if (works(w)) {
    settle(w);
    atomic_store(&watching, w);
    ct_panic_set_hook(&last_words);
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

/* Waits until all ranks are here; until then they are watched. */
void ct_watch_end(ct_watch_t *w, int status)
{
  if (!w) return;
  ct_heartbeat_enter("the final barrier", -1);
  if (w->ranks > 1) ct_mpi_barrier(w->t, w->t->world);
  if (w->ranks > 1) sigaction(SIGABRT, &before_abort, NULL);
  ct_panic_set_hook(NULL);
  ct_stop_wake(-1);
  atomic_store(&watching, NULL);
  ct_heartbeat_enter("MPI_Finalize", -1);
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
