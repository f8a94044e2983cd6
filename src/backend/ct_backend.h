/** \file ct_backend.h  What a device can do: memory, order, arithmetic.  Layer 1.
 *
 * Three small tables.  A backend is one `const ct_backend_t`; every entry is filled, so callers never
 * test for NULL.  Nothing here is collective; all int functions are local and return CT_OK or a code.
 *
 * An op is prepared once and run many times.  `prepare` decides everything (algorithm, layouts, bytes)
 * for all passes together; `run` only enqueues and allocates nothing. */
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
  /* enqueued; any direction */
  int (*copy)(ct_queue_t *q, void *dst, const void *src, size_t bytes);
  /* enqueued */
  int (*zero)(ct_queue_t *q, void *dst, size_t bytes);
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
  /* the host waits for all work of q; returns the first error of earlier work */
  int (*sync)(ct_queue_t *q);
  /* frees an event; NULL is fine */
  void (*unmark)(ct_event_t *ev);
} ct_queue_ops_t;

enum { CT_USES_X = 1, CT_USES_Y = 2 };

/** What `prepare` found out. */
typedef struct ct_op_info {
  size_t scratch;       /**< bytes wanted during one run */
  size_t saved;         /**< bytes kept from forward to backward (masks, arg-max, statistics) */
  ct_layout_t y_layout; /**< the output's layout; dy has it too, dx that of x */
  size_t param_bytes
      [2]; /**< w[0], w[1] in the op's own layout (gradients and states alike); 0: none */
  uint64_t param_layout; /**< hash of that layout: equal on all ranks */
  int bwd_uses;          /**< CT_USES_X | CT_USES_Y: what must live until the backward pass */
  int takes_dy2;         /**< backward can add a second gradient on the fly */
  int inplace_fwd;       /**< y may share x's memory (if x is not needed later) */
  int inplace_bwd;       /**< dx may share dy's memory */
  const char *algorithm; /**< static text: "winograd", "direct", "by hand" */
} ct_op_info_t;

/** Numbers of one batch's loss; in staging memory; overwritten by each forward XENT. */
typedef struct ct_loss {
  double sum;                  /**< of the samples' losses (not the mean) */
  int64_t samples, top1, top5; /**< samples seen; correct within the first 1 and 5 */
} ct_loss_t;

/** Pointers for one run; which ones an op reads is said in ct_op.h; the rest may be anything. */
typedef struct ct_op_args {
  int pass; /**< bits of CT_FWD | CT_BWD_DATA | CT_BWD_PARAM */
  const void *x, *x2;
  void *y;
  const void *dy, *dy2; /**< dy2: second summand or NULL */
  void *dx, *dx2;       /**< overwritten, not added to; NULL: not wanted */
  void *w[4];           /**< parameters in the op's own layout; BNORM's running statistics plain */
  void *dw[2];          /**< gradients, overwritten */
  void *saved, *scratch;
  const int32_t *labels; /**< XENT: n labels; device memory */
  ct_loss_t *loss;       /**< XENT */
  float scale;           /**< XENT: factor of dx; UPDATE: factor of the gradient before the rule */
  int64_t count;         /**< UPDATE: elements */
  void *state[CT_RULE_STATES];
  ct_hyper_t hyper; /**< UPDATE */
  uint64_t seed;    /**< DROPOUT: of the run */
  int64_t step;     /**< DROPOUT: global step */
  int64_t first;    /**< DROPOUT: position of this rank's first sample in the global batch */
} ct_op_args_t;

typedef struct ct_op_ops {
  /* 1 yes, 0 no (then why says what is missing); never fails */
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
  /* parameter 0 or 1 between the plain layout (host, float32, OIHW) and the op's own (device);
   * padding is written as zeros; complete on return */
  int (*pack)(ct_queue_t *q, ct_op_t *op, int param, const float *plain, void *own);
  int (*unpack)(ct_queue_t *q, ct_op_t *op, int param, const void *own, float *plain);
} ct_op_ops_t;

/** How a device is opened. */
typedef struct ct_dev_opts {
  int index;       /**< node-local device number (the local rank) */
  int threads;     /**< CPU: threads of this rank */
  int conv_direct; /**< CPU: 1 = never Winograd */
} ct_dev_opts_t;

typedef struct ct_backend {
  size_t size;      /**< sizeof(ct_backend_t) */
  const char *name; /**< "ref", "cpu", "cuda" */
  /* devices of this node; 0 with the reason in why */
  int (*probe)(char why[128]);
  int (*open)(const ct_dev_opts_t *o, ct_dev_t **out);
  void (*close)(ct_dev_t *dev);
  int host_memory; /**< 1: device memory is the host's: MPI may work on it (after waiting) */
  int in_place;    /**< 1: batches are used where they lie; else they are copied to the device */
  /* one line: "oneDNN 2.6.3, AVX-512, 2 threads" */
  const char *(*describe)(ct_dev_t *dev);
  const ct_mem_ops_t *mem;
  const ct_queue_ops_t *queue;
  const ct_op_ops_t *op;
} ct_backend_t;

#endif
