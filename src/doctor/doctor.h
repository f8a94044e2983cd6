/** \file doctor.h  The ranks of a node, and functions that make and print findings: shared by the
 * files of this module.  facts.c queries the system, nodes.c groups ranks by node, judge.c calls
 * one judge_*.c per subject, report.c, report_json.c and report_start.c print. */
#ifndef CT_DOCTOR_DOCTOR_H
#define CT_DOCTOR_DOCTOR_H
#include "doctor/ct_doctor.h"

/** The plural ending after a count of n. */
#define S(n) ((n) == 1 ? "" : "s")
#define MIB  ((int64_t)1 << 20)

/** The ranks of one node and their cores. */
typedef struct ct__doctor_node {
  int index;                    /**< number of the node */
  int n;                        /**< number of its ranks */
  const ct_rank_facts_t **rank; /**< [n] */
  const ct_job_facts_t *job;
  int cores;   /**< union of the ranks' masks */
  int allowed; /**< cores of this node that the job may use */
  int threads; /**< threads of all ranks that need a core */
  int sharing; /**< 1: some cores are in the masks of several ranks */
  int alike;   /**< 1: all masks are the same */
  /* of all groups of ranks with overlapping masks, the group that lacks the largest number of
   * cores: */
  int group_ranks, group_threads, group_cores;
} ct__doctor_node_t;

typedef struct ct__doctor_nodes {
  ct__doctor_node_t *node;       /**< [job->nodes] */
  const ct_rank_facts_t **order; /**< all ranks, node by node */
} ct__doctor_nodes_t;

/** Groups the ranks by node.  CT_ERR_NOMEM; the caller clears *out in any case. */
int ct__doctor_nodes_make(const ct_rank_facts_t *f, const ct_job_facts_t *job,
                          ct__doctor_nodes_t *out);
void ct__doctor_nodes_clear(ct__doctor_nodes_t *n);

/* ---- making findings ---- */

/** Adds a finding about a node; node NULL: about the job.  \a cure may be "". */
void ct__doctor_add(ct_findings_t *out, int level, const char *key, const ct__doctor_node_t *node,
                    const char *cure, const char *fmt, ...) __attribute__((format(printf, 6, 7)));
void ct__doctor_cores(const ct__doctor_node_t *node, ct_findings_t *out);
void ct__doctor_memory(const ct__doctor_node_t *node, ct_findings_t *out);
void ct__doctor_numa(const ct__doctor_node_t *node, ct_findings_t *out);
void ct__doctor_gpus(const ct__doctor_node_t *node, ct_findings_t *out);
void ct__doctor_launch(const ct_rank_facts_t *f, const ct_job_facts_t *job, ct_findings_t *out);
void ct__doctor_files(const ct_job_facts_t *job, ct_findings_t *out);
void ct__doctor_data(const ct_job_facts_t *job, ct_findings_t *out);
void ct__doctor_survey(const ct_job_facts_t *job, ct_findings_t *out);
/** Writes the launcher's options that give each rank \a cores cores of its own: "srun
 * --cpus-per-task=8 --cpu-bind=cores". */
void ct__doctor_bind(const ct_job_facts_t *job, int cores, char *buf, size_t cap);
/** Writes the launcher's options for \a ranks ranks per node with \a cores cores each. */
void ct__doctor_layout(const ct_job_facts_t *job, int ranks, int cores, char *buf, size_t cap);
/** Writes the launcher's options for at most \a ranks ranks per node: "srun --ntasks-per-node=4".
 */
void ct__doctor_fewer(const ct_job_facts_t *job, int ranks, char *buf, size_t cap);

/* ---- facts ---- */

/** Returns the number of people other than user \a me that have processes, from the owners of the
 * directories in \a proc ("/proc"), as far as these are visible.  \a name: one of these people,
 * "user anna", or "". */
int ct__doctor_others(const char *proc, unsigned me, char *name, size_t cap);

/* ---- printing ---- */

/** Appends "2 nodes x 2 ranks x 1 thread on 2 cores each, launched by srun (pmi2)". */
int ct__doctor_line(const ct__doctor_node_t *nodes, const ct_job_facts_t *job, ct_str_t *out);
/** Appends the finding as a sentence: "node3 and 2 more nodes: …". */
int ct__doctor_sentence(const ct_finding_t *finding, ct_str_t *out);

#endif
