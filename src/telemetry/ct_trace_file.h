/** \file ct_trace_file.h  The timeline of some steps of all ranks, as a file for Chrome and
 * Perfetto (trace.json).  Layer 4. */
#ifndef CT_TRACE_FILE_H
#define CT_TRACE_FILE_H
#include "base/ct_trace.h"
#include "comm/ct_clocks.h"
#include "comm/ct_topo.h"

/** State of the timeline; all zero but for `steps`: not begun. */
typedef struct ct_trace_file {
  ct_trace_steps_t steps;     /**< the steps to record */
  int64_t from;               /**< first recorded step; 0: recording has not begun */
  int over;                   /**< 1: the file is written */
  ct_clock_offset_t clock[2]; /**< this rank's clock against rank 0's, at the beginning and end */
} ct_trace_file_t;

/** Collective.  Before step number \a step (from 1): begins to record if it is in the range.  Adds
 * the seconds this takes to *spent_s. */
int ct_trace_file_before(ct_trace_file_t *t, const ct_topo_t *topo, int64_t step, double *spent_s);
/** Collective.  After that step, and at the end of the run (\a last): after the last step of the
 * range rank 0 writes trace.json in \a dir.  A file that cannot be written is a warning. */
int ct_trace_file_after(ct_trace_file_t *t, const ct_topo_t *topo, const char *dir, int64_t step,
                        int last, double *spent_s);

#endif
