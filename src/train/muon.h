/** \file muon.h  Part of trainer.h: directions of matrices. */
#ifndef CT_TRAINER_PRIVATE_H
#  error "include train/trainer.h"
#endif

/* ---- muon.c: directions of matrices for optim.kind muon ---- */

enum { CT_MUON_PRODUCTS = 3 };

/** A trained parameter whose step is orthogonalized. */
typedef struct ct__matrix {
  int param, k; /**< index in the graph, and in the order of the arena */
  int64_t rows, columns;
  size_t bytes;                       /**< in the arena */
  ct_op_t *product[CT_MUON_PRODUCTS]; /**< X X^T or X^T X; its square; and with X */
} ct__matrix_t;

typedef struct ct__muon {
  ct__matrix_t *matrix;
  int matrices;
  char *room;                      /**< device: workspace; a matrix x at its begin */
  size_t y, a, aa, norms, scratch; /**< offsets of a second matrix, of products, and so on */
  int64_t count;                   /**< largest number of elements of one of them */
  ct_op_t *measure, *blend;
} ct__muon_t;

/** Returns the bytes of the workspace; 0: the optimizer is another one, or has no matrices. */
size_t ct__muon_bytes(const ct_trainer_env_t *e, const ct_arena_map_t *m);
/** Local. CT_ERR_UNSUP: the device stores a matrix in another layout, and the host cannot
 * access it. */
int ct__muon_make(ct_trainer_t *t, const ct_param_groups_t *groups);
void ct__muon_free(ct_trainer_t *t);
/** Returns the workspace, which has room for a matrix. */
char *ct__muon_room(const ct_trainer_t *t);
/** Returns 1 if bytes [from, to) of the gradient arena hold a part of a matrix. */
int ct__muon_uses(const ct_trainer_t *t, size_t from, size_t to);
/** Local, Hot. Orthogonalizes parameter k (in the order of the arena) in the gradient arena, where
 * all of it must be; does nothing for other parameters. */
int ct__muon_step(ct_trainer_t *t, int k);
