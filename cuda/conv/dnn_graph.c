/* Builds graphs of cuDNN operations. */
#include "cuda/conv/dnn.h"
#include "backend/ct_op.h"
#include "base/ct_err.h"
#include <stdbool.h>

void gpu__dnn_free(gpu__dnn_desc_t d)
{
  if (d) cudnnBackendDestroyDescriptor(d);
}

/* Creates a descriptor owned by the graph; NULL after a failure. */
static gpu__dnn_desc_t dnn_graph_create(gpu__dnn_graph_t *g, cudnnBackendDescriptorType_t type)
{
  gpu__dnn_desc_t d = NULL;
  if (g->rc == CT_OK && g->count == GPU_DNN_DESCS)
    g->rc = ct_err_set(CT_ERR_ARG, __FILE__, __LINE__, "a graph for cuDNN has too many parts");
  if (g->rc == CT_OK) g->rc = GPU_DNN_CHECK(cudnnBackendCreateDescriptor(type, &d), "descriptor");
  if (g->rc == CT_OK) g->made[g->count++] = d;
  return d;
}

static void dnn_graph_set(gpu__dnn_graph_t *g, gpu__dnn_desc_t d, cudnnBackendAttributeName_t name,
                          cudnnBackendAttributeType_t type, int64_t n, const void *values)
{
  if (g->rc == CT_OK)
    g->rc =
        GPU_DNN_CHECK(cudnnBackendSetAttribute(d, name, type, n, values), "attribute of a graph");
}

static void set_ints(gpu__dnn_graph_t *g, gpu__dnn_desc_t d, cudnnBackendAttributeName_t name,
                     int64_t n, const int64_t *values)
{
  dnn_graph_set(g, d, name, CUDNN_TYPE_INT64, n, values);
}

