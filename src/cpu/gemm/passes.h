/** \file gemm/passes.h  Common part of convolution and linear: up to three passes over x, w and y.
 * Each pass uses one of the algorithms of the kind, with reorders before and after it.
 * Module-internal. */
#ifndef CT_CPU_PASSES_H
#define CT_CPU_PASSES_H
#include "cpu/gemm/choose.h"

/** One pass, with a reorder for each tensor whose format in the algorithm differs from its format
 * in the graph or the parameter arena. */
typedef struct cpu__pass {
  const cpu__algo_t *algo; /**< NULL: not prepared */
  cpu__ready_t ready;
  cpu__prim_t *reorder[CPU__ROLES]; /**< for X, W and Y: from or to a copy in scratch; NULL: none */
  int apart;     /**< 1: x2 and ReLU are applied after the algorithm, which writes to scratch */
  size_t beside; /**< with `apart`: offset of the algorithm's output in scratch */
  size_t
      offset[CPU__ROLES]; /**< offsets in scratch: of the copies of X, W and Y, and at CPU__SCRATCH
                               of the algorithm's workspace */
} cpu__pass_t;

typedef struct cpu__passes_op {
  ct_op_t head;
  ct_layout_t y_layout;      /**< layout of md[CPU__Y] */
  cpu__md_t *md[CPU__ROLES]; /**< owned; format of X, W, Y in the graph and the arena */
  cpu__pass_t pass[CPU__PASSES];
} cpu__passes_op_t;

/** Local.  Prepares an op with these algorithms: the entry cpu__op_kind_t.prepare calls it.  \a d:
 * descriptor with a batch of at least 1; its dims of x and y may differ from those in op->desc.  A
 * run with an empty batch only zeroes gradients. */
int cpu__passes_prepare(ct_op_t *op, const cpu__algos_t *algos, const ct_op_desc_t *d,
                        const ct_op_t *like, ct_op_info_t *info);
/** As cpu__passes_prepare() for given costs, with x and y in the layouts \a at. */
int cpu__passes_prepare_at(ct_op_t *op, const cpu__costs_t *costs, cpu__layouts_t at,
                           const ct_op_desc_t *d, const ct_op_t *like, ct_op_info_t *info);
/** The entries run, clear, pack and unpack of cpu__op_kind_t. */
int cpu__passes_run(ct_op_t *op, const ct_op_args_t *a);
void cpu__passes_clear(ct_op_t *op);
int cpu__passes_pack(ct_op_t *op, int param, const float *plain, void *own);
int cpu__passes_unpack(ct_op_t *op, int param, const void *own, float *plain);

#endif
