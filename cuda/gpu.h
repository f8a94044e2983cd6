/** \file gpu.h  What the files of the CUDA backend share.  Module-internal.
 *
 * backend.c opens the device, memory.c and queue.c are its memory and streams, repeat.c makes CUDA
 * graphs of repeated steps, and op.c dispatches each op by its kind to one of the tables below; a
 * kind lives in one file op_<kind>.c, its kernels in kernels/<kind>.cu.  A new kind of
 * CT_OP_LIST wants its table, gpu__kind_<word>. */
#ifndef GPU_H
#define GPU_H
#include <cuda_runtime_api.h>

#include "backend/ct_backend.h"
#include "base/ct_err.h"
#include "cuda/kernels/step_params.h"
#include "cuda/kernels/loss.h"
#include "cuda/gemm_conv.h"

/* ---- errors of the CUDA runtime ---- */

/** Local.  CT_OK for cudaSuccess; else records the call, its place and CUDA's own text:
 * CT_ERR_NOMEM or CT_ERR_DEVICE. */
int gpu__check(cudaError_t e, const char *call, const char *file, int line);
#define GPU_CHECK(call) gpu__check((call), #call, __FILE__, __LINE__)
#define GPU_TRY(call)          \
  do {                         \
    rc = GPU_CHECK(call);      \
    if (rc != CT_OK) goto out; \
  } while (0)

/* ---- device ---- */

/** Looks after something that may fail while the host waits for the GPU, as a communicator does:
 * CT_OK, or the code that ends the wait.  \a late: the deadline has passed. */
typedef int gpu__watch_fn(void *ctx, int late);

#define GPU_WATCHES 8

struct ct_dev {
  int index;
  int sms; /**< multiprocessors */
  int tf32, autotune;
  char *plan_cache; /**< owned; "": none */
  double timeout_s; /**< of every wait; 0: none */
  gpu__products_t *products;
  struct {
    gpu__watch_fn *fn;
    void *ctx;
  } watch[GPU_WATCHES];
  gpu__bad_label_t *bad_label;  /**< owned, staging; NULL until the first loss is prepared */
  struct gpu__repeats *repeats; /**< borrowed; list of those of all queues */
  int capturing;                /**< 1: a step is just becoming a graph */
  ct_dev_id_t id;
  char describe[160];
};

/** Local.  \a fn is called while the host waits; CT_ERR_NOMEM: too many. */
int gpu__watch(ct_dev_t *dev, gpu__watch_fn *fn, void *ctx);
void gpu__unwatch(ct_dev_t *dev, gpu__watch_fn *fn, void *ctx);

/** Local.  Joules since the driver was loaded, by NVML; < 0: it does not tell. */
double gpu__joules(ct_dev_t *dev);

/* ---- queues ---- */

typedef struct gpu__repeats gpu__repeats_t;

struct ct_queue {
  ct_dev_t *dev;
  cudaStream_t stream;
  gpu__repeats_t *repeats; /**< owned; NULL until the first begin() */
  int noting;              /**< 1: between begin() and end(), work is noted instead of enqueued */
};

struct ct_event {
  cudaEvent_t event;
  ct_queue_t *queue; /**< of the latest mark */
};

/** Local.  Until all work of the stream is done.  Polls, so that the device's watches are asked and
 * the deadline is kept: CT_ERR_COMM or CT_ERR_DEVICE says for what was waited, CT_ERR_DATA that a
 * loss met a bad label. */
int gpu__wait_stream(ct_dev_t *dev, cudaStream_t s);
int gpu__wait_event(ct_dev_t *dev, cudaEvent_t e);

/* ---- repeated steps (repeat.c) ---- */

/** Work of another kind than ops, copies and zeros, as a communicator's: enqueues on \a s and on
 * streams that wait for s.  CT_OK or a code. */
typedef int gpu__call_fn(void *arg, cudaStream_t s);
#define GPU_CALL_ARG 64

/** Local, Hot.  Does the call now, or notes it with a copy of arg[bytes <= GPU_CALL_ARG], compared
 * with that of the last step. */
