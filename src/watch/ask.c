/* Queries between watch threads, replies, and ending the job. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/ct_clock.h"
#include "base/ct_log.h"
#include "job/ct_stop.h"
#include "watch/thread.h"

enum { ROUNDS = 3, AT_ONCE = 32, QUIET_S = 12 };
/* Launchers kill the other ranks when the first one exits, so all ranks exit at about the same
 * time. */
static const double together_s = 0.15;

typedef enum {
  ASK,    /* request for a rank's state */
  ANSWER, /* reply: a state */
  FINE,   /* something has completed somewhere this many seconds ago */
  LOOK,   /* request for the kernel's view of a rank on the same machine */
  STACK,  /* request for the stack trace of the main thread */
  TELL,   /* reply to LOOK or STACK: a text */
  STOP,   /* a rank was asked to stop before the first step */
  HEARD,  /* to rank 0: a rank was asked to stop; log it */
  QUIT,   /* a rank was asked to stop at once */
  KILL,   /* request to kill a rank on the same machine that does not reply */
  HUSH,   /* the cause is reported and ranks will exit: do not report their deaths */
  END     /* the job ends */
} kind_t;

typedef struct packet {
  ct__watch_seal_t seal;
  int32_t to, from, kind, about;
  double idle_s;
  union {
    ct__watch_state_t state;
    char text[CT__WATCH_TEXT];
    int64_t request; /* ct_stop_pack() */
  } u;
} packet_t;

static size_t size_of(const packet_t *p)
{
  size_t head = offsetof(packet_t, u);
  if (p->kind == STOP || p->kind == HEARD) return head + sizeof p->u.request;
  if (p->kind == ANSWER) return head + sizeof p->u.state;
  if (p->kind == TELL) return head + strlen(p->u.text) + 1;
  return head;
}

static void send_packet(ct_watch_t *w, int to, packet_t *p)
{
  size_t bytes = size_of(p);
  p->to = to;
  p->from = w->rank;
  ct__watch_seal(&w->key, atomic_fetch_add(&w->number, 1) + 1, p, bytes);
  ct__watch_net_send(&w->net, &w->card[to].sockets, p, bytes);
}

static void send_kind(ct_watch_t *w, int to, kind_t kind, int about)
{
  packet_t p = {.kind = kind, .about = about};
  send_packet(w, to, &p);
}

static void sleep_s(double seconds)
{
  struct timespec t = {.tv_sec = (time_t)seconds};
  t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
  nanosleep(&t, NULL);
}

/* ---- this rank's state ---- */

static void own_state(ct_watch_t *w, ct__watch_state_t *out)
{
  ct_heartbeat_t b;
  ct__watch_tick(w);
  ct_heartbeat_read(&b);
  *out = (ct__watch_state_t){.answered = 1,
                             .local = b.local,
                             .step = b.step,
                             .calls = b.calls,
                             .detail = b.detail,
                             .doing_s = b.since_s > 0 ? ct_clock() - b.since_s : 0,
                             .idle_s = w->idle_s};
  snprintf(out->doing, sizeof out->doing, "%s", b.doing);
  ct_heartbeat_file_read(out->file, sizeof out->file);
  ct__watch_see_thread(w->main_thread, out->seen, sizeof out->seen);
}

static void answer(ct_watch_t *w, int to)
{
  packet_t p = {.kind = ANSWER};
  own_state(w, &p.u.state);
  p.idle_s = p.u.state.idle_s;
  send_packet(w, to, &p);
}

static void ask_tell(ct_watch_t *w, int to, kind_t asked, int about)
{
  packet_t p = {.kind = TELL, .about = about};
  if (asked == STACK)
    ct__watch_stack(p.u.text, sizeof p.u.text);
  else
    ct__watch_see(&w->card[about], p.u.text, sizeof p.u.text);
  send_packet(w, to, &p);
}

static int same_machine(const ct_watch_t *w, int a, int b)
{
  return w->card[a].machine && w->card[a].machine == w->card[b].machine;
}

/* ---- packets ---- */

static void begin_anew(ct_watch_t *w, double idle_s)
{
  if (idle_s < w->idle_s) w->idle_s = idle_s;
  w->ask_at = 0;
}

