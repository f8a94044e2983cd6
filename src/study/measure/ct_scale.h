/** \file ct_scale.h  A scaling study (`ctrain-hpc scale`): its plan, the measurement of one round
 * of one configuration, and its directory.  Layer 5.
 *
 * A configuration is a number of ranks, with nodes, threads and batch; each is measured in several
 * rounds.  The ranks of a configuration train in a sub-communicator, the other ranks sleep. */
#ifndef CT_SCALE_H
#define CT_SCALE_H
#include <jansson.h>

#include "setup/ct_command.h"
#include "setup/ct_setup.h"
#include "host/ct_lock.h"
#include "telemetry/ct_time_breakdown.h"
#include "telemetry/ct_meter.h"
#include "study/model/ct_study.h"

enum { CT_SCALE_CONFIGS = 128 };

/** One configuration of a study. */
typedef struct ct_scale_config {
  int kind, ranks, nodes, local_ranks; /**< kind: CT_STUDY_RUN, … (ct_study.h) */
  int threads;                         /**< per rank; 0: by cpu.threads and the available cores */
  int64_t batch;                       /**< global batch; ALONE and NEIGHBOURS: batch of one rank */
  int64_t batch_rank;                  /**< > 0: batch per rank (weak scaling); 0: strong scaling */
  int rounds;                          /**< number of measured rounds */
  int settled;                         /**< 1: needs no further round */
} ct_scale_config_t;

/** Options of the command line. */
typedef struct ct_scale_opts {
  const char *config;
  int ranks[CT_SCALE_CONFIGS], threads[CT_SCALE_CONFIGS];
  int nranks, nthreads;
  int nodes;               /**< 1: ranks[] are numbers of nodes, each with all of its ranks */
  int weak, spread, bases; /**< bases: also measure configurations without communication */
  int fresh;               /**< 1: each round sets its configuration up again */
  int64_t rounds, steps;   /**< rounds per configuration, steps per round */
  double error, budget_s;  /**< interval of a median, +- fraction of the step; 0: no limit */
} ct_scale_opts_t;

/** The order in which configurations use ranks: one of n ranks uses order[0] to order[n - 1]. */
typedef struct ct_scale_placement {
  int *order; /**< owned; [size] ranks of topo */
  int *node;  /**< owned; [size] node of order[i] */
  int mine;   /**< position of this rank in order[] */
} ct_scale_placement_t;

/* ---- plan.c ---- */

/** Local.  Parses the options.  \a ranks: number of ranks that were started; 0: not known yet.
 * CT_ERR_USAGE: an option is malformed, or needs more ranks. */
int ct_scale_opts(const ct_args_t *a, int ranks, ct_scale_opts_t *out);
/** Collective.  Sorts the ranks by node; with \a spread, deals them to the nodes round-robin.
 * CT_ERR_NOMEM. */
int ct_scale_placement(const ct_topo_t *topo, int spread, ct_scale_placement_t *out);
void ct_scale_placement_clear(ct_scale_placement_t *p);
/** Local.  Fills out[CT_SCALE_CONFIGS] with the configurations of the study, identical on all
 * ranks.
 * \a batch: per rank for weak scaling, otherwise global.  CT_ERR_USAGE. */
int ct_scale_plan(const ct_scale_opts_t *o, const ct_topo_t *topo, const ct_scale_placement_t *p,
                  int64_t batch, ct_scale_config_t *out, int *n);

/* ---- configuration.c ---- */

/** The sub-communicator of a configuration, and the trainer set up on it. */
typedef struct ct_scale_group {
  ct_topo_t group;  /**< ranks of the configuration; size 0: without this rank, the rest is unset */
  ct_topo_t single; /**< for CT_STUDY_NEIGHBOURS: this rank alone; otherwise size 0 */
  ct_setup_t s;     /**< setup on \a single if it exists, otherwise on \a group */
  ct_sampler_t order;
  int ready;            /**< 1: the setup is complete */
  size_t avail;         /**< free device memory before the setup */
  double before, bytes; /**< resident memory before the setup; memory that the setup uses */
} ct_scale_group_t;

/** Sub-communicators kept for later rounds: setup takes more than half of a short round. */
typedef struct ct_scale_groups {
  ct_scale_group_t *group[CT_SCALE_CONFIGS]; /**< owned; by index of the configuration; or NULL */
  int kept;
  double share;        /**< fraction of the free memory that may be used; 0: keep none */
  double bytes, limit; /**< host memory of all kept ones; its maximum */
} ct_scale_groups_t;

/** Local.  \a share: fraction of the free memory that kept sub-communicators may use. */
void ct_scale_groups_open(const ct_topo_t *topo, double share, ct_scale_groups_t *k);
/** Collective over topo.  *out: the kept sub-communicator of configuration \a i, or a new one that
 * is not set up. */
int ct_scale_group_begin(ct_scale_groups_t *k, const ct_topo_t *topo,
                         const ct_scale_placement_t *placement, const ct_scale_config_t *p, int i,
                         ct_scale_group_t **out);
