/* `bench comm`: what collective calls cost inside a node, between nodes and over all ranks, by MPI
 * itself and by the ways that gradients take. */
#include <string.h>

#include "bench/comm_output.h"
#include "bench/ct_bench.h"
#include "setup/ct_setup.h"
#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "comm/ct_agree.h"
#include "comm/ct_mpi.h"

typedef struct plan {
  int64_t least, most; /* bytes; each size is four times the one before */
  int64_t calls, warmup;
} plan_t;

/* One way to make the calls among the ranks of one level. */
typedef struct way {
  const char *name, *level;
  ct_comm_algorithm_t algorithm;
  const ct_topo_t *t;
  const ct_setup_t *s;
  const ct_comm_ops_t *ops; /* NULL: MPI's own calls */
  ct_comm_t *comm;          /* owned */
  ct_queue_t *queue;        /* owned */
  float *buf;               /* what is reduced; of ops->alloc() or owned */
  int owned;
  float *apart; /* owned; out of place: where it comes from; MPI only */
  float *host;  /* owned; to fill and to check */
} way_t;

/* ---- life ---- */

static void close_way(way_t *w)
{
  if (w->comm) w->ops->close(w->comm);
  if (w->queue) w->s->be->queue->destroy(w->queue);
  if (w->owned) ct_mem_free(w->buf);
  ct_mem_free(w->apart);
  ct_mem_free(w->host);
}

/* Collective over w->t.  fixed_order: which makes the exchange the only way. */
static int open_way(way_t *w, int shared, int fixed_order, int64_t most)
{
  int rc = CT_OK;
  const ct_setup_t *s = w->s;
  const char *what = "what bench comm sends";
  w->host = ct_mem_alloc((size_t)most, what);
  w->apart = w->ops ? NULL : ct_mem_alloc((size_t)most, what);
  w->owned = !shared;
  if (w->owned) w->buf = ct_mem_alloc((size_t)most, what);
  int there = w->host && (w->ops || w->apart) && (!w->owned || w->buf);
  CT_TRY_ALL(w->t, there ? CT_OK : CT_ERR_NOMEM);
  if (!w->ops) goto out;
  CT_TRY_ALL(w->t, s->be->queue->create(s->dev, &w->queue));
  const ct_comm_opts_t o = {.fixed_order = fixed_order, .wire = CT_F32};
  CT_TRY(w->ops->open(w->t, s->be, s->dev, &o, &w->comm));
  if (shared) {
    void *memory;
    CT_TRY(w->ops->alloc(w->comm, (size_t)most, &memory));
    w->buf = memory;
  }
out:
  return rc;
}

/* ---- calls ---- */

static int call_mpi(const way_t *w, ct_comm_call_t call, int64_t n, int in_place)
{
  MPI_Comm comm = w->t->world;
  MPI_Request request;
  const void *from = in_place ? MPI_IN_PLACE : (void *)w->apart;
  int all = (int)n, block = all / w->t->size;
  switch (call) {
  case CT_COMM_ALL_REDUCE:
    CT_MPI(w->t, MPI_Iallreduce(from, w->buf, all, MPI_FLOAT, MPI_SUM, comm, &request));
    break;
  case CT_COMM_REDUCE_SCATTER:
    CT_MPI(w->t,
           MPI_Ireduce_scatter_block(from, w->buf, block, MPI_FLOAT, MPI_SUM, comm, &request));
    break;
  case CT_COMM_ALL_GATHER:
    CT_MPI(w->t, MPI_Iallgather(from, block, MPI_FLOAT, w->buf, block, MPI_FLOAT, comm, &request));
    break;
  default:
    CT_MPI(w->t, MPI_Ibcast(w->buf, all, MPI_FLOAT, 0, comm, &request));
    break;
  }
  ct_mpi_wait(w->t, &request);
  return CT_OK;
}

