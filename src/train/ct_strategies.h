/** \file ct_strategies.h  How a step is shared among the ranks: the words of parallel.mode.
 * Layer 4.  Free of MPI.
 *
 * Each way is a file of this folder and a line of the list.  What others must know of a way stands
 * in its row; none of them asks which way it is. */
#ifndef CT_WAYS_H
#define CT_WAYS_H
#include "train/ct_train_opts.h"

struct ct_trainer;
struct ct_batch;
struct ct_schedule_point;
struct ct_step_report;

/** Its word, and a line of help. */
#define CT_WAYS(FIRST, X)                             \
  FIRST(ddp, "gradients are averaged over all ranks") \
  X(single, "one rank only")                          \
  X(dp, "rank 0 deals out the batch and makes the update (to compare with; slower)")

typedef struct ct_way {
  const char *name;
  int one_rank;    /**< 1: there may be one rank only */
  int rank0_deals; /**< 1: rank 0's feed has the whole batch, the others have none */
  int repeats;     /**< 1: steps may be started as a whole (ct_queue_ops_t.begin) */
  /* Local, pure.  What it cannot be combined with: CT_ERR_USAGE names the keys and the reason.
   * NULL: nothing */
  int (*check)(const ct_parallel_opts_t *p, const ct_train_opts_t *t);
  /* Local.  For a trainer that has its plans and arenas; what it keeps is t->way */
  int (*make)(struct ct_trainer *t);
  void (*free)(struct ct_trainer *t);
  /* Local.  What a batch of n samples over all ranks needs besides plans.  NULL: nothing */
  int (*prepare)(struct ct_trainer *t, int n);
  /* Collective, Hot.  Forward, backward and update; a failure is noted, and no peer is left
   * waiting.  If getting the batch failed on this rank, that is noted, and b is not looked at */
  void (*step)(struct ct_trainer *t, const struct ct_batch *b, const struct ct_schedule_point *at,
               struct ct_step_report *report);
} ct_way_t;

#define CT_WAY(word, help) extern const ct_way_t ct_way_##word;
CT_WAYS(CT_WAY, CT_WAY)
#undef CT_WAY

#endif