/** Collective over w->s.topo.  Sets the trainer up; a kept one is reset to its initial weights. */
int ct_scale_group_ready(ct_scale_group_t *w, const ct_args_t *a, const ct_scale_config_t *p);
/** Collective over topo.  Takes ownership of \a w: keeps it if \a keep (identical on all ranks) is
 * 1 and all of its ranks have memory for it; otherwise closes it. */
int ct_scale_group_end(ct_scale_groups_t *k, const ct_topo_t *topo, ct_scale_group_t *w, int i,
                       int keep);
/** Collective over its group.  Closes the kept sub-communicator of configuration \a i, if any. */
void ct_scale_group_drop(ct_scale_groups_t *k, int i);
/** Collective.  Closes all kept sub-communicators; returns their number. */
int ct_scale_groups_close(ct_scale_groups_t *k);

/* ---- round.c ---- */

/** The results of a round, valid on rank 0.  The caller owns the JSON objects. */
typedef struct ct_scale_round {
  int wants_timeline; /**< in: 1 if the study has no timeline yet */
  int steps, warmup, threads;
  int kept;       /**< 1: an earlier round did the setup */
  double setup_s; /**< from reading the configuration to the first step */
  double gradient_bytes;
  ct_meter_sum_t energy;            /**< of all nodes during the measured steps */
  json_t *breakdown, *ranks_busy_s; /**< time breakdown; busy time of each rank, or NULL */
  json_t *conditions;               /**< ct_scale_conditions() after the steps; NULL: failed */
  json_t *timeline;                 /**< NULL: not wanted or not available */
} ct_scale_round_t;

/** Collective over topo: the ranks of configuration \a i measure, the others sleep.  An error of
 * this configuration is returned on all ranks; the study can continue with the next one. */
int ct_scale_measure(const ct_args_t *a, const ct_topo_t *topo,
                     const ct_scale_placement_t *placement, const ct_scale_opts_t *o,
                     const ct_scale_config_t *config, int i, ct_scale_groups_t *groups,
                     ct_scale_round_t *out);

/* ---- machine.c; collective; *out is set on rank 0, owned by the caller ---- */

/** Hardware and software of all nodes: `machine` of points.jsonl. */
int ct_scale_machine(const ct_topo_t *topo, json_t **out);
/** Current load and clock rates of the nodes: `load`, `load_host` and `clock_mhz` of a point. */
int ct_scale_conditions(const ct_topo_t *topo, json_t **out);

/* ---- timeline.c ---- */

/** Local.  Times each launch of a step on this rank's local batch.  *out: the event `timeline` of
 * points.jsonl, owned by the caller.  Unsupported if rank 0 distributes batches. */
int ct_scale_timeline(ct_setup_t *s, const ct_batch_t *b, json_t **out);

/* ---- record.c; local, rank 0 ---- */

typedef struct ct_scale_study {
  char dir[CT_PATH_MAX], points[CT_PATH_MAX];
  ct_lock_t *lock;
  int launch;   /**< number of earlier starts of the study */
  int timeline; /**< 1: the study has a timeline */
} ct_scale_study_t;

/** Creates the directory, or reopens it and counts the rounds of each configuration.  \a key: a
 * hash of configuration, program and machine; CT_ERR_USAGE if the directory has a study with
 * another key.  \a machine is borrowed. */
int ct_scale_open(const char *dir, const ct_scale_opts_t *o, const ct_topo_t *topo, uint64_t key,
                  json_t *machine, ct_scale_config_t *config, int n, ct_scale_study_t *s);
/** Appends the result of a round to points.jsonl; \a error: why it failed; NULL: it succeeded. */
int ct_scale_add(ct_scale_study_t *s, const ct_scale_config_t *p, int round,
                 const ct_scale_round_t *b, const char *error);
/** Marks configurations that need no further round: those with o->blocks rounds and an interval
 * within o->error, or with five times as many rounds. */
int ct_scale_settle(const ct_scale_study_t *s, const ct_scale_opts_t *o, ct_scale_config_t *config,
                    int n);
void ct_scale_close(ct_scale_study_t *s);

/* ---- output.c; local, rank 0 ---- */

/** Prints the table of results, and writes table.csv into the study's directory. */
int ct_scale_print(const ct_scale_study_t *s, const char *predict, int json);

/* ---- launch.c ---- */

/** Local, before MPI starts.  With --submit, replaces this process with the script that submits
 * jobs (jobs/chain.sh).  A study of several ranks that was not started by a launcher is replaced
 * with mpiexec.  Does not return in either case, except that *done is 1 if the jobs are only
 * displayed. */
int ct_scale_before_mpi(const ct_args_t *a, int *done);

/* ---- submit.c ---- */

/** Local.  The --submit part of ct_scale_before_mpi(). */
int ct_scale_submit(const ct_args_t *a, int *done);

#endif