static int call_once(const way_t *w, ct_comm_call_t call, int64_t n, int in_place)
{
  int rc = CT_OK, ticket;
  if (!w->ops) return call_mpi(w, call, n, in_place);
  if (call == CT_COMM_BROADCAST)
    return w->ops->bcast(w->comm, w->queue, w->buf, (size_t)n * sizeof(float), 0);
  if (call == CT_COMM_ALL_GATHER) return w->ops->gather(w->comm, w->queue, w->buf, n);
  ct_reduce_t how = call == CT_COMM_ALL_REDUCE ? CT_REDUCE_ALL : CT_REDUCE_SLICE;
  CT_TRY(w->ops->reduce(w->comm, NULL, w->buf, n, how, &ticket));
  CT_TRY(w->ops->end(w->comm, ticket, w->queue));
  CT_TRY(w->s->be->queue->sync(w->queue));
out:
  return rc;
}

/* ---- what goes in, and what must come out ---- */

static int move(const way_t *w, void *to, const void *from, int64_t n)
{
  int rc = CT_OK;
  size_t bytes = (size_t)n * sizeof(float);
  if (!w->ops) {
    memcpy(to, from, bytes);
    return CT_OK;
  }
  CT_TRY(w->s->be->mem->copy(w->queue, to, from, bytes));
  CT_TRY(w->s->be->queue->sync(w->queue));
out:
  return rc;
}

/* This rank's part of n elements. */
static void part(const way_t *w, int64_t n, int64_t *from, int64_t *to)
{
  int64_t block = n / w->t->size;
  *from = w->t->rank * block;
  *to = *from + block;
  if (w->ops) w->ops->slice(w->comm, n, from, to);
}

/* Small whole numbers: any order of sums gives the same, and no two neighbouring parts are alike.
 */
static float summand(int64_t i, int rank)
{
  enum { NUMBERS = 61, RANKS = 16 };
  return (float)(i % NUMBERS + rank % RANKS);
}

static int fill(const way_t *w, ct_comm_call_t call, int64_t n, int in_place)
{
  int rc = CT_OK;
  int gathers = call == CT_COMM_ALL_GATHER;
  int sums = call == CT_COMM_ALL_REDUCE || call == CT_COMM_REDUCE_SCATTER;
  int64_t from = 0, to = !sums && w->t->rank ? 0 : n;
  if (gathers) part(w, n, &from, &to);
  for (int64_t i = 0; i < n; i++)
    w->host[i] = i >= from && i < to ? summand(i, sums ? w->t->rank : 0) : -1;
  CT_TRY(move(w, w->buf, w->host, n));
  if (!in_place)
    memcpy(w->apart, w->host + (gathers ? from : 0), (size_t)(to - from) * sizeof(float));
out:
  return rc;
}

/* Elements of this rank that are wrong. */
static int count_wrong(const way_t *w, ct_comm_call_t call, int64_t n, int64_t *wrong)
{
  int rc = CT_OK;
  int sums = call == CT_COMM_ALL_REDUCE || call == CT_COMM_REDUCE_SCATTER;
  int64_t from = 0, to = n;
  if (call == CT_COMM_REDUCE_SCATTER) part(w, n, &from, &to);
  int64_t at = w->ops || call != CT_COMM_REDUCE_SCATTER ? from : 0; /* MPI's begins at 0 */
  CT_TRY(move(w, w->host, w->buf + at, to - from));
  for (int64_t i = from; i < to; i++) {
    float want = summand(i, 0);
    for (int r = 1; sums && r < w->t->size; r++)
      want += summand(i, r);
    *wrong += w->host[i - from] != want;
  }
out:
  return rc;
}

/* ---- time ---- */

/* Collective: seconds of a call, on average. */
static int time_calls(const way_t *w, ct_comm_call_t call, int64_t n, int in_place, int64_t calls,
                      double *seconds)
{
  int rc = CT_OK;
  ct_mpi_barrier(w->t, w->t->world);
  double begin = ct_clock();
  for (int64_t i = 0; i < calls; i++)
    CT_TRY(call_once(w, call, n, in_place));
  *seconds = (ct_clock() - begin) / (double)calls;
  CT_TRY(ct_agree_doubles(w->t, seconds, 1, 0));
  *seconds /= w->t->size;
out:
  return rc;
}

