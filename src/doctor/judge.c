/* Derives findings from facts, subject by subject.  Nothing here queries the system, so that tests
 * can pass the facts of any cluster. */
#include "doctor/doctor.h"

/* Adds one finding that a subject is in order, if there was no finding about it. */
static void add_fine(ct_findings_t *out, int before, const char *key, const char *what)
{
  if (out->n == before) ct__doctor_add(out, CT_FINDING_OK, key, NULL, "", "%s", what);
}

static void judge_nodes(const ct__doctor_node_t *nodes, const ct_job_facts_t *job,
                        ct_findings_t *out)
{
  int before = out->n, gpus = 0, numa = 0;
  for (int i = 0; i < job->nodes; i++)
    ct__doctor_cores(&nodes[i], out);
  add_fine(out, before, "cores", "cores: every thread has its own core");
  before = out->n;
  for (int i = 0; i < job->nodes; i++)
    ct__doctor_memory(&nodes[i], out);
  add_fine(out, before, "limits", "memory, /dev/shm and resource limits are sufficient");
  before = out->n;
  for (int i = 0; i < job->nodes; i++) {
    ct__doctor_numa(&nodes[i], out);
    numa += nodes[i].rank[0]->memory.policy[0] != '\0';
  }
  if (numa) add_fine(out, before, "numa", "memory: pages are on the NUMA nodes of their ranks");
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
  add_fine(out, 0, "launch",
           "launch: one MPI_COMM_WORLD, the same program and libraries on all ranks");
  judge_nodes(nodes.node, job, out);
  before = out->n;
  ct__doctor_files(job, out);
  if (job->volume.type[0]) add_fine(out, before, "files", "the run directory is writable");
  before = out->n;
  if (job->has_config) {
    ct__doctor_data(job, out);
    add_fine(out, before, "data", "data, model, batch and memory fit together");
    before = out->n;
    ct__doctor_survey(job, out);
    if (job->surveys)
      add_fine(out, before, "samples", "samples: all samples that were read are valid");
  }
out:
  ct__doctor_nodes_clear(&nodes);
  return rc;
}
