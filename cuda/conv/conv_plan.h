/** \file conv_plan.h  With which of cuDNN's plans a pass of a convolution is run.  Module-internal.
 *
 * conv_graph.c describes a pass to cuDNN, conv_plan.c finds plans for it, conv_run.c runs them,
 * conv_tune.c measures them, and conv_store.c keeps what was chosen: for this process, and in files
 * (conv_file.c) for the next.  conv_dnn.c puts passes together to a convolution. */
#ifndef GPU_CONV_PLAN_H
#define GPU_CONV_PLAN_H
#include "backend/ct_backend.h"
#include "cuda/conv/dnn.h"
#include "cuda/library_handles.h"

/** One pass of a convolution: what a plan is made for. */
typedef struct gpu__conv_pass {
  const ct_op_desc_t *d;
  int pass; /**< CT_FWD, CT_BWD_DATA or CT_BWD_PARAM */
  int tf32; /**< float32: 1 = factors may be rounded to TF32 */
} gpu__conv_pass_t;

/** A way to do it. */
typedef struct gpu__conv_way {
  gpu__dnn_plan_t plan;
  int fused;      /**< 1: the bias is in the plan; 0: bias and ReLU, if any, follow as a kernel */
  unsigned notes; /**< as gpu__dnn_notes() */
} gpu__conv_way_t;

/** "forward", "backward data", "backward weight". */
const char *gpu__conv_pass_name(int pass);
/** 1: the bias may be left to cuDNN; not with a ReLU: cuDNN's makes 0 of NaN, and a kernel does
 * both. */
int gpu__conv_may_fuse(const gpu__conv_pass_t *p);

enum { GPU_CONV_WAYS = 8 }; /**< most that are looked at */

/** Elements of the filters. */
int64_t gpu__conv_filter_count(const ct_op_desc_t *d);

/** Ids of the tensors of a graph: the gradients of x, w and y have theirs. */
enum { GPU_CONV_X = 1, GPU_CONV_W, GPU_CONV_Y, GPU_CONV_BIAS };

/** Local.  The graph of a pass.  fused: with its bias. */
int gpu__conv_graph(const gpu__dnn_target_t *t, const gpu__conv_pass_t *p, int fused,
                    gpu__dnn_graph_t *out);

/** Local.  Up to \a cap ways, fused or not, in the order in which cuDNN thinks well of them; *n may
 * be 0.  The same bits come out of each at every run, sums are made in float32, and without tf32
 * products of float32 are too.  A workspace of more than GPU_CONV_WORKSPACE is taken only where
 * there is no other. */
int gpu__conv_ways(const gpu__dnn_target_t *t, const gpu__conv_pass_t *p, int fused, int cap,
                   gpu__conv_way_t *out, int *n);
#define GPU_CONV_WORKSPACE ((size_t)256 << 20)
/** Local.  The first of all; CT_ERR_UNSUP if there is none. */
int gpu__conv_first_way(const gpu__dnn_target_t *t, const gpu__conv_pass_t *p,
                        gpu__conv_way_t *out);

/** What a pass works on: x, y and w are gradients where the pass makes or takes those.  w: of the
 * type of x, but CT_BWD_PARAM's is float32. */
typedef struct gpu__conv_memory {
  void *x, *w, *y, *bias, *scratch;
} gpu__conv_memory_t;

/** Bytes of scratch that a way wants. */
size_t gpu__conv_way_scratch(const gpu__conv_pass_t *p, const gpu__conv_way_t *w);
/** Local, Hot.  Enqueues. */
int gpu__conv_way_run(cudnnHandle_t handle, const gpu__conv_pass_t *p, const gpu__conv_way_t *w,
                      gpu__dnn_memory_t *m, const gpu__conv_memory_t *at, cudaStream_t s);

/** Local.  Measures ways on memory of its own and keeps the fastest; CT_ERR_NOMEM where there is
 * not enough memory for that. */
int gpu__conv_tune(ct_dev_t *dev, const gpu__conv_pass_t *p, gpu__conv_way_t *out);

/** Local.  What was measured earlier, from a file in \a dir; \a key: a line that says all on which
 * the choice depends.  1: there was a sound one. */
int gpu__conv_read(const gpu__dnn_target_t *t, const char *dir, const char *key,
                   gpu__conv_way_t *out);
/** Local.  Makes the directory too; several processes may write the same at once. */
int gpu__conv_write(const char *dir, const char *key, const gpu__conv_way_t *way);

/** Local.  The way of a pass on \a dev: found once in a process, and with dev->autotune in what
 * earlier ones wrote to dev->plan_cache.  It belongs to the device's products. */
int gpu__conv_way(ct_dev_t *dev, const gpu__conv_pass_t *p, const gpu__conv_way_t **out);

#endif