/* Long calls are made less often: a second is enough to know one. */
static int measure_call(const way_t *w, ct_comm_call_t call, int64_t n, int in_place,
                        const plan_t *p, ct_bench_call_t *out)
{
  int rc = CT_OK;
  double once;
  CT_TRY_ALL(w->t, fill(w, call, n, in_place));
  CT_TRY(time_calls(w, call, n, in_place, 1, &once));
  CT_TRY_ALL(w->t, count_wrong(w, call, n, &out->wrong));
  ct_agree_sum(w->t, &out->wrong, 1);
  int64_t fit = once * (double)p->calls > 1 ? (int64_t)(1 / once) + 1 : p->calls;
  int64_t before = p->warmup < fit ? p->warmup : fit;
  if (before) CT_TRY(time_calls(w, call, n, in_place, before, &once));
  CT_TRY(time_calls(w, call, n, in_place, fit, &out->seconds));
  out->there = 1;
out:
  return rc;
}

/* Whether chunks of so many bytes go this way. */
static int takes(const way_t *w, ct_comm_call_t call, int64_t bytes)
{
  enum { CHUNK = 1 << 20 };
  if (strcmp(w->name, "exchange") == 0)
    return call == CT_COMM_ALL_REDUCE &&
           (!(w->t->size & (w->t->size - 1)) ||
            ct_comm_algorithm(w->t->size, bytes < CHUNK ? bytes : CHUNK) == CT_COMM_EXCHANGE);
  return strcmp(w->name, "window") != 0 || call != CT_COMM_BROADCAST; /* that is MPI's */
}

static int measure_way(const way_t *w, const plan_t *p, ct_bench_comm_t *b)
{
  int rc = CT_OK;
  for (int call = 0; call < CT_COMM_CALLS; call++)
    for (int64_t bytes = p->least; bytes <= p->most; bytes *= 4) {
      int64_t n = bytes / (int64_t)sizeof(float);
      if (call == CT_COMM_REDUCE_SCATTER || call == CT_COMM_ALL_GATHER) n -= n % w->t->size;
      if (n == 0 || !takes(w, call, bytes)) continue;
      CT_TRY_ALL(w->t, ct_mem_grow((void **)&b->row, &b->room, b->rows + 1, sizeof *b->row));
      ct_bench_comm_row_t *r = &b->row[b->rows++];
      *r = (ct_bench_comm_row_t){.call = call,
                                 .over = w->name,
                                 .level = w->level,
                                 .algorithm = w->algorithm,
                                 .ranks = w->t->size,
                                 .nodes = w->t->nodes,
                                 .count = n};
      if (!w->ops && call != CT_COMM_BROADCAST) CT_TRY(measure_call(w, call, n, 0, p, &r->apart));
      CT_TRY(measure_call(w, call, n, 1, p, &r->in_place));
    }
out:
  return rc;
}

/* ---- levels ---- */

/* Collective over t, the ranks of one level. */
static int measure_level(const ct_setup_t *s, const ct_topo_t *t, const char *level,
                         const plan_t *p, ct_bench_comm_t *b)
{
  int rc = CT_OK;
  int host = s->be->host_memory, even = !(t->size & (t->size - 1));
  const ct_comm_ops_t *ours = s->comm_ops;
  const struct {
    const char *name;
    int there, shared;
    const ct_comm_ops_t *ops;
    ct_comm_algorithm_t algorithm;
  } row[] = {
      {"mpi", 1, 0, NULL, CT_COMM_HALVING},
      {"window", host && t->equal_nodes && t->local_size > 1, 1, ours, CT_COMM_EXCHANGE},
      {"exchange", host && t->nodes > 1, 0, ours, CT_COMM_EXCHANGE},
      {ours->name, !host, 1, ours, CT_COMM_RING},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    if (!row[i].there) continue;
    way_t w = {.name = row[i].name,
               .level = level,
               .algorithm = row[i].algorithm,
               .t = t,
               .s = s,
               .ops = row[i].ops};
    rc = open_way(&w, row[i].shared, even && strcmp(row[i].name, "exchange") == 0, p->most);
    if (rc == CT_OK) rc = measure_way(&w, p, b);
    close_way(&w);
    CT_TRY(rc);
  }
out:
  return rc;
}

/* Collective over topo.  Ranks without a part in the level (color < 0) wait for the others. */
static int measure_part(const ct_setup_t *s, int color, const char *level, const plan_t *p,
                        ct_bench_comm_t *b)
{
  int rc = CT_OK;
  ct_topo_t t;
  CT_TRY(ct_topo_split(s->topo, color, s->topo->rank, &t));
  if (t.size) rc = measure_level(s, &t, level, p, b);
  if (t.size) ct_topo_unsplit(&t);
  CT_TRY_ALL(s->topo, rc);
out:
  return rc;
}