/* Yields to another rank's verdict, since one is enough: the verdict of the first rank that asks,
 * or of the lowest rank if several ask. */
static void give_way(ct_watch_t *w, int to)
{
  if (w->asking && to > w->rank) return;
  w->given_way = 1;
  w->ask_at = ct_clock() + QUIET_S;
}

/* Returns a slightly lower limit, since ranks do not hang at exactly the same moment. */
static double soonest(double limit_s)
{
  double slack = limit_s / 10;
  return limit_s - (slack < 2 ? slack : 2);
}

static void take_answer(ct_watch_t *w, const packet_t *p)
{
  ct__watch_state_t *s = &w->state[p->from];
  if (!s->answered) w->answers++;
  if (p->idle_s < soonest(atomic_load(&w->limit_s)))
    w->answers = w->ranks; /* all is well: stop waiting for replies */
  atomic_store(&w->heard, 1);
  *s = p->u.state;
  s->answered = 1;
  s->doing[sizeof s->doing - 1] = s->file[sizeof s->file - 1] = s->seen[sizeof s->seen - 1] = '\0';
}

static void ask_take_text(ct_watch_t *w, const packet_t *p)
{
  if (p->about != w->awaited) return;
  memcpy(w->text, p->u.text, sizeof w->text);
  w->text[sizeof w->text - 1] = '\0';
  w->awaited = -1;
}

void ct__watch_acknowledge(ct_watch_t *w, int64_t request)
{
  char who[64], now[100] = "";
  ct_heartbeat_t b;
  ct_stop_t s = ct_stop_unpack(request);
  if (w->rank || !ct_stop_first_report()) return;
  ct_heartbeat_read(&b);
  if (!b.begun) snprintf(now, sizeof now, " (now: %s)", b.doing);
  ct_log(CT_LOG_INFO, "%s: stopping after %s step with a checkpoint%s; again: stop at once",
         ct_stop_text(s, who, sizeof who), b.begun ? "this" : "the first", now);
}

/* Logs once, on rank 0, that the job ends at once, whichever rank was interrupted. */
static void say_quit(ct_watch_t *w)
{
  ct_heartbeat_t b;
  ct_heartbeat_read(&b);
  if (w->rank == 0 && !w->quits++)
    ct_log(CT_LOG_WARN, "interrupted again: stopped at once, %s",
           b.begun ? "without a checkpoint of the last steps" : "before the first step");
}

void ct__watch_take(ct_watch_t *w, const void *data, size_t bytes)
{
  packet_t p = {0};
  uint64_t number = ct__watch_sealed(&w->key, data, bytes);
  memcpy(&p, data, bytes < sizeof p ? bytes : sizeof p);
  if (!number || bytes < offsetof(packet_t, u) || p.to != w->rank) return;
  if (p.from < 0 || p.from >= w->ranks || p.about < 0 || p.about >= w->ranks) return;
  if (!ct__watch_is_new(&w->had[p.from], number)) return;
  switch ((kind_t)p.kind) {
  case ASK:
    give_way(w, p.from);
    answer(w, p.from);
    break;
  case ANSWER:
    take_answer(w, &p);
    break;
  case FINE:
    begin_anew(w, p.idle_s);
    break;
  case LOOK:
  case STACK:
    ask_tell(w, p.from, (kind_t)p.kind, p.about);
    break;
  case TELL:
    ask_take_text(w, &p);
    break;
  case STOP:
    if (!w->request) w->asked_s = 0;
    if (p.u.request > w->request) w->request = p.u.request;
    w->told = 1;
    break;
  case HEARD:
    ct__watch_acknowledge(w, p.u.request);
    break;
  case QUIT:
    say_quit(w);
    sleep_s(together_s);
    ct__watch_leave(w, CT_EXIT_INTERRUPTED);
  case KILL:
    if (same_machine(w, w->rank, p.about)) ct__watch_kill(&w->card[p.about]);
    break;
  case HUSH:
    ct__watch_be_patient(w);
    break;
  case END:
    sleep_s(0.3); /* let the sender exit first: some launchers report the first rank that exits */
    ct__watch_leave(w, 1);
  }
}

