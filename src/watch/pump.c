/* Main activity of the watch thread, also while it waits for replies: counts the seconds in which
 * nothing completes, and handles incoming data on its sockets. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/ct_clock.h"
#include "base/ct_temporary.h"
#include "watch/thread.h"

static const double gap_s = 3; /* a longer gap means that the whole process was stopped */

/* ---- time ---- */

static int moved(const ct_heartbeat_t *a, const ct_heartbeat_t *b)
{
  return a->progress_s != b->progress_s || a->since_s != b->since_s || a->calls != b->calls ||
         a->step != b->step;
}

static double cpu_time(void)
{
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Measures the process's CPU time: a process that waits for a file system uses almost none, except
 * in this thread. */
static void feel_pulse(ct_watch_t *w, double passed, int has_moved)
{
  double cpu = cpu_time();
  int works = cpu - w->cpu_s > 0.02 * passed + 0.005;
  w->cpu_s = cpu;
  w->quiet_s = works || has_moved ? 0 : w->quiet_s + passed;
}

void ct__watch_tick_from_now(ct_watch_t *w)
{
  w->ticked_at = ct_clock();
  w->cpu_s = cpu_time();
  ct_heartbeat_read(&w->heartbeat);
}

void ct__watch_tick(ct_watch_t *w)
{
  ct_heartbeat_t b;
  double now = ct_clock(), passed = now - w->ticked_at;
  w->ticked_at = now;
  if (passed >= gap_s) passed = CT__WATCH_TICK_S;
  w->idle_s += passed;
  w->asked_s += passed;
  ct_heartbeat_read(&b);
  int has_moved = moved(&w->heartbeat, &b);
  feel_pulse(w, passed, has_moved);
  if (has_moved) {
    double ago = now - (b.since_s > b.progress_s ? b.since_s : b.progress_s);
    w->idle_s = ago < w->idle_s ? ago : w->idle_s;
    w->ask_at = 0;
  }
  w->heartbeat = b;
}

/* ---- exit ---- */

void ct__watch_leave(ct_watch_t *w, int status)
{
  const char end = status == CT_EXIT_INTERRUPTED ? 'I' : 'E';
  ct__watch_link_t *link[] = {&w->next, &w->prev};
  for (int i = 0; i < 2; i++) {
    int fd = atomic_load(&link[i]->fd);
    if (fd >= 0) (void)!send(fd, &end, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  ct_temporary_remove();
  _Exit(status);
}

/* ---- incoming data ---- */

static void take_packets(ct_watch_t *w)
{
  _Alignas(8) char data[2048];
  ssize_t n;
  while ((n = recv(w->net.udp, data, sizeof data, MSG_DONTWAIT)) >= 0)
    w->take(w, data, (size_t)n);
}

/* Reads from a neighbour, which sends at most one byte: the job ends ('E'), was interrupted ('I'),
 * or the neighbour closes. Then its connection ends. Before all ranks have agreed the connection
 * may be made again, if the connecting side timed out. */
static void take_word(ct_watch_t *w, ct__watch_link_t *l)
{
  char word = 0;
  int fd = atomic_load(&l->fd);
  ssize_t n = recv(fd, &word, 1, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n == 1 && word == 'E') ct__watch_leave(w, 1);
  if (n == 1 && word == 'I') ct__watch_leave(w, CT_EXIT_INTERRUPTED);
  if (n == 1) {
    l->bye = 1;
    return;
  }
  atomic_store(&l->fd, -1);
  close(fd);
  l->lost = !l->bye;
}

/* Accepts a connection. A guest that proves it has the key replaces the previous neighbour, even if
 * it was connected before. */
static void accept_neighbour(ct_watch_t *w)
{
  ct__watch_pair_t pair = {.key = w->key, .from = w->prev.peer, .to = w->rank};
  ct__watch_door_open(&w->door, w->net.listener);
  int fd = ct__watch_door_hear(&w->door, &pair);
  if (fd < 0) return;
  int before = atomic_exchange(&w->prev.fd, fd);
  if (before >= 0) close(before);
  w->prev.lost = 0;
}

/* Once all ranks have agreed, no further neighbour connects, so the listener is closed. */
static void settle(ct_watch_t *w)
{
  ct__watch_link_t *link[] = {&w->next, &w->prev};
  if (w->net.listener >= 0) {
    ct__watch_net_shut(&w->net);
    ct__watch_door_clear(&w->door);
  }
  for (int i = 0; i < 2; i++)
    if (link[i]->lost && link[i]->died_at == 0) link[i]->died_at = ct_clock();
}

void ct__watch_pump(ct_watch_t *w, double seconds)
{
  enum { PACKETS, NEXT, PREV, WAKE, NEIGHBOUR, GUESTS, FDS = GUESTS + CT__WATCH_GUESTS };
  int guests = w->net.listener >= 0;
  struct pollfd p[FDS] = {[PACKETS] = {.fd = w->net.udp, .events = POLLIN},
                          [NEXT] = {.fd = atomic_load(&w->next.fd), .events = POLLIN},
                          [PREV] = {.fd = atomic_load(&w->prev.fd), .events = POLLIN},
                          [WAKE] = {.fd = w->wake, .events = POLLIN},
                          [NEIGHBOUR] = {.fd = w->net.listener, .events = POLLIN}};
  for (int i = 0; i < CT__WATCH_GUESTS; i++)
    p[GUESTS + i] = (struct pollfd){.fd = w->door.guest[i].fd, .events = POLLIN};
  int n = poll(p, guests ? FDS : NEIGHBOUR, (int)(seconds * 1000) + 1);
  if (n > 0 && p[PACKETS].revents) take_packets(w);
  if (n > 0 && p[NEXT].revents) take_word(w, &w->next);
  if (n > 0 && p[PREV].revents) take_word(w, &w->prev);
  uint64_t times;
  if (n > 0 && p[WAKE].revents) (void)!read(w->wake, &times, sizeof times);
  if (guests) accept_neighbour(w);
  if (atomic_load(&w->agreed)) settle(w);
}
