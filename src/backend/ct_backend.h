/** \file ct_backend.h  Interface of a device backend: memory, queues, ops.  Layer 1.
 *
 * Three tables of functions.  A backend is one `const ct_backend_t`; every entry is filled, so
 * callers never test for NULL.  All functions are local; those that return int return CT_OK or an
 * error code.
 *
 * An op is prepared once and run many times.  `prepare` decides everything (algorithm, layouts,
 * workspace) for all passes together; `run` only enqueues and allocates nothing. */
#ifndef CT_BACKEND_H
#define CT_BACKEND_H
#include "backend/ct_op.h"
#include "backend/ct_op_parts.h"
#include "backend/ct_rules.h"

typedef struct ct_dev ct_dev_t;     /**< an opened device */
typedef struct ct_queue ct_queue_t; /**< in-order queue: a CUDA stream; synchronous on the CPU */
typedef struct ct_event ct_event_t; /**< a position in a queue, as cudaEvent_t */
typedef struct ct_op ct_op_t;       /**< a prepared op */

typedef enum {
  CT_MEM_DEVICE,
  CT_MEM_STAGING /**< host memory with fast transfers to the device (pinned) */
} ct_mem_kind_t;

typedef struct ct_mem_ops {
  /* returns zeroed memory, aligned to 64 bytes; CT_ERR_NOMEM */
  int (*alloc)(ct_dev_t *dev, ct_mem_kind_t kind, size_t bytes, void **out);
  /* p may be NULL */
  void (*free)(ct_dev_t *dev, ct_mem_kind_t kind, void *p);
  /* pins caller-owned host memory for fast transfers until unpin(); a failure only costs speed */
  int (*pin)(ct_dev_t *dev, void *p, size_t bytes);
  void (*unpin)(ct_dev_t *dev, void *p);
  /* asynchronous; host to device, device to host or within one side */
  int (*copy)(ct_queue_t *q, void *dst, const void *src, size_t bytes);
  /* asynchronous */
  int (*zero)(ct_queue_t *q, void *dst, size_t bytes);
  /* returns the free device memory in bytes; SIZE_MAX: unknown, as for host memory */
  size_t (*avail)(ct_dev_t *dev);
  /* returns the bytes that count against the budget of this process (train.memory): of host memory
   * its resident set, of a device all that is in use, by whichever process; 0: unknown */
  size_t (*used)(ct_dev_t *dev);
} ct_mem_ops_t;

typedef struct ct_queue_ops {
  int (*create)(ct_dev_t *dev, ct_queue_t **out);
  /* waits for all work of q first; q may be NULL */
  void (*destroy)(ct_queue_t *q);
  /* records an event after the work enqueued so far; *io NULL: creates it, else moves it */
  int (*mark)(ct_queue_t *q, ct_event_t **io);
  /* makes later work of q wait for the event; does not block the host */
  int (*after)(ct_queue_t *q, ct_event_t *ev);
  /* blocks the host until the event is reached */
  int (*wait)(ct_event_t *ev);
  /* 1 the event is reached, 0 not yet, or an error code; does not block */
  int (*done)(ct_event_t *ev);
  /* blocks the host until q is empty; returns the first error of earlier work */
  int (*sync)(ct_queue_t *q);
  /* frees an event, which may be NULL */
  void (*unmark)(ct_event_t *ev);

  /* Step replay (CUDA graphs).  A step that repeats the same ops on the same memory with other
   * numbers (learning rate, loss scale, dropout's step) can be launched as one graph.  Work
   * enqueued between begin() and end() is only recorded; the host must not wait for it.  \a key, 0
   * … CT_REPEATS - 1, identifies steps that use the same memory.
   *
   * end() compares the recording with the last step of that key: *same 1: that step's graph can
   * replay it.  capture() makes a new graph of the recording, in place of the key's graph.  It is
   * local, but if the step contains calls of a communicator, all ranks must capture the same step
   * before one of them launches it.  After a failure, such as CT_ERR_NOMEM, or CT_ERR_DEVICE for
   * work that cannot be captured, the recording can still be started op by op.
   *
   * start() then runs the step.  \a whole 1: as the graph of end() or capture(), or, after a
   * begin() without end(), as the previous graph.  \a whole 0: op by op; needs no end().
   *
   * If the backend's flag `repeats` is 0, begin(), end() and capture() do nothing and work runs as
   * it is enqueued. */
  int (*begin)(ct_queue_t *q, int key);
  int (*end)(ct_queue_t *q, int *same);
  int (*capture)(ct_queue_t *q);
  int (*start)(ct_queue_t *q, int whole);
} ct_queue_ops_t;

#define CT_REPEATS 4

