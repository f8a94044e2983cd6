/** \file trainer_rig.h  A small trainer on the flaky backend, and batches for it.
 *
 * A sample is a pure function of its step and its place in the global batch, so that trainers with
 * different rank counts can be given the same work. */
#ifndef TRAINER_RIG_H
#define TRAINER_RIG_H
#include "tests/harness/ct_test_mpi.h"
#include "train/ct_trainer.h"

/** Layers as YAML text; samples are 2 x 6 x 6, in 10 classes. */
extern const char
    *const rig_plain; /**< conv, max-pool, linear, dropout: nothing that joins samples */
extern const char *const rig_norm;   /**< conv, batchnorm, residual sum, dropout */
extern const char *const rig_shared; /**< three layers with the same weight */
extern const char *const rig_wider;  /**< rig_norm, but one layer has more outputs */
extern const char *const rig_longer; /**< rig_norm and one more layer in between */

typedef struct rig_opts {
  const char *model;
  const char *order;       /**< CTRAIN_REF_ORDER; NULL: inline */
  int max_batch, max_eval; /**< of a rank; max_batch 0: 4 */
  double bucket_mb;        /**< 0: a bucket for every parameter */
  int in_place;            /**< batches are used where they lie */
  int alone;               /**< each rank for itself, as if there were no other */
  int blocking;            /**< a communicator of the rig's own, which is opened in no time */
  int evaluation;          /**< no training */
  uint64_t seed;           /**< 0: 1 */
  ct_step_opts_t step_opts;
  ct_loss_spec_t loss;
  const float *class_weight;
  ct_optim_opts_t optim; /**< lr 0: SGD of rate 0.05 with momentum and weight decay */
  const char *freeze;    /**< a pattern; NULL: nothing is frozen */
  int freeze_bn;
} rig_opts_t;

typedef struct rig {
  ct_topo_t topo;
  ct_backend_t be;
  ct_dev_t *dev;
  const ct_comm_ops_t *comm_ops;
  ct_comm_t *comm;
  void *taken; /**< the blocking communicator's memory */
  ct_graph_t *graph;
  ct_optim_opts_t optim;
  ct_trainer_env_t env;
  ct_trainer_t *t;
  ct_batch_t batch;
  ct_ckpt_item_t *item; /**< of the last rig_snapshot() */
  int items;
} rig_t;

enum { RIG_ROOM = 16, RIG_CLASSES = 10 }; /* samples that a rank's batch has room for */

/** Collective.  All but the trainer. */
void rig_open(rig_t *r, const rig_opts_t *o);
/** Collective.  The trainer's code. */
int rig_create(rig_t *r);
/** Collective.  Both; asserts success. */
void rig_start(rig_t *r, const rig_opts_t *o);
/** Collective. */
void rig_close(rig_t *r);

/** Element \a i of the samples of a step's global batch, one behind another; the label of the
 * sample at that place. */
float rig_element(int step, int64_t i);
int32_t rig_label(int step, int64_t place);
/** This rank's part of a step's global batch into r->batch. */
void rig_load(rig_t *r, int step, int global);
/** Collective.  One step on what is loaded. */
int rig_run(rig_t *r, ct_step_status_t *word);
/** Collective.  rig_load() and rig_run() with asserted success; the mean loss. */
double rig_step(rig_t *r, int step, int global);
/** Local.  Forward on what is loaded: mean of this rank's samples summed up in *sum. */
int rig_forward(rig_t *r, ct_loss_t *sum);
/** Local.  Snapshot into r->item; hash of all names and values; the running statistics, which each
 * rank has for itself, count only if it is to be the \a whole. */
uint64_t rig_snapshot(rig_t *r, const ct_position_t *at, int whole);
/** Local.  The same of a position that does not matter: what all ranks share. */
uint64_t rig_hash(rig_t *r);

int rig_last_rank(void);
/** Collective.  Asserts that all ranks have the same value. */
void rig_same(const char *what, uint64_t value);
/** Asserts what this rank knows of a failure: its code, the rank, a part of the text. */
void rig_told(int rc, int code, int rank, const char *word);
/** Collective.  After a failure: asserts that the ranks hold the same weights again, and go on
 * together. */
void rig_goes_on(rig_t *r);

#endif
