/* Descriptors of the fake cuDNN (fake_dnn.h).  All of them are lists of attributes; a table says
 * which attributes a descriptor has, with which type and how many elements. */
#include "tests/cuda/emu/fake_dnn.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/emu/fake_cuda.h"
#include "tests/cuda/emu/fake_dnn_rules.h"

fake_dnn_t fake_dnn = {.engines = 1};

static char last_error[256];

#define REFUSE(code, ...) \
  (snprintf(last_error, sizeof last_error, __VA_ARGS__), CUDNN_STATUS_##code)

static size_t size_of(cudnnBackendAttributeType_t type)
{
  return type == CUDNN_TYPE_BOOLEAN ? sizeof(bool)
         : type == CUDNN_TYPE_CHAR  ? 1
         : type == CUDNN_TYPE_INT64 ? sizeof(int64_t)
         : type == CUDNN_TYPE_BACKEND_DESCRIPTOR || type == CUDNN_TYPE_VOID_PTR ||
                 type == CUDNN_TYPE_HANDLE
             ? sizeof(void *)
             : sizeof(int);
}

/* ---- descriptors ---- */

enum { HANDLE = 0x4a4d1e, DESCRIPTOR = 0xde5c, DESTROYED = 0xdead };

struct cudnnContext {
  int kind;
  cudaStream_t stream;
};

typedef struct desc {
  int kind;
  cudnnBackendDescriptorType_t type;
  int finalized;
  struct {
    const rule_t *rule;
    int64_t n;
    void *value;
  } is[ATTRIBUTES];
  const fake_program_t *program; /* of heuristics, configurations, engines, plans */
} desc_t;

/* Destroyed objects stay in memory, so that their use is noticed. */
static void *destroyed[1 << 14];
static int destroyed_count;

static void retire(void *p)
{
  void **place = &destroyed[destroyed_count++ % (1 << 14)];
  free(*place);
  *place = p;
  *(int *)p = DESTROYED;
  fake_dnn.alive--;
}

static desc_t *descriptor(const void *p)
{
  return p && *(const int *)p == DESCRIPTOR ? (desc_t *)(uintptr_t)p : NULL;
}

static int fails(void)
{
  return fake_dnn.fail_call > 0 && --fake_dnn.fail_call == 0;
}

/* Returns the elements of an attribute, or NULL; *n may be NULL. */
static const void *attribute(const desc_t *d, cudnnBackendAttributeName_t name, int64_t *n)
{
  for (int i = 0; i < ATTRIBUTES; i++) {
    if (!d->is[i].rule || d->is[i].rule->name != name) continue;
    if (n) *n = d->is[i].n;
    return d->is[i].value;
  }
  if (n) *n = 0;
  return NULL;
}

static int64_t integer(const desc_t *d, cudnnBackendAttributeName_t name)
{
  const int64_t *v = attribute(d, name, NULL);
  return v ? *v : 0;
}

static const desc_t *part(const desc_t *d, cudnnBackendAttributeName_t name)
{
  void *const *v = attribute(d, name, NULL);
  return v ? descriptor(*v) : NULL;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *out)
{
  int known = type == ENGINE || type == CONFIG;
  for (int i = 0; i < RULES; i++)
    known |= rules[i].of == type;
  if (fails()) return REFUSE(INTERNAL_ERROR_HOST_ALLOCATION_FAILED, "no memory");
  if (!known) return REFUSE(NOT_SUPPORTED, "descriptors of type %d are not known", (int)type);
  desc_t *d = calloc(1, sizeof *d);
  d->kind = DESCRIPTOR;
  d->type = type;
  *out = d;
  fake_dnn.alive++;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t p)
{
  desc_t *d = descriptor(p);
  if (!d) return REFUSE(BAD_PARAM, "not a descriptor, or destroyed before");
  for (int i = 0; i < ATTRIBUTES; i++)
    free(d->is[i].value);
  retire(d);
  return CUDNN_STATUS_SUCCESS;
}

/* Descriptors among the elements must be finalized. */
static cudnnStatus_t check_elements(cudnnBackendAttributeType_t type, int64_t n, const void *values)
{
  for (int64_t i = 0; i < n && type == CUDNN_TYPE_BACKEND_DESCRIPTOR; i++) {
    const desc_t *d = descriptor(((void *const *)values)[i]);
    if (!d) return REFUSE(BAD_PARAM, "element %d is no descriptor", (int)i);
    if (!d->finalized) return REFUSE(BAD_PARAM_NOT_FINALIZED, "element %d is not final", (int)i);
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t p, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t n,
                                       const void *values)
{
  desc_t *d = descriptor(p);
  const rule_t *rule = NULL;
  if (fails()) return REFUSE(INTERNAL_ERROR_HOST_ALLOCATION_FAILED, "no memory");
  if (!d) return REFUSE(BAD_PARAM, "not a descriptor");
  if (d->finalized) return REFUSE(NOT_INITIALIZED, "attribute %d: already finalized", (int)name);
  for (int i = 0; i < RULES; i++)
    if (rules[i].of == d->type && rules[i].name == name) rule = &rules[i];
  if (!rule) return REFUSE(BAD_PARAM, "descriptor %d has no attribute %d", (int)d->type, (int)name);
  if (rule->type != type) return REFUSE(BAD_PARAM_ATTRIBUTE_TYPE, "attribute %d", (int)name);
  if (n < 1 || n > rule->most || !values)
    return REFUSE(BAD_PARAM, "attribute %d with %lld elements", (int)name, (long long)n);
  cudnnStatus_t status = check_elements(type, n, values);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  int at = 0;
  while (d->is[at].rule && d->is[at].rule != rule)
    at++;
  free(d->is[at].value);
  d->is[at].rule = rule;
  d->is[at].n = n;
  d->is[at].value = malloc((size_t)n * size_of(type));
  memcpy(d->is[at].value, values, (size_t)n * size_of(type));
  return CUDNN_STATUS_SUCCESS;
}

/* ---- finalization ---- */

static fake_tensor_t tensor_of(const desc_t *d)
{
  int64_t n;
  const int64_t *dim = attribute(d, CUDNN_ATTR_TENSOR_DIMENSIONS, &n);
  const int64_t *stride = attribute(d, CUDNN_ATTR_TENSOR_STRIDES, NULL);
  const bool *virtual = attribute(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, NULL);
  fake_tensor_t t = {.uid = integer(d, CUDNN_ATTR_TENSOR_UNIQUE_ID),
                     .align = integer(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT),
                     .virtual = virtual && *virtual,
                     .ndim = (int)n};
  memcpy(&t.type, attribute(d, CUDNN_ATTR_TENSOR_DATA_TYPE, NULL), sizeof t.type);
  memcpy(t.dim, dim, (size_t)n * sizeof *dim);
  memcpy(t.stride, stride, (size_t)n * sizeof *stride);
  return t;
}

static cudnnStatus_t check_tensor(const desc_t *d)
{
  int64_t dims, strides;
  attribute(d, CUDNN_ATTR_TENSOR_DIMENSIONS, &dims);
  attribute(d, CUDNN_ATTR_TENSOR_STRIDES, &strides);
  if (dims != strides) return REFUSE(BAD_PARAM, "%d dims, %d strides", (int)dims, (int)strides);
  fake_tensor_t t = tensor_of(d);
  if (t.align <= 0 || t.align & (t.align - 1))
    return REFUSE(BAD_PARAM, "alignment %d", (int)t.align);
  for (int i = 0; i < t.ndim; i++)
    if (t.dim[i] < 1 || t.stride[i] < 0) return REFUSE(BAD_PARAM, "dim or stride %d", i);
  if (t.type != CUDNN_DATA_FLOAT && t.type != CUDNN_DATA_HALF && t.type != CUDNN_DATA_BFLOAT16)
    return REFUSE(NOT_SUPPORTED_DATA_TYPE, "type %d", (int)t.type);
  return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t check_window(const desc_t *d)
{
  static const cudnnBackendAttributeName_t names[] = {
      CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
      CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS};
  int64_t dims = integer(d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS), n;
  for (int i = 0; i < 4; i++) {
    const int64_t *v = attribute(d, names[i], &n);
    if (n != dims) return REFUSE(BAD_PARAM, "a window of %d dims with %d", (int)dims, (int)n);
    for (int64_t k = 0; k < n; k++)
      if (v[k] < (i < 2)) return REFUSE(BAD_PARAM, "window, attribute %d", (int)names[i]);
  }
  return CUDNN_STATUS_SUCCESS;
}

/* Reads an operation whose attributes are set. */
static fake_dnn_op_t op_of(const desc_t *d)
{
  static const cudnnBackendAttributeName_t names[][4] = {
      {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC},
      {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
       CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR}};
  int kind = d->type == FORWARD ? 0 : d->type == BACK_DATA ? 1 : d->type == BACK_FILTER ? 2 : 3;
  fake_dnn_op_t op = {.what = d->type, .tensors = 3, .result = kind == 1 ? 0 : kind == 2 ? 1 : 2};
  for (int i = 0; i < 3; i++) {
    const desc_t *t = part(d, names[kind][i]);
    if (t && t->type == TENSOR)
      op.at[i] = tensor_of(t);
    else
      op.tensors--;
  }
  const desc_t *how = part(d, names[kind][3]);
  if (kind == 3 && how && how->type == POINTWISE)
    memcpy(&op.mode, attribute(how, CUDNN_ATTR_POINTWISE_MODE, NULL), sizeof op.mode);
  if (kind == 3 || !how || how->type != WINDOW) return op;
  op.spatial = integer(how, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS);
  size_t bytes = (size_t)op.spatial * sizeof(int64_t);
  memcpy(op.stride, attribute(how, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, NULL), bytes);
  memcpy(op.dilate, attribute(how, CUDNN_ATTR_CONVOLUTION_DILATIONS, NULL), bytes);
  memcpy(op.pad, attribute(how, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, NULL), bytes);
  return op;
}

static cudnnStatus_t check_conv(const desc_t *d)
{
  fake_dnn_op_t op = op_of(d);
  const fake_tensor_t *x = &op.at[0], *w = &op.at[1], *y = &op.at[2];
  if (op.tensors < 3 || op.spatial < 1) return REFUSE(BAD_PARAM_DESCRIPTOR_TYPE, "a convolution");
  if (x->ndim != op.spatial + 2 || w->ndim != x->ndim || y->ndim != x->ndim)
    return REFUSE(BAD_PARAM_SHAPE_MISMATCH, "dims of a convolution");
  if (x->dim[0] != y->dim[0] || x->dim[1] % w->dim[1] || w->dim[0] != y->dim[1] ||
      w->dim[0] % (x->dim[1] / w->dim[1]))
    return REFUSE(BAD_PARAM_SHAPE_MISMATCH, "channels of a convolution");
  for (int i = 0; i < op.spatial; i++) {
    int64_t covered = op.dilate[i] * (w->dim[2 + i] - 1) + 1;
    if (y->dim[2 + i] != (x->dim[2 + i] + 2 * op.pad[i] - covered) / op.stride[i] + 1)
      return REFUSE(BAD_PARAM_SHAPE_MISMATCH, "dim %d of a convolution's result", 2 + i);
  }
  for (int i = 0; i < 3; i++)
    if (!op.at[i].virtual && op.at[i].type != op.at[op.result ? 0 : 1].type)
      return REFUSE(NOT_SUPPORTED_DATA_TYPE, "types of a convolution");
  return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t check_pointwise(const desc_t *d)
{
  fake_dnn_op_t op = op_of(d);
  int binary = op.mode == CUDNN_POINTWISE_ADD || op.mode == CUDNN_POINTWISE_MUL;
  if (!binary && op.mode != CUDNN_POINTWISE_RELU_FWD && op.mode != CUDNN_POINTWISE_IDENTITY)
    return REFUSE(NOT_SUPPORTED, "pointwise mode %d", (int)op.mode);
  if (op.tensors != 2 + binary) return REFUSE(BAD_PARAM, "%d tensors", op.tensors);
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < op.at[2].ndim && (binary || i == 0); k++)
      if (op.at[i].ndim != op.at[2].ndim ||
          (op.at[i].dim[k] != op.at[2].dim[k] && op.at[i].dim[k] != 1))
        return REFUSE(BAD_PARAM_SHAPE_MISMATCH, "dim %d of a pointwise operation", k);
  return CUDNN_STATUS_SUCCESS;
}

/* ---- graphs and plans ---- */

static fake_program_t *programs[1 << 12]; /* a plan as text is a number of these */
static int program_count;

/* Reads the graph; each of its tensors has one number, and a virtual one is written before it is
 * read. */
static cudnnStatus_t check_graph(desc_t *d)
{
  int64_t n;
  void *const *ops = attribute(d, CUDNN_ATTR_OPERATIONGRAPH_OPS, &n);
  fake_program_t p = {.ops = (int)n};
  int64_t written[FAKE_DNN_OPS];
  for (int i = 0; i < n; i++) {
    p.op[i] = op_of(descriptor(ops[i]));
    const fake_dnn_op_t *op = &p.op[i];
    for (int k = 0; k < 3; k++) {
      const fake_tensor_t *t = &op->at[k];
      int made = !t->virtual;
      if (t->ndim == 0) continue;
      for (int j = 0; j < i; j++) {
        made |= written[j] == t->uid;
        for (int m = 0; m < 3; m++)
          if (p.op[j].at[m].ndim && p.op[j].at[m].uid == t->uid &&
              memcmp(&p.op[j].at[m], t, sizeof *t) != 0)
            return REFUSE(BAD_PARAM_DUPLICATED_ENTRIES, "two tensors %d", (int)t->uid);
      }
      if (k != op->result && !made)
        return REFUSE(BAD_PARAM, "virtual tensor %d is read first", (int)t->uid);
    }
    written[i] = op->at[op->result].uid;
  }
  if (p.op[n - 1].at[p.op[n - 1].result].virtual)
    return REFUSE(NOT_SUPPORTED_GRAPH_PATTERN, "the result is virtual");
  fake_program_t *kept = programs[program_count++ % (1 << 12)] = malloc(sizeof *kept);
  *kept = p;
  d->program = kept;
  return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t check_handle(const desc_t *d, cudnnBackendAttributeName_t name)
{
  const int *const *handle = attribute(d, name, NULL);
  if (handle && (!*handle || **handle != HANDLE)) return REFUSE(BAD_PARAM, "not a handle");
  return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t check_plan(desc_t *d)
{
  int64_t n;
  const desc_t *config = part(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  const char *text = attribute(d, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, &n);
  int number = -1;
  char copy[64] = "";
  if (!config == !text) return REFUSE(BAD_PARAM, "a plan needs a configuration or a text");
  if (text) memcpy(copy, text, n < 63 ? (size_t)n : 63);
  if (text &&
      (sscanf(copy, "{\"fake plan\": %d}", &number) != 1 || number < 0 || number >= program_count))
    return REFUSE(BAD_PARAM, "the text of a plan cannot be read");
  if (config && config->type != CONFIG) return REFUSE(BAD_PARAM_DESCRIPTOR_TYPE, "of a plan");
  d->program = text ? programs[number] : config->program;
  return check_handle(d, CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
}

static cudnnStatus_t check_pack(const desc_t *d)
{
  int64_t ids, pointers;
  const int64_t *id = attribute(d, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, &ids);
  attribute(d, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, &pointers);
  if (ids != pointers) return REFUSE(BAD_PARAM, "%d ids, %d pointers", (int)ids, (int)pointers);
  for (int64_t i = 0; i < ids; i++)
    for (int64_t k = 0; k < i; k++)
      if (id[i] == id[k]) return REFUSE(BAD_PARAM_DUPLICATED_ENTRIES, "tensor %d", (int)id[i]);
  return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t check(desc_t *d)
{
  switch ((int)d->type) {
  case TENSOR:
    return check_tensor(d);
  case WINDOW:
    return check_window(d);
  case FORWARD:
  case BACK_DATA:
  case BACK_FILTER:
    return check_conv(d);
  case POINTWISE_OP:
    return check_pointwise(d);
  case GRAPH:
    return check_graph(d);
  case HEURISTICS:
    d->program = part(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)->program;
    return CUDNN_STATUS_SUCCESS;
  case PLAN:
    return check_plan(d);
  case PACK:
    return check_pack(d);
  default:
    return CUDNN_STATUS_SUCCESS;
  }
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t p)
{
  desc_t *d = descriptor(p);
  if (fails()) return REFUSE(INTERNAL_ERROR_HOST_ALLOCATION_FAILED, "no memory");
  if (!d) return REFUSE(BAD_PARAM, "not a descriptor");
  if (d->finalized) return REFUSE(BAD_PARAM, "finalized twice");
  for (int i = 0; i < RULES; i++)
    if (rules[i].of == d->type && rules[i].least > 0 && !attribute(d, rules[i].name, NULL))
      return REFUSE(BAD_PARAM, "attribute %d is not set", (int)rules[i].name);
  cudnnStatus_t status = check(d);
  if (status == CUDNN_STATUS_SUCCESS) d->finalized = 1;
  return status;
}

/* ---- what is read from descriptors ---- */

/* Fills the descriptors that the caller has created for results. */
static cudnnStatus_t give_configs(const desc_t *d, int64_t want, int64_t *n, void **out)
{
  *n = fake_dnn.engines;
  for (int64_t i = 0; out && i < want && i < fake_dnn.engines; i++) {
    desc_t *config = descriptor(out[i]);
    if (!config || config->type != CONFIG || config->finalized)
      return REFUSE(BAD_PARAM_DESCRIPTOR_TYPE, "a result of heuristics");
    fake_program_t *own = programs[program_count++ % (1 << 12)] = malloc(sizeof *own);
    *own = *d->program;
    own->workspace = fake_dnn.workspace[i];
    config->program = own;
    config->finalized = 1;
  }
  if (out && *n > want) *n = want;
  return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t give_text(const desc_t *d, int64_t want, int64_t *n, char *out)
{
  char text[64];
  int number = 0;
  while (programs[number] != d->program)
    number++;
  *n = snprintf(text, sizeof text, "{\"fake plan\": %d}", number) + 1;
  if (!out) return CUDNN_STATUS_SUCCESS;
  if (want < *n) return REFUSE(BAD_PARAM_SIZE_INSUFFICIENT, "%d characters", (int)want);
  memcpy(out, text, (size_t)*n);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t p, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t want, int64_t *n,
                                       void *out)
{
  const desc_t *d = descriptor(p);
  if (fails()) return REFUSE(INTERNAL_ERROR_HOST_ALLOCATION_FAILED, "no memory");
  if (!d) return REFUSE(BAD_PARAM, "not a descriptor");
  if (!d->finalized) return REFUSE(BAD_PARAM_NOT_FINALIZED, "attribute %d", (int)name);
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS && d->type == HEURISTICS &&
      type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
    return give_configs(d, want, n, out);
  if (name == CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION && d->type == PLAN &&
      type == CUDNN_TYPE_CHAR)
    return give_text(d, want, n, out);
  if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE && d->type == PLAN &&
      type == CUDNN_TYPE_INT64 && want == 1) {
    *n = 1;
    memcpy(out, &d->program->workspace, sizeof d->program->workspace);
    return CUDNN_STATUS_SUCCESS;
  }
  if (name == CUDNN_ATTR_ENGINECFG_ENGINE && d->type == CONFIG && want == 1) {
    desc_t *engine = descriptor(*(void **)out);
    if (!engine || engine->type != ENGINE) return REFUSE(BAD_PARAM_DESCRIPTOR_TYPE, "an engine");
    engine->finalized = 1;
    *n = 1;
    return CUDNN_STATUS_SUCCESS;
  }
  if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE && d->type == ENGINE) {
    *n = 0;
    return CUDNN_STATUS_SUCCESS;
  }
  return REFUSE(BAD_PARAM, "descriptor %d does not give attribute %d", (int)d->type, (int)name);
}

/* ---- handles and runs ---- */

cudnnStatus_t cudnnCreate(cudnnHandle_t *out)
{
  *out = NULL;
  if (fake_cuda_library("cudnnCreate") != cudaSuccess)
    return REFUSE(INTERNAL_ERROR_HOST_ALLOCATION_FAILED, "no memory");
  *out = calloc(1, sizeof **out);
  (*out)->kind = HANDLE;
  fake_dnn.alive++;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
  if (!handle || handle->kind != HANDLE) return REFUSE(BAD_PARAM, "not a handle");
  retire(handle);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
  if (!handle || handle->kind != HANDLE) return REFUSE(BAD_PARAM, "not a handle");
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

static int is_of_device(const void *p)
{
  struct cudaPointerAttributes a;
  return cudaPointerGetAttributes(&a, p) == cudaSuccess && a.type == cudaMemoryTypeDevice;
}

/* Checks that a tensor of the plan has memory in the pack. */
static cudnnStatus_t check_pointer(const fake_tensor_t *t, const fake_dnn_job_t *j)
{
  for (int i = 0; i < j->n; i++) {
    if (j->uid[i] != t->uid) continue;
    if (!j->at[i]) return REFUSE(BAD_PARAM_NULL_POINTER, "tensor %d", (int)t->uid);
    if ((uintptr_t)j->at[i] % (uintptr_t)t->align)
      return REFUSE(BAD_PARAM_MISALIGNED_POINTER, "tensor %d is not aligned to %d bytes",
                    (int)t->uid, (int)t->align);
    if (!is_of_device(j->at[i]))
      return REFUSE(BAD_PARAM, "tensor %d: no device memory", (int)t->uid);
    return CUDNN_STATUS_SUCCESS;
  }
  return REFUSE(BAD_PARAM, "tensor %d is not in the variant pack", (int)t->uid);
}

static cudnnStatus_t check_job(const fake_dnn_job_t *j)
{
  for (int i = 0; i < j->program->ops; i++)
    for (int k = 0; k < 3; k++) {
      const fake_tensor_t *t = &j->program->op[i].at[k];
      if (t->ndim == 0 || t->virtual) continue;
      cudnnStatus_t status = check_pointer(t, j);
      if (status != CUDNN_STATUS_SUCCESS) return status;
    }
  if (j->program->workspace == 0) return CUDNN_STATUS_SUCCESS;
  if (!j->workspace) return REFUSE(BAD_PARAM_NULL_POINTER, "no workspace");
  if ((uintptr_t)j->workspace % 16) return REFUSE(BAD_PARAM_MISALIGNED_POINTER, "workspace");
  return is_of_device(j->workspace) ? CUDNN_STATUS_SUCCESS : REFUSE(BAD_PARAM, "workspace");
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack)
{
  const desc_t *p = descriptor(plan), *v = descriptor(pack);
  if (fails()) return REFUSE(EXECUTION_FAILED, "asked to fail");
  if (!handle || handle->kind != HANDLE) return REFUSE(BAD_PARAM, "not a handle");
  if (!p || p->type != PLAN || !v || v->type != PACK)
    return REFUSE(BAD_PARAM_DESCRIPTOR_TYPE, "not a plan and a variant pack");
  if (!p->finalized || !v->finalized) return REFUSE(BAD_PARAM_NOT_FINALIZED, "plan or pack");
  cudnnHandle_t const *own = attribute(p, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, NULL);
  if (*own != handle) return REFUSE(BAD_PARAM_STREAM_MISMATCH, "the plan of another handle");
  int64_t n;
  void *const *workspace = attribute(v, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, NULL);
  fake_dnn_job_t j = {.program = p->program, .workspace = workspace ? *workspace : NULL};
  const int64_t *id = attribute(v, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, &n);
  j.n = (int)n;
  memcpy(j.uid, id, (size_t)n * sizeof *id);
  memcpy(j.at, attribute(v, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, NULL), (size_t)n * sizeof *j.at);
  cudnnStatus_t status = check_job(&j);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  fake_dnn.runs++;
  if (fake_cuda_work(handle->stream, fake_dnn_work, &j, sizeof j) == cudaSuccess)
    return CUDNN_STATUS_SUCCESS;
  return REFUSE(EXECUTION_FAILED_CUDART, "the stream takes no work");
}

size_t cudnnGetVersion(void)
{
  return 91900;
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
  static char text[32];
  snprintf(text, sizeof text, "status %d", (int)status);
  return text;
}

void cudnnGetLastErrorString(char *message, size_t max_size)
{
  snprintf(message, max_size, "%s", last_error);
}
