/** \file int8/product.h  A product in eight bits, for the op that puts another around it.
 * Folder-private. */
#ifndef CT_CPU_INT8_PRODUCT_H
#define CT_CPU_INT8_PRODUCT_H
#include <stdio.h>

#include "cpu/int8/int8.h"
#include "cpu/onednn/glue.h"

typedef struct cpu__int8_product {
  ct_op_t op;
  ct_op_desc_t flat; /**< a linear layer with 2 dims */
  cpu__prim_t *prim; /**< made of the parameters when it is run first */
  void *w;           /**< weights in its order */
  float *bias;       /**< what it adds */
  float *bias_of;    /**< the parameter that this was made of */
  uint64_t hash;     /**< of the weights that prim and w were made of */
  int sealed;
} cpu__int8_product_t;

/** Local.  A primitive like the one that will run, not built.  NULL with CT_OK: there is none. */
int cpu__int8_find(const ct_dev_t *dev, const ct_op_desc_t *d, cpu__prim_t **out);
/** The sum of the weights of each output, times their scale. */
void cpu__int8_weight_sums(const ct_op_desc_t *d, const void *own, float *sums);
int cpu__int8_product_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info);
int cpu__int8_product_run(ct_op_t *op, const ct_op_args_t *a);
void cpu__int8_product_clear(ct_op_t *op);
int cpu__int8_product_pack(ct_op_t *op, int param, const float *plain, void *own);
int cpu__int8_product_unpack(ct_op_t *op, int param, const void *own, float *plain);

#endif
