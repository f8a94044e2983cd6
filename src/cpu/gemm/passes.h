/** \file product/product.h  What convolution and linear have in common: up to three passes between
 * x, w and y, each done in one of the ways of the kind, and conversions around it.
 * Module-internal. */
#ifndef CT_CPU_PRODUCT_H
#define CT_CPU_PRODUCT_H
#include "cpu/gemm/choose.h"

/** One pass, and a reorder for each tensor that its way takes in another format than the graph or
 * the parameter arena holds it in. */
typedef struct cpu__pass {
  const cpu__way_t *way; /**< NULL: not prepared */
  cpu__ready_t ready;
  cpu__prim_t *reorder[CPU__ROLES]; /**< of X, W, Y, into or out of a copy in scratch; NULL: none */
  int apart; /**< 1: x2 is added, and the ReLU taken, when the way is done; it has written … */
  size_t beside;             /**< … here in scratch */
  size_t offset[CPU__ROLES]; /**< of the copies in scratch; CPU__SCRATCH: what runs want */
} cpu__pass_t;

typedef struct cpu__product_op {
  ct_op_t head;
  ct_layout_t y_layout;      /**< of md[CPU__Y] */
  cpu__md_t *md[CPU__ROLES]; /**< of X, W, Y as the graph and the arena hold them; owned */
  cpu__pass_t pass[CPU__PASSES];
} cpu__product_op_t;

/** Local.  Entry `prepare` of a kind with these ways.  \a d: the descriptor of the op, whose x and
 * y may have other dims and whose batch is at least 1.  A batch of 0 samples is run as nothing but
 * zero gradients. */
int cpu__product_prepare(ct_op_t *op, const cpu__ways_t *ways, const ct_op_desc_t *d,
                         const ct_op_t *like, ct_op_info_t *info);
/** The other entries. */
int cpu__product_run(ct_op_t *op, const ct_op_args_t *a);
void cpu__product_clear(ct_op_t *op);
int cpu__product_pack(ct_op_t *op, int param, const float *plain, void *own);
int cpu__product_unpack(ct_op_t *op, int param, const void *own, float *plain);

#endif