/** Results of `prepare`. */
typedef struct ct_op_info {
  size_t scratch; /**< workspace of one run, in bytes */
  /** For estimates, in forward and backward: bytes that a run moves in addition to one access to
   * each operand, since several of its kernels read an operand, or pass results in the workspace;
   * and the number of its kernels on a GPU.  Preset to 0 and 1 */
  double extra_bytes[2];
  /** For the same estimates: FLOP that a run computes in addition to ct_op_flops() */
  double extra_flops[2];
  int kernels[2];
  size_t saved;         /**< bytes kept from forward to backward (masks, arg-max, statistics) */
  ct_layout_t y_layout; /**< layout of y and dy; dx has the layout of x */
  /** bytes of w[i] in the op's own layout, float32; gradients and optimizer states have the same
   * size; 0: the op does not have parameter i */
  size_t param_bytes[CT_OP_PARAMS];
  uint64_t param_layout;  /**< hash of the parameter layouts; equal on all ranks */
  unsigned reads_reduced; /**< bits 1 << i: run() reads parameter i from w_reduced[i] alone */
  int bwd_uses;           /**< CT_USES_X | CT_USES_Y: the tensors to keep until the backward pass */
  int takes_dy2;          /**< 1: backward can add dy2 to dy */
  int adds_dx;            /**< 1: backward can add dx_add to dx */
  int adds_dw;            /**< 1: backward can add to the gradients of the parameters */
  int inplace_fwd;        /**< 1: y may share x's memory (if x is not needed later) */
  int inplace_second;     /**< 1: y may share x2's memory, and this is the preferred memory for y */
  int inplace_bwd;        /**< 1: dx may share dy's memory */
  int inplace_add;        /**< 1: dx may share dx_add's memory */
  const char *varies;     /**< why two runs may give other bits; NULL: they give the same */
  const char *algorithm;  /**< "winograd", "direct", "by hand"; valid as long as the op */
} ct_op_info_t;

/** Pure.  The initial info that `prepare` completes: y in the layout of x (REORDER: in the
 * requested layout), plain parameters, bwd_uses from ct_op_uses(), no workspace and no in-place
 * sharing. */
ct_op_info_t ct_op_info_of(const ct_op_desc_t *d, const char *algorithm);

/** Loss and counts of one batch, in staging memory; overwritten by each forward LOSS. */
typedef struct ct_loss {
  double sum;       /**< sum (not mean) of the samples' losses */
  double weight;    /**< divisor for the mean: the part of this batch, see ct_divisor_t */
  double abs_error; /**< sum over samples of the mean |prediction - target|, without ignored
                         targets; 0 with labels of classes */
  /* The next three members count pixels if each pixel has a label. */
  int64_t samples; /**< number of samples, without ignored ones */
  int64_t top1;    /**< samples whose label has the highest output */
  int64_t top5;    /**< samples whose label is among the 5 highest outputs */
} ct_loss_t;

/** Result of GRADSTAT, in staging memory.  Each run adds to it, so an arena can be processed in
 * parts; the caller zeroes it before the first. */
typedef struct ct_grad_stat {
  double power;     /**< sum of |g|^p (p infinite: the largest |g|), g = gradient * scale */
  double nonfinite; /**< number of infinite or NaN elements; a double, as ranks sum both */
} ct_grad_stat_t;

/** Gradient clipping before the optimizer rule: g = clamp(g * scale * clip, ±clip_value), where
 * clip = min(1, clip_norm / (norm + 1e-6)) with the norm of `stat`, as
 * torch.nn.utils.clip_grad_norm_.  With skip_nonfinite the update is skipped if stat counts
 * nonfinite elements (torch.amp.GradScaler). */
typedef struct ct_grad_ctl {
  const ct_grad_stat_t *stat; /**< NULL: no clipping by norm, no skipping */
  double clip_norm;           /**< 0: off */
  double clip_p;              /**< order of the norm; infinity: the maximum norm */
  float clip_value;           /**< 0: off */
  int skip_nonfinite;
} ct_grad_ctl_t;

/** A parameter, or a slice of one, among the arrays of MEASURE and UPDATE. */
typedef struct ct_segment {
  int64_t first; /**< its first element in dy and y */
  int64_t state; /**< its first element in the states */
  int64_t count;
  int norms;      /**< index of its pair of sums in `norms` */
  int chunk;      /**< number of chunks of CT_SEGMENT_CHUNK elements in the segments before it */
  int64_t weight; /**< its first element in w */
} ct_segment_t;

/** Elements that a parallel device processes as a unit. */
enum { CT_SEGMENT_CHUNK = 4096 };

