/** \file ct_strategies.h  Strategies that split a step over the ranks: the choices of
 * parallel.mode.
 * Layer 4. Free of MPI.
 *
 * Each strategy is one file of this module and one line of the list below. Its row holds everything
 * that other code needs to know; no code tests for a specific strategy. */
#ifndef CT_STRATEGIES_H
#define CT_STRATEGIES_H
#include "train/ct_train_opts.h"

struct ct_trainer;
struct ct_batch;
struct ct_schedule_point;
struct ct_step_report;

/** X(name of the strategy, its line of help). */
#define CT_STRATEGIES(FIRST, X)                       \
  FIRST(ddp, "gradients are averaged over all ranks") \
  X(single, "one rank only")                          \
  X(dp, "rank 0 scatters the batch and updates the weights (for comparison; slower)")

typedef struct ct_strategy {
  const char *name;
  int one_rank;    /**< 1: requires a single rank */
  int rank0_deals; /**< 1: rank 0's feed loads the whole batch, the other ranks load nothing */
  int repeats;     /**< 1: steps may be replayed as a graph (ct_queue_ops_t.begin) */
  /* Local, pure. CT_ERR_USAGE names options that the strategy cannot be combined with, and the
   * reason. NULL: it combines with all */
  int (*check)(const ct_parallel_opts_t *p, const ct_train_opts_t *t);
  /* Local. Allocates the strategy's own state t->strategy, after plans and arenas were made */
  int (*make)(struct ct_trainer *t);
  void (*free)(struct ct_trainer *t);
  /* Local. Prepares everything but plans for batches of n samples over all ranks. NULL: the
   * strategy needs no preparation */
  int (*prepare)(struct ct_trainer *t, int n);
  /* Collective, Hot. Forward, backward and update. A failure is recorded and leaves no peer
   * waiting. If loading the batch failed on this rank, that is already recorded, and b is
   * ignored */
  void (*step)(struct ct_trainer *t, const struct ct_batch *b, const struct ct_schedule_point *at,
               struct ct_step_report *report);
} ct_strategy_t;

#define CT_STRATEGY(word, help) extern const ct_strategy_t ct_strategy_##word;
CT_STRATEGIES(CT_STRATEGY, CT_STRATEGY)
#undef CT_STRATEGY

#endif
