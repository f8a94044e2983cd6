/* Replays steps as CUDA graphs.
 *
 * Between begin() and end() launches are recorded in a list. end() compares this list with the list
 * of the previous step with the same key. If only step parameters (step_params.h) differ, the
 * existing graph is valid: the new parameters are written to the buffer from which the graph's
 * first node copies them. Otherwise capture() runs the list once on a capturing stream, which makes
 * a new graph. So callers need not know in advance which steps can be replayed, but they learn when
 * a capture is due, since a capture, like a launch, is collective over the ranks whose NCCL calls
 * it contains.
 *
 * NCCL's calls on a non-blocking communicator may be captured: an NCCL thread enqueues their
 * kernels, which the capture accepts from any thread, and each call is polled until that is done
 * (gpu__nccl_done). Polling makes no CUDA call. The capture's mode is thread-local, so that NCCL's
 * thread may allocate memory meanwhile. */
#include <string.h>

#include "base/ct_mem.h"
#include "cuda/gpu.h"

typedef struct entry {
  enum { OP, COPY, CALL } what;
  union {
    struct {
      ct_op_t *op;
      ct_op_args_t args;
    } op;
    struct {
      void *dst;
      const void *src; /* NULL: zeros */
      size_t bytes;
    } copy;
    struct {
      gpu__call_fn *fn;
      unsigned char arg[GPU_CALL_ARG];
      size_t bytes;
    } call;
  } u;
} entry_t;

typedef struct list {
  entry_t *at;
  int64_t cap;
  int n;
} list_t;

typedef struct repeat {
  list_t last; /* list from which the graph was made, with the latest parameters */
  cudaGraphExec_t graph;
  gpu__step_params_t *host; /* staging: one entry per launch */
  gpu__step_params_t *dev;
  int64_t cap; /* allocated entries */
} repeat_t;

struct gpu__repeats {
  ct_dev_t *dev;        /* borrowed */
  gpu__repeats_t *next; /* next queue on this device */
  repeat_t of[CT_REPEATS];
  int key;    /* key of the step being recorded, or recorded last */
  int ended;  /* 1: the list recorded last is the last one of its key, which has a graph */
  list_t now; /* being recorded */
};

/* CUDA completes a launch in progress first. */
static void drop_graph(repeat_t *r)
{
  if (r->graph) (void)cudaGraphExecDestroy(r->graph);
  r->graph = NULL;
}

void gpu__drop_graphs(ct_dev_t *dev)
{
  for (gpu__repeats_t *r = dev->repeats; r; r = r->next)
    for (int i = 0; i < CT_REPEATS; i++)
      drop_graph(&r->of[i]);
}

void gpu__repeats_free(gpu__repeats_t *r)
{
  if (!r) return;
  for (gpu__repeats_t **at = &r->dev->repeats; *at; at = &(*at)->next) {
    if (*at != r) continue;
    *at = r->next;
    break;
  }
  for (int i = 0; i < CT_REPEATS; i++) {
    drop_graph(&r->of[i]);
    ct_mem_free(r->of[i].last.at);
    (void)cudaFreeHost(r->of[i].host);
    (void)cudaFree(r->of[i].dev);
  }
  ct_mem_free(r->now.at);
  ct_mem_free(r);
}

/* ---- recording ---- */

static int repeat_note(ct_queue_t *q, const entry_t *e)
{
  list_t *l = &q->repeats->now;
  int rc = ct_mem_grow((void **)&l->at, &l->cap, l->n + 1, sizeof *l->at);
  if (rc == CT_OK) l->at[l->n++] = *e;
  return rc;
}

int gpu__note_op(ct_queue_t *q, ct_op_t *op, const ct_op_args_t *args)
{
  entry_t e = {.what = OP, .u.op = {op, *args}};
  return repeat_note(q, &e);
}

int gpu__note_copy(ct_queue_t *q, void *dst, const void *src, size_t bytes)
{
  entry_t e = {.what = COPY, .u.copy = {dst, src, bytes}};
  return repeat_note(q, &e);
}

int gpu__enqueue_call(ct_queue_t *q, gpu__call_fn *fn, const void *arg, size_t bytes)
{
  entry_t e = {.what = CALL, .u.call = {.fn = fn, .bytes = bytes}};
  memcpy(e.u.call.arg, arg, bytes);
  if (q->noting) return repeat_note(q, &e);
  return fn(e.u.call.arg, q->stream);
}

int gpu__repeats_open(ct_queue_t *q)
{
  gpu__repeats_t *r = q->repeats = ct_mem_alloc(sizeof *r, "repeated steps");
  if (!r) return CT_ERR_NOMEM;
  r->dev = q->dev;
  r->next = q->dev->repeats;
  q->dev->repeats = r;
  return CT_OK;
}

