/** \file ct_stragglers.h  Who makes the others wait.  Layer 4.
 *
 * The ranks of a job meet in every step: the slowest one's time is everybody's.  Each rank notes
 * how long it is busy in a step: all but what it waits for others (base/ct_step_times.h), and for
 * checkpoints, which are rank 0's duty.  This is its own, nobody made it wait.  It falls into
 * waiting for the feed (data) and all else (compute).
 *
 * At the end of each window of steps rank 0 gathers the means.  A rank that is slow
 * (slow_rank_stats.h) in two windows in a row is named in the log: when it is for the first time,
 * and all that still are each tenth window; and in metrics.jsonl in every window:
 *
 *     {"event":"straggler","step":200,"rank":5,"host":"node2","busy_s":0.038,
 *      "median_s":0.021,"data_s":0.002}
 *
 * step: the last of the window; busy_s, data_s: means of the rank; median_s: of all ranks'
 * busy_s.  At most 16 ranks a window.  Only steps on whole batches count. */
#ifndef CT_STRAGGLERS_H
#define CT_STRAGGLERS_H
#include "telemetry/ct_metrics.h"
#include "train/ct_trainer.h"

typedef struct ct__stragglers ct_stragglers_t;

/** Collective.  Windows of so many steps on batches of \a sampler.  Gathers the names of the hosts.
 * *out is NULL, and nothing is sent or allocated, if nobody is looked for: every is 0, there is one
 * rank, or a batch has fewer samples than there are ranks. */
int ct_stragglers_open(const ct_topo_t *topo, int64_t every, const ct_sampler_t *sampler,
                       ct_stragglers_t **out);
/** Collective, Hot.  After each step: \a step counts from 1, \a samples are those of all ranks.  In
 * the last step of a window (a multiple of `every`) a few bytes of each rank go to rank 0, which
 * judges.  CT_ERR_IO: this rank's own, of the metrics.  s may be NULL. */
int ct_stragglers_step(ct_stragglers_t *s, int64_t step, int64_t samples, const ct_step_report_t *r,
                       ct_metrics_t *m);
/** Local.  The last thing: rank 0 says how long the hosts took, slowest first, if there are several
 * or somebody was slow, and the way to do without those that were slow in half of the windows.  s
 * may be NULL. */
void ct_stragglers_summary(ct_stragglers_t *s);
/** Local; NULL is fine. */
void ct_stragglers_close(ct_stragglers_t *s);

#endif
