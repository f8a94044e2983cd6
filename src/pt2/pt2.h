/** \file pt2.h  A program that is being read: declarations shared by the files of this module. */
#ifndef CT__PT2_H
#define CT__PT2_H
#include <jansson.h>

#include "base/ct_err.h"
#include "pt2/ct_pt2.h"
#include "weights/ct_weights.h"

enum {
  CT__PT2_DIMS = 64,      /**< maximum dims of a tensor, as in PyTorch */
  CT__PT2_SYMBOL = 64,    /**< maximum bytes of a symbol's name */
  CT__PT2_MOST = 1 << 20, /**< maximum number of values, and of nodes */
  CT__PT2_UNCLEAR = -1    /**< ct_pt2_dim_t.batch of a number that is not n or n * N */
};

/** Memory of a program, freed at once. */
typedef struct ct__pt2_block {
  struct ct__pt2_block *next;
  size_t used, bytes;
} ct__pt2_block_t;

/** What the passes need to know about a value, besides what is public. */
typedef struct ct__pt2_more {
  int packed; /**< 1: row-major without gaps, according to the file */
  int list;   /**< ct_pt2_list_t: the list of the file that it is in */
  int item;   /**< index in this list; -1: none */

  /* change.c: memory that values share, and changes of it */
  int view_of;   /**< value whose memory it shares, one step up; -1: it has memory of its own */
  int view_node; /**< index of the node that makes the view; -1: it is the same as view_of */
  int part;      /**< which output of view_node it is */
  int root;      /**< the value at the end of view_of; itself if there is none */
  int now;       /**< index of the value that it has become by changes */
  int age;       /**< number of changes of its root that `now` includes */
  int changes;   /**< of a root: number of changes so far */
  int group;     /**< of a root: first root with which it may share memory, where PyTorch decides by
                      strides */
  int born;      /**< of a root: index of the node that made it, in the file's order; -1: input */
  int suspect;   /**< of a group: root that was changed last; -1: none */
  int suspect_at; /**< of a group: index of the node that did */

  /* fold.c */
  double *data;  /**< numbers of a computed value; NULL: not computed */
  int64_t count; /**< number of them */
  int position;  /**< 1: each element is its place in the batch; its numbers are 0 */
} ct__pt2_more_t;

typedef struct ct__pt2 {
  ct_pt2_t g; /**< the first member: ct_pt2_t * and ct__pt2_t * convert */
  ct__pt2_block_t *blocks;
  ct_pt2_value_t *value;
  ct__pt2_more_t *more; /**< [values] */
  ct_pt2_node_t *node;
  int64_t value_cap, more_cap, node_cap;
  char symbol[CT__PT2_SYMBOL]; /**< the name of N; "": none */
  ct_weights_t *weights, *constants;
  json_t *program; /**< while the file is read; else NULL */
  int scopes;      /**< number of subgraphs so far */
} ct__pt2_t;

/* ---- memory (memory.c) ---- */

