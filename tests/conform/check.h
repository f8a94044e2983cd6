/** \file check.h  What is done with a case; failures name the op and the trial. */
#ifndef CONFORM_CHECK_H
#define CONFORM_CHECK_H
#include "tests/conform/cases.h"

/** The backend under test, and the reference. */
extern side_t tested, reference;

/** A CUnit assertion with a message. */
int check(int ok, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/** ||a - b|| / max(||b||, floor) <= tolerance, and nothing is NaN. */
int is_close(const float *a, const float *b, int64_t n, double floor, double tolerance,
             char why[80]);

/** Inputs of a case, and the reference's results for the gradient dy and, if has_second, for
 * dy + dy2: in float32, also where the case has a low type. */
typedef struct truth {
  inputs_t in;
  outputs_t want[2];
  int has_second;
} truth_t;
/** 0: the reference failed; to be closed in any case. */
int truth_open(truth_t *t, const op_case_t *c);
void truth_close(truth_t *t);

/** 1 if CT_CONFORM_SMALL is set, and the case is of more than 8 MiB or 4 million operations: for
 * backends that are slow and do the same whatever the size, the reference and the emulated GPU. */
int is_left_out(const ct_shape_t *x, double flops);
/** Runs the case in every layout that the backend works in and every way an op may be prepared and
 * run, and compares all results with the reference. */
void check_parity(const op_case_t *c);
/** One of these: \a way is any number from 0; where the op cannot be prepared so, each pass is run
 * alone. */
void check_trial(const op_case_t *c, int way, ct_layout_t offered, uint64_t seed);
/** Descriptors that are drawn (draw.h): which, and what the program is called with otherwise. */
void check_drawn(void);
extern struct draws check_drawn_range;
extern const char *check_drawn_program;
/** A batchnorm's statistics of several ranks: parts of the batch, each with its own op, against one
 * op on the whole of it. */
void check_sync_bnorm(const op_case_t *c);
/** A batchnorm that leaves running statistics alone, and one with only one of its two data
 * gradients. */
void check_bnorm_options(const op_case_t *c);
/** Parity of all kinds with activations in bfloat16 and float16, where the backend has them; of the
 * many cases in float16 some. */
void check_bf16(void);
void check_f16(void);
/** Bytes that become numbers, where the backend does that. */
void check_bytes(void);
/** As in PyTorch, a NaN in x is in y after every op that has a ReLU. */
void check_relu_keeps_nan(void);
/** Backward passes of the backend under test against central differences of its forward pass. */
void check_gradient(const op_case_t *c);
/** The optimizer's ops. */
void check_gradstat(void);
void check_update(void);
/** One of these, on a range of any length. */
void check_gradstat_of(int which, int64_t count);
void check_update_of(int which, int64_t count);
/** Copies between layouts, types, and numbers of dims. */
void check_reorders(void);
void check_reorder_of(const ct_shape_t *from, const ct_shape_t *to, int pass);
/** Steps that are started as a whole. */
void check_repeat(void);
void check_repeat_refuses(void);

#endif
