/** \file ct_stragglers.h  Finds the ranks that the others wait for.  Layer 4.  Local, rank 0.
 *
 * All ranks synchronize in every step, so the slowest one determines its duration.  Ranks are
 * compared by the busy time of a step (base/ct_step_times.h), which no other rank can make longer;
 * checkpoints are excluded, since only rank 0 writes them.  The busy time is split into waiting for
 * samples (data) and the rest (compute).
 *
 * At the end of each window of steps rank 0 compares the ranks by the gathered time breakdown.  A
 * rank that is slow (slow_rank_stats.h) in two consecutive windows is logged when that happens for
 * the first time; ranks that are still slow are logged again every tenth window.  metrics.jsonl
 * gets a line for each slow rank in every window:
 *
 *     {"event":"straggler","step":200,"rank":5,"host":"node2","busy_s":0.038,
 *      "median_s":0.021,"data_s":0.002}
 *
 * step: the last step of the window; busy_s, data_s: means over the steps of this rank; median_s:
 * median of busy_s over all ranks.  At most 16 ranks per window get a line.  Only steps on whole
 * batches are compared. */
#ifndef CT_STRAGGLERS_H
#define CT_STRAGGLERS_H
#include "telemetry/ct_time_breakdown.h"
#include "telemetry/ct_metrics.h"

typedef struct ct__stragglers ct_stragglers_t;

/** Begins the search for slow ranks.  \a every: steps per window; \a sampler: determines the local
 * batches.  Borrows \a a.  *out is NULL on ranks other than 0, and if a batch has fewer samples
 * than the job has ranks.  CT_ERR_NOMEM. */
int ct_stragglers_open(const ct_topo_t *topo, const ct_breakdown_t *a, int64_t every,
                       const ct_sampler_t *sampler, ct_stragglers_t **out);
/** Compares the ranks in a window.  Call after ct_breakdown_collect() of the window from step
 * \a from to step \a to, counted from 1.
 * CT_ERR_IO: metrics.jsonl cannot be written.  s may be NULL. */
int ct_stragglers_window(ct_stragglers_t *s, int64_t from, int64_t to, ct_metrics_t *m);
/** Call at the end of a run.  If the run has several hosts or a rank was slow, logs how long each
 * host was busy, slowest first, and how to run without hosts that were slow in half of the windows.
 * s may be NULL. */
void ct_stragglers_summary(ct_stragglers_t *s);
/** Frees \a s, which may be NULL. */
void ct_stragglers_close(ct_stragglers_t *s);

#endif