/** Arguments of one run. ct_op.h says which ones an op reads; the others are ignored. */
typedef struct ct_op_args {
  int pass; /**< bits of CT_FWD | CT_BWD_DATA | CT_BWD_PARAM */
  const void *x, *x2, *x3;
  void *y;
  const void *dy, *dy2;  /**< dy2: a second gradient that is added to dy, or NULL */
  const void *dx_add;    /**< LNORM, BNORM: another gradient of x, which is added to dx; or NULL */
  void *dx, *dx2, *dx3;  /**< overwritten, not accumulated; NULL: not computed */
  void *w[CT_OP_PARAMS]; /**< in the op's own layout; BNORM's running statistics are plain */
  const void *w_reduced
      [CT_OP_PARAMS];     /**< the parameters rounded to the op's reduced precision; only if the
                                 backend asks for them (ct_backend_t.reduced_weights) */
  void *dw[CT_OP_PARAMS]; /**< gradients of the parameters; overwritten */
  int adds_dw; /**< 1: backward adds to dw[] what it would write (ct_op_info_t.adds_dw) */
  int again;   /**< 1: forward has run already, with the same arguments, and its results were
                    dropped.  CT_FWD writes the same bits of y and saved, and nothing else: no
                    running statistics, no ranges.  BNORM in training reads the statistics from
                    saved, with `sync` too */
  void *saved, *scratch;
  double *stats;             /**< SyncBN: 2C + 1 numbers in device memory.  Forward: per channel the
                               sums of x - s and (x - s)^2, where s is the running mean (identical
                               on all ranks; Chan, Golub, LeVeque 1983), then the number of elements
                               of a channel.  Backward: the sums of dy and dy * (x - mean); the last
                               number is unused */
  int keep_running;          /**< BNORM in training: 1 = do not update the running statistics.  They
                               are also not updated if a channel has a single value, which has no
                               variance */
  const float *affine;       /**< REORDER from CT_U8: scale a[C], then offset b[C]; device memory */
  const int32_t *labels;     /**< LOSS: a label per sample, or per pixel; device memory */
  const int32_t *labels2;    /**< LOSS: other label of a mixed sample (mix[i] < 1); or NULL */
  const float *mix;          /**< LOSS: weight of labels[i] against labels2[i]; NULL: 1 */
  const float *targets;      /**< LOSS: [n, K] */
  const float *class_weight; /**< LOSS: [K], or of all outputs (ct_op_classes()) */
  const float *place_weight; /**< LOSS: [ct_op_places()], factor of a loss at its place */
  const float *sample_weight; /**< LOSS: [n], factor of a sample's loss and weight */
  ct_loss_t *loss;            /**< LOSS */
  float scale;   /**< factor; LOSS: of dx; GRADSTAT, MEASURE, UPDATE: of the gradient */
  int64_t count; /**< GRADSTAT, MEASURE, UPDATE: number of elements */
  void *state[CT_RULE_STATES];
  ct_hyper_t hyper;     /**< MEASURE, UPDATE */
  ct_grad_stat_t *stat; /**< GRADSTAT: result, accumulated */
  ct_grad_ctl_t ctl;    /**< MEASURE, UPDATE */
  double *norms;        /**< device memory.  MEASURE writes 2 sums of squares: of the weights, and
                             of the values that the rule names (ct_rules.h); UPDATE reads the sums
                             of the whole parameter; NULL: none */
  const ct_segment_t *segment; /**< MEASURE, UPDATE: the parameters of one run; device memory that
                                    stays as it is until the op is released.  NULL: one
                                    parameter, the first `count` elements of all arrays */
  int segments;                /**< at most as many as the descriptor says; `count` is their sum */
  uint64_t seed;               /**< DROPOUT: seed of the run */
  int64_t step;                /**< DROPOUT: global step */
  int64_t first; /**< DROPOUT: index of this rank's first sample in the global batch */
  /** CACHE, SDPA with `cached`, and ops that know places in a sequence: [N], the place of each
   * sample's first element; device memory; NULL: 0 */
  const int32_t *position;
} ct_op_args_t;

