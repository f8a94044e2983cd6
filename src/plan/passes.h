/** \file passes.h  The passes that make a plan, one after the other (plan.c), and what they share.
 */
#ifndef CT_PLAN_PASSES_H
#define CT_PLAN_PASSES_H
#include "plan/ct_plan.h"

/** Pure.  An empty plan with the network's input as value 0. */
ct_plan_t *ct__plan_new(const ct_graph_t *g, const ct_plan_opts_t *o);
/** Pure.  Ops with descriptors, fused; their values have no layout yet. */
int ct__plan_lower(ct_plan_t *p);
/** Mixed precision (o.compute): sets the dtypes of all descriptors and values by what the backend
 * supports, and puts casts (REORDER) where they change.  CT_ERR_UNSUP names a layer that must not
 * fall back to float32. */
int ct__plan_precision(ct_plan_t *p);
/** Eight bits (o.quant): sets types and pairs of descriptors and values, and puts casts where they
 * change.  Products are in eight bits where the backend can and their tensors have pairs; what is
 * between them is where it gets bytes anyway.  The output stays float32. */
int ct__plan_quantize(ct_plan_t *p);
/** *v in type t.  cast[value]: the same in the other type, or -1, so that a value is cast at most
 * once however many read it. */
int ct__plan_cast(ct_plan_t *p, int *cast, ct_dtype_t t, int *v);
/** Layouts, reorders between them, prepared ops. */
int ct__plan_prepare(ct_plan_t *p, const ct_plan_t *like);
/** Pure.  Works; appends the helper ops that backward needs (ReLU masks, gradient sums),
 * unprepared. */
int ct__plan_works(ct_plan_t *p);
/** Prepares what ct__plan_works() appended. */
int ct__plan_prepare_helpers(ct_plan_t *p);
/** Pure.  Life times, sharing, offsets. */
int ct__plan_offsets(ct_plan_t *p);
/** Pure.  Offsets for blocks that live in [first, last]: greedy by size (Pisarchyk and Lee,
 * "Efficient memory management for deep neural net inference", 2020).  bytes 0: not placed.
 * CT_ERR_NOMEM. */
int ct__plan_fit(int n, const size_t bytes[], const int first[], const int last[], size_t offset[],
                 size_t *total);
/** Appends; the index, or -1 without memory. */
int ct__plan_value(ct_plan_t *p, const ct_shape_t *shape, int grad);
int ct__plan_op(ct_plan_t *p, const ct_plan_op_t *op);
/** Pure.  The passes that will be run of a forward op. */
int ct__plan_passes(const ct_plan_t *p, const ct_plan_op_t *op);

#endif
