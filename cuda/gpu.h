/** \file gpu.h  Declarations shared by the files of the CUDA backend. Module-internal.
 *
 * backend.c opens the device, memory.c and queue.c implement its memory and streams, repeat.c turns
 * repeated steps into CUDA graphs, and op.c dispatches each op by its kind to one of the tables
 * below. A kind is implemented in op_<kind>.c, its kernels in kernels/<kind>.cu. A new kind in
 * CT_OP_LIST needs a table gpu__kind_<word>. */
#ifndef GPU_H
#define GPU_H
#include <cuda_runtime_api.h>

#include "backend/ct_backend.h"
#include "base/ct_err.h"
#include "cuda/card.h"
#include "cuda/choices.h"
#include "cuda/kernels/step_params.h"
#include "cuda/kernels/loss.h"
#include "cuda/kernels/table_rows.h"
#include "cuda/gemm_conv.h"

/* ---- errors of the CUDA runtime ---- */

/** Local. Returns CT_OK for cudaSuccess. Otherwise records an error with the call, its source line
 * and CUDA's message: CT_ERR_NOMEM or CT_ERR_DEVICE. */
int gpu__check(cudaError_t e, const char *call, const char *file, int line);
#define GPU_CHECK(call) gpu__check((call), #call, __FILE__, __LINE__)
#define GPU_TRY(call)          \
  do {                         \
    rc = GPU_CHECK(call);      \
    if (rc != CT_OK) goto out; \
  } while (0)

/* ---- device ---- */

/** Callback that runs while the host waits, for users whose work may fail during the wait, such as
 * communicators. Returns CT_OK, or an error code that ends the wait. \a late: 1 if the timeout has
 * passed. */
typedef int gpu__watch_fn(void *ctx, int late);

#define GPU_WATCHES 8

struct ct_dev {
  const gpu__card_t *card; /**< NULL: a real device; else a model without a GPU: ops can only be
                              prepared */
  int index;
  int sm;  /**< compute capability * 10: 90 */
  int sms; /**< multiprocessors */
  int tf32, autotune;
  gpu__choices_t *choices; /**< owned; NULL: none are kept */
  size_t workspace;        /**< limit of an op's workspace in bytes */
  double timeout_s;        /**< limit for every wait; 0: none */
  gpu__libraries_t *libraries;
  struct {
    gpu__watch_fn *fn;
    void *ctx;
  } watch[GPU_WATCHES];
  gpu__bad_label_t *bad_label;  /**< owned, staging; NULL until the first loss is prepared */
  gpu__bad_index_t *bad_index;  /**< owned, staging; NULL until the first ROWS is prepared */
  struct gpu__repeats *repeats; /**< borrowed; list of the graphs of all queues */
  int capturing;                /**< 1: a step is being captured */
  ct_dev_id_t id;
  char describe[160];
};

/** Pure. Returns the usual limit of an op's workspace on a device with \a memory bytes: 1/32, which
 * is 2.5 GB of 80 GB. Exact float32 convolutions of large batches are fast only with copies of
 * their operands in another layout. */
static inline size_t gpu__workspace_limit(size_t memory)
{
  size_t least = (size_t)256 << 20;
  return memory / 32 > least ? memory / 32 : least;
}

/** Local. Registers \a fn to be called during host waits. CT_ERR_NOMEM: too many callbacks. */
int gpu__watch(ct_dev_t *dev, gpu__watch_fn *fn, void *ctx);
void gpu__unwatch(ct_dev_t *dev, gpu__watch_fn *fn, void *ctx);

/** Local. Returns the joules since the driver was loaded, from NVML; < 0: not available. */
double gpu__joules(ct_dev_t *dev);

/* ---- queues ---- */

typedef struct gpu__repeats gpu__repeats_t;

struct ct_queue {
  ct_dev_t *dev;
  cudaStream_t stream;
  gpu__repeats_t *repeats; /**< owned */
  int noting;              /**< 1: between begin() and end(), work is recorded instead of
                              enqueued */
};

struct ct_event {
  cudaEvent_t event;
  ct_queue_t *queue; /**< on which it was recorded last */
};

/** Local. Waits until all work on the stream has completed. It polls, so that the device's
 * callbacks run and the timeout is kept. CT_ERR_COMM or CT_ERR_DEVICE: a failure or timeout, with
 * the awaited work in the message; CT_ERR_DATA: a loss found an invalid label. */
int gpu__wait_stream(ct_dev_t *dev, cudaStream_t s);
int gpu__wait_event(ct_dev_t *dev, cudaEvent_t e);

/* ---- replayed steps (repeat.c) ---- */

/** A function that enqueues work other than ops, copies and zero fills, such as the work of a
 * communicator, on \a s and on streams that wait for \a s. Returns CT_OK or an error code. */
typedef int gpu__call_fn(void *arg, cudaStream_t s);
#define GPU_CALL_ARG 64

/** Local, Hot. Runs the call now, or records it with a copy of arg[bytes <= GPU_CALL_ARG] to
 * compare with the previous step. */
