/** \file ct_scale.h  A scaling study: which sizes, one round of one size, and its directory.
 * Layer 5. */
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

/** One size of a study, of a kind (CT_STUDY_RUN, _ALONE, _NEIGHBOURS). */
typedef struct ct_scale_config {
  int kind, ranks, nodes, local_ranks;
  int threads;        /**< of a rank; 0: as the configuration and the cores say */
  int64_t batch;      /**< global; of kinds without messages: of one rank */
  int64_t batch_rank; /**< > 0: weak, the batch of a rank; 0: strong */
  int rounds;         /**< that the study has of it */
  int settled;        /**< nothing more is to be measured */
} ct_scale_config_t;

/** What the command line says. */
typedef struct ct_scale_opts {
  const char *config;
  int ranks[CT_SCALE_CONFIGS], threads[CT_SCALE_CONFIGS];
  int nranks, nthreads;
  int nodes;               /**< 1: ranks[] are nodes, with all of their ranks */
  int weak, spread, bases; /**< bases: configurations without messages, too */
  int fresh;               /**< each round sets its size up again */
  int64_t rounds, steps;
  double error, budget_s; /**< share of the step; 0: no limit */
} ct_scale_opts_t;

/** Where each rank is, in the order in which sizes take them: place[p] of topo's rank order[p]. */
typedef struct ct_scale_placement {
  int *order; /**< owned; [size] */
  int *node;  /**< owned; [size] of the rank at that place */
  int mine;   /**< my place */
} ct_scale_placement_t;

/* ---- plan.c ---- */

/** Local.  CT_ERR_USAGE: not such numbers.  ranks: of MPI_COMM_WORLD; 0: not known yet. */
int ct_scale_opts(const ct_args_t *a, int ranks, ct_scale_opts_t *out);
/** Collective. */
int ct_scale_placement(const ct_topo_t *topo, int spread, ct_scale_placement_t *out);
void ct_scale_placement_clear(ct_scale_placement_t *p);
/** Local.  All configurations of the study into out[CT_SCALE_CONFIGS]; the same on all ranks.  \a
 * batch: of one rank if weak, else of all.  CT_ERR_USAGE. */
int ct_scale_plan(const ct_scale_opts_t *o, const ct_topo_t *topo, const ct_scale_placement_t *p,
                  int64_t batch, ct_scale_config_t *out, int *n);

/* ---- configuration.c ---- */

/** The ranks of a configuration as a sub-communicator of their own, and what they need for its
 * steps. */
typedef struct ct_scale_group {
  ct_topo_t group;  /**< size 0: this rank is not in it, and what follows is empty */
  ct_topo_t single; /**< of neighbours: this rank alone; else of size 0 */
  ct_setup_t s;     /**< of one or the other, up to a trainer */
  ct_sampler_t order;
  int ready;            /**< 1: it is set up */
  size_t avail;         /**< free memory of the device before */
  double before, bytes; /**< of the process's memory, before; what it takes */
} ct_scale_group_t;

/** Those that stay for the rounds to come, which is more than half of a short round's time. */
typedef struct ct_scale_groups {
  ct_scale_group_t *group[CT_SCALE_CONFIGS]; /**< owned; by the number of the configuration; NULL:
                                                  none */
  int kept;
  double share; /**< of the memory that was free may stay; 0: nothing */
  double bytes, limit;
} ct_scale_groups_t;

/** Local. */
void ct_scale_groups_open(const ct_topo_t *topo, double share, ct_scale_groups_t *k);
/** Collective over topo.  The group of configuration \a i, kept or new; not yet set up if it is
 * new. */
int ct_scale_group_begin(ct_scale_groups_t *k, const ct_topo_t *topo,
                         const ct_scale_placement_t *placement, const ct_scale_config_t *p, int i,
                         ct_scale_group_t **out);
/** Collective over the group's ranks (w->s.topo).  Sets it up; one that was kept begins again, with
 * the same weights as before. */
int ct_scale_group_ready(ct_scale_group_t *w, const ct_args_t *a, const ct_scale_config_t *p);
/** Collective over topo.  \a w is the callers' no more: it stays if \a keep (the same on all ranks)
 * and if all of its ranks have memory for it, else it is closed. */
