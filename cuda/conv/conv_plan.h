/** \file conv_plan.h  Selects and runs cuDNN plans for the passes of a convolution.
 * Module-internal.
 *
 * conv_graph.c describes a pass to cuDNN, conv_plan.c finds plans for it, conv_run.c runs them,
 * conv_tune.c benchmarks them, and conv_store.c keeps the chosen ones, with conv_text.c also for
 * later processes. conv_dnn.c combines passes into a convolution. */
#ifndef GPU_CONV_PLAN_H
#define GPU_CONV_PLAN_H
#include "backend/ct_backend.h"
#include "cuda/conv/dnn.h"
#include "cuda/library_handles.h"

/** One pass of a convolution, the key of a plan. */
typedef struct gpu__conv_pass {
  const ct_op_desc_t *d;
  int pass; /**< CT_FWD, CT_BWD_DATA or CT_BWD_PARAM */
  int tf32; /**< float32: 1: factors may be rounded to TF32 */
} gpu__conv_pass_t;

/** A candidate plan. */
typedef struct gpu__conv_algo {
  gpu__dnn_plan_t plan;
  int fused;       /**< 1: the plan includes the bias; 0: a kernel applies bias and ReLU, if any */
  unsigned notes;  /**< numerical notes, see gpu__dnn_notes() */
  int engine;      /**< cuDNN's number of the engine */
  int last_resort; /**< 1: only proposed by the heuristics' mode FALLBACK; not for choices that were
                      read from text */
} gpu__conv_algo_t;

/** Returns the name of a pass: "forward", "backward data" or "backward weight". */
const char *gpu__conv_pass_name(int pass);
/** Returns 1 if cuDNN may apply the bias: if the pass has no ReLU. cuDNN's ReLU turns NaN into 0;
 * of the engines of 9.19 only one of last resort has the note STRICT_NAN_PROP. So with a ReLU our
 * kernel applies bias and ReLU. */
int gpu__conv_may_fuse(const gpu__conv_pass_t *p);

enum { GPU_CONV_ALGOS = 12 }; /**< maximum number of candidates */

/** Returns the number of filter elements. */
int64_t gpu__conv_filter_count(const ct_op_desc_t *d);

/** Tensor ids in a graph; gradients of x, w and y use the same ids. */
enum { GPU_CONV_X = 1, GPU_CONV_W, GPU_CONV_Y, GPU_CONV_BIAS };

/** Local. Builds the graph of a pass. fused 1: the graph includes the bias. */
int gpu__conv_graph(const gpu__dnn_target_t *t, const gpu__conv_pass_t *p, int fused,
                    gpu__dnn_graph_t *out);

/** Local. Finds up to \a cap candidates, fused or not, in cuDNN's order of preference, its engines
 * of last resort at the end; *n may be 0. All of them are deterministic and accumulate in float32;
 * without tf32, float32 factors are not rounded. A workspace larger than t->workspace is accepted
 * only if there is no other candidate. */
int gpu__conv_algos(const gpu__dnn_target_t *t, const gpu__conv_pass_t *p, int fused, int cap,
                    gpu__conv_algo_t *out, int *n);
/** Local. Returns the first candidate; CT_ERR_UNSUP: cuDNN offers no candidate. */
int gpu__conv_first_algo(const gpu__dnn_target_t *t, const gpu__conv_pass_t *p,
                         gpu__conv_algo_t *out);

/** Operands of a pass; x, y and w are gradients where the pass reads or writes gradients. w has the
 * type of x, except that CT_BWD_PARAM writes float32. */
typedef struct gpu__conv_memory {
  void *x, *w, *y, *bias, *scratch;
} gpu__conv_memory_t;

/** Returns the workspace bytes of a candidate. */
size_t gpu__conv_algo_scratch(const gpu__conv_pass_t *p, const gpu__conv_algo_t *w);
/** Local, Hot. Enqueues the pass. */
int gpu__conv_algo_run(cudnnHandle_t handle, const gpu__conv_pass_t *p, const gpu__conv_algo_t *w,
                       gpu__dnn_memory_t *m, const gpu__conv_memory_t *at, cudaStream_t s);

/** Local. Benchmarks candidates on its own memory and returns the fastest; CT_ERR_NOMEM if the
 * memory does not suffice. See gpu__choices_fastest(). */
int gpu__conv_tune(ct_dev_t *dev, const gpu__conv_pass_t *p, gpu__conv_algo_t *out);

/** Local. Appends a choice as text, which is valid for one version of cuDNN and one GPU model. */
int gpu__conv_text(const gpu__conv_algo_t *algo, ct_str_t *out);
/** Local. Makes the plan of such a text. Returns 1, or 0 if the text is damaged or cuDNN rejects
 * the plan. */
int gpu__conv_parse(const gpu__dnn_target_t *t, const char *text, gpu__conv_algo_t *out);

/** Returns the target for plans that run on \a dev. */
gpu__dnn_target_t gpu__conv_target(const ct_dev_t *dev);
/** Local. Returns the plan of a pass on \a dev, which is searched once per process; with
 * dev->autotune it is the one of dev->choices, or else the fastest. The device's gpu__libraries_t
 * owns the plan. */
int gpu__conv_algo(ct_dev_t *dev, const gpu__conv_pass_t *p, const gpu__conv_algo_t **out);

#endif