/** Returns n zeroed elements that live as long as the program.  NULL: CT_ERR_NOMEM is recorded. */
void *ct__pt2_alloc(ct__pt2_t *p, int64_t n, size_t size);
/** Returns a copy of a text; NULL: CT_ERR_NOMEM is recorded. */
const char *ct__pt2_copy(ct__pt2_t *p, const char *text);
/** Returns formatted text; NULL: CT_ERR_NOMEM is recorded. */
const char *ct__pt2_format(ct__pt2_t *p, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void ct__pt2_clear(ct__pt2_t *p);
/** Appends a value (type CT_ELEMS, no dims); *out: its index. */
int ct__pt2_add_value(ct__pt2_t *p, const char *name, int *out);
/** Appends a copy of a node. */
int ct__pt2_add_node(ct__pt2_t *p, const ct_pt2_node_t *node);
/** Records CT_ERR_FORMAT "FILE: program: TEXT" and returns it. */
int ct__pt2_damaged(const ct__pt2_t *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- numbers (expr.c) ---- */

/** Reads a SymInt of the schema: {"as_int": n} or {"as_expr": ...}.  The result is
 * CT__PT2_UNCLEAR if it is not n or n * N.  CT_ERR_FORMAT: \a what is neither. */
int ct__pt2_sym_int(ct__pt2_t *p, const json_t *o, const char *what, ct_pt2_dim_t *out);
/** Finds the first symbol of an expression and sets p->symbol, if it is still empty, and the batch
 * at export. */
void ct__pt2_find_symbol(ct__pt2_t *p, const json_t *o);

/* ---- reading (graph.c, args.c, signature.c) ---- */

/** A graph that is being read: the whole program or a subgraph. */
typedef struct ct__pt2_scope {
  const json_t *tensors; /* tensor_values */
  const json_t *ints;    /* sym_int_values */
  json_t *names;         /* index of the value of each name that is defined so far */
  json_t *states;        /* index of the value of each parameter, buffer and constant */
  const char *prefix;    /* of the names of its values: "", "g1." */
  int depth;             /* 0: the whole program */
  int no_grad;
} ct__pt2_scope_t;

/** Returns 1 if a JSON value is a text that may be printed and used as a name. */
int ct__pt2_is_name(const json_t *o);
/** Defines the value of a name of the graph.  CT_ERR_FORMAT: it is there twice, or undescribed. */
int ct__pt2_define(ct__pt2_t *p, ct__pt2_scope_t *s, const json_t *name, ct_pt2_kind_t kind,
                   int *out);
/** Finds a value that is defined.  CT_ERR_FORMAT: it is not. */
int ct__pt2_find(ct__pt2_t *p, const ct__pt2_scope_t *s, const json_t *name, int *out);
/** Returns the only member of an object such as {"as_int": 3}, and its key; NULL: it is none. */
const json_t *ct__pt2_only(const json_t *o, const char **key);
/** Reads the nodes of a graph. */
int ct__pt2_read_nodes(ct__pt2_t *p, ct__pt2_scope_t *s, const json_t *graph);
/** Reads the arguments of a node into node->arg, as the file has them. */
int ct__pt2_read_args(ct__pt2_t *p, const ct__pt2_scope_t *s, const json_t *inputs,
                      ct_pt2_node_t *node);
/** Defines the values of the signature's inputs. */
int ct__pt2_read_inputs(ct__pt2_t *p, ct__pt2_scope_t *s, const json_t *specs);
/** Reads the signature's outputs. */
int ct__pt2_read_outputs(ct__pt2_t *p, ct__pt2_scope_t *s, const json_t *specs,
                         const json_t *calls);

/* ---- schemas (schema.c, schemas.c) ---- */

/** An op and its arguments: "aten.add.Tensor", "self, other, alpha=1". */
typedef struct ct__pt2_row {
  const char *op, *args;
} ct__pt2_row_t;
/** Sorted by op in byte order; made by make_schemas.py. */
extern const ct__pt2_row_t ct__pt2_rows[];
extern const int ct__pt2_n_rows;

/** Completes and sorts the arguments of a node by its op's schema, if the op is known. */
int ct__pt2_complete(ct__pt2_t *p, ct_pt2_node_t *node);

/** Returns the name of the first argument of an op; \a other if the op is not known. */
const char *ct__pt2_first_name(ct__pt2_t *p, const char *op, const char *other);

/* ---- making nodes (make.c) ---- */

enum { CT__PT2_MAKE = 8 };

/** A node that is being made.  A failure of a step is returned by the last one. */
typedef struct ct__pt2_make {
  ct_pt2_node_t node;
  ct_pt2_arg_t arg[CT__PT2_MAKE];
  int failed;
} ct__pt2_make_t;

/** Begins a node in the same module as another. */
ct__pt2_make_t ct__pt2_make(const char *op, const ct_pt2_node_t *like);
void ct__pt2_make_tensor(ct__pt2_t *p, ct__pt2_make_t *m, const char *name, int value);
void ct__pt2_make_int(ct__pt2_t *p, ct__pt2_make_t *m, const char *name, int64_t n);
/** A type, ct_elem_t. */
void ct__pt2_make_type(ct__pt2_t *p, ct__pt2_make_t *m, const char *name, ct_elem_t type);
void ct__pt2_make_dims(ct__pt2_t *p, ct__pt2_make_t *m, const char *name, const ct_pt2_dim_t *dim,
                       int n);
void ct__pt2_make_copy(ct__pt2_make_t *m, const char *name, const ct_pt2_arg_t *arg);
/** Appends the node, which makes \a value. */
int ct__pt2_make_end(ct__pt2_t *p, ct__pt2_make_t *m, int value);
/** Appends a value of the shape of \a shape and the type of \a type. */
int ct__pt2_new_value(ct__pt2_t *p, int name, int shape, int type, int *out);
/** Appends a copy of a node whose first argument is the tensor \a first, and makes new values like
 * its own. */
int ct__pt2_make_again(ct__pt2_t *p, int node, int first, const int **out);

/** Finds the value that replaces another one as an argument of a node. */
typedef int ct__pt2_get_t(ct__pt2_t *p, const ct_pt2_node_t *node, int v, int *out);
/** Replaces all tensors among the arguments of a node. */
int ct__pt2_set_tensors(ct__pt2_t *p, ct_pt2_node_t *node, ct__pt2_get_t *get);

/* ---- memory that values share (view.c) ---- */

/** Finds out whether the outputs of a node share the memory of its first argument, \a of, or may
 * do so, and records it.  \a at: index in the file's order. */
void ct__pt2_share(ct__pt2_t *p, int node, int of, int at);
/** Finds the order of the dims of an op such as transpose: dim i of its result is dim order[i] of
 * its argument with n dims.  0: it is not valid. */
int ct__pt2_permutation(const ct__pt2_t *p, const ct_pt2_node_t *view, int n, int *order);
/** Appends the nodes that put \a part, new content of the view \a view, back into the memory that
 * it is a view of, which is \a whole now; *out: the result. */
int ct__pt2_put_back(ct__pt2_t *p, const ct_pt2_node_t *user, int view, int whole, int part,
                     int *out);

/* ---- passes, in this order ---- */

/** Replaces nodes that change values (change.c). */
int ct__pt2_functional(ct__pt2_t *p);
/** Removes the uses of nodes that return their first argument (simplify.c). */
int ct__pt2_simplify(ct__pt2_t *p);
/** Makes complex values real ones with a last dim of 2 (complex.c). */
int ct__pt2_complex(ct__pt2_t *p);
/** Sets node->live, value->uses and value->on (live.c). */
void ct__pt2_mark_live(ct__pt2_t *p);
/** Computes values that depend on nothing (fold.c). */
int ct__pt2_fold(ct__pt2_t *p);
/** Checks that the shapes of live nodes are n and n * N (live.c). */
int ct__pt2_check_shapes(ct__pt2_t *p);

/** Returns 1 if an argument is only used for its shape. */
int ct__pt2_shape_only(const ct_pt2_node_t *node, const ct_pt2_arg_t *arg);

/** Connects values with the tensors of the file (data.c). */
int ct__pt2_connect(ct__pt2_t *p);

#endif
