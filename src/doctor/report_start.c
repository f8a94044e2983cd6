/* The line about ranks, threads and cores, and the warnings, that every run logs at its start. */

#include "doctor/doctor.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "comm/ct_agree.h"

typedef struct range {
  int least, most;
} range_t;

static void report_start_widen(range_t *r, int n)
{
  if (r->most == 0 || n < r->least) r->least = n;
  if (n > r->most) r->most = n;
}

/* Appends "2 ranks", "1 to 2 threads". */
static int add_range(ct_str_t *out, const char *before, range_t r, const char *what)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(out, "%s%d", before, r.least));
  if (r.most > r.least) CT_TRY(ct_str_add(out, " to %d", r.most));
  CT_TRY(ct_str_add(out, " %s%s", what, r.most == 1 ? "" : "s"));
out:
  return rc;
}

int ct__doctor_line(const ct__doctor_node_t *nodes, const ct_job_facts_t *job, ct_str_t *out)
{
  int rc = CT_OK, sharing = 0;
  range_t ranks = {0}, threads = {0}, each = {0}, together = {0};
  for (int i = 0; i < job->nodes; i++) {
    const ct__doctor_node_t *d = &nodes[i];
    report_start_widen(&ranks, d->n);
    report_start_widen(&together, d->cores);
    sharing |= d->sharing;
    for (int r = 0; r < d->n; r++) {
      report_start_widen(&threads, d->rank[r]->threads);
      report_start_widen(&each, d->rank[r]->machine.cores);
    }
  }
  CT_TRY(add_range(out, "", (range_t){job->nodes, job->nodes}, "node"));
  CT_TRY(add_range(out, " x ", ranks, "rank"));
  CT_TRY(add_range(out, " x ", threads, "thread"));
  if (sharing)
    CT_TRY(add_range(out, " sharing ", together, "core"));
  else
    CT_TRY(add_range(out, " on ", each, "core"));
  if (!sharing && job->ranks > 1) CT_TRY(ct_str_add(out, " each"));
  if (*job->launch.name) CT_TRY(ct_str_add(out, ", launched by %s", job->launch.name));
out:
  return rc;
}

int ct__doctor_sentence(const ct_finding_t *f, ct_str_t *out)
{
  int rc = CT_OK;
  if (f->host[0]) CT_TRY(ct_str_add(out, "%s", f->host));
  if (f->nodes > 1)
    CT_TRY(ct_str_add(out, " and %d more node%s", f->nodes - 1, f->nodes == 2 ? "" : "s"));
  if (f->host[0]) CT_TRY(ct_str_add(out, ": "));
  CT_TRY(ct_str_add(out, "%s", f->what));
out:
  return rc;
}

static int binding_line(const ct_doctor_env_t *env, const ct_rank_facts_t *f,
                        const ct_job_facts_t *job)
{
  int rc = CT_OK;
  ct_str_t line = {0};
  ct__doctor_nodes_t nodes;
  CT_TRY(ct__doctor_nodes_make(f, job, &nodes));
  CT_TRY(ct__doctor_line(nodes.node, job, &line));
  ct_log(CT_LOG_INFO, "%s; %s: %s", line.data, env->be->name, env->be->describe(env->dev));
out:
  ct_str_clear(&line);
  ct__doctor_nodes_clear(&nodes);
  return rc;
}

/* Logs at most three findings; the last line refers to `doctor`. */
static int warn(const ct_findings_t *findings)
{
  enum { MOST = 3 };
  int rc = CT_OK, told = 0, bad = ct_doctor_count(findings, CT_FINDING_BAD);
  ct_str_t text = {0};
  for (int i = 0; i < findings->n && told < MOST; i++) {
    const ct_finding_t *f = &findings->list[i];
    if (f->level != CT_FINDING_BAD) continue;
    ct_str_clear(&text);
    CT_TRY(ct__doctor_sentence(f, &text));
    if (f->cure[0]) CT_TRY(ct_str_add(&text, "; cure: %s", f->cure));
    ct_log(CT_LOG_WARN, "%s", text.data);
    told++;
  }
  if (bad > told) ct_log(CT_LOG_WARN, "and %d more; 'ctrain-hpc doctor' lists all", bad - told);
out:
  ct_str_clear(&text);
  return rc;
}

static int report_start_tell(const ct_doctor_env_t *env, const ct_rank_facts_t *all)
{
  int rc = CT_OK;
  ct_job_facts_t *job = ct_mem_alloc(sizeof *job, "the facts of the job");
  ct_findings_t *findings = ct_mem_alloc(sizeof *findings, "findings about the job");
  if (!job || !findings) CT_TRY(CT_ERR_NOMEM);
  ct_doctor_job(env, job);
  CT_TRY(binding_line(env, all, job));
  CT_TRY(ct_doctor_judge(all, job, findings));
  CT_TRY(warn(findings));
out:
  ct_mem_free(findings);
  ct_mem_free(job);
  return rc;
}

int ct_doctor_start(const ct_doctor_env_t *env)
{
  int rc = CT_OK;
  ct_rank_facts_t *all = NULL;
  CT_TRY(ct_doctor_gather(env, 0, &all));
  CT_TRY_ALL(env->topo, env->topo->rank == 0 ? report_start_tell(env, all) : CT_OK);
out:
  ct_mem_free(all);
  return rc;
}
