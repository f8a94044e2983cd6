/* Facts to findings, in order.  Nothing here asks the system, so tests can make up any cluster. */
#include "doctor/doctor.h"

/* What is fine is said once for each subject, if nothing in \a found since was said against it. */
static void add_fine(ct_findings_t *out, int before, const char *key, const char *what)
{
  if (out->n == before) ct__doctor_add(out, CT_FINDING_OK, key, NULL, "", "%s", what);
}

static void judge_nodes(const ct__doctor_node_t *nodes, const ct_job_facts_t *job,
                        ct_findings_t *out)
{
  int before = out->n, gpus = 0;
  for (int i = 0; i < job->nodes; i++)
    ct__doctor_cores(&nodes[i], out);
  add_fine(out, before, "cores", "cores: every thread has one of its own");
  before = out->n;
  for (int i = 0; i < job->nodes; i++)
    ct__doctor_memory(&nodes[i], out);
  add_fine(out, before, "limits", "memory, /dev/shm and resource limits suffice");
  before = out->n;
  for (int i = 0; i < job->nodes; i++) {
    ct__doctor_gpus(&nodes[i], out);
    gpus += nodes[i].rank[0]->on_gpu;
  }
  if (gpus) add_fine(out, before, "gpus", "GPUs: one for each rank, near its cores");
}

int ct_doctor_judge(const ct_rank_facts_t *f, const ct_job_facts_t *job, ct_findings_t *out)
{
  int rc = CT_OK, before;
  ct__doctor_nodes_t nodes;
  out->n = 0;
  CT_TRY(ct__doctor_nodes_make(f, job, &nodes));
  ct__doctor_launch(f, job, out);
  add_fine(out, 0, "launch", "launch: one world, the same program and libraries on all ranks");
  judge_nodes(nodes.node, job, out);
  before = out->n;
  ct__doctor_files(job, out);
  if (job->volume.type[0]) add_fine(out, before, "files", "the run directory can be written");
  before = out->n;
  if (job->has_config) {
    ct__doctor_data(job, out);
    add_fine(out, before, "data", "data, model and batch fit together, and the memory");
    before = out->n;
    ct__doctor_survey(job, out);
    if (job->surveys)
      add_fine(out, before, "samples", "samples: all that were looked at can be trained on");
  }
out:
  ct__doctor_nodes_clear(&nodes);
  return rc;
}
