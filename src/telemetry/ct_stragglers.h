/** \file ct_stragglers.h  Finds the ranks that the others wait for.  Layer 4.  Local, rank 0.
 *
 * All ranks meet in every step, so the slowest one sets the pace.  The measure is the busy time of
 * a step (base/ct_step_times.h) without checkpoints, which are the duty of rank 0: time that no
 * other rank can make longer.  It is split into waiting for samples (data) and the rest (compute).
 *
 * At the end of each window of steps rank 0 compares the ranks by what the account has gathered.  A
 * rank that is slow (slow_rank_stats.h) in two consecutive windows is named in the log when that
 * happens for the first time, together with all that still are in every tenth window; and in
 * metrics.jsonl in every window:
 *
 *     {"event":"straggler","step":200,"rank":5,"host":"node2","busy_s":0.038,
 *      "median_s":0.021,"data_s":0.002}
 *
 * step: the last of the window; busy_s, data_s: means of the rank; median_s: median of all ranks'
 * busy_s.  At most 16 ranks a window.  Only steps on whole batches count. */
#ifndef CT_STRAGGLERS_H
#define CT_STRAGGLERS_H
#include "telemetry/ct_time_breakdown.h"
#include "telemetry/ct_metrics.h"

typedef struct ct__stragglers ct_stragglers_t;

/** Windows of so many steps on batches of \a sampler.  Borrows \a a, which knows the hosts.  *out
 * is NULL on other ranks than 0, and if a batch has fewer samples than there are ranks.
 * CT_ERR_NOMEM. */
int ct_stragglers_open(const ct_topo_t *topo, const ct_breakdown_t *a, int64_t every,
                       const ct_sampler_t *sampler, ct_stragglers_t **out);
/** After ct_breakdown_collect() of a window from step \a from to step \a to, both counted from 1.
 * CT_ERR_IO: of the metrics.  s may be NULL. */
int ct_stragglers_window(ct_stragglers_t *s, int64_t from, int64_t to, ct_metrics_t *m);
/** At the end: logs how long the hosts were busy, slowest first, if there are several hosts or a
 * rank was slow, and how to run without hosts that were slow in half of the windows.  s may be
 * NULL. */
void ct_stragglers_summary(ct_stragglers_t *s);
/** NULL is fine. */
void ct_stragglers_close(ct_stragglers_t *s);

#endif