static void set_desc(gpu__dnn_graph_t *g, gpu__dnn_desc_t d, cudnnBackendAttributeName_t name,
                     gpu__dnn_desc_t value)
{
  dnn_graph_set(g, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void finalize(gpu__dnn_graph_t *g, gpu__dnn_desc_t d)
{
  if (g->rc == CT_OK) g->rc = GPU_DNN_CHECK(cudnnBackendFinalize(d), "part of a graph");
}

static void add_op(gpu__dnn_graph_t *g, gpu__dnn_desc_t d)
{
  finalize(g, d);
  if (g->rc == CT_OK && g->ops == GPU_DNN_OPS)
    g->rc = ct_err_set(CT_ERR_ARG, __FILE__, __LINE__, "a graph for cuDNN has too many operations");
  if (g->rc == CT_OK) g->op[g->ops++] = d;
}

/* ---- tensors ---- */

static cudnnDataType_t data_type(ct_dtype_t t)
{
  return t == CT_BF16 ? CUDNN_DATA_BFLOAT16 : t == CT_F16 ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT;
}

static gpu__dnn_desc_t dnn_graph_tensor(gpu__dnn_graph_t *g, int64_t id, cudnnDataType_t dnn_type,
                                        const gpu__dnn_layout_t *l)
{
  gpu__dnn_desc_t d = dnn_graph_create(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  int64_t alignment = 16, own_id = id ? id : 1000 + g->count;
  bool virtual = !id;
  dnn_graph_set(g, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &dnn_type);
  set_ints(g, d, CUDNN_ATTR_TENSOR_DIMENSIONS, l->ndim, l->dim);
  set_ints(g, d, CUDNN_ATTR_TENSOR_STRIDES, l->ndim, l->stride);
  set_ints(g, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, 1, &own_id);
  set_ints(g, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1, &alignment);
  dnn_graph_set(g, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &virtual);
  return d;
}

gpu__dnn_desc_t gpu__dnn_strided(gpu__dnn_graph_t *g, int64_t id, ct_dtype_t type,
                                 const gpu__dnn_layout_t *l)
{
  gpu__dnn_desc_t d = dnn_graph_tensor(g, id, data_type(type), l);
  finalize(g, d);
  return d;
}

gpu__dnn_desc_t gpu__dnn_tensor(gpu__dnn_graph_t *g, int64_t id, ct_dtype_t type, int ndim,
                                const int64_t *dim)
{
  gpu__dnn_layout_t l = {.ndim = ndim};
  int64_t next = dim[1];
  memcpy(l.dim, dim, (size_t)ndim * sizeof *dim);
  l.stride[1] = 1;
  for (int i = ndim - 1; i >= 0; i--) {
    if (i == 1) continue;
    l.stride[i] = next;
    next *= dim[i];
  }
  return gpu__dnn_strided(g, id, type, &l);
}

gpu__dnn_desc_t gpu__dnn_between(gpu__dnn_graph_t *g, int ndim, const int64_t *dim)
{
  return gpu__dnn_tensor(g, 0, CT_F32, ndim, dim);
}

gpu__dnn_desc_t gpu__dnn_number(gpu__dnn_graph_t *g, int64_t id, int ndim)
{
  gpu__dnn_layout_t l = {.ndim = ndim};
  bool by_value = true;
  for (int i = 0; i < ndim; i++)
    l.dim[i] = l.stride[i] = 1;
  gpu__dnn_desc_t d = dnn_graph_tensor(g, id, CUDNN_DATA_FLOAT, &l);
  dnn_graph_set(g, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
  finalize(g, d);
  return d;
}

/* ---- operations ---- */

static gpu__dnn_desc_t window_desc(gpu__dnn_graph_t *g, const gpu__dnn_window_t *w)
{
  gpu__dnn_desc_t d = dnn_graph_create(g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  cudnnDataType_t sums = CUDNN_DATA_FLOAT;
  cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  int64_t dims = w->dims;
  dnn_graph_set(g, d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums);
  dnn_graph_set(g, d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  set_ints(g, d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 1, &dims);
  set_ints(g, d, CUDNN_ATTR_CONVOLUTION_DILATIONS, dims, w->dilate);
  set_ints(g, d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, dims, w->stride);
  set_ints(g, d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, dims, w->pad);
  set_ints(g, d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, dims, w->pad);
  finalize(g, d);
  return d;
}

/* cuDNN has separate attribute names for its three convolution operations. */
typedef struct conv_names {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t window, x, w, y, alpha, beta;
} conv_names_t;

static conv_names_t conv_names(int pass)
{
  if (pass == CT_FWD)
    return (conv_names_t){CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
  if (pass == CT_BWD_DATA)
    return (conv_names_t){CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
  return (conv_names_t){CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
}

void gpu__dnn_conv(gpu__dnn_graph_t *g, int pass, const gpu__dnn_window_t *window,
                   gpu__dnn_desc_t x, gpu__dnn_desc_t w, gpu__dnn_desc_t y)
{
  conv_names_t names = conv_names(pass);
  gpu__dnn_desc_t conv = window_desc(g, window), d = dnn_graph_create(g, names.type);
  float one = 1, zero = 0;
  set_desc(g, d, names.window, conv);
  set_desc(g, d, names.x, x);
  set_desc(g, d, names.w, w);
  set_desc(g, d, names.y, y);
  dnn_graph_set(g, d, names.alpha, CUDNN_TYPE_FLOAT, 1, &one);
  dnn_graph_set(g, d, names.beta, CUDNN_TYPE_FLOAT, 1, &zero);
  add_op(g, d);
}

void gpu__dnn_add(gpu__dnn_graph_t *g, gpu__dnn_desc_t a, gpu__dnn_desc_t b, gpu__dnn_desc_t y)
{
  gpu__dnn_pointwise(g, CUDNN_POINTWISE_ADD, a, b, y);
}

/* Adds an elementwise operation in a type; axis < 0: it has none; mask, b: NULL: it has none. */
static void elementwise(gpu__dnn_graph_t *g, cudnnPointwiseMode_t mode, cudnnDataType_t type,
                        int64_t axis, gpu__dnn_desc_t a, gpu__dnn_desc_t b, gpu__dnn_desc_t mask,
                        gpu__dnn_desc_t y)
{
  gpu__dnn_desc_t how = dnn_graph_create(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  dnn_graph_set(g, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  dnn_graph_set(g, how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type);
  if (axis >= 0) set_ints(g, how, CUDNN_ATTR_POINTWISE_AXIS, 1, &axis);
  finalize(g, how);
  gpu__dnn_desc_t d = dnn_graph_create(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  set_desc(g, d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
  set_desc(g, d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, a);
  if (b) set_desc(g, d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
  if (mask) set_desc(g, d, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, mask);
  set_desc(g, d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  add_op(g, d);
}

void gpu__dnn_pointwise(gpu__dnn_graph_t *g, cudnnPointwiseMode_t mode, gpu__dnn_desc_t a,
                        gpu__dnn_desc_t b, gpu__dnn_desc_t y)
{
  elementwise(g, mode, CUDNN_DATA_FLOAT, -1, a, b, NULL, y);
}

/* Returns a new tensor between two operations. */
static gpu__dnn_desc_t inner_tensor(gpu__dnn_graph_t *g, cudnnDataType_t type,
                                    const gpu__dnn_layout_t *l)
{
  gpu__dnn_desc_t d = dnn_graph_tensor(g, 0, type, l);
  finalize(g, d);
  return d;
}

void gpu__dnn_lower(gpu__dnn_graph_t *g, const gpu__dnn_layout_t *l, gpu__dnn_desc_t a,
                    gpu__dnn_desc_t b, gpu__dnn_desc_t y)
{
  gpu__dnn_desc_t row = inner_tensor(g, CUDNN_DATA_INT32, l),
                  column = inner_tensor(g, CUDNN_DATA_INT32, l),
                  mask = inner_tensor(g, CUDNN_DATA_BOOLEAN, l);
  elementwise(g, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32, l->ndim - 2, a, NULL, NULL, row);
  elementwise(g, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32, l->ndim - 1, a, NULL, NULL, column);
  elementwise(g, CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, -1, row, column, NULL, mask);
  elementwise(g, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, -1, a, b, mask, y);
}

void gpu__dnn_matmul(gpu__dnn_graph_t *g, gpu__dnn_desc_t a, gpu__dnn_desc_t b, gpu__dnn_desc_t y)
{
  gpu__dnn_desc_t how = dnn_graph_create(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  cudnnDataType_t sums = CUDNN_DATA_FLOAT;
  dnn_graph_set(g, how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums);
  finalize(g, how);
  gpu__dnn_desc_t d = dnn_graph_create(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  set_desc(g, d, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
  set_desc(g, d, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
  set_desc(g, d, CUDNN_ATTR_OPERATION_MATMUL_CDESC, y);
  set_desc(g, d, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
  add_op(g, d);
}

void gpu__dnn_reduce(gpu__dnn_graph_t *g, cudnnReduceTensorOp_t how, gpu__dnn_desc_t x,
                     gpu__dnn_desc_t y)
{
  gpu__dnn_desc_t r = dnn_graph_create(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  cudnnDataType_t sums = CUDNN_DATA_FLOAT;
  dnn_graph_set(g, r, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &how);
  dnn_graph_set(g, r, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums);
  finalize(g, r);
  gpu__dnn_desc_t d = dnn_graph_create(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  set_desc(g, d, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
  set_desc(g, d, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
  set_desc(g, d, CUDNN_ATTR_OPERATION_REDUCTION_DESC, r);
  add_op(g, d);
}

void gpu__dnn_reshape(gpu__dnn_graph_t *g, gpu__dnn_desc_t x, gpu__dnn_desc_t y)
{
  gpu__dnn_desc_t d = dnn_graph_create(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  set_desc(g, d, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
  set_desc(g, d, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
  add_op(g, d);
}

int gpu__dnn_finish(gpu__dnn_graph_t *g, const gpu__dnn_target_t *t)
{
  g->graph = dnn_graph_create(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  if (t->handle)
    dnn_graph_set(g, g->graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &t->handle);
  dnn_graph_set(g, g->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->ops,
                g->op);
  finalize(g, g->graph);
  return g->rc;
}

void gpu__dnn_graph_clear(gpu__dnn_graph_t *g)
{
  for (int i = g->count - 1; i >= 0; i--)
    gpu__dnn_free(g->made[i]);
  *g = (gpu__dnn_graph_t){.rc = CT_OK};
}
