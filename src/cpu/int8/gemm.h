/** \file int8/gemm.h  int8 convolution and linear layer, also used by the op with dynamic
 * quantization.  Folder-private. */
#ifndef CT_CPU_INT8_GEMM_H
#define CT_CPU_INT8_GEMM_H
#include <stdio.h>

#include "cpu/int8/int8.h"
#include "cpu/onednn/glue.h"

typedef struct cpu__int8_gemm {
  ct_op_t op;
  ct_op_desc_t flat; /**< the descriptor; a linear layer has 2 dims */
  cpu__prim_t *prim; /**< created from the parameters at the first run */
  void *w;           /**< quantized weights in the format of prim */
  float *bias;       /**< bias as the primitive adds it */
  float *bias_of;    /**< the bias parameter from which `bias` was computed */
  uint64_t hash;     /**< hash of the weights from which prim and w were made */
  int sealed;
} cpu__int8_gemm_t;

/** Local.  Creates a primitive descriptor like that of the run, without building it.  *out is NULL
 * with CT_OK if oneDNN has no implementation. */
int cpu__int8_find(const ct_dev_t *dev, const ct_op_desc_t *d, cpu__prim_t **out);
/** Writes to sums[c] the sum of the dequantized weights of output channel c: the sum of the int8
 * weights, times their scale. */
void cpu__int8_weight_sums(const ct_op_desc_t *d, const void *own, float *sums);
int cpu__int8_gemm_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info);
int cpu__int8_gemm_run(ct_op_t *op, const ct_op_args_t *a);
void cpu__int8_gemm_clear(ct_op_t *op);
int cpu__int8_gemm_pack(ct_op_t *op, int param, const float *plain, void *own);
int cpu__int8_gemm_unpack(ct_op_t *op, int param, const void *own, float *plain);

#endif
