/** \file ct_backend.h  What a device can do: memory, order, arithmetic.  Layer 1.
 *
 * Three small tables.  A backend is one `const ct_backend_t`; every entry is filled, so callers
 * never test for NULL.  Nothing here is collective; all int functions are local and return CT_OK or
 * a code.
 *
 * An op is prepared once and run many times.  `prepare` decides everything (algorithm, layouts,
 * bytes) for all passes together; `run` only enqueues and allocates nothing. */
#ifndef CT_BACKEND_H
#define CT_BACKEND_H
#include "backend/ct_op.h"
#include "backend/ct_rules.h"

typedef struct ct_dev ct_dev_t;     /**< an opened device */
typedef struct ct_queue ct_queue_t; /**< in-order work: a CUDA stream; inline on the CPU */
typedef struct ct_event ct_event_t; /**< a point in a queue's work */
typedef struct ct_op ct_op_t;       /**< a prepared op */

typedef enum {
  CT_MEM_DEVICE,
  CT_MEM_STAGING /**< host memory that the device copies fast */
} ct_mem_kind_t;

typedef struct ct_mem_ops {
  /* 64-byte aligned, zeroed; CT_ERR_NOMEM */
  int (*alloc)(ct_dev_t *dev, ct_mem_kind_t kind, size_t bytes, void **out);
  /* NULL is fine */
  void (*free)(ct_dev_t *dev, ct_mem_kind_t kind, void *p);
  /* host memory of the caller's, which the device copies fast until unpin(); a failure costs
   * speed only */
  int (*pin)(ct_dev_t *dev, void *p, size_t bytes);
  void (*unpin)(ct_dev_t *dev, void *p);
  /* enqueued; any direction */
  int (*copy)(ct_queue_t *q, void *dst, const void *src, size_t bytes);
  /* enqueued */
  int (*zero)(ct_queue_t *q, void *dst, size_t bytes);
  /* bytes of device memory that are free; SIZE_MAX: not known, as of a host's memory */
  size_t (*room)(ct_dev_t *dev);
} ct_mem_ops_t;

typedef struct ct_queue_ops {
  int (*create)(ct_dev_t *dev, ct_queue_t **out);
  /* work not yet done is done first; NULL is fine */
  void (*destroy)(ct_queue_t *q);
  /* the end of the work enqueued so far; *io NULL: a new event, else it is moved */
  int (*mark)(ct_queue_t *q, ct_event_t **io);
  /* later work of q waits for the event; the host does not */
  int (*after)(ct_queue_t *q, ct_event_t *ev);
  /* the host waits for the event */
  int (*wait)(ct_event_t *ev);
  /* 1 the work before the event is done, 0 not yet, or a code; does not wait */
  int (*done)(ct_event_t *ev);
  /* the host waits for all work of q; returns the first error of earlier work */
  int (*sync)(ct_queue_t *q);
  /* frees an event; NULL is fine */
  void (*unmark)(ct_event_t *ev);

  /* A step that is repeated with the same ops on the same memory, and other numbers (learning rate,
   * loss scale, dropout's step), can be started as a whole: a CUDA graph.  Between begin() and
   * end() what is enqueued is only noted; the host must not wait for it.  \a key, 0 … CT_REPEATS -
   * 1, tells apart steps that differ in their memory.  end() compares with the last step of that
   * key and makes a graph where they differ; then start() runs it: \a whole 1 as the graph that
   * end() left (or, if there was a begin() but no end(), as the last one was), 0 piece by piece,
   * which needs no end().  Where a backend has nothing to gain (flag `repeats` is 0) begin() and
   * end() do nothing, and all is done as it is enqueued. */
  int (*begin)(ct_queue_t *q, int key);
  int (*end)(ct_queue_t *q);
  int (*start)(ct_queue_t *q, int whole);
} ct_queue_ops_t;

#define CT_REPEATS 4

/** What `prepare` found out. */
typedef struct ct_op_info {
  size_t scratch;       /**< bytes wanted during one run */
  size_t saved;         /**< bytes kept from forward to backward (masks, arg-max, statistics) */
  ct_layout_t y_layout; /**< the output's layout; dy has it too, dx that of x */
  /** w[i] in the op's own layout, float32 (gradients and states alike); 0: none */
  size_t param_bytes[CT_OP_PARAMS];
  uint64_t param_layout; /**< hash of that layout: equal on all ranks */
  int bwd_uses;          /**< CT_USES_X | CT_USES_Y: what must live until the backward pass */
  int takes_dy2;         /**< backward can add a second gradient on the fly */
  int inplace_fwd;       /**< y may share x's memory (if x is not needed later) */
  int inplace_second;    /**< y may share x2's memory, and this is the best place for it */
  int inplace_bwd;       /**< dx may share dy's memory */
  const char *algorithm; /**< "winograd", "direct", "by hand"; lives as long as the op */
} ct_op_info_t;

