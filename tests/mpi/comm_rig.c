/* The communicator under test by CT_TEST_COMM, and devices that are always done, fail on request or
 * do their work late: what a communicator may rely on is no more than that. */
#include "tests/mpi/comm_rig.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "base/ct_rng.h"
#include "backend/ct_host.h"
#include "comm/ct_agree.h"
#include "comm/ct_module.h"
#include "ref/ct_ref.h"

const ct_topo_t *t = &ct_test_topo;
const ct_comm_ops_t *ops;
const ct_backend_t *be;
ct_dev_t *dev;
ct_queue_t *queue;
ct_comm_t *comm;
float *memory, *outside;
double *row;
void *abandoned[4];

/* ---- the fake ---- */

struct ct_queue {
  int rc; /* what sync() returns */
};
struct ct_event {
  int rc; /* of the work before it */
};

static int fake_create(ct_dev_t *d, ct_queue_t **out)
{
  (void)d;
  *out = ct_mem_alloc(sizeof **out, "a fake queue");
  return *out ? CT_OK : CT_ERR_NOMEM;
}

static void fake_destroy(ct_queue_t *q)
{
  ct_mem_free(q);
}

static int fake_mark(ct_queue_t *q, ct_event_t **io)
{
  if (!*io) *io = ct_mem_alloc(sizeof **io, "a fake event");
  if (!*io) return CT_ERR_NOMEM;
  (void)q;
  (*io)->rc = CT_OK;
  return CT_OK;
}

static int fake_wait(ct_event_t *ev)
{
  return ev->rc == CT_OK ? CT_OK
                         : ct_err_set(ev->rc, __FILE__, __LINE__, "the backward pass broke");
}

static int fake_after(ct_queue_t *q, ct_event_t *ev)
{
  (void)q;
  return fake_wait(ev);
}

static int fake_done(ct_event_t *ev)
{
  int rc = fake_wait(ev);
  return rc == CT_OK ? 1 : rc;
}

static int fake_sync(ct_queue_t *q)
{
  return q->rc == CT_OK ? CT_OK : ct_err_set(q->rc, __FILE__, __LINE__, "the queue broke");
}

static void fake_unmark(ct_event_t *ev)
{
  ct_mem_free(ev);
}

static int fake_alloc(ct_dev_t *d, ct_mem_kind_t kind, size_t bytes, void **out)
{
  (void)d;
  (void)kind;
  *out = ct_mem_alloc(bytes, "fake memory");
  return *out ? CT_OK : CT_ERR_NOMEM;
}

static void fake_free(ct_dev_t *d, ct_mem_kind_t kind, void *p)
{
  (void)d;
  (void)kind;
  ct_mem_free(p);
}

static int fake_copy(ct_queue_t *q, void *dst, const void *src, size_t bytes)
{
  (void)q;
  memcpy(dst, src, bytes);
  return CT_OK;
}

static const ct_mem_ops_t fake_mem = {.alloc = fake_alloc,
                                      .free = fake_free,
                                      .pin = ct_host_pin,
                                      .unpin = ct_host_unpin,
                                      .copy = fake_copy};
static const ct_queue_ops_t fake_queue = {.create = fake_create,
                                          .destroy = fake_destroy,
                                          .mark = fake_mark,
                                          .after = fake_after,
                                          .wait = fake_wait,
                                          .done = fake_done,
                                          .sync = fake_sync,
                                          .unmark = fake_unmark};
static const ct_backend_t fake = {
    .name = "fake", .host_memory = 1, .mem = &fake_mem, .queue = &fake_queue};

int is_fake(void)
{
  return be == &fake;
}

ct_queue_t *queue_with(int rc)
{
  static ct_queue_t q;
  q.rc = rc;
  return &q;
}

ct_queue_t *broken_queue(void)
{
  return queue_with(t->rank == t->size - 1 ? CT_ERR_DEVICE : CT_OK);
}

ct_event_t *event_with(int rc)
{
  static ct_event_t ev;
  ev.rc = rc;
  return &ev;
}

/* ---- life ---- */

static int alloc(int64_t n, size_t size, void *out)
{
  void *p = NULL;
  int rc = be->mem->alloc(dev, CT_MEM_DEVICE, (size_t)n * size, &p);
  memcpy(out, &p, sizeof p);
  return rc;
}