int gpu__begin(ct_queue_t *q, int key)
{
  int rc = CT_OK;
  if (key < 0 || key >= CT_REPEATS || q->noting)
    CT_FAIL(CT_ERR_ARG, "a repeated step %d within another, or beyond %d", key, CT_REPEATS);
  q->repeats->key = key;
  q->repeats->now.n = 0;
  q->repeats->ended = 0;
  q->noting = 1;
out:
  return rc;
}

/* ---- comparison ---- */

static int same_pointers(void *const *a, void *const *b, int n)
{
  for (int i = 0; i < n; i++)
    if (a[i] != b[i]) return 0;
  return 1;
}

/* Compares all arguments except step parameters. */
static int same_args(const ct_op_args_t *a, const ct_op_args_t *b)
{
  for (int i = 0; i < CT_OP_PARAMS; i++)
    if (a->w_reduced[i] != b->w_reduced[i]) return 0;
  return a->pass == b->pass && a->x == b->x && a->x2 == b->x2 && a->y == b->y && a->dy == b->dy &&
         a->dy2 == b->dy2 && a->dx == b->dx && a->dx2 == b->dx2 && a->dx_add == b->dx_add &&
         same_pointers(a->w, b->w, CT_OP_PARAMS) && same_pointers(a->dw, b->dw, CT_OP_PARAMS) &&
         a->saved == b->saved && a->scratch == b->scratch && a->stats == b->stats &&
         a->keep_running == b->keep_running && a->again == b->again && a->labels == b->labels &&
         a->labels2 == b->labels2 && a->mix == b->mix && a->affine == b->affine &&
         a->targets == b->targets && a->sample_weight == b->sample_weight &&
         a->class_weight == b->class_weight && a->place_weight == b->place_weight &&
         a->loss == b->loss && a->count == b->count && a->stat == b->stat &&
         same_pointers(a->state, b->state, CT_RULE_STATES) && a->norms == b->norms &&
         a->segment == b->segment && a->segments == b->segments;
}

static int same_entry(const entry_t *a, const entry_t *b)
{
  if (a->what != b->what) return 0;
  switch (a->what) {
  case OP:
    return a->u.op.op == b->u.op.op && same_args(&a->u.op.args, &b->u.op.args);
  case COPY:
    return a->u.copy.dst == b->u.copy.dst && a->u.copy.src == b->u.copy.src &&
           a->u.copy.bytes == b->u.copy.bytes;
  case CALL:
    return a->u.call.fn == b->u.call.fn && a->u.call.bytes == b->u.call.bytes &&
           memcmp(a->u.call.arg, b->u.call.arg, a->u.call.bytes) == 0;
  }
  return 0;
}

static int same_list(const list_t *a, const list_t *b)
{
  if (a->n != b->n) return 0;
  for (int i = 0; i < a->n; i++)
    if (!same_entry(&a->at[i], &b->at[i])) return 0;
  return 1;
}

/* ---- step parameters ---- */

gpu__step_params_t gpu__step_params(const ct_op_args_t *a)
{
  gpu__step_params_t d;
  memset(&d, 0, sizeof d); /* clear padding too, which the emulator might take for a partial
                              address */
  d.scale = a->scale;
  d.hyper = a->hyper;
  d.ctl = a->ctl;
  d.seed = a->seed;
  d.step = a->step;
  d.first = a->first;
  return d;
}

/* ---- running a list ---- */

static int run_entry(entry_t *e, const gpu__step_params_t *at, cudaStream_t s)
{
  switch (e->what) {
  case OP:
    return e->u.op.op->kind->run(e->u.op.op, &e->u.op.args, at, s);
  case COPY:
    if (!e->u.copy.src) return GPU_CHECK(cudaMemsetAsync(e->u.copy.dst, 0, e->u.copy.bytes, s));
    return GPU_CHECK(
        cudaMemcpyAsync(e->u.copy.dst, e->u.copy.src, e->u.copy.bytes, cudaMemcpyDefault, s));
  case CALL:
    return e->u.call.fn(e->u.call.arg, s);
  }
  return CT_OK;
}

/* Runs a list entry by entry, with step parameters passed by value only. */
static int run_list(list_t *l, cudaStream_t s)
{
  int rc = CT_OK;
  for (int i = 0; i < l->n; i++)
    CT_TRY(run_entry(&l->at[i], NULL, s));
out:
  return rc;
}

/* ---- graphs ---- */