void ct__watch_greet(ct_watch_t *w, int rank)
{
  send_kind(w, rank, ASK, 0);
}

/* ---- ending the job ---- */

/* Delays reports of deaths for a while, but not forever: the rank that reported the cause may be
 * killed before it notifies the others. */
void ct__watch_be_patient(ct_watch_t *w)
{
  w->next.silent_s = w->prev.silent_s = 5;
}

/* Tells all ranks that further deaths are consequences of the cause that this rank reports. */
static void hush_all(ct_watch_t *w)
{
  ct__watch_be_patient(w);
  for (int r = 0; r < w->ranks; r++)
    if (r != w->rank) send_kind(w, r, HUSH, 0);
}

void ct__watch_log_end(ct_watch_t *w)
{
  for (int round = 0; round < ROUNDS; round++) {
    for (int r = 0; r < w->ranks; r++)
      if (r != w->rank) send_kind(w, r, END, 0);
    if (w->ranks > 1) sleep_s(0.03);
  }
}

/* Gives the launcher time to forward the message before it notices the end. */
static _Noreturn void end_job(ct_watch_t *w)
{
  sleep_s(0.2);
  ct__watch_log_end(w);
  ct__watch_leave(w, 1);
}

void ct__watch_report_death(ct_watch_t *w, int rank)
{
  char text[320];
  const ct__watch_card_t *c = &w->card[rank];
  snprintf(text, sizeof text,
           "rank %d (%s, pid %d) has died: killed, or out of memory?  The log of %s (dmesg) or the "
           "job's accounting may show why; restart it to resume from the last checkpoint",
           rank, c->host, c->pid, c->host);
  ct_log_fatal(text); /* before anything else: a launcher that noticed the death may kill this
                         process */
  hush_all(w);
  end_job(w);
}

void ct__watch_pass_on(ct_watch_t *w, int64_t request)
{
  packet_t p = {.kind = HEARD, .u.request = request};
  send_packet(w, 0, &p);
}

void ct__watch_quit(ct_watch_t *w)
{
  say_quit(w);
  for (int round = 0; round < ROUNDS && w->ranks > 1; round++) {
    for (int r = 0; r < w->ranks; r++)
      if (r != w->rank) send_kind(w, r, QUIT, 0);
    sleep_s(together_s / ROUNDS);
  }
  ct__watch_leave(w, CT_EXIT_INTERRUPTED);
}

void ct__watch_log_request(ct_watch_t *w)
{
  packet_t p = {.kind = STOP, .u.request = w->request};
  for (int r = 0; r < w->ranks; r++)
    if (r != w->rank) send_packet(w, r, &p);
  w->told = 1;
}

void ct__watch_report_blocked(ct_watch_t *w)
{
  char request[64], text[1000];
  own_state(w, &w->state[w->rank]);
  ct_stop_text(ct_stop_unpack(w->request), request, sizeof request);
  ct__watch_blocked(w->card, w->state, request, w->rank, text, sizeof text);
  ct_log_fatal(text);
  end_job(w);
}

/* ---- querying other ranks ---- */

static void pump_until(ct_watch_t *w, double seconds, const int *value, int wanted)
{
  double end = ct_clock() + seconds, left;
  while (*value != wanted && (left = end - ct_clock()) > 0)
    ct__watch_pump(w, left);
}

/* Requests the state of all ranks. 0: a lower rank asks too. */
static int ask_all(ct_watch_t *w)
{
  w->answers = w->asking = 1;
  w->given_way = 0;
  for (int r = 0; r < w->ranks; r++)
    w->state[r] = (ct__watch_state_t){0};
  own_state(w, &w->state[w->rank]);
  for (int round = 0; round < ROUNDS && w->answers < w->ranks && !w->given_way; round++) {
    for (int r = 0, sent = 0; r < w->ranks; r++) {
      if (w->state[r].answered) continue;
      send_kind(w, r, ASK, 0);
      if (++sent % AT_ONCE == 0) ct__watch_pump(w, 0); /* avoid overflowing the receive buffer */
    }
    pump_until(w, 0.8, &w->answers, w->ranks);
  }
  return !w->given_way;
}

