/** \file passes.h  The compiler passes of a plan (called in order by plan.c), and shared
 * functions. */
#ifndef CT_PLAN_PASSES_H
#define CT_PLAN_PASSES_H
#include "plan/ct_plan.h"

/** Pure.  Makes a plan without ops; its value 0 is the network's input. */
ct_plan_t *ct__plan_new(const ct_graph_t *g, const ct_plan_opts_t *o);
/** Pure.  Creates the ops with their descriptors, and fuses layers.  Layouts are chosen later, by
 * ct__plan_prepare(). */
int ct__plan_lower(ct_plan_t *p);
/** Pure.  Puts elementwise ops whose only reader is an elementwise program into it. */
int ct__plan_fuse(ct_plan_t *p);
/** Pure.  Counts the readers of each value, from the zeros in \a readers on, and finds the op that
 * makes it; -1: none. */
void ct__plan_readers(const ct_plan_t *p, int *readers, int *maker);
/** Pure.  Removes ops whose out is -1, except losses. */
void ct__plan_remove(ct_plan_t *p);
/** Puts a convolution, its activation and its pooling into one op if the convolution's output is
 * larger than o.slab_mb, nothing else reads it, and the backend supports the op. */
int ct__plan_slabs(ct_plan_t *p);
/** Pure.  Decoding (o.cache): inserts the caches of keys and values.  CT_ERR_UNSUP names a layer
 * that reads other elements of a sequence and is not a causal attention. */
int ct__plan_cache(ct_plan_t *p);
/** Mixed precision (o.compute): chooses the dtype of each descriptor and value by what the backend
 * supports, and inserts casts (REORDER).  CT_ERR_UNSUP names a layer that must not fall back to
 * float32. */
int ct__plan_precision(ct_plan_t *p);
/** int8 (o.quant): sets types, scales and zero points of descriptors and values, and inserts
 * conversions.  A convolution or linear layer is int8 if the backend supports the int8 op and its
 * tensors have scales; another op is int8 if its input is uint8 already.  The network's output
 * stays float32. */
int ct__plan_quantize(ct_plan_t *p);
/** Replaces *v by its cast to type t.  cast[value]: the existing cast of a value, or -1; the
 * function updates it, so that each value is cast at most once. */
int ct__plan_cast(ct_plan_t *p, int *cast, ct_dtype_t t, int *v);
/** Chooses layouts, inserts reorders, prepares the ops. */
int ct__plan_prepare(ct_plan_t *p, const ct_plan_t *like);
/** Makes one tensor of the results of the chain of concatenations that begins with op[0], if the
 * backend supports it with the first input in this layout. */
void ct__plan_place(const ct_plan_t *p, ct_plan_op_t *op, int n, ct_layout_t layout);
/** Pure.  Makes the launches; appends the helper ops of backward (ReLU masks, gradient sums)
 * without preparing them. */
int ct__plan_launches(ct_plan_t *p);
/** Prepares the helper ops of ct__plan_launches(). */
int ct__plan_prepare_helpers(ct_plan_t *p);
/** Pure.  Computes life times, in-place sharing and offsets of values. */
int ct__plan_offsets(ct_plan_t *p);
/** Pure.  Computes life times and in-place sharing alone. */
void ct__plan_lives(ct_plan_t *p);
/** Pure.  Computes offsets for n memory blocks; block i is alive from first[i] to last[i].  Assigns
 * the largest blocks first (greedy by size; Pisarchyk and Lee, "Efficient memory management for
 * deep neural net inference", 2020).  Offsets of blocks of 0 bytes are not set.  CT_ERR_NOMEM. */
int ct__plan_fit(int n, const size_t bytes[], const int first[], const int last[], size_t offset[],
                 size_t *total);
/** Pure.  Finds the values of the outputs again, after a pass that has inserted ops. */
void ct__plan_note_outputs(ct_plan_t *p);
/** Appends a value or op; returns its index, or -1 if out of memory. */
int ct__plan_value(ct_plan_t *p, const ct_shape_t *shape, int grad);
int ct__plan_op(ct_plan_t *p, const ct_plan_op_t *op);
/** Pure.  Returns the passes that a forward op will run. */
int ct__plan_passes(const ct_plan_t *p, const ct_plan_op_t *op);

#endif
