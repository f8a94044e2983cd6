/** \file complex.h  Complex numbers as pairs of real ones: declarations shared by the files
 * complex*.c.
 *
 * A complex value becomes a float32 value with one more dim, the last one, of 2: the real and the
 * imaginary part, as aten.view_as_real returns it.  A rule appends the real nodes that compute what
 * a node with complex arguments or results computes.
 *
 * The functions below append nodes and return the value that these make.  After a failure they
 * append nothing and return 0; c->rc is the first failure. */
#ifndef CT__PT2_COMPLEX_H
#define CT__PT2_COMPLEX_H
#include "pt2/pt2.h"

typedef struct ct__complex {
  ct__pt2_t *p;
  char *is; /**< [values] 1: was complex in the file */
  int values;
  const ct_pt2_node_t *node; /**< the node that is rewritten */
  int rc;
  struct {
    double a, b;
    int value;
  } numbers[8]; /**< constants that were made: ct__complex_numbers() */
  int known;
} ct__complex_t;

/** A shape. */
typedef struct ct__complex_shape {
  int ndim;
  ct_pt2_dim_t dim[CT__PT2_DIMS + 4];
} ct__complex_shape_t;

/** Appends the nodes of c->node's result and returns 1; 0: this case is not supported. */
typedef int ct__complex_rule_t(ct__complex_t *c, const char *data);
typedef struct ct__complex_row {
  const char *op; /**< without its overload; NULL ends a table */
  ct__complex_rule_t *rule;
  const char *data;
} ct__complex_row_t;
extern const ct__complex_row_t ct__complex_views[], ct__complex_math[], ct__complex_products[],
    ct__complex_transforms[];

/* ---- arguments (complex_make.c) ---- */

/** Returns a tensor among the arguments; -1: there is none of that name. */
int ct__complex_arg(const ct__complex_t *c, const char *name);
/** Returns 1 if a value was complex. */
int ct__complex_is(const ct__complex_t *c, int v);
/** Returns the shape of a value, as it is now: with the dim of the pairs. */
ct__complex_shape_t ct__complex_shape(ct__complex_t *c, int v);
/** Returns the number of its dims.  Like all functions here that take a value, it fails if there is
 * none (-1). */
int ct__complex_ndim(ct__complex_t *c, int v);
/** Makes the result of c->node equal to a value; returns 1. */
int ct__complex_done(ct__complex_t *c, int v);

/* ---- nodes (complex_make.c) ---- */

/** Appends a real value that no node makes yet. */
int ct__complex_value(ct__complex_t *c, const ct__complex_shape_t *s);
/** Appends a node with one result of a shape. */
int ct__complex_add(ct__complex_t *c, ct__pt2_make_t *m, const ct__complex_shape_t *s);
/** An op with the argument "self" and a result of the same shape. */
int ct__complex_one(ct__complex_t *c, const char *op, int x);
/** An op with the arguments "self" and "other", with broadcasting. */
int ct__complex_two(ct__complex_t *c, const char *op, int x, int y);
int ct__complex_view(ct__complex_t *c, int x, const ct__complex_shape_t *s);
/** Appends a dim of 1. */
int ct__complex_wide(ct__complex_t *c, int x);
/** Element \a i of the last dim, which is removed; with \a keep it becomes 1. */
int ct__complex_part(ct__complex_t *c, int x, int i, int keep);
/** Joins two tensors along a dim that both have. */
int ct__complex_cat(ct__complex_t *c, int x, int y, int dim);
/** The constant [a, b]. */
int ct__complex_numbers(ct__complex_t *c, double a, double b);

/* ---- complex numbers (complex_make.c) ---- */

/** The pairs of two real tensors of the same shape. */
int ct__complex_pair(ct__complex_t *c, int re, int im);
/** Returns a value as pairs; a real one gets imaginary parts of 0. */
int ct__complex_of(ct__complex_t *c, int v);
/** i * z */
int ct__complex_turned(ct__complex_t *c, int z);
int ct__complex_conj(ct__complex_t *c, int z);
/** z * w, both complex. */
int ct__complex_mul(ct__complex_t *c, int z, int w);

#endif