static int reserve_params(repeat_t *r, int n)
{
  int rc = CT_OK;
  if (n <= r->cap) return CT_OK;
  (void)cudaFreeHost(r->host);
  (void)cudaFree(r->dev);
  r->host = r->dev = NULL;
  r->cap = 0;
  GPU_TRY(cudaHostAlloc((void **)&r->host, (size_t)n * sizeof *r->host, cudaHostAllocPortable));
  GPU_TRY(cudaMalloc((void **)&r->dev, (size_t)n * sizeof *r->dev));
  r->cap = n;
out:
  return rc;
}

/* The last launch of this key has completed, or it would copy the new parameters. */
static void write_params(repeat_t *r, const list_t *l)
{
  for (int i = 0; i < l->n; i++)
    if (l->at[i].what == OP) r->host[i] = gpu__step_params(&l->at[i].u.op.args);
}

/* Checks that the capture is still valid. NCCL must not be called otherwise: it would fail, and a
 * communicator is unusable after a failure. */
static int is_captured(cudaStream_t s)
{
  int rc = CT_OK;
  enum cudaStreamCaptureStatus status;
  GPU_TRY(cudaStreamIsCapturing(s, &status));
  if (status != cudaStreamCaptureStatusActive)
    rc = gpu__check(cudaErrorStreamCaptureInvalidated, "capture of a step", __FILE__, __LINE__);
out:
  return rc;
}

static int capture_list(list_t *l, const gpu__step_params_t *params, cudaStream_t s)
{
  int rc = CT_OK;
  for (int i = 0; i < l->n; i++) {
    if (l->at[i].what == CALL) CT_TRY(is_captured(s));
    CT_TRY(run_entry(&l->at[i], params + i, s));
  }
out:
  return rc;
}

/* Makes a graph of the list. Its kernels keep the priority of the stream from which each was
 * captured, so that NCCL's are not delayed by the kernels of ops. */
static int make_graph(ct_queue_t *q, repeat_t *r, list_t *l)
{
  int rc = CT_OK;
  cudaGraph_t graph = NULL;
  GPU_TRY(cudaStreamBeginCapture(q->stream, cudaStreamCaptureModeThreadLocal));
  q->dev->capturing = 1;
  rc = GPU_CHECK(cudaMemcpyAsync(r->dev, r->host, (size_t)l->n * sizeof *r->dev,
                                 cudaMemcpyHostToDevice, q->stream));
  if (rc == CT_OK) rc = capture_list(l, r->dev, q->stream);
  ct_err_info_t failure = *ct_err_last();
  int ended = gpu__check(cudaStreamEndCapture(q->stream, &graph), "cudaStreamEndCapture", __FILE__,
                         __LINE__); /* also after a failure, or the stream stays unusable */
  q->dev->capturing = 0;
  if (rc == CT_OK)
    rc = ended;
  else
    ct_err_put(&failure); /* the cause, not its consequence */
  if (rc == CT_OK)
    rc = GPU_CHECK(cudaGraphInstantiate(&r->graph, graph, cudaGraphInstantiateFlagUseNodePriority));
  if (graph) (void)cudaGraphDestroy(graph);
out:
  return rc;
}

/* Makes the list recorded last the last one of its key. */
static void keep_list(gpu__repeats_t *all)
{
  repeat_t *r = &all->of[all->key];
  list_t spare = r->last;
  r->last = all->now;
  all->now = spare;
  all->ended = 1;
}

int gpu__end(ct_queue_t *q, int *same)
{
  gpu__repeats_t *all = q->repeats;
  repeat_t *r = &all->of[all->key];
  q->noting = 0;
  *same = r->graph && same_list(&r->last, &all->now);
  if (!*same) return CT_OK;
  write_params(r, &all->now);
  keep_list(all);
  return CT_OK;
}

int gpu__capture(ct_queue_t *q)
{
  int rc = CT_OK;
  gpu__repeats_t *all = q->repeats;
  repeat_t *r = &all->of[all->key];
  list_t *l = all->ended ? &r->last : &all->now;
  drop_graph(r);
  CT_TRY(reserve_params(r, l->n));
  write_params(r, l);
  CT_TRY(make_graph(q, r, l));
  if (!all->ended) keep_list(all);
out:
  return rc;
}

int gpu__start(ct_queue_t *q, int whole)
{
  gpu__repeats_t *all = q->repeats;
  repeat_t *r = &all->of[all->key];
  q->noting = 0;
  if (whole && r->graph) return GPU_CHECK(cudaGraphLaunch(r->graph, q->stream));
  return run_list(all->ended ? &r->last : &all->now, q->stream);
}