int ct_scale_group_end(ct_scale_groups_t *k, const ct_topo_t *topo, ct_scale_group_t *w, int i,
                       int keep);
/** Collective over its group.  Nothing more will be measured of configuration \a i. */
void ct_scale_group_drop(ct_scale_groups_t *k, int i);
/** Collective.  Returns how many there were. */
int ct_scale_groups_close(ct_scale_groups_t *k);

/* ---- round.c ---- */

/** What a round has measured; of rank 0. */
typedef struct ct_scale_round {
  int wants_timeline; /**< in: the study has none yet */
  int steps, warmup, threads;
  int kept;       /**< 1: it was set up in a round before */
  double setup_s; /**< from the configuration to the first step */
  double gradient_bytes;
  ct_meter_sum_t energy;            /**< of all nodes in those steps */
  json_t *breakdown, *ranks_busy_s; /**< owned by whoever writes them down; NULL: failed */
  json_t *conditions;               /**< likewise: ct_scale_conditions() behind the steps */
  json_t *timeline;                 /**< likewise; NULL: none was wanted, or can be had */
} ct_scale_round_t;

/** Collective over all of topo: the ranks of configuration \a i measure, the others sleep.  What is
 * wrong with this size alone is an error on all ranks. */
int ct_scale_measure(const ct_args_t *a, const ct_topo_t *topo,
                     const ct_scale_placement_t *placement, const ct_scale_opts_t *o,
                     const ct_scale_config_t *config, int i, ct_scale_groups_t *groups,
                     ct_scale_round_t *out);

/* ---- machine.c; Collective, *out: of rank 0, and the caller's ---- */

/** What all nodes are like: `machine` of points.jsonl. */
int ct_scale_machine(const ct_topo_t *topo, json_t **out);
/** Loads and clocks of them now: `load`, `load_host` and `clock_mhz` of a point. */
int ct_scale_conditions(const ct_topo_t *topo, json_t **out);

/* ---- timeline.c ---- */

/** Local.  Times the launches of a step on this batch, which has a rank's local batch:
 * the event `timeline` of points.jsonl into *out.  Not where rank 0 deals batches. */
int ct_scale_timeline(ct_setup_t *s, const ct_batch_t *b, json_t **out);

/* ---- record.c; local, rank 0 ---- */

typedef struct ct_scale_study {
  char dir[CT_PATH_MAX], points[CT_PATH_MAX];
  ct_lock_t *lock;
  int launch;   /**< how many times it was begun before */
  int timeline; /**< 1: it has one */
} ct_scale_study_t;

/** Makes or takes up the directory, and counts the rounds that each configuration has.  \a key
 * tells what may be in one study: configuration, program, machine; one of another key is
 * CT_ERR_USAGE.
 * \a machine is borrowed. */
int ct_scale_open(const char *dir, const ct_scale_opts_t *o, const ct_topo_t *topo, uint64_t key,
                  json_t *machine, ct_scale_config_t *config, int n, ct_scale_study_t *s);
/** One line more; \a error NULL: it was measured. */
int ct_scale_add(ct_scale_study_t *s, const ct_scale_config_t *p, int round,
                 const ct_scale_round_t *b, const char *error);
/** Marks what needs no further round: \a least there, and an interval below \a error; or five
 * times as many; or it failed. */
int ct_scale_settle(const ct_scale_study_t *s, const ct_scale_opts_t *o, ct_scale_config_t *config,
                    int n);
void ct_scale_close(ct_scale_study_t *s);

/* ---- output.c; local, rank 0 ---- */

/** The table at the end, and table.csv in the study's directory. */
int ct_scale_print(const ct_scale_study_t *s, const char *predict, int json);

/* ---- launch.c ---- */

/** Local, before MPI starts.  With --submit this process becomes the template that submits jobs
 * (jobs/chain.sh); a study of several ranks that is started by hand becomes mpiexec with as many.
 * In both cases it does not return, unless the jobs are only to be shown: then *done is 1. */
int ct_scale_before_mpi(const ct_args_t *a, int *done);

/* ---- submit.c ---- */

/** Local.  --submit, as above. */
int ct_scale_submit(const ct_args_t *a, int *done);

#endif
