/** \file onednn/product.h  What convolution and linear have in common: up to three passes of oneDNN
 * primitives between x, w and y.  Module-internal. */
#ifndef CT_CPU_PRODUCT_H
#define CT_CPU_PRODUCT_H
#include "cpu/kern/op.h"
#include "cpu/onednn/glue.h"

/** One pass: the primitive, and a reorder for each tensor that the primitive takes in another format
 * than the graph or the parameter arena holds it in. */
typedef struct cpu__pass {
  int pass;                         /**< CT_FWD, CT_BWD_DATA or CT_BWD_PARAM */
  cpu__prim_t *main;                /**< NULL: not prepared */
  cpu__prim_t *reorder[CPU__ROLES]; /**< of X, W, Y, into or out of a copy in scratch; NULL: none */
  size_t offset[CPU__ROLES]; /**< of the copies in scratch; CPU__SCRATCH: what primitives want */
} cpu__pass_t;

typedef struct cpu__product_op {
  ct_op_t head;
  cpu__md_t *md[CPU__ROLES]; /**< of X, W, Y as the graph and the arena hold them; owned */
  cpu__pass_t pass[3];       /**< forward, data, parameters */
} cpu__product_op_t;

/** Local.  Takes over \a main, builds it and the reorders to op->md[], raises info->scratch. */
int cpu__product_add(cpu__product_op_t *op, int pass, cpu__prim_t *main, ct_op_info_t *info);
/** Says in info what follows from op->md[] and the desc: parameters, what backward uses. */
void cpu__product_info(const cpu__product_op_t *op, ct_op_info_t *info);

/** Entries of the op tables.  A batch of 0 samples is prepared as one of 1, and run as nothing but zero
 * gradients. */
int cpu__product_run(ct_op_t *op, const ct_op_args_t *a);
void cpu__product_clear(ct_op_t *op);
int cpu__product_pack(ct_op_t *op, int param, const float *plain, void *own);
int cpu__product_unpack(ct_op_t *op, int param, const void *own, float *plain);

#endif