static int is_set(const char *variable, const char *value)
{
  const char *text = getenv(variable);
  return text && strcmp(text, value) == 0;
}

static int load_cuda(void)
{
  int rc = CT_OK;
  const ct_module_t *module;
  CT_TRY(ct_module_load("cuda", &module));
  be = module->backend;
  if (is_set("CT_TEST_COMM", "nccl")) ops = module->comm;
  if (!ops) CT_FAIL(CT_ERR_UNSUP, "the module has no NCCL");
out:
  return rc;
}

int is_nccl(void)
{
  return strcmp(ops->name, "nccl") == 0;
}

void share_host(int shared)
{
  char pid[32];
  snprintf(pid, sizeof pid, "%d", (int)getpid());
  setenv("NCCL_HOSTID", shared ? "one" : pid, 1);
}

static int open_rig(void)
{
  int rc = CT_OK;
  const char *limit = getenv("CT_TEST_TIMEOUT");
  ops = is_set("CT_TEST_COMM", "staged") ? &ct_comm_staged : &ct_comm_mpi;
  be = getenv("CTRAIN_REF_ORDER") ? &ct_backend_ref : &fake;
  if (is_set("CT_TEST_DEVICE", "cuda")) CT_TRY(load_cuda());
  share_host(0);
  ct_dev_opts_t o = {.plan_cache = "", .timeout_s = limit ? atof(limit) : 0};
  if (!is_fake()) CT_TRY(be->open(&o, &dev));
  CT_TRY(be->queue->create(dev, &queue));
  CT_TRY(alloc(MOST, sizeof *row, &row));
out:
  return rc;
}

static void close_rig(void)
{
  be->mem->free(dev, CT_MEM_DEVICE, row);
  be->queue->destroy(queue);
  if (!is_fake()) be->close(dev);
}

int rig_main(const char *suite, const ct_test_t *tests, int argc, char **argv)
{
  if (open_rig() != CT_OK) {
    printf("Bail out! %s: %s\n", suite, ct_err_last()->text);
    return 1;
  }
  int failed = ct_test_mpi_main(suite, tests, argc, argv);
  close_rig();
  return failed;
}

int open_with(ct_comm_opts_t o)
{
  int rc = CT_OK;
  void *p = NULL;
  comm = NULL;
  outside = NULL;
  CT_TRY(ops->open(t, be, dev, &o, &comm));
  CT_TRY(ops->alloc(comm, (BIG + 32) * sizeof *memory, &p));
  CT_TRY_ALL(t, alloc(BIG + 32, sizeof *outside, &outside));
out:
  memory = p;
  return rc;
}

int open_plain(void)
{
  return open_with((ct_comm_opts_t){0});
}

void close_memory(void)
{
  be->mem->free(dev, CT_MEM_DEVICE, outside);
}

void close_comm(void)
{
  ops->close(comm);
  close_memory();
}

void abandon_comm(void)
{
  static int n;
  ops->abort(comm);
  abandoned[n++ % 4] = memory;
  close_memory();
}

int finish(int ticket)
{
  int rc = ops->end(comm, ticket, queue);
  int own = be->queue->sync(queue);
  return rc != CT_OK ? rc : own;
}

/* ---- numbers ---- */

float element(int rank, int64_t i, int64_t salt)
{
  return (float)((rank + 1) * ((i * 7 + salt * 13) % 1009));
}

void fill(float *buf, int64_t n, int64_t salt)
{
  for (int64_t i = 0; i < n; i++)
    buf[i] = element(t->rank, i, salt);
}

int64_t wrong_sums(const float *buf, int64_t from, int64_t to, int64_t salt)
{
  int64_t wrong = 0;
  float ranks = (float)(t->size * (t->size + 1) / 2);
  for (int64_t i = from; i < to; i++)
    wrong += buf[i] != ranks * element(0, i, salt);
  return wrong;
}

uint64_t random_of_rank(uint64_t index)
{
  return ct_rng_u64(11, CT_RNG_TEST, (uint32_t)t->rank, index);
}

uint64_t random_of_all(uint64_t index)
{
  return ct_rng_u64(12, CT_RNG_TEST, 0, index);
}

void pause_a_while(uint64_t choice, uint64_t of)
{
  long ns = (long)(choice / 8 % 300000);
  if (choice % of == 0) nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
  if (choice % of == 1) sched_yield();
}
