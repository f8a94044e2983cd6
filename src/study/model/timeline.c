/* Simulates one step: launches take their time, while buckets of gradients pass through the rounds
 * of an all-reduce in segments.  A level is one link that sends one message at a time; during the
 * latency of a round the link is free for other segments. */
#include "study/model/ct_timeline.h"

#include <math.h>

enum { AT_A_TIME = 16, SPANS = 64 };

/* ---- rounds ---- */

/* Consecutive rounds of an all-reduce on one link, simulated as one. */
typedef struct span {
  int link;      /* 0: inside a node, 1: between nodes */
  double factor; /* bytes sent per byte of the segment */
  double rounds;
} span_t;

typedef struct spans {
  span_t s[2 * SPANS];
  int n;
} spans_t;

/* Merges rounds so that at most SPANS remain; only their sum matters. */
static void add_level(spans_t *all, int link, const ct_timeline_case_t *c, int n)
{
  int a = c->algorithm >= 0 ? c->algorithm : (int)ct_comm_algorithm(n, (int64_t)c->piece_bytes);
  ct_comm_cost_t cost = ct_comm_cost(CT_COMM_ALL_REDUCE, (ct_comm_algorithm_t)a, n);
  int spans = (int)fmin(ceil(cost.rounds), SPANS);
  for (int i = 0; i < spans; i++)
    all->s[all->n++] = (span_t){link, cost.volume / spans, cost.rounds / spans};
}

/* ---- a step ---- */

/* A segment of a bucket in flight. */
typedef struct piece {
  double bytes, done_s; /* done_s: end of the current span; < 0: it has not begun */
  int span;
} piece_t;

typedef struct play {
  const ct_timeline_case_t *c;
  spans_t spans;
  piece_t piece[AT_A_TIME];
  int pieces, most;
  int done, cut;       /* launches that are complete; those whose gradients are in a bucket */
  double bucket, left; /* bytes of the bucket that is being filled; unsent bytes of a full one */
  double free_s[2];    /* time from which each link is free */
} play_t;

/* Returns 1 if bytes are left to send. */
static int next_bucket(play_t *p, const ct_timeline_t *t)
{
  while (p->left <= 0 && p->cut < p->done) {
    p->bucket += t->launch[p->cut++].bytes;
    if (p->bucket < p->c->bucket_bytes && p->cut < t->launches) continue;
    p->left = p->bucket;
    p->bucket = 0;
  }
  return p->left > 0;
}

static void start(play_t *p, const ct_timeline_t *t)
{
  while (p->pieces < p->most && next_bucket(p, t)) {
    double bytes = fmin(p->left, p->c->piece_bytes);
    p->piece[p->pieces++] = (piece_t){.bytes = bytes, .done_s = -1};
    p->left -= bytes;
  }
}

static void send_span(play_t *p, piece_t *i, double now)
{
  const span_t *s = &p->spans.s[i->span];
  const ct_link_t *link = s->link ? &p->c->between : &p->c->inside;
  double rate = link->bytes_per_s > 0 ? link->bytes_per_s : INFINITY;
  p->free_s[s->link] = fmax(p->free_s[s->link], now) + s->factor * i->bytes / rate;
  i->done_s = p->free_s[s->link] + s->rounds * link->alpha_s;
}

/* Simulates a call into MPI: segments that have completed a span begin the next one. */
static void enter(play_t *p, const ct_timeline_t *t, double now)
{
  int left = 0;
  for (int i = 0; i < p->pieces; i++) {
    if (p->piece[i].done_s >= 0 && p->piece[i].done_s <= now) {
      p->piece[i].span++;
      p->piece[i].done_s = -1;
    }
    if (p->piece[i].span < p->spans.n) p->piece[left++] = p->piece[i];
  }
  p->pieces = left;
  start(p, t);
  for (int i = 0; i < p->pieces; i++)
    if (p->piece[i].done_s < 0) send_span(p, &p->piece[i], now);
}

static double next_done(const play_t *p)
{
  double first = INFINITY;
  for (int i = 0; i < p->pieces; i++)
    first = fmin(first, p->piece[i].done_s);
  return first;
}

double ct_timeline_run(const ct_timeline_t *t, const ct_timeline_case_t *c)
{
  play_t p = {.c = c, .most = c->under_way < AT_A_TIME ? c->under_way : AT_A_TIME};
  double now = 0, all = 0;
  add_level(&p.spans, 0, c, c->local_ranks);
  add_level(&p.spans, 1, c, c->nodes);
  for (int i = 0; i < t->launches; i++)
    all += t->launch[i].share;
  while (p.done < t->launches) {
    now += all > 0 ? c->compute_s * t->launch[p.done].share / all : 0;
    if (p.done++ >= t->loss && p.spans.n) enter(&p, t, now);
  }
  while (p.pieces) {
    now = fmax(now, next_done(&p));
    enter(&p, t, now);
  }
  return now;
}

/* ---- the slowest of many ---- */

/* Computes the integral of 1 - F(x)^n over x > 0 minus the integral of F(x)^n over x < 0; F: the
 * distribution function of the normal distribution. */
double ct_timeline_largest_of(int n)
{
  const double step = 1. / 256, end = 9;
  double sum = 0;
  for (double x = step / 2; x < end; x += step)
    sum += 1 - pow(0.5 * erfc(-x * M_SQRT1_2), n) - pow(0.5 * erfc(x * M_SQRT1_2), n);
  return n > 1 ? sum * step : 0;
}
