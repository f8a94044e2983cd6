/** \file ct_scale.h  A scaling study (`ctrain-hpc scale`): its plan, the measurement of one round
 * of one configuration, and its directory.  Layer 5.
 *
 * A configuration is a number of ranks with their nodes, threads and batch.  A round measures each
 * configuration once, and a study has several rounds.  The ranks of a configuration train in a
 * sub-communicator while the other ranks sleep. */
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
  int kind;                      /**< CT_STUDY_RUN, … (ct_study.h) */
  int ranks, nodes, local_ranks; /**< number of ranks and nodes, and of ranks per node */
  int threads;                   /**< per rank; 0: by cpu.threads and the available cores */
  int64_t batch;                 /**< global batch; for CT_STUDY_ALONE and CT_STUDY_NEIGHBOURS the
                                      batch of one rank */
  int64_t batch_rank;            /**< > 0: batch per rank (weak scaling); 0: strong scaling */
  int rounds;                    /**< number of rounds that were measured */
  int settled;                   /**< 1: does not need a further round */
} ct_scale_config_t;

/** Options of the command line. */
typedef struct ct_scale_opts {
  const char *config;
  int ranks[CT_SCALE_CONFIGS], threads[CT_SCALE_CONFIGS];
  int nranks, nthreads;
  int nodes;       /**< 1: ranks[] are numbers of nodes, and all ranks of these nodes are used */
  int weak;        /**< 1: weak scaling: the batch per rank is constant */
  int spread;      /**< 1: the ranks of a configuration are spread over all nodes */
  int bases;       /**< 1: also measure configurations without communication */
  int fresh;       /**< 1: each round sets its configurations up again */
  int64_t rounds;  /**< rounds per configuration */
  int64_t steps;   /**< steps per round */
  double error;    /**< half width of a median's interval at which a configuration needs no further
                        round, as a fraction of the step; 0: no limit */
  double budget_s; /**< maximum duration of the study; 0: no limit */
} ct_scale_opts_t;

/** The order in which configurations use ranks: a configuration of n ranks uses order[0] to
 * order[n - 1]. */
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
  ct_topo_t group;  /**< ranks of the configuration; size 0: this rank is not one of them, and all
                         other members are unset */
  ct_topo_t single; /**< for CT_STUDY_NEIGHBOURS: this rank alone; otherwise size 0 */
  ct_setup_t s;     /**< setup on \a single if it exists, otherwise on \a group */
  ct_sampler_t order;
  int ready;     /**< 1: the setup is complete */
  size_t avail;  /**< free device memory before the setup */
  double before; /**< resident host memory before the setup */
  double bytes;  /**< host memory that the setup uses */
} ct_scale_group_t;

/** Sub-communicators kept for later rounds: setup takes more than half of a short round. */
typedef struct ct_scale_groups {
  ct_scale_group_t *group[CT_SCALE_CONFIGS]; /**< owned; by index of the configuration; or NULL */
  int kept;                                  /**< number of kept sub-communicators */
  double share; /**< fraction of the free memory (host and device) that all kept sub-communicators
                     may use; 0: keep none */
  double bytes; /**< host memory of this rank that they use now */
  double limit; /**< bytes may not exceed this */
} ct_scale_groups_t;

/** Local.  Begins without kept sub-communicators.  \a share: fraction of the free memory that kept
 * sub-communicators may use. */
void ct_scale_groups_open(const ct_topo_t *topo, double share, ct_scale_groups_t *k);
/** Collective over topo.  Returns in *out the kept sub-communicator of configuration \a i, or a new
 * one that is not set up. */
int ct_scale_group_begin(ct_scale_groups_t *k, const ct_topo_t *topo,
                         const ct_scale_placement_t *placement, const ct_scale_config_t *p, int i,
                         ct_scale_group_t **out);
/** Collective over w->s.topo.  Sets the trainer up, or resets a kept trainer to its initial
 * weights. */
int ct_scale_group_ready(ct_scale_group_t *w, const ct_args_t *a, const ct_scale_config_t *p);
/** Collective over topo.  Takes ownership of \a w: keeps it if \a keep (identical on all ranks) is
 * 1 and all of its ranks have memory for it; otherwise closes it. */
