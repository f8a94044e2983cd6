/** \file dnn.h  Wrapper of cuDNN's graph API: graphs of a few operations, and plans to run them.
 * Module-internal.
 *
 * Graph functions do nothing once one of them has failed; gpu__dnn_finish() returns the first
 * error. The graph owns all descriptors made for it.
 *
 * Plans can also be made without a GPU, from a device's properties; tests use this to check on any
 * machine which graphs cuDNN supports. */
#ifndef GPU_DNN_H
#define GPU_DNN_H
#include <cudnn.h>

#include "base/ct_text.h"
#include "base/ct_types.h"

/** Local. Returns CT_OK for CUDNN_STATUS_SUCCESS. Otherwise records an error with cuDNN's message
 * and \a what, the name of the operation that failed ("plan"): CT_ERR_UNSUP, CT_ERR_NOMEM or
 * CT_ERR_DEVICE. */
int gpu__dnn_check(cudnnStatus_t status, const char *what, const char *file, int line);
#define GPU_DNN_CHECK(call, what) gpu__dnn_check((call), what, __FILE__, __LINE__)

typedef cudnnBackendDescriptor_t gpu__dnn_desc_t;

/** Target of plans: the device of a handle; if the handle is NULL, a device with the properties
 * below. */
typedef struct gpu__dnn_target {
  cudnnHandle_t handle;
  gpu__dnn_desc_t properties;
  size_t workspace; /**< limit of a plan's workspace in bytes; for the search of plans only */
} gpu__dnn_target_t;

/** Local. Creates device properties from cuDNN's JSON; free with gpu__dnn_free(). */
int gpu__dnn_properties(const char *json, gpu__dnn_desc_t *out);
/** Frees a descriptor, which may be NULL. */
void gpu__dnn_free(gpu__dnn_desc_t d);

/* ---- graphs ---- */

enum { GPU_DNN_OPS = 22, GPU_DNN_DESCS = 92 };

typedef struct gpu__dnn_graph {
  int rc; /**< first error; later calls do nothing */
  gpu__dnn_desc_t made[GPU_DNN_DESCS];
  int count;
  gpu__dnn_desc_t op[GPU_DNN_OPS];
  int ops;
  gpu__dnn_desc_t graph;
} gpu__dnn_graph_t;

/** A convolution window in 2 or 3 dims, as in ct_op_desc_t. */
typedef struct gpu__dnn_window {
  int dims;
  int64_t stride[3], pad[3], dilate[3];
} gpu__dnn_window_t;

/** Adds a channels-last tensor: dim[1], the channels, is innermost in memory. \a id identifies the
 * tensor when the plan is run. */
gpu__dnn_desc_t gpu__dnn_tensor(gpu__dnn_graph_t *g, int64_t id, ct_dtype_t type, int ndim,
                                const int64_t *dim);
/** Adds a virtual float32 tensor between two operations, without memory. */
gpu__dnn_desc_t gpu__dnn_between(gpu__dnn_graph_t *g, int ndim, const int64_t *dim);
/** Adds a cross-correlation with float32 accumulation. \a pass: CT_FWD computes y from x and w,
 * CT_BWD_DATA the gradient of x from w and the gradient of y, CT_BWD_PARAM the gradient of w from x
 * and the gradient of y. x has groups * (the channels of w) channels. */
void gpu__dnn_conv(gpu__dnn_graph_t *g, int pass, const gpu__dnn_window_t *window,
                   gpu__dnn_desc_t x, gpu__dnn_desc_t w, gpu__dnn_desc_t y);
/** Adds y = a + b in float32; dims of b that are 1 are broadcast. */
void gpu__dnn_add(gpu__dnn_graph_t *g, gpu__dnn_desc_t a, gpu__dnn_desc_t b, gpu__dnn_desc_t y);

/** A tensor of any layout; id 0: virtual, see gpu__dnn_between(). */
typedef struct gpu__dnn_layout {
  int ndim;
  int64_t dim[CT_MAX_DIMS], stride[CT_MAX_DIMS];
} gpu__dnn_layout_t;
gpu__dnn_desc_t gpu__dnn_strided(gpu__dnn_graph_t *g, int64_t id, ct_dtype_t type,
                                 const gpu__dnn_layout_t *l);
/** Adds a float32 number of \a ndim dims in host memory, which is read when the plan is run. */
gpu__dnn_desc_t gpu__dnn_number(gpu__dnn_graph_t *g, int64_t id, int ndim);
/** Adds y = mode(a, b) in float32, with broadcasts as above; b NULL: y = mode(a). */
void gpu__dnn_pointwise(gpu__dnn_graph_t *g, cudnnPointwiseMode_t mode, gpu__dnn_desc_t a,
                        gpu__dnn_desc_t b, gpu__dnn_desc_t y);
