/** \file ct_fault.h  Fault points: named points in the code where a test can make one rank fail.
 * Layer 0.
 *
 * CTRAIN_FAULTS="ckpt.write@1:2,reader.read@0:5" makes the point `ckpt.write` fail on rank 1 the
 * 2nd time it is passed.  `@*` means every rank.  A value `kill` after a third colon
 * (`step@1:3:kill`) sends SIGKILL to the rank itself instead; `sleep` suspends it forever; `slow`
 * does not fail, but delays this pass and each later one by 20 ms (`step@1:1:slow`), or by the
 * given number of milliseconds (`step@1:1:slow=100`).  Without the variable a point costs one
 * comparison. tests/lint checks that a test triggers every point in the source. */
#ifndef CT_FAULT_H
#define CT_FAULT_H

/** Local.  Passes a fault point.  Returns CT_OK, or records and returns CT_ERR_FAULT with the
 * point's name. */
int ct_fault(const char *point);
/** Local.  Sets this process's rank and reads CTRAIN_FAULTS. */
void ct_fault_setup(int rank);

#endif
