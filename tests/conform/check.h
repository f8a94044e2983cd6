/** \file check.h  The checks that run on each case; failures print the op and the trial. */
#ifndef CONFORM_CHECK_H
#define CONFORM_CHECK_H
#include "tests/conform/cases.h"

/** The backend under test, and the reference. */
extern side_t tested, reference;

/** A CUnit assertion with a message; returns \a ok. */
int check(int ok, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/** Returns 1 if ||a - b|| / max(||b||, floor) <= tolerance and nothing is NaN; otherwise 0 and the
 * reason in \a why. */
int is_close(const float *a, const float *b, int64_t n, double floor, double tolerance,
             char why[80]);

/** Inputs of a case, and the reference's float32 results for the gradient dy and, if has_second,
 * for dy + dy2.  They are in float32 even if the case has a reduced precision. */
typedef struct truth {
  inputs_t in;
  outputs_t want[2];
  int has_second;
} truth_t;
/** Returns 0 if the reference failed; must be closed in any case. */
int truth_open(truth_t *t, const op_case_t *c);
void truth_close(truth_t *t);

/** Returns 1 if CT_CONFORM_SMALL is set and the case is larger than 8 MiB or 4 million operations.
 * This is for slow backends whose code does not depend on the size: the reference and the emulated
 * GPU. */
int is_left_out(const ct_shape_t *x, double flops);
/** Runs the case in every layout of the backend and every way an op can be prepared and run, and
 * compares all results with the reference. */
void check_parity(const op_case_t *c);
/** Runs one such trial.  \a way is any number from 0; if the op cannot be prepared that way, each
 * pass runs alone. */
void check_trial(const op_case_t *c, int way, ct_layout_t offered, uint64_t seed);
/** Random descriptors (draw.h); check_drawn_range selects them, check_drawn_program is the program
 * name for messages. */
void check_drawn(void);
extern struct draws check_drawn_range;
extern const char *check_drawn_program;
/** SyncBN: compares a batchnorm over several ranks (parts of the batch, each with its own op) with
 * one op on the whole batch. */
void check_sync_bnorm(const op_case_t *c);
/** Batchnorm with frozen running statistics, and with only one of its two data gradients. */
void check_bnorm_options(const op_case_t *c);
/** Parity of all kinds with activations in bf16 and fp16, where supported; fp16 with a subset of
 * the cases. */
void check_bf16(void);
void check_f16(void);
/** Conversion of bytes to floats, where supported. */
void check_bytes(void);
/** A NaN in x must appear in y after every op with a ReLU, as in PyTorch. */
void check_relu_keeps_nan(void);
/** Compares backward passes of the tested backend with central differences of its forward pass. */
void check_gradient(const op_case_t *c);
/** The optimizer's ops. */
void check_gradstat(void);
void check_update(void);
/** One optimizer op on a range of \a count floats. */
void check_gradstat_of(int which, int64_t count);
void check_update_of(int which, int64_t count);
/** Copies between layouts, types, and numbers of dims. */
void check_reorders(void);
void check_reorder_of(const ct_shape_t *from, const ct_shape_t *to, int pass);
/** Steps that are replayed as a whole, as CUDA graphs are. */
void check_repeat(void);
void check_repeat_refuses(void);

#endif