int gpu__enqueue_call(ct_queue_t *q, gpu__call_fn *fn, const void *arg, size_t bytes);
int gpu__note_op(ct_queue_t *q, ct_op_t *op, const ct_op_args_t *args);
/** src NULL: zeros. */
int gpu__note_copy(ct_queue_t *q, void *dst, const void *src, size_t bytes);
/** The numbers of a run that change from step to step. */
gpu__dial_t gpu__dial(const ct_op_args_t *a);
int gpu__begin(ct_queue_t *q, int key);
int gpu__end(ct_queue_t *q);
int gpu__start(ct_queue_t *q, int whole);
void gpu__repeats_free(gpu__repeats_t *r);
/** Local.  Destroys the graphs of all queues, which then do not start: a communicator that has work
 * in them cannot end before.  Not while a step is becoming a graph. */
void gpu__drop_graphs(ct_dev_t *dev);

/* ---- ops ---- */

typedef struct gpu__kind gpu__kind_t;

/** A parameter's own layout, if it is not the plain one: plain [outer][middle][inner] is stored as
 * [outer][inner][middle], as OIHW becomes OHWI. */
typedef struct gpu__turn {
  int64_t outer, middle, inner;
} gpu__turn_t;

/** Header of every prepared op; a kind's own struct begins with it. */
struct ct_op {
  const gpu__kind_t *kind;
  ct_dev_t *dev;
  ct_op_desc_t desc; /**< y.layout holds info->y_layout once prepared */
  size_t param_bytes[CT_OP_PARAMS];
  gpu__turn_t turn[CT_OP_PARAMS]; /**< outer 0: plain */
};

/** One kind of op.  Meanings are those of ct_op_ops_t; op.c checks passes, allocates and frees. */
struct gpu__kind {
  size_t size; /**< of the kind's own struct: allocated zeroed, header filled */
  int low;     /**< 1: x and y may both be CT_BF16 or CT_F16 */
  /* what is left to refuse: the descriptor is sound; layouts may not fit; NULL: nothing */
  int (*supports)(ct_dev_t *dev, const ct_op_desc_t *d, char why[128]);
  /* 1: shapes of 4 and 5 dims are wanted in CT_NHWC; 0: CT_PLAIN and CT_NHWC are both fine; -1:
   * plain only */
  int nhwc;
  /* Fills op and info; info comes as ct_op_info_of() with algorithm "kernel".  It sets op->turn of
   * parameters that are not plain.  On failure clear() is called.  NULL: nothing to do */
  int (*prepare)(ct_op_t *op, ct_op_info_t *info);
  /* Hot.  Enqueues on \a s.  Numbers that change from step to step are passed on as a dial
   * (step_params.h), made from \a a by gpu__dial(), with the pointer \a at */
  int (*run)(ct_op_t *op, const ct_op_args_t *a, const gpu__dial_t *at, cudaStream_t s);
  /* frees what prepare made; may see a half-prepared op; NULL: nothing */
  void (*clear)(ct_op_t *op);
};

/** Writes the reason; 0, for `supports`. */
int gpu__cannot(char why[128], const char *reason);

/** A table for each kind, gpu__kind_<word>; all zero: it is not done here. */
#define X(name, word, ...) extern const gpu__kind_t gpu__kind_##word;
CT_OP_LIST(X)
#undef X

extern const ct_op_ops_t gpu__op_ops;
extern const ct_queue_ops_t gpu__queue_ops;
extern const ct_mem_ops_t gpu__mem_ops;
extern const ct_backend_t gpu__backend;

/** Local.  What the losses whose work is done found out, once (op_loss.c): CT_ERR_DATA: a label
 * that is no output. */
int gpu__check_labels(ct_dev_t *dev);
/** Pure.  Elements of a shape between one value of a channel and the next of the same sample, and
 * so on: \a s as rows of channels, [rows, dim[1]] in CT_NHWC or with two dims. */
int64_t gpu__rows(const ct_shape_t *s);

#endif
