/** \file ct_time_breakdown_lines.h  Reports of a run about its ranks: time breakdown and slow ranks
 * in the log and, per window of steps, in metrics.jsonl; ranks.csv at the end.  Layer 4. */
#ifndef CT_TIME_BREAKDOWN_LINES_H
#define CT_TIME_BREAKDOWN_LINES_H
#include "telemetry/ct_time_breakdown.h"
#include "telemetry/ct_metrics.h"

typedef struct ct__breakdown_lines ct_breakdown_lines_t;

/** Collective.  Begins the reports.  \a every: steps per window; 0: no windows, only the totals at
 * the end.  \a sampler: the search for slow ranks (ct_stragglers.h) uses steps on whole batches of
 * this sampler; NULL: no search.  \a m: borrowed. */
int ct_breakdown_lines_open(const ct_topo_t *topo, int64_t every, const ct_sampler_t *sampler,
                            ct_metrics_t *m, ct_breakdown_lines_t **out);
/** Collective, Hot.  Call after each step; \a step counts from 1; \a samples: samples of all ranks.
 * The first step of a run, in which libraries initialize themselves, is excluded.  The last step of
 * a window (a multiple of `every`) writes its lines.  CT_ERR_IO: on this rank only. */
int ct_breakdown_lines_step(ct_breakdown_lines_t *a, int64_t step, int64_t samples,
                            const ct_step_status_t *status, const ct_step_report_t *r);
/** Collective.  Call at the end of a successful run: collects the steps after the last window, logs
 * the totals, and rank 0 writes \a dir/ranks.csv if at least one step was collected.  CT_ERR_IO: on
 * rank 0 only. */
int ct_breakdown_lines_end(ct_breakdown_lines_t *a, const char *dir);
/** Local.  Returns the totals of all collected steps in *out. */
void ct_breakdown_lines_total(const ct_breakdown_lines_t *a, ct_breakdown_sum_t *out);
/** Local.  Frees \a a, which may be NULL. */
void ct_breakdown_lines_close(ct_breakdown_lines_t *a);

#endif
