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

/** Inputs of a case, and the reference's results for the gradient dy and for dy + dy2: in float32,
 * also where the case has a low type. */
typedef struct truth {
  inputs_t in;
  outputs_t want[2];
} truth_t;
/** 0: the reference failed; to be closed in any case. */
int truth_open(truth_t *t, const op_case_t *c);
void truth_close(truth_t *t);

/** Runs the case in every layout that the backend works in and every way an op may be prepared and
 * run, and compares all results with the reference. */
void check_parity(const op_case_t *c);
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
/** Steps that are started as a whole. */
void check_repeat(void);
void check_repeat_refuses(void);

#endif
