/* Samples that were skipped (data.on_error: skip): counted on all ranks, logged by rank 0. */
#include "base/ct_err.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "run/loop.h"

/* The skipped samples of a rank in a step. */
typedef struct logged {
  int64_t n;
  ct_skip_t skip[CT_SKIPS_LOGGED];
} logged_t;

static int log_sample(const ct__loop_t *l, const ct_skip_t *s)
{
  ct_metrics_t *m = l->o->metrics;
  ct_log(CT_LOG_WARN,
         "%s; sample %lld of the data set is skipped and replaced by sample %lld "
         "(data.on_error: skip)",
         s->why, (long long)s->id, (long long)s->instead);
  ct_metrics_begin(m, "sample_skipped");
  ct_metrics_int(m, "step", l->at.step);
  ct_metrics_int(m, "sample", s->id);
  ct_metrics_int(m, "instead", s->instead);
  ct_metrics_text(m, "reason", s->why);
  return ct_metrics_end(m);
}

/* Logs the first few skipped samples of each rank. */
static int log_skipped(const ct__loop_t *l, const logged_t *all)
{
  int rc = CT_OK;
  for (int r = 0; r < l->topo->size; r++) {
    int64_t n = all[r].n < CT_SKIPS_LOGGED ? all[r].n : CT_SKIPS_LOGGED;
    for (int64_t i = 0; i < n; i++)
      CT_TRY(log_sample(l, &all[r].skip[i]));
    if (all[r].n > n)
      ct_log(CT_LOG_WARN, "%lld more samples of this step are skipped (data.on_error: skip)",
             (long long)(all[r].n - n));
  }
out:
  return rc;
}

int ct__skips_step(ct__loop_t *l, const ct_batch_t *b, int64_t skipped)
{
  int rc = CT_OK, is_teller = l->topo->rank == 0;
  logged_t mine = {.n = b->skipped}, *all = NULL;
  for (int i = 0; i < b->skipped && i < CT_SKIPS_LOGGED; i++)
    mine.skip[i] = b->skip[i];
  l->at.skipped += skipped;
  if (is_teller) all = ct_mem_array(l->topo->size, sizeof *all, "the skipped samples");
  CT_TRY_ALL(l->topo, is_teller && !all ? CT_ERR_NOMEM : CT_OK);
  ct_agree_gather(l->topo, &mine, (int)sizeof mine, all);
  CT_TRY_ALL(l->topo, is_teller ? log_skipped(l, all) : CT_OK);
  if (l->at.skipped > l->o->max_skipped)
    CT_FAIL(CT_ERR_DATA, "skipped samples in this epoch: %lld, more than data.max_skipped (%lld)",
            (long long)l->at.skipped, (long long)l->o->max_skipped);
out:
  ct_mem_free(all);
  return rc;
}
