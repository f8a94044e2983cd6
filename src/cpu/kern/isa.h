/** \file kern/isa.h  All inner loops, compiled for the instruction set of the including file.
 * Module-internal.
 *
 * The including file enables the instruction set and defines CPU__VW, the floats of a vector, and
 * CPU__ISA, the name of the instruction set.  With CPU__BF16 defined, activations are bf16. */
#include <math.h>

/* Loops contain loop-invariant branches: -O3 hoists them, which is necessary to vectorize the
 * optimizer rules. */
#if defined(__GNUC__) && !defined(__clang__)
#  pragma GCC optimize("O3")
#endif

#include "cpu/kern/loops.h"
#include "cpu/kern/body_elt.h"
#include "cpu/kern/body_bnorm.h"
#include "cpu/kern/body_pool.h"
#include "cpu/kern/body_depthwise.h"
#include "cpu/kern/body_dropout.h"
#include "cpu/kern/body_act.h"
#ifdef CPU__BF16
#  include "cpu/kern/body_cast.h"
#  define CPU__LOOPS(isa) CPU__PASTE(cpu__loops_bf16_, isa)
#else
#  include "cpu/kern/body_softmax.h"
#  include "cpu/kern/body_reduce.h"
#  include "cpu/kern/body_update.h"
#  include "cpu/kern/body_seq.h"
#  include "cpu/kern/body_expr.h"
#  include "cpu/kern/body_loss.h"
#  define CPU__LOOPS(isa) CPU__PASTE(cpu__loops_, isa)
#endif
#define CPU__PASTE(a, b) a##b

const cpu__loops_t CPU__LOOPS(CPU__ISA) = {
    .width = CPU__VW,
    .add = add,
    .add_bwd = add_bwd,
    .bn_sums = bn_sums,
    .bn_apply = bn_apply,
    .bn_bwd_sums = bn_bwd_sums,
    .bn_bwd_apply = bn_bwd_apply,
    .max = max,
    .max_bwd = max_bwd,
    .average = average,
    .average_bwd = average_bwd,
    .depthwise = depthwise,
    .depthwise_grad = depthwise_grad,
    .drop = drop,
    .scale = scale,
    .act = act,
    .act_bwd = act_bwd,
#ifdef CPU__BF16
    .to_floats = to_floats,
    .from_floats = from_floats,
#else
    .fn = fn,
    .fn_grad = fn_grad,
    .block_sum = block_sum,
    .exp_sum = exp_sum,
    .exp_sum_columns = exp_sum_columns,
    .exp_scaled_columns = exp_scaled_columns,
    .exp_scaled = exp_scaled,
    .reduce_row = reduce_row,
    .reduce_columns = reduce_columns,
    .slopes = slopes,
    .soft_row = soft_row,
    .soft_columns = soft_columns,
    .soft_row_bwd = soft_row_bwd,
    .soft_columns_bwd = soft_columns_bwd,
    .powers = powers,
    .norm_sums = norm_sums,
    .update = update,
    .add_rows = add_rows,
    .dot = dot,
    .soft_part = soft_part,
    .soft_part_bwd = soft_part_bwd,
    .lstm = lstm,
    .lstm_bwd = lstm_bwd,
    .gru = gru,
    .gru_bwd = gru_bwd,
    .lnorm = lnorm,
    .lnorm_bwd = lnorm_bwd,
    .lnorm_sums = lnorm_sums,
    .rotate = rotate,
    .point_sums = point_sums,
    .point_slopes = point_slopes,
#endif
};
