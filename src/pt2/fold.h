/** \file fold.h  Values that are computed while a program is read: declarations shared by the files
 * fold*.c.
 *
 * Numbers are float64.  After each op they are rounded to the type that PyTorch computes with, so
 * results are those of PyTorch up to the last digit of functions such as sin.  Whole numbers are
 * exact; a result beyond 2^53 is not computed.
 *
 * A dim n * N has size 1 here: all elements along it are equal. */
#ifndef CT__PT2_FOLD_H
#define CT__PT2_FOLD_H
#include "pt2/pt2.h"

/** Maximum elements of all results. */
#define CT__FOLD_MOST ((int64_t)1 << 26)

/** Numbers of a value: row-major, without gaps. */
typedef struct ct__array {
  const double *x; /**< NULL: none */
  ct_elem_t type;
  int ndim;
  int64_t dim[CT__PT2_DIMS];
  int64_t count;
  uint64_t along; /**< bit i: dim i is n * N */
} ct__array_t;

/** A node that is being computed. */
typedef struct ct__fold {
  const ct__pt2_t *p;
  const ct_pt2_node_t *node;
  int part;      /**< index of the output that is computed */
  ct__array_t o; /**< its shape and type, as in the file */
  double *y;     /**< [o.count]: the result */
  int position;  /**< the result: see ct__pt2_more_t */
} ct__fold_t;

typedef struct ct__fold_op ct__fold_op_t;
/** Computes f->y.  Returns 1, or 0 if this case is not supported: then the node stays. */
typedef int ct__fold_run_t(ct__fold_t *f, const ct__fold_op_t *op);
typedef double ct__fold_unary_t(double);
typedef double ct__fold_binary_t(double, double);

/** A row of the table of ops. */
struct ct__fold_op {
  const char *op; /**< without the overload: "aten.add" */
  ct__fold_run_t *run;
  ct__fold_unary_t *one;
  ct__fold_binary_t *two;
  int view; /**< 1: its results are elements of its first argument; 2: all of them, perhaps often */
};

/** Tables of ops; end with op == NULL. */
extern const ct__fold_op_t ct__fold_math[], ct__fold_shapes[], ct__fold_lists[];

/** Sets shape and type of a value.  0: a dim is not n or n * N, or it has too many elements. */
int ct__fold_shape(const ct__pt2_t *p, int value, ct__array_t *a);
/** Finds an argument that is a tensor with numbers.  0: it is not. */
int ct__fold_in(const ct__fold_t *f, const char *name, ct__array_t *a);
/** Finds element k of an argument that is a list of tensors. */
int ct__fold_in_list(const ct__fold_t *f, const char *name, int k, ct__array_t *a);
/** Finds a number; one of a tensor with one element counts, too. */
int ct__fold_number(const ct__fold_t *f, const char *name, double *x);
/** Finds a whole number without N; \a other if it is None or missing. */
int ct__fold_int(const ct__fold_t *f, const char *name, int64_t other, int64_t *x);
/** Finds a dim of an array, from a whole number that may be negative. */
int ct__fold_dim(const ct__fold_t *f, const char *name, int ndim, int *dim);
/** Rounds a number to a type.  0: it does not fit. */
int ct__fold_round(ct_elem_t type, double x, double *y);
int ct__fold_is_float(ct_elem_t type);
/** Sets the distance of neighbours along each dim, 0 along dims of size 1. */
void ct__fold_steps(const ct__array_t *a, int64_t *step);

/** Walks over all elements of an array of the shape \a of, in order, with up to 3 offsets. */
typedef struct ct__walk {
  int ndim;
  int64_t dim[CT__PT2_DIMS], at[CT__PT2_DIMS];
  int64_t step[3][CT__PT2_DIMS], off[3];
} ct__walk_t;

void ct__walk_start(ct__walk_t *w, const ct__array_t *of);
/** Lets offset k follow an array that is broadcast to the shape.  0: it cannot be. */
int ct__walk_broadcast(ct__walk_t *w, int k, const ct__array_t *a);
void ct__walk_next(ct__walk_t *w);

#endif