/* Returns a rank on the same machine that has replied; -1: none. */
static int neighbour_of(const ct_watch_t *w, int rank)
{
  if (same_machine(w, w->rank, rank)) return w->rank;
  for (int r = 0; r < w->ranks; r++)
    if (w->state[r].answered && same_machine(w, r, rank)) return r;
  return -1;
}

/* Requests from rank \a whom a text about rank \a about, into w->text; empty if rank \a whom does
 * not reply. */
static void inquire(ct_watch_t *w, int whom, kind_t kind, int about)
{
  w->text[0] = '\0';
  w->awaited = about;
  send_kind(w, whom, kind, about);
  pump_until(w, kind == STACK ? 2 : 0.5, &w->awaited, -1);
  w->awaited = -1;
}

static void see_silent(ct_watch_t *w, int rank)
{
  ct__watch_state_t *s = &w->state[rank];
  int near = neighbour_of(w, rank);
  if (near == w->rank) {
    ct__watch_see(&w->card[rank], s->seen, sizeof s->seen);
  } else if (near >= 0) {
    inquire(w, near, LOOK, rank);
    snprintf(s->seen, sizeof s->seen, "%.*s", (int)sizeof s->seen - 1, w->text);
  }
}

static void log_stack(ct_watch_t *w, int rank)
{
  if (rank == w->rank)
    ct__watch_stack(w->text, sizeof w->text);
  else
    inquire(w, rank, STACK, rank);
  for (char *rest = w->text, *line; (line = strsep(&rest, "\n"));)
    if (*line) ct_log_all(CT_LOG_ERROR, "  rank %d: %s", rank, line);
}

static void log_rank(const ct_watch_t *w, const char *what, int rank)
{
  char text[800];
  ct__watch_line(w->card, w->state, rank, text, sizeof text);
  ct_log_all(CT_LOG_ERROR, "%s %s", what, text);
}

static void log_verdict(ct_watch_t *w, const ct__watch_verdict_t *v)
{
  char text[1000];
  int named = v->late < CT__WATCH_NAMED ? v->late : CT__WATCH_NAMED;
  for (int i = 0; i < named && v->finding == CT__WATCH_SILENT; i++)
    see_silent(w, v->named[i]);
  ct__watch_sentence(v, w->card, w->state, w->ranks, text, sizeof text);
  ct_log_fatal(text);
  for (int i = 0; i < named; i++)
    log_rank(w, "late:", v->named[i]);
  if (v->late > named) ct_log_all(CT_LOG_ERROR, "late: and %d more", v->late - named);
  if (v->other >= 0) log_rank(w, "for comparison:", v->other);
  if (v->finding == CT__WATCH_TOGETHER)
    log_stack(w, v->other);
  else if (v->finding != CT__WATCH_SILENT)
    for (int i = 0; i < named && i < CT__WATCH_STACKS; i++)
      log_stack(w, v->named[i]);
}

/* Kills ranks that do not reply, since they would be left over when all others have exited: a
 * stopped process receives nothing. Their neighbours are notified of the cause before they notice
 * the deaths. */
static void kill_silent(ct_watch_t *w)
{
  for (int round = 0; round < ROUNDS; round++) {
    hush_all(w);
    sleep_s(0.03);
  }
  for (int r = 0; r < w->ranks; r++) {
    int near = w->state[r].answered ? -1 : neighbour_of(w, r);
    if (near == w->rank)
      ct__watch_kill(&w->card[r]);
    else if (near >= 0)
      send_kind(w, near, KILL, r);
  }
}

void ct__watch_ask(ct_watch_t *w)
{
  ct__watch_verdict_t v;
  double limit_s = atomic_load(&w->limit_s); /* the main thread may change it concurrently */
  int alone = ask_all(w);
  w->asking = 0;
  if (!alone) return;
  ct__watch_judge(w->state, w->ranks, soonest(limit_s), &v);
  if (v.finding != CT__WATCH_FINE) {
    log_verdict(w, &v);
    kill_silent(w);
    end_job(w);
  }
  packet_t p = {.kind = FINE, .idle_s = v.idle_s};
  for (int r = 0; r < w->ranks; r++)
    if (r != w->rank) send_packet(w, r, &p);
  begin_anew(w, v.idle_s);
}