/** Adds y = a on and below the diagonals of the matrices in the last two dims of \a l, else y = b,
 * a number. */
void gpu__dnn_lower(gpu__dnn_graph_t *g, const gpu__dnn_layout_t *l, gpu__dnn_desc_t a,
                    gpu__dnn_desc_t b, gpu__dnn_desc_t y);
/** Adds the products y = a b of the matrices in the last two dims, with float32 accumulation. */
void gpu__dnn_matmul(gpu__dnn_graph_t *g, gpu__dnn_desc_t a, gpu__dnn_desc_t b, gpu__dnn_desc_t y);
/** Adds a reduction of x over the dims of y that are 1, in float32. */
void gpu__dnn_reduce(gpu__dnn_graph_t *g, cudnnReduceTensorOp_t how, gpu__dnn_desc_t x,
                     gpu__dnn_desc_t y);
/** Adds y = x in another layout. */
void gpu__dnn_reshape(gpu__dnn_graph_t *g, gpu__dnn_desc_t x, gpu__dnn_desc_t y);
/** Local. Finalizes the graph, so that plans can be made for it. */
int gpu__dnn_finish(gpu__dnn_graph_t *g, const gpu__dnn_target_t *t);
/** Frees the graph; plans made from it stay valid. */
void gpu__dnn_graph_clear(gpu__dnn_graph_t *g);

/* ---- engine configurations ---- */

enum { GPU_DNN_CONFIGS = 64 };

/** Candidate engine configurations, most promising first. */
typedef struct gpu__dnn_configs {
  gpu__dnn_desc_t at[GPU_DNN_CONFIGS];
  int count;
} gpu__dnn_configs_t;

/** Local. Returns the proposals of cuDNN's heuristics; an empty list is not an error. */
int gpu__dnn_configs(const gpu__dnn_target_t *t, const gpu__dnn_graph_t *g,
                     cudnnBackendHeurMode_t mode, gpu__dnn_configs_t *out);
void gpu__dnn_configs_clear(gpu__dnn_configs_t *c);
/** A knob of an engine with its value. */
typedef struct gpu__dnn_knob {
  cudnnBackendKnobType_t type;
  int64_t value;
} gpu__dnn_knob_t;
enum { GPU_DNN_KNOBS = 8 };
/** Local. Returns the configuration of an engine with \a n <= GPU_DNN_KNOBS knobs; free it with
 * gpu__dnn_free(). CT_ERR_UNSUP: the engine cannot run the graph that way. */
int gpu__dnn_config(const gpu__dnn_target_t *t, const gpu__dnn_graph_t *g, int64_t engine, int n,
                    const gpu__dnn_knob_t knob[], gpu__dnn_desc_t *config);
/** Local. Returns cuDNN's numerical notes on an engine: bits 1 << cudnnBackendNumericalNote_t. */
int gpu__dnn_notes(gpu__dnn_desc_t config, unsigned *notes);
/** Local. Returns cuDNN's number of the engine of a configuration. */
int gpu__dnn_engine(gpu__dnn_desc_t config, int *engine);

/* ---- plans ---- */

typedef struct gpu__dnn_plan {
  gpu__dnn_desc_t plan, config; /**< config: NULL if the plan was read from text */
  size_t workspace;             /**< bytes */
} gpu__dnn_plan_t;

/** Local. Makes a plan; fails if the engine cannot run the graph. On success takes ownership of
 * \a config and sets it to NULL. */
int gpu__dnn_plan_make(const gpu__dnn_target_t *t, gpu__dnn_desc_t *config, gpu__dnn_plan_t *out);
/** Local. Writes a plan as text, valid for this version of cuDNN and this GPU model. */
int gpu__dnn_plan_write(const gpu__dnn_plan_t *p, ct_str_t *json);
int gpu__dnn_plan_read(const gpu__dnn_target_t *t, const char *json, gpu__dnn_plan_t *out);
void gpu__dnn_plan_clear(gpu__dnn_plan_t *p);

enum { GPU_DNN_POINTERS = 13 };

/** Memory bindings of a plan, initially {0}. They are kept between runs and rebuilt only if
 * pointers change; pointers do not change between training steps. */
typedef struct gpu__dnn_memory {
  gpu__dnn_desc_t pack;
  void *at[GPU_DNN_POINTERS], *workspace;
} gpu__dnn_memory_t;

/** Local, Hot. Enqueues a plan; at[i], i < \a n, is the memory of tensor id i + 1. */
int gpu__dnn_run(cudnnHandle_t handle, const gpu__dnn_plan_t *p, gpu__dnn_memory_t *m, int n,
                 void *const at[], void *workspace, cudaStream_t s);
void gpu__dnn_memory_clear(gpu__dnn_memory_t *m);

#endif