static int measure(const ct_setup_t *s, const plan_t *p, ct_bench_comm_t *b)
{
  int rc = CT_OK;
  const ct_topo_t *t = s->topo;
  int first = t->local_size; /* of the first node, where rank 0 is */
  ct_mpi_bcast(t, t->world, &first, sizeof first, 0);
  if (first > 1) CT_TRY(measure_part(s, t->node_index == 0 ? 0 : -1, "node", p, b));
  if (t->nodes > 1) CT_TRY(measure_part(s, t->local_rank == 0 ? 0 : -1, "nodes", p, b));
  if (t->nodes > 1 && t->size > t->nodes) CT_TRY(measure_part(s, 0, "all", p, b));
out:
  return rc;
}

/* Collective.  Exit status 1 where messages went wrong. */
static int judge(const ct_topo_t *t, const ct_bench_comm_t *b)
{
  int64_t wrong = 0;
  for (int64_t i = 0; t->rank == 0 && i < b->rows; i++)
    wrong += b->row[i].apart.wrong + b->row[i].in_place.wrong;
  ct_agree_sum(t, &wrong, 1);
  if (wrong) ct_log(CT_LOG_ERROR, "bench comm: %lld elements came out wrong", (long long)wrong);
  return wrong > 0;
}

/* ---- the command ---- */

/* "64K" and the like; what follows is left in *text. */
static int read_size(const char **text, int64_t *out)
{
  static const char unit[] = "KMG";
  const int64_t most = (int64_t)1 << 30;
  *out = 0;
  for (; **text >= '0' && **text <= '9' && *out <= most; ++*text)
    *out = 10 * *out + (**text - '0');
  const char *at = **text ? strchr(unit, **text) : NULL;
  for (int i = 0; at && i <= at - unit && *out <= most; i++)
    *out *= 1024;
  *text += at != NULL;
  return *out >= (int64_t)sizeof(float) && *out <= most;
}

static int read_plan(const ct_args_t *a, plan_t *p)
{
  int rc = CT_OK;
  const char *text = ct_args_get(a, "bytes"), *rest = text ? text : "1K:16M";
  int good = read_size(&rest, &p->least) && *rest == ':' && *++rest && read_size(&rest, &p->most) &&
             !*rest && p->least <= p->most;
  if (!good)
    CT_FAIL(CT_ERR_USAGE, "bench: --bytes must be two sizes from 4 to 1G, such as 1K:16M, not '%s'",
            text);
  CT_TRY(ct_args_int(a, "steps", 20, 1, 1000000, &p->calls));
  CT_TRY(ct_args_int(a, "warmup", 3, 0, 1000000, &p->warmup));
out:
  return rc;
}

int ct_cmd_bench_comm(const ct_args_t *a, const ct_topo_t *topo, int *status)
{
  int rc = CT_OK;
  plan_t p;
  ct_setup_t s = {.topo = topo};
  ct_bench_comm_t b = {0};
  ct_str_t out = {0};
  CT_TRY(read_plan(a, &p));
  if (topo->size == 1)
    CT_FAIL(CT_ERR_USAGE, "bench: one rank alone sends nothing; start it with mpirun -n 2 or more");
  CT_TRY(ct_config_parse(&s.cfg, "{}", 2, "bench comm", a->set, a->sets));
  CT_TRY_ALL(topo, ct_setup_open_device(&s));
  CT_TRY(ct_setup_comm(&s));
  CT_TRY(measure(&s, &p, &b));
  if (topo->rank == 0)
    rc = ct_args_get(a, "json") ? ct_bench_comm_json(topo, &b, &out)
                                : ct_bench_comm_text(topo, &b, &out);
  if (topo->rank == 0 && rc == CT_OK) rc = ct_app_print(out.data);
  CT_TRY_ALL(topo, rc);
  *status = judge(topo, &b);
out:
  ct_mem_free(b.row);
  ct_str_clear(&out);
  ct_setup_close(&s);
  return rc;
}
