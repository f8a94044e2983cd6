/** \file doctor.h  A node's ranks, and how findings about them are made and said: what the files of
 * the doctor share.  facts.c asks, nodes.c sorts, judge.c calls one judge_*.c for each subject,
 * report.c, report_json.c and report_start.c tell. */
#ifndef CT_DOCTOR_DOCTOR_H
#define CT_DOCTOR_DOCTOR_H
#include "doctor/ct_doctor.h"

/** The plural of what there are n of. */
#define S(n) ((n) == 1 ? "" : "s")
#define MIB  ((int64_t)1 << 20)

/** The ranks of one node, and what they have together. */
typedef struct ct__doctor_node {
  int index, n;
  const ct_rank_facts_t **rank; /**< [n] */
  const ct_job_facts_t *job;
  int cores;   /**< that any of them may use */
  int allowed; /**< that the job may use on this node */
  int threads; /**< that want a core, together */
  int sharing; /**< 1: cores are in the masks of several ranks */
  int alike;   /**< 1: all masks are the same */
  /* the ranks that share cores and are worst off */
  int group_ranks, group_threads, group_cores;
} ct__doctor_node_t;

typedef struct ct__doctor_nodes {
  ct__doctor_node_t *node;       /**< [job->nodes] */
  const ct_rank_facts_t **order; /**< all ranks, node by node */
} ct__doctor_nodes_t;

/** Sorts the ranks by nodes.  CT_ERR_NOMEM; to be cleared in any case. */
int ct__doctor_nodes_make(const ct_rank_facts_t *f, const ct_job_facts_t *job,
                          ct__doctor_nodes_t *out);
void ct__doctor_nodes_clear(ct__doctor_nodes_t *n);

/* ---- the kinds of findings ---- */

/** About a node; NULL: about the job.  \a cure may be "". */
void ct__doctor_add(ct_findings_t *out, int level, const char *key, const ct__doctor_node_t *node,
                    const char *cure, const char *fmt, ...) __attribute__((format(printf, 6, 7)));
void ct__doctor_cores(const ct__doctor_node_t *node, ct_findings_t *out);
void ct__doctor_memory(const ct__doctor_node_t *node, ct_findings_t *out);
void ct__doctor_gpus(const ct__doctor_node_t *node, ct_findings_t *out);
void ct__doctor_launch(const ct_rank_facts_t *f, const ct_job_facts_t *job, ct_findings_t *out);
void ct__doctor_files(const ct_job_facts_t *job, ct_findings_t *out);
void ct__doctor_data(const ct_job_facts_t *job, ct_findings_t *out);
void ct__doctor_survey(const ct_job_facts_t *job, ct_findings_t *out);
/** "srun --cpus-per-task=8 --cpu-bind=cores": \a cores for each rank, none of them shared. */
void ct__doctor_bind(const ct_job_facts_t *job, int cores, char *buf, size_t cap);
/** "srun --ntasks-per-node=4": at most \a ranks on a node. */
void ct__doctor_fewer(const ct_job_facts_t *job, int ranks, char *buf, size_t cap);

/* ---- facts ---- */

/** How many people other than \a me have processes, as the owners of the directories of \a proc
 * ("/proc") tell, where that is not hidden; the name of one, "user anna", or "". */
int ct__doctor_others(const char *proc, unsigned me, char *name, size_t cap);

/* ---- telling ---- */

/** "2 nodes x 2 ranks x 1 thread on 2 cores each, launched by srun (pmi2)".  Appended. */
int ct__doctor_line(const ct__doctor_node_t *nodes, const ct_job_facts_t *job, ct_str_t *out);
/** "node3 and 2 more nodes: …"; the finding in a sentence.  Appended. */
int ct__doctor_sentence(const ct_finding_t *finding, ct_str_t *out);

#endif
