/* fake_dnn.h A fake cuDNN with the functions that cuda/conv uses: the graph API with convolutions
 * and pointwise operations, computed by plain loops in the streams of the fake runtime.  It rejects
 * what the library may reject; each call tells why (cudnnGetLastErrorString). */
#ifndef FAKE_DNN_H
#define FAKE_DNN_H
#include <cudnn.h>

enum { FAKE_DNN_DIMS = 8, FAKE_DNN_ENGINES = 4, FAKE_DNN_OPS = 4, FAKE_DNN_POINTERS = 12 };

typedef struct fake_dnn {
  /* settings of a test */
  int engines;                         /* number of engines that the heuristics propose */
  int64_t workspace[FAKE_DNN_ENGINES]; /* bytes that they need */
  int fail_call;                       /* the n-th call from now fails; 0: none */
  /* observed */
  int alive; /* descriptors and handles not destroyed */
  int runs;
} fake_dnn_t;
extern fake_dnn_t fake_dnn;

/* ---- between fake_dnn.c and fake_dnn_run.c ---- */

typedef struct fake_tensor {
  int64_t uid, align;
  cudnnDataType_t type;
  int virtual, ndim;
  int64_t dim[FAKE_DNN_DIMS], stride[FAKE_DNN_DIMS];
} fake_tensor_t;

typedef struct fake_dnn_op {
  cudnnBackendDescriptorType_t what;
  cudnnPointwiseMode_t mode;
  fake_tensor_t at[3]; /* x, w, y of a convolution; x, b, y of a pointwise operation */
  int tensors, result; /* how many of them there are; which one is written */
  int64_t spatial, stride[FAKE_DNN_DIMS], pad[FAKE_DNN_DIMS], dilate[FAKE_DNN_DIMS];
} fake_dnn_op_t;

/* What a plan does; it is kept to the end of the process. */
typedef struct fake_program {
  fake_dnn_op_t op[FAKE_DNN_OPS];
  int ops;
  int64_t workspace;
} fake_program_t;

typedef struct fake_dnn_job {
  const fake_program_t *program;
  int64_t uid[FAKE_DNN_POINTERS];
  void *at[FAKE_DNN_POINTERS];
  int n;
  void *workspace;
} fake_dnn_job_t;

/* The work of a plan in a stream; args is a fake_dnn_job_t. */
cudaError_t fake_dnn_work(void *args);

#endif