int gpu__enqueue_call(ct_queue_t *q, gpu__call_fn *fn, const void *arg, size_t bytes);
int gpu__note_op(ct_queue_t *q, ct_op_t *op, const ct_op_args_t *args);
/** Records a copy; src NULL: fills with zeros. */
int gpu__note_copy(ct_queue_t *q, void *dst, const void *src, size_t bytes);
/** Returns the arguments of a run that change from step to step. */
gpu__step_params_t gpu__step_params(const ct_op_args_t *a);
int gpu__begin(ct_queue_t *q, int key);
int gpu__end(ct_queue_t *q, int *same);
int gpu__capture(ct_queue_t *q);
int gpu__start(ct_queue_t *q, int whole);
/** Local. Allocates q->repeats. */
int gpu__repeats_open(ct_queue_t *q);
void gpu__repeats_free(gpu__repeats_t *r);
/** Local. Destroys the graphs of all queues, which can then not be launched any more. Call it
 * before a communicator with work in graphs is destroyed, but not during the capture of a step. */
void gpu__drop_graphs(ct_dev_t *dev);

/* ---- ops ---- */

typedef struct gpu__kind gpu__kind_t;

/** Layout of a parameter that is not plain: plain [outer][middle][inner] is stored as
 * [outer][inner][middle], such as OIHW as OHWI. */
typedef struct gpu__turn {
  int64_t outer, middle, inner;
} gpu__turn_t;

/** Header of every prepared op; each kind's own struct starts with it. */
struct ct_op {
  const gpu__kind_t *kind;
  ct_dev_t *dev;
  ct_op_desc_t desc; /**< y.layout is info->y_layout once prepared */
  size_t param_bytes[CT_OP_PARAMS];
  gpu__turn_t turn[CT_OP_PARAMS]; /**< outer 0: plain */
};

/** One kind of op. Semantics as in ct_op_ops_t; op.c checks passes, allocates and frees. */
struct gpu__kind {
  size_t size;  /**< size of the kind's own struct, which is allocated zeroed with the header
                  filled */
  int reduced;  /**< 1: x and y may both be CT_BF16 or CT_F16 */
  unsigned low; /**< ct_op_info_t.reads_reduced of such an op */
  /* Rejects what the backend cannot do; the descriptor is valid, but layouts may not be supported;
   * NULL: accepts all */
  int (*supports)(ct_dev_t *dev, const ct_op_desc_t *d, char why[128]);
  /* 1: shapes of 4 and 5 dims must be CT_NHWC; 0: CT_PLAIN or CT_NHWC; -1: CT_PLAIN only */
  int nhwc;
  /* Fills op and info, which is preset by ct_op_info_of() with algorithm "kernel". Sets op->turn
   * for parameters that are not plain. clear() is called after a failure. NULL: nothing to do */
  int (*prepare)(ct_op_t *op, ct_op_info_t *info);
  /* Hot. Enqueues on \a s. Arguments that change from step to step are passed as step parameters
   * (step_params.h), made from \a a by gpu__step_params(), together with the pointer \a at */
  int (*run)(ct_op_t *op, const ct_op_args_t *a, const gpu__step_params_t *at, cudaStream_t s);
  /* Hot. In place of run, of a kind that is made of other ops: enqueues these on \a q */
  int (*enqueue)(ct_queue_t *q, ct_op_t *op, const ct_op_args_t *a);
  /* Frees what prepare made, also if it failed halfway; NULL: nothing to do */
  void (*clear)(ct_op_t *op);
};

/** Writes the reason and returns 0, for `supports`. */
int gpu__cannot(char why[128], const char *reason);

/** One table per kind, gpu__kind_<word>; all zero: not supported. */
#define X(name, word, ...) extern const gpu__kind_t gpu__kind_##word;
CT_OP_LIST(X)
#undef X

extern const ct_op_ops_t gpu__op_ops;
extern const ct_queue_ops_t gpu__queue_ops;
extern const ct_mem_ops_t gpu__mem_ops;
extern const ct_backend_t gpu__backend;

/** Local. Returns CT_ERR_DATA if ROWS ops that have completed found an index that is no row
 * (op_rows.c); reported once. */
int gpu__check_indices(ct_dev_t *dev);
/** Local. Allocates dev->bad_label, once. */
int gpu__bad_label_open(ct_dev_t *dev);
/** Pure. Returns what the kernels of the LOSS \a d read. */
gpu__loss_of_t gpu__loss_inputs(const ct_op_desc_t *d, const ct_op_args_t *a);
/** Local. Returns CT_ERR_DATA if losses that have completed found an invalid label (op_loss.c);
 * each label is reported once. */
int gpu__check_labels(ct_dev_t *dev);
/** Pure. Sets the estimates of the backward pass of a convolution or linear layer: its gradients of
 * x, of the weights and of the bias all read dy. */
void gpu__gradient_kernels(const ct_op_desc_t *d, int bias, ct_op_info_t *info);
/** Pure. Returns the number of rows if \a s, in CT_NHWC or with two dims, is viewed as rows of
 * channels, [rows, dim[1]]. */
int64_t gpu__rows(const ct_shape_t *s);
/** Returns 1 if a REDUCE can take x with the channels last (op_reduce.c). */
int gpu__reduce_nhwc(const ct_op_desc_t *d);

#endif