typedef struct ct_op_ops {
  /* 1 if the op can run, else 0 with the reason in why.  Calls ct_op_check(), then tests the
   * backend's own limits; never fails */
  int (*supports)(ct_dev_t *dev, const ct_op_desc_t *d, char why[128]);
  /* returns the preferred layout of the input, if the input exists in d->x.layout */
  ct_layout_t (*wants)(ct_dev_t *dev, const ct_op_desc_t *d);
  /* \a like: an op of the same layer prepared for another batch size, whose parameter layout is
   * kept; or NULL */
  int (*prepare)(ct_dev_t *dev, const ct_op_desc_t *d, const ct_op_t *like, ct_op_t **out,
                 ct_op_info_t *info);
  /* Hot.  Enqueues the op; allocates nothing */
  int (*run)(ct_queue_t *q, ct_op_t *op, const ct_op_args_t *args);
  /* frees the op, which may be NULL */
  void (*release)(ct_op_t *op);
  /* convert one parameter between the plain layout (host, float32, OIHW) and the op's own layout
   * (device); pack() writes padding as zeros; both have finished when they return */
  int (*pack)(ct_queue_t *q, ct_op_t *op, int param, const float *plain, void *own);
  int (*unpack)(ct_queue_t *q, ct_op_t *op, int param, const void *own, float *plain);

  /* Autotuning.  Ranks that time algorithms on their own may choose different ones, and then
   * compute other bits.  So rank 0 prepares its ops first and sends its choices to the others.
   * tunes() returns 1 if prepare() may choose algorithms by timing; it is the same on all ranks. */
  int (*tunes)(ct_dev_t *dev);
  /* returns all choices of this device in *out, which the caller frees with ct_mem_free(), and
   * stores those that are new for later processes; only if tunes() */
  int (*choices)(ct_dev_t *dev, void **out, size_t *bytes);
  /* makes later prepare() calls use such choices; warns if they are of another model of device, and
   * then ignores them; only if tunes() */
  int (*adopt)(ct_dev_t *dev, const void *choices, size_t bytes);
} ct_op_ops_t;

/** Options of the simulated device (sim/ct_sim.h). */
typedef struct ct_dev_sim {
  const char *times; /**< file of recorded op times; NULL or "": none */
  double flop_rate;  /**< FLOP/s of ops without a recorded time; 0: the rate in the file */
  double byte_rate;  /**< bytes/s of ops without a recorded time; 0: the rate in the file */
  double noise;      /**< standard deviation of the logarithm of each op's time */
  double slow;       /**< factor of all times */
  uint64_t seed;     /**< seed of the noise; differs between ranks */
} ct_dev_sim_t;

/** Options for opening a device. */
typedef struct ct_dev_opts {
  int index;       /**< number among this node's devices that are visible to the process */
  int threads;     /**< CPU: threads of this rank */
  int conv_direct; /**< CPU: 1 = do not use Winograd */
  int tf32;        /**< GPU: 1 = float32 GEMMs and convolutions may round their inputs to TF32 */
  int autotune; /**< GPU: 1 = time the algorithms of GEMMs and convolutions, choose the fastest */
  size_t workspace;       /**< GPU: limit of an op's workspace in bytes; 0: a share of its memory */
  const char *plan_cache; /**< GPU: directory for autotuning results; NULL or "": none */
  const char *card;       /**< GPU: model such as "h100" to prepare ops for without a GPU, so that a
                               plan can be looked at; such a device runs nothing.  NULL: open one */
  double timeout_s;       /**< GPU: longest wait in seconds before an error; 0: no limit */
  ct_dev_sim_t sim;
} ct_dev_opts_t;

/** Identity of a device; a string is empty if unknown. */
typedef struct ct_dev_id {
  char uuid[48], bus[32], name[64];
  int numa; /**< NUMA node; -1: unknown */
} ct_dev_id_t;

typedef struct ct_backend {
  size_t size;      /**< sizeof(ct_backend_t) */
  const char *name; /**< "ref", "cpu", "cuda", "sim" */
  /* returns the number of devices on this node; if 0, why holds the reason */
  int (*probe)(char why[128]);
  /* opens device o->index; on failure *out is NULL */
  int (*open)(const ct_dev_opts_t *o, ct_dev_t **out);
  /* frees the device, which may be NULL; all its memory, queues and ops must be freed before */
  void (*close)(ct_dev_t *dev);
  int host_memory;     /**< 1: device memory is host memory: MPI can access it */
  int in_place;        /**< 1: batches are used where they are; 0: they are copied to the device */
  int reduced_weights; /**< 1: reduced-precision ops read args->w_reduced; UPDATE maintains it */
  int repeats;         /**< 1: step replay with queue->begin() saves time */
  int tf32;            /**< 1: ct_dev_opts_t.tf32 has an effect */
  int naps;            /**< 1: ops sleep and free the core; MPI waits must then sleep too */
  /* describes the device in one line: "oneDNN 2.6.3, AVX-512, 2 threads" */
  const char *(*describe)(ct_dev_t *dev);
  /* fills in the identity; never fails */
  void (*identify)(ct_dev_t *dev, ct_dev_id_t *out);
  /* reads the device's energy counter, in joules; < 0: not available, or the device is the host */
  double (*joules)(ct_dev_t *dev);
  const ct_mem_ops_t *mem;
  const ct_queue_ops_t *queue;
  const ct_op_ops_t *op;
} ct_backend_t;

#endif