/** Pure.  With what `prepare` begins: y in the layout of x (REORDER: in that which is asked for),
 * plain parameters, ct_op_uses(), and nothing else wanted or allowed. */
ct_op_info_t ct_op_info_of(const ct_op_desc_t *d, const char *algorithm);

/** Numbers of one batch's loss; in staging memory; overwritten by each forward LOSS. */
typedef struct ct_loss {
  double sum;       /**< of the samples' losses (not the mean) */
  double weight;    /**< what to divide it by: samples, or the sum of their weights */
  double abs_error; /**< sum over samples of the mean |output - target|; 0 for cross-entropy */
  int64_t samples, top1,
      top5; /**< samples seen (ignored ones not); correct within the first 1 and 5.  With a label
                 for each place of a sample these are places */
} ct_loss_t;

/** What GRADSTAT found out, in staging memory; added to, so that an arena can be done in pieces:
 * the caller zeroes it before the first. */
typedef struct ct_grad_stat {
  double power;      /**< sum of |g|^p, or the largest |g|: of the gradient times `scale` */
  int64_t nonfinite; /**< elements that are infinite or NaN */
} ct_grad_stat_t;

/** What an UPDATE does to the gradient before the rule: g = clamp(g * scale * clip, ±clip_value),
 * where clip = min(1, clip_norm / (norm + 1e-6)) with the norm of `stat`, as
 * torch.nn.utils.clip_grad_norm_.  Nothing is updated if stat says nonfinite and skip_nonfinite is
 * set (torch.amp.GradScaler). */
typedef struct ct_grad_ctl {
  const ct_grad_stat_t *stat; /**< NULL: no norm, no skipping */
  double clip_norm;           /**< 0: off */
  double clip_p;              /**< of the norm; infinity: the largest */
  float clip_value;           /**< 0: off */
  int skip_nonfinite;
} ct_grad_ctl_t;

/** Pointers for one run; which ones an op reads is said in ct_op.h; the rest may be anything. */
typedef struct ct_op_args {
  int pass; /**< bits of CT_FWD | CT_BWD_DATA | CT_BWD_PARAM */
  const void *x, *x2;
  void *y;
  const void *dy, *dy2;  /**< dy2: second summand or NULL */
  void *dx, *dx2;        /**< overwritten, not added to; NULL: not wanted */
  void *w[CT_OP_PARAMS]; /**< parameters in the op's own layout; BNORM's running statistics plain */
  const void
      *w_low[CT_OP_PARAMS]; /**< the same rounded to the low type of the op, if it has one and
                                        the backend wants them (ct_backend_t.low_weights) */
  void *dw[CT_OP_PARAMS];   /**< gradients, overwritten */
  void *saved, *scratch;
  double *stats;          /**< BNORM with sync, device memory: 2C + 1 numbers.  Forward: for each
                      channel the sums of x - s and of (x - s)^2, where s is its running mean (the
                      same on all ranks; Chan, Golub, LeVeque 1983), then the elements of a channel.
                      Backward: the sums of dy and of dy * (x - mean); the last is not used */
  int keep_running;       /**< BNORM in training: 1 = the running statistics are left alone, as they
                      are with one value per channel, which has no variance */
  const float *affine;    /**< REORDER of CT_U8: a[C], then b[C]; device memory */
  const int32_t *labels;  /**< LOSS: n labels, or n times those of all places; device memory */
  const int32_t *labels2; /**< LOSS: with mix[i] < 1: the other label of a mixed sample; or NULL */
  const float *mix;       /**< LOSS: share of labels[i]; NULL: 1 */
  const float *targets;   /**< LOSS: [n, K] */
  const float *class_weight;  /**< LOSS: [K] */
  const float *sample_weight; /**< LOSS: [n], a factor of a sample's loss and of its weight */
  ct_loss_t *loss;            /**< LOSS */
  float scale;                /**< LOSS: factor of dx; GRADSTAT, MEASURE, UPDATE: of the gradient */
  int64_t count;              /**< GRADSTAT, MEASURE, UPDATE: elements */
  void *state[CT_RULE_STATES];
  ct_hyper_t hyper;     /**< MEASURE, UPDATE */
  ct_grad_stat_t *stat; /**< GRADSTAT: added to */
  ct_grad_ctl_t ctl;    /**< MEASURE, UPDATE */
  double *norms;        /**< MEASURE: [2] sums of squares, of the weights and of what the rule says
                             (ct_rules.h), overwritten; UPDATE: of the whole parameter; NULL: 0.
                             Device memory */
  uint64_t seed;        /**< DROPOUT: of the run */
  int64_t step;         /**< DROPOUT: global step */
  int64_t first;        /**< DROPOUT: position of this rank's first sample in the global batch */
} ct_op_args_t;

