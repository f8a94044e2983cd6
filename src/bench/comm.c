/* `bench comm`: measures the collectives of training within a node, between nodes and over all
 * ranks, with each algorithm of this program, and a plain MPI_Iallreduce for comparison.  For the
 * collectives of MPI and NCCL themselves, use the OSU benchmarks and nccl-tests. */
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
  int64_t least, most; /* message sizes in bytes; each is four times the previous one */
  int64_t calls, warmup;
} plan_t;

/* An algorithm for the ranks of one level: "node", "nodes" or "all". */
typedef struct algorithm {
  const char *name, *level;
  ct_comm_algorithm_t model; /* algorithm in the cost model */
  int sums_only;             /* 1: only all-reduces, in private host memory */
  int plain;                 /* 1: plain MPI_Iallreduce */
  const ct_topo_t *t;
  const ct_setup_t *s;
  const ct_comm_ops_t *ops;
  ct_comm_t *comm;
  ct_queue_t *queue;
  float *buf;  /* data of the collective, from ops->alloc(), or owned if sums_only */
  float *host; /* owned; host copy for filling and checking */
} algorithm_t;

/* ---- open and close ---- */

static void close_algorithm(algorithm_t *w)
{
  if (w->comm) w->ops->close(w->comm);
  if (w->queue) w->s->be->queue->destroy(w->queue);
  if (w->sums_only) ct_mem_free(w->buf);
  ct_mem_free(w->host);
}

/* Collective over w->t.  Opens the communicator.  fixed_order: forces the exchange algorithm. */
static int open_algorithm(algorithm_t *w, int fixed_order, int64_t most)
{
  static const char what[] = "the buffers of bench comm";
  int rc = CT_OK;
  const ct_setup_t *s = w->s;
  const ct_comm_opts_t o = {.fixed_order = fixed_order, .wire = CT_F32};
  void *memory = w->sums_only ? ct_mem_alloc((size_t)most, what) : NULL;
  w->buf = memory;
  w->host = ct_mem_alloc((size_t)most, what);
  CT_TRY_ALL(w->t, w->host && (memory || !w->sums_only) ? CT_OK : CT_ERR_NOMEM);
  CT_TRY_ALL(w->t, s->be->queue->create(s->dev, &w->queue));
  CT_TRY(w->ops->open(w->t, s->be, s->dev, &o, &w->comm));
  if (!memory) CT_TRY(w->ops->alloc(w->comm, (size_t)most, &memory));
  w->buf = memory;
out:
  return rc;
}

/* ---- calls, all in place ---- */

static int call_once(const algorithm_t *w, ct_comm_call_t call, int64_t n)
{
  int rc = CT_OK, ticket;
  if (w->plain) {
    MPI_Request request;
    CT_MPI(w->t,
           MPI_Iallreduce(MPI_IN_PLACE, w->buf, (int)n, MPI_FLOAT, MPI_SUM, w->t->world, &request));
    ct_mpi_wait(w->t, &request);
    return CT_OK;
  }
  if (call == CT_COMM_ALL_GATHER) {
    CT_TRY(w->ops->gather(w->comm, w->queue, w->buf, n));
    return w->s->be->queue->sync(w->queue);
  }
  ct_reduce_t how = call == CT_COMM_ALL_REDUCE ? CT_REDUCE_ALL : CT_REDUCE_SLICE;
  CT_TRY(w->ops->reduce(w->comm, NULL, w->buf, n, how, &ticket));
  CT_TRY(w->ops->end(w->comm, ticket, w->queue));
  CT_TRY(w->s->be->queue->sync(w->queue));
out:
  return rc;
}

/* ---- test data ---- */

static int copy(const algorithm_t *w, void *to, const void *from, int64_t n)
{
  int rc = CT_OK;
  CT_TRY(w->s->be->mem->copy(w->queue, to, from, (size_t)n * sizeof(float)));
  CT_TRY(w->s->be->queue->sync(w->queue));
out:
  return rc;
}

/* Returns element i of a rank: a small integer, so that sums are exact in any order; adjacent
 * slices have different values. */
static float summand(int64_t i, int rank)
{
  enum { NUMBERS = 61, RANKS = 16 };
  return (float)(i % NUMBERS + rank % RANKS);
}

static int comm_fill(const algorithm_t *w, ct_comm_call_t call, int64_t n)
{
  int gathers = call == CT_COMM_ALL_GATHER;
  int64_t from = 0, to = n;
  if (gathers) w->ops->slice(w->comm, w->t->rank, n, &from, &to);
  for (int64_t i = 0; i < n; i++)
    w->host[i] = i >= from && i < to ? summand(i, gathers ? 0 : w->t->rank) : -1;
  return copy(w, w->buf, w->host, n);
}

/* Adds the number of wrong elements on this rank to *wrong. */
static int count_wrong(const algorithm_t *w, ct_comm_call_t call, int64_t n, int64_t *wrong)
{
  int rc = CT_OK;
  int64_t from = 0, to = n;
  if (call == CT_COMM_REDUCE_SCATTER) w->ops->slice(w->comm, w->t->rank, n, &from, &to);
  CT_TRY(copy(w, w->host, w->buf + from, to - from));
  for (int64_t i = from; i < to; i++) {
    float want = summand(i, 0);
    for (int r = 1; call != CT_COMM_ALL_GATHER && r < w->t->size; r++)
      want += summand(i, r);
    *wrong += w->host[i - from] != want;
  }
out:
  return rc;
}

/* ---- time ---- */

