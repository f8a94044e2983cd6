/* Times a few all-reduces before a run starts. Each time is agreed on by all ranks, so that
 * decisions based on it are identical. */
#include "comm/ct_comm_probe.h"

#include "base/ct_clock.h"
#include "comm/ct_agree.h"

/* Bucket sizes: the latency of messages of a few KiB predicts little for these (TCP slow start). */
enum { SIZES = 3, CALLS = 4, LEAST_SIZES = 2 };
static const int64_t size_of[SIZES] = {256 << 10, 1 << 20, 4 << 20};
static const double most_s = 1;

typedef struct probe {
  const ct_comm_ops_t *ops;
  const ct_topo_t *t;
  const ct_backend_t *be;
  ct_comm_t *comm;   /* owned */
  ct_queue_t *queue; /* owned */
  float *buf;        /* memory of the communicator */
  double spent_s;
} probe_t;

static int probe_sum_up(const probe_t *p, int64_t bytes)
{
  int rc = CT_OK, ticket;
  int64_t n = bytes / (int64_t)sizeof(float);
  CT_TRY(p->ops->reduce(p->comm, NULL, p->buf, n, CT_REDUCE_ALL, &ticket));
  CT_TRY(p->ops->end(p->comm, ticket, p->queue));
  CT_TRY(p->be->queue->sync(p->queue));
out:
  return rc;
}

/* Collective. Times one call. The agreement on the previous call makes all ranks start at the same
 * time. */
static int time_once(probe_t *p, int64_t bytes, double *seconds)
{
  int rc = CT_OK;
  double begin = ct_clock();
  rc = probe_sum_up(p, bytes);
  *seconds = ct_clock() - begin;
  CT_TRY_ALL(p->t, rc);
  CT_TRY(ct_agree_doubles(p->t, seconds, 1, 1));
  p->spent_s += *seconds;
out:
  return rc;
}

/* Collective. Returns the time of the fastest of the calls that fit into the time limit. */
static int time_size(probe_t *p, int64_t bytes, double *fastest)
{
  int rc = CT_OK;
  double seconds;
  CT_TRY(time_once(p, bytes, fastest));
  for (int i = 1; i < CALLS && p->spent_s + *fastest < most_s; i++) {
    CT_TRY(time_once(p, bytes, &seconds));
    if (seconds < *fastest) *fastest = seconds;
  }
out:
  return rc;
}

static int time_sizes(probe_t *p, ct_comm_probe_t *out)
{
  int rc = CT_OK;
  ct_link_point_t point[SIZES];
  double fastest = 0;
  out->sizes = 0;
  CT_TRY(time_once(p, size_of[0], &fastest)); /* establishes connections: counts towards the time
                                                 limit only */
  for (int i = 0; i < SIZES; i++) {
    double expected = i ? fastest * (double)size_of[i] / (double)size_of[i - 1] : 0;
    if (i >= LEAST_SIZES && p->spent_s + expected > most_s) break;
    CT_TRY(time_size(p, size_of[i], &fastest));
    point[out->sizes++] =
        (ct_link_point_t){{1, 1}, (double)size_of[i], fastest > 0 ? fastest : 1e-9};
  }
  out->seconds = p->spent_s;
  ct_link_fit(point, out->sizes, &out->link);
out:
  return rc;
}

int ct_comm_probe(const ct_comm_ops_t *ops, const ct_topo_t *t, const ct_backend_t *be,
                  ct_dev_t *dev, const ct_comm_opts_t *o, ct_comm_probe_t *out)
{
  int rc = CT_OK;
  void *memory;
  probe_t p = {.ops = ops, .t = t, .be = be};
  CT_TRY_ALL(t, be->queue->create(dev, &p.queue));
  CT_TRY(ops->open(t, be, dev, o, &p.comm));
  CT_TRY(ops->alloc(p.comm, (size_t)size_of[SIZES - 1], &memory));
  p.buf = memory;
  CT_TRY(time_sizes(&p, out));
out:
  if (p.comm) ops->close(p.comm);
  if (p.queue) be->queue->destroy(p.queue);
  return rc;
}
