/** \file dnn.h  A readable layer over cuDNN's graph API: graphs of a few operations, and plans to
 * run them.  Module-internal.
 *
 * A graph is built straight through: its functions do nothing once one of them has failed, and
 * gpu__dnn_finish() returns the first failure.  It owns every descriptor that was made for it.
 *
 * Plans can also be made for a device that is not there, from its properties: so the tests see on
 * any machine which graphs cuDNN has plans for. */
#ifndef GPU_DNN_H
#define GPU_DNN_H
#include <cudnn.h>

#include "base/ct_text.h"
#include "base/ct_types.h"

/** Local.  CT_OK for CUDNN_STATUS_SUCCESS; else records what failed ("plan") with cuDNN's own text:
 * CT_ERR_UNSUP, CT_ERR_NOMEM or CT_ERR_DEVICE. */
int gpu__dnn_check(cudnnStatus_t status, const char *what, const char *file, int line);
#define GPU_DNN_CHECK(call, what) gpu__dnn_check((call), what, __FILE__, __LINE__)

typedef cudnnBackendDescriptor_t gpu__dnn_desc_t;

/** What plans are made for: the device of a handle, or, if that is NULL, one with these
 * properties. */
typedef struct gpu__dnn_target {
  cudnnHandle_t handle;
  gpu__dnn_desc_t properties;
} gpu__dnn_target_t;

/** Local.  Properties of a device from cuDNN's own JSON; freed by gpu__dnn_free(). */
int gpu__dnn_properties(const char *json, gpu__dnn_desc_t *out);
/** NULL is fine. */
void gpu__dnn_free(gpu__dnn_desc_t d);

/* ---- graphs ---- */

enum { GPU_DNN_OPS = 2, GPU_DNN_DESCS = 16 };

typedef struct gpu__dnn_graph {
  int rc; /**< the first failure; what follows it is not done */
  gpu__dnn_desc_t made[GPU_DNN_DESCS];
  int count;
  gpu__dnn_desc_t op[GPU_DNN_OPS];
  int ops;
  gpu__dnn_desc_t graph;
} gpu__dnn_graph_t;

/** A convolution's window in 2 or 3 dims, as ct_op_desc_t has it. */
typedef struct gpu__dnn_window {
  int dims;
  int64_t stride[3], pad[3], dilate[3];
} gpu__dnn_window_t;

/** A tensor with channels last, whatever its dims are called: dim[1] is the innermost.  It is told
 * apart by \a id when the plan is run. */
gpu__dnn_desc_t gpu__dnn_tensor(gpu__dnn_graph_t *g, int64_t id, ct_dtype_t type, int ndim,
                                const int64_t *dim);
/** A float32 tensor between two operations, which is in no memory. */
gpu__dnn_desc_t gpu__dnn_between(gpu__dnn_graph_t *g, int ndim, const int64_t *dim);
/** Adds a cross-correlation with sums in float32.  \a pass: CT_FWD makes y of x and w, CT_BWD_DATA
 * x of w and y, CT_BWD_PARAM w of x and y (then they are the gradients).  x has groups times the
 * channels of w. */
void gpu__dnn_conv(gpu__dnn_graph_t *g, int pass, const gpu__dnn_window_t *window,
                   gpu__dnn_desc_t x, gpu__dnn_desc_t w, gpu__dnn_desc_t y);
/** Adds y = a + b, in float32; dims of b that are 1 are repeated. */
void gpu__dnn_add(gpu__dnn_graph_t *g, gpu__dnn_desc_t a, gpu__dnn_desc_t b, gpu__dnn_desc_t y);
/** Local.  Closes the graph, which can have plans now. */
int gpu__dnn_finish(gpu__dnn_graph_t *g, const gpu__dnn_target_t *t);
/** Frees all of it; plans that were made of it stay. */
void gpu__dnn_graph_clear(gpu__dnn_graph_t *g);

/* ---- engine configurations ---- */

enum { GPU_DNN_CONFIGS = 64 };

/** Ways to do a graph, the most promising first. */
typedef struct gpu__dnn_configs {
  gpu__dnn_desc_t at[GPU_DNN_CONFIGS];
  int count;
} gpu__dnn_configs_t;

/** Local.  What cuDNN's heuristics propose; none is no failure. */
int gpu__dnn_configs(const gpu__dnn_target_t *t, const gpu__dnn_graph_t *g,
                     cudnnBackendHeurMode_t mode, gpu__dnn_configs_t *out);
void gpu__dnn_configs_clear(gpu__dnn_configs_t *c);
/** Local.  What cuDNN notes about an engine's numbers: bits 1 << cudnnBackendNumericalNote_t. */
int gpu__dnn_notes(gpu__dnn_desc_t config, unsigned *notes);

/* ---- plans ---- */

typedef struct gpu__dnn_plan {
  gpu__dnn_desc_t plan, config; /**< config: NULL if read */
  size_t workspace;             /**< bytes */
} gpu__dnn_plan_t;

/** Local.  Fails where the engine cannot do the graph.  Takes \a config over (sets it to NULL) if
 * it succeeds. */
int gpu__dnn_plan_make(const gpu__dnn_target_t *t, gpu__dnn_desc_t *config, gpu__dnn_plan_t *out);
/** Local.  A plan as text, for this version of cuDNN and this kind of device. */
int gpu__dnn_plan_write(const gpu__dnn_plan_t *p, ct_str_t *json);
int gpu__dnn_plan_read(const gpu__dnn_target_t *t, const char *json, gpu__dnn_plan_t *out);
void gpu__dnn_plan_clear(gpu__dnn_plan_t *p);

enum { GPU_DNN_POINTERS = 4 };

/** Which memory a plan works on; {0} at first.  Kept from run to run, and made anew only where it
 * differs: in a training step it never does. */
typedef struct gpu__dnn_memory {
  gpu__dnn_desc_t pack;
  void *at[GPU_DNN_POINTERS], *workspace;
} gpu__dnn_memory_t;

/** Local, Hot.  Enqueues; at[i] is the memory of tensor id i + 1; \a n of them. */
int gpu__dnn_run(cudnnHandle_t handle, const gpu__dnn_plan_t *p, gpu__dnn_memory_t *m, int n,
                 void *const at[], void *workspace, cudaStream_t s);
void gpu__dnn_memory_clear(gpu__dnn_memory_t *m);

#endif
