/** \file late_rows.h  Part of trainer.h: rows of shared tables that travel by themselves. */
#ifndef CT_TRAINER_PRIVATE_H
#  error "include train/trainer.h"
#endif

/* ---- late_rows.c: rows of shared tables that travel by themselves ---- */

typedef struct ct__late_table {
  ct_op_t *add;  /**< adds the rows of all ranks to the table's gradient */
  int64_t most;  /**< indices of a rank, rounded up to whole cache lines */
  int64_t row;   /**< floats of memory of a row */
  float *index;  /**< device: of all ranks, [ranks * most] */
  float *rows;   /**< device: [ranks * most * row] */
  int64_t own;   /**< this rank's first index in `index` */
  size_t offset; /**< of the table in the gradient arena */
} ct__late_table_t;

typedef struct ct__late_rows {
  ct__late_table_t table[CT_LATE_MAX];
  int tables;
  void *scratch; /**< device */
} ct__late_rows_t;

/** Local. Computes the bytes that ct__late_rows_make() allocates. */
int ct__late_rows_bytes(const ct_trainer_env_t *e, const ct_plan_t *p, size_t *out);
/** Local. Allocates the rows of all ranks and prepares the ops that add them. */
int ct__late_rows_make(ct_trainer_t *t);
void ct__late_rows_free(ct_trainer_t *t);
/** Sets where any run of backward keeps its rows. */
void ct__late_rows_bind(const ct_trainer_t *t, ct_bind_t *bind);
/** Local, Hot. Clears the rows that a batch of n samples does not fill. */
int ct__late_rows_begin(ct_trainer_t *t, int64_t n);
/** Returns the rows of table k of this rank's n samples, and their bytes. */
const void *ct__late_rows_own(const ct_trainer_t *t, int k, int64_t n, size_t *bytes);
/** Returns the number of tables whose rows travel by themselves. */
int ct__late_rows_tables(const ct_trainer_t *t);
/** Collective, Hot, after backward. Gathers the rows of table k of all ranks.  \a empty: this rank
 * has none: it failed, or has no samples. */
int ct__late_rows_gather(ct_trainer_t *t, int k, int empty);
/** Local, Hot. Adds the rows to the reduced gradients of a bucket's tables. */
int ct__late_rows_add(ct_trainer_t *t, int bucket);
