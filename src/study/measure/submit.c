/* --submit: submits a chain of jobs from a login node; each job resumes the study. */
#include <stdio.h>

#include "study/measure/ct_scale.h"
#include "setup/ct_submit.h"
#include "base/ct_err.h"

/* Requests the nodes of the largest configuration, if the user gave --nodes. */
static int add_nodes(const ct_scale_opts_t *o, ct_submit_t *c)
{
  char option[32];
  int most = 0;
  for (int i = 0; i < o->nranks; i++)
    most = o->ranks[i] > most ? o->ranks[i] : most;
  if (!o->nodes) return CT_OK;
  snprintf(option, sizeof option, "--nodes=%d", most);
  return ct_submit_add(c, option);
}

int ct_scale_submit(const ct_args_t *a, int *done)
{
  int rc = CT_OK;
  static ct_submit_t c;
  static ct_scale_opts_t o;
  char count[24];
  int64_t n;
  CT_TRY(ct_submit_wanted(a, &n));
  CT_TRY(ct_scale_opts(a, 0, &o));
  if (n == 0) return CT_OK;
  CT_TRY(ct_submit_begin(a, "scaling.slurm", &c));
  CT_TRY(ct_submit_add_file(&c, "chain.sh"));
  snprintf(count, sizeof count, "%lld", (long long)n);
  CT_TRY(ct_submit_add(&c, count));
  CT_TRY(add_nodes(&o, &c));
  CT_TRY(ct_submit_add_sbatch(&c));
  CT_TRY(ct_submit_add_file(&c, "scaling.slurm"));
  CT_TRY(ct_submit_add_own(&c));
  *done = 1;
  CT_TRY(ct_submit_run(&c));
out:
  return rc;
}