typedef struct ct_op_ops {
  /* 1 yes, 0 no (then why says what is missing): ct_op_check() first, then the backend's own
   * limits; never fails */
  int (*supports)(ct_dev_t *dev, const ct_op_desc_t *d, char why[128]);
  /* the layout in which the op would like its input, given the one it is offered in d->x.layout */
  ct_layout_t (*wants)(ct_dev_t *dev, const ct_op_desc_t *d);
  /* \a like: an op of the same layer prepared before for another batch size, whose parameter layout
   * must be taken over; or NULL */
  int (*prepare)(ct_dev_t *dev, const ct_op_desc_t *d, const ct_op_t *like, ct_op_t **out,
                 ct_op_info_t *info);
  /* Hot.  Enqueues; allocates nothing */
  int (*run)(ct_queue_t *q, ct_op_t *op, const ct_op_args_t *args);
  /* NULL is fine */
  void (*release)(ct_op_t *op);
  /* one parameter between the plain layout (host, float32, OIHW) and the op's own (device);
   * padding is written as zeros; complete on return */
  int (*pack)(ct_queue_t *q, ct_op_t *op, int param, const float *plain, void *own);
  int (*unpack)(ct_queue_t *q, ct_op_t *op, int param, const void *own, float *plain);
} ct_op_ops_t;

/** What a simulated device plays (sim/ct_sim.h). */
typedef struct ct_dev_sim {
  const char *times;           /**< file of recorded ops; NULL or "": none */
  double flop_rate, byte_rate; /**< of ops that are not in it, a second; 0: as the file says */
  double noise;                /**< of each op's time: standard deviation of its logarithm */
  double slow;                 /**< factor of all times */
  uint64_t seed;               /**< of the noise: another one on each rank */
} ct_dev_sim_t;

/** How a device is opened. */
typedef struct ct_dev_opts {
  int index;       /**< number of the device among those of this node that this process sees */
  int threads;     /**< CPU: threads of this rank */
  int conv_direct; /**< CPU: 1 = never Winograd */
  int tf32;        /**< GPU: 1 = products of float32 may round their factors to TF32 */
  int autotune;    /**< GPU: 1 = convolutions are measured to choose their algorithms */
  const char *plan_cache; /**< GPU: directory of what was measured; NULL or "": not kept */
  double timeout_s;       /**< GPU: a wait that takes longer is an error; 0: never */
  ct_dev_sim_t sim;
} ct_dev_opts_t;

/** Which piece of hardware a device is; empty strings where there is nothing to tell apart. */
typedef struct ct_dev_id {
  char uuid[48], bus[32], name[64];
  int numa; /**< NUMA node; -1: not known */
} ct_dev_id_t;

typedef struct ct_backend {
  size_t size;      /**< sizeof(ct_backend_t) */
  const char *name; /**< "ref", "cpu", "cuda", "sim" */
  /* devices of this node; 0 with the reason in why */
  int (*probe)(char why[128]);
  int (*open)(const ct_dev_opts_t *o, ct_dev_t **out);
  void (*close)(ct_dev_t *dev);
  int host_memory; /**< 1: device memory is the host's: MPI may work on it (after waiting) */
  int in_place;    /**< 1: batches are used where they lie; else they are copied to the device */
  int low_weights; /**< 1: ops in a low type want args->w_low, and UPDATE keeps it */
  int repeats;     /**< 1: queue->begin() makes steps faster */
  int naps;        /**< 1: ops leave the processor to others; so must who waits for a message */
  /* one line: "oneDNN 2.6.3, AVX-512, 2 threads" */
  const char *(*describe)(ct_dev_t *dev);
  void (*identify)(ct_dev_t *dev, ct_dev_id_t *out);
  /* joules that the device has used since some moment; < 0: it does not tell, or is the host */
  double (*joules)(ct_dev_t *dev);
  const ct_mem_ops_t *mem;
  const ct_queue_ops_t *queue;
  const ct_op_ops_t *op;
} ct_backend_t;

#endif