int ct_scale_group_end(ct_scale_groups_t *k, const ct_topo_t *topo, ct_scale_group_t *w, int i,
                       int keep);
/** Collective over the ranks of configuration \a i.  Closes its kept sub-communicator, if any. */
void ct_scale_group_drop(ct_scale_groups_t *k, int i);
/** Collective.  Closes all kept sub-communicators; returns their number. */
int ct_scale_groups_close(ct_scale_groups_t *k);

/* ---- round.c ---- */

/** The results of a round, valid on rank 0.  The caller owns the JSON objects. */
typedef struct ct_scale_round {
  int wants_timeline; /**< in: 1 if the study has no timeline yet */
  int steps, warmup, threads;
  int kept;       /**< 1: an earlier round set this configuration up */
  double setup_s; /**< from reading the configuration to the first step */
  double gradient_bytes;
  ct_meter_sum_t energy; /**< energy of all nodes during the measured steps */
  json_t *breakdown;     /**< time breakdown */
  json_t *ranks_busy_s;  /**< busy time of each rank; or NULL */
  json_t *conditions;    /**< ct_scale_conditions() after the steps; NULL: failed */
  json_t *timeline;      /**< ct_scale_timeline(); NULL: not wanted or not available */
} ct_scale_round_t;

/** Collective over topo.  Measures one round of configuration \a i: its ranks train, and the other
 * ranks sleep.  An error of this configuration is returned on all ranks; the study can continue
 * with the next configuration. */
int ct_scale_measure(const ct_args_t *a, const ct_topo_t *topo,
                     const ct_scale_placement_t *placement, const ct_scale_opts_t *o,
                     const ct_scale_config_t *config, int i, ct_scale_groups_t *groups,
                     ct_scale_round_t *out);

/* ---- machine.c; collective; *out is set on rank 0, owned by the caller ---- */

/** Describes the hardware and software of all nodes: `machine` of points.jsonl. */
int ct_scale_machine(const ct_topo_t *topo, json_t **out);
/** Reads the current load and clock rates of the nodes: `load`, `load_host` and `clock_mhz` of a
 * line in points.jsonl. */
int ct_scale_conditions(const ct_topo_t *topo, json_t **out);

/* ---- timeline.c ---- */

/** Local.  Times each launch of a step on this rank's local batch.  *out: the event `timeline` of
 * points.jsonl, owned by the caller.  CT_ERR_UNSUP: rank 0 reads the samples and sends them to the
 * other ranks. */
int ct_scale_timeline(ct_setup_t *s, const ct_batch_t *b, json_t **out);

/* ---- record.c; local, rank 0 ---- */

typedef struct ct_scale_study {
  char dir[CT_PATH_MAX], points[CT_PATH_MAX];
  ct_lock_t *lock;
  int launch;   /**< number of earlier launches of `scale` in this directory */
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
/** Marks the configurations that do not need a further round: configurations with o->rounds rounds
 * and an interval within o->error, or with five times as many rounds. */
int ct_scale_settle(const ct_scale_study_t *s, const ct_scale_opts_t *o, ct_scale_config_t *config,
                    int n);
void ct_scale_close(ct_scale_study_t *s);

/* ---- output.c; local, rank 0 ---- */

/** Prints the table of results, and writes table.csv into the study's directory. */
int ct_scale_print(const ct_scale_study_t *s, const char *predict, int json);

/* ---- launch.c ---- */

/** Local.  Call before MPI starts.  With --submit, replaces this process with the script that
 * submits jobs (jobs/chain.sh).  If the study has several ranks and was not started by a launcher,
 * replaces this process with mpiexec.  Does not return in either case, except with --dry-run, which
 * displays the jobs and sets *done to 1. */
int ct_scale_before_mpi(const ct_args_t *a, int *done);

/* ---- submit.c ---- */

/** Local.  Does the part of ct_scale_before_mpi() for --submit. */
int ct_scale_submit(const ct_args_t *a, int *done);

#endif