/* Collective.  Returns the mean seconds of a call over calls and ranks. */
static int time_calls(const algorithm_t *w, ct_comm_call_t call, int64_t n, int64_t calls,
                      double *seconds)
{
  int rc = CT_OK;
  ct_mpi_barrier(w->t, w->t->world);
  double begin = ct_clock();
  for (int64_t i = 0; i < calls; i++)
    CT_TRY(call_once(w, call, n));
  *seconds = (ct_clock() - begin) / (double)calls;
  CT_TRY(ct_agree_doubles(w->t, seconds, 1, 0));
  *seconds /= w->t->size;
out:
  return rc;
}

/* Measures a call; long calls are repeated less often, so that it takes about a second. */
static int measure_call(const algorithm_t *w, const plan_t *p, ct_bench_comm_row_t *out)
{
  int rc = CT_OK;
  double once;
  CT_TRY_ALL(w->t, comm_fill(w, out->call, out->count));
  CT_TRY(time_calls(w, out->call, out->count, 1, &once));
  CT_TRY_ALL(w->t, count_wrong(w, out->call, out->count, &out->wrong));
  ct_agree_sum(w->t, &out->wrong, 1);
  int64_t fit = once * (double)p->calls > 1 ? (int64_t)(1 / once) + 1 : p->calls;
  int64_t before = p->warmup < fit ? p->warmup : fit;
  if (before) CT_TRY(time_calls(w, out->call, out->count, before, &once));
  CT_TRY(time_calls(w, out->call, out->count, fit, &out->seconds));
out:
  return rc;
}

/* Returns 1 if this program uses the algorithm for messages of this size, which are cut into
 * chunks. */
static int applies(const algorithm_t *w, ct_comm_call_t call, int64_t bytes)
{
  enum { CHUNK = 1 << 20 };
  int even = !(w->t->size & (w->t->size - 1));
  if (w->sums_only && call != CT_COMM_ALL_REDUCE) return 0;
  return w->model != CT_COMM_EXCHANGE || !w->sums_only || even ||
         ct_comm_algorithm(w->t->size, bytes < CHUNK ? bytes : CHUNK) == CT_COMM_EXCHANGE;
}

static int measure_algorithm(const algorithm_t *w, const plan_t *p, ct_bench_comm_t *b)
{
  int rc = CT_OK;
  for (ct_comm_call_t call = CT_COMM_ALL_REDUCE; call <= CT_COMM_ALL_GATHER; call++)
    for (int64_t bytes = p->least; bytes <= p->most; bytes *= 4) {
      int64_t n = bytes / (int64_t)sizeof(float);
      if (call != CT_COMM_ALL_REDUCE) n -= n % w->t->size;
      if (n == 0 || !applies(w, call, bytes)) continue;
      CT_TRY_ALL(w->t, ct_mem_grow((void **)&b->row, &b->cap, b->rows + 1, sizeof *b->row));
      ct_bench_comm_row_t *r = &b->row[b->rows++];
      *r = (ct_bench_comm_row_t){.call = call,
                                 .over = w->name,
                                 .level = w->level,
                                 .algorithm = w->model,
                                 .ranks = w->t->size,
                                 .nodes = w->t->nodes,
                                 .count = n};
      CT_TRY(measure_call(w, p, r));
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
  const struct {
    const char *name;
    int there, sums_only, plain;
    ct_comm_algorithm_t model;
  } row[] = {
      {"mpi", host, 1, 1, CT_COMM_HALVING},
      {"window", host && t->equal_nodes && t->local_size > 1, 0, 0, CT_COMM_EXCHANGE},
      {"exchange", host && t->nodes > 1, 1, 0, CT_COMM_EXCHANGE},
      {s->comm_ops->name, !host, 0, 0, CT_COMM_RING},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    if (!row[i].there) continue;
    algorithm_t w = {.name = row[i].name,
                     .level = level,
                     .model = row[i].model,
                     .sums_only = row[i].sums_only,
                     .plain = row[i].plain,
                     .t = t,
                     .s = s,
                     .ops = s->comm_ops};
    rc = open_algorithm(&w, even && row[i].sums_only && !row[i].plain, p->most);
    if (rc == CT_OK) rc = measure_algorithm(&w, p, b);
    close_algorithm(&w);
    CT_TRY(rc);
  }
out:
  return rc;
}

/* Collective over topo.  Ranks outside of the level (color < 0) wait. */
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

static int comm_measure(const ct_setup_t *s, const plan_t *p, ct_bench_comm_t *b)
{
  int rc = CT_OK;
  const ct_topo_t *t = s->topo;
  int first = t->local_size; /* ranks of the first node, which has rank 0 */
  ct_mpi_bcast(t, t->world, &first, sizeof first, 0);
  if (first > 1) CT_TRY(measure_part(s, t->node_index == 0 ? 0 : -1, "node", p, b));
  if (t->nodes > 1) CT_TRY(measure_part(s, t->local_rank == 0 ? 0 : -1, "nodes", p, b));
  if (t->nodes > 1 && t->size > t->nodes) CT_TRY(measure_part(s, 0, "all", p, b));
out:
  return rc;
}

/* Collective.  Sets the exit status to 1 if any element is wrong. */
static int judge(const ct_topo_t *t, const ct_bench_comm_t *b)
{
  int64_t wrong = 0;
  for (int64_t i = 0; t->rank == 0 && i < b->rows; i++)
    wrong += b->row[i].wrong;
  ct_agree_sum(t, &wrong, 1);
  if (wrong) ct_log(CT_LOG_ERROR, "bench comm: %lld elements are wrong", (long long)wrong);
  return wrong > 0;
}

/* ---- the command ---- */

/* Parses a size such as "64K" and moves *text past it.  Returns 1 if it is valid. */
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
  CT_TRY(comm_measure(&s, &p, &b));
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
