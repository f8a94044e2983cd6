/** \file ct_fault.h  Named places where a test can make one rank fail.  Layer 0.
 *
 * CTRAIN_FAULTS="ckpt.write@1:2,reader.read@0:5" makes the point `ckpt.write` fail on rank 1 the
 * 2nd time it is passed.  `@*` means every rank.  A value `kill` after a third colon
 * (`step@1:3:kill`) sends SIGKILL to the rank itself instead; `sleep` stops it for ever; `slow`
 * fails nothing, but lets this pass and each after it take 20 ms longer (`step@1:1:slow`), or as
 * many milliseconds as it says (`step@1:1:slow=100`).  Unset, a point costs one comparison.
 * tests/lint checks that every point in the source is provoked by a test. */
#ifndef CT_FAULT_H
#define CT_FAULT_H

/** Local.  CT_OK, or CT_ERR_FAULT recorded with the point's name. */
int ct_fault(const char *point);
/** Tells this rank's number; reads the variable. */
void ct_fault_setup(int rank);

#endif
