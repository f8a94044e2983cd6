/** \file ct_time_breakdown_lines.h  The account of a run: windows of it in metrics.jsonl, all of it
 * at the end, and ranks.csv.  Layer 4. */
#ifndef CT_ACCOUNT_LINES_H
#define CT_ACCOUNT_LINES_H
#include "telemetry/ct_time_breakdown.h"
#include "telemetry/ct_metrics.h"

typedef struct ct__accounts ct_accounts_t;

/** Collective.  Windows of so many steps (0: none, but the end).  Gathers the hosts' names. */
int ct_accounts_open(const ct_topo_t *topo, int64_t every, ct_metrics_t *m, ct_accounts_t **out);
/** Collective, Hot.  After each step; \a step counts from 1.  The first one of a run, in which
 * libraries set themselves up, is left out.  In the last step of a window (a multiple of `every`)
 * its line is written.  CT_ERR_IO: this rank's own. */
int ct_accounts_step(ct_accounts_t *a, int64_t step, const ct_step_word_t *word,
                     const ct_step_report_t *r);
/** Collective.  At the end of a run that went well: the steps behind the last window count too, and
 * rank 0 writes \a dir/ranks.csv, if there were any.  CT_ERR_IO: rank 0's own. */
int ct_accounts_end(ct_accounts_t *a, const char *dir);
/** Local.  What is known so far; *host (borrowed): of the slowest rank, NULL: unknown. */
void ct_accounts_total(const ct_accounts_t *a, ct_account_sum_t *out, const char **host);
/** Local; NULL is fine. */
void ct_accounts_close(ct_accounts_t *a);

#endif
