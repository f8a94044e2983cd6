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
  CT__PT2_MOST = 1 << 22, /**< maximum number of values, and of nodes */
  CT__PT2_UNCLEAR = -1    /**< ct_pt2_dim_t.batch of a number that is not n or n * N */
};

/** Memory of a program, freed at once. */
typedef struct ct__pt2_block {
  struct ct__pt2_block *next;
  size_t used, bytes;
} ct__pt2_block_t;

/** What the passes need to know about a value, besides what is public. */
typedef struct ct__pt2_more {
  int packed;    /**< 1: row-major without gaps, according to the file */
  int view_of;   /**< value whose memory it shares, one step up; -1: none, or unknown */
  int maybe_of;  /**< value whose memory it may share: PyTorch decides by strides; -1: none */
  int root;      /**< the value at the end of view_of; itself if there is none */
  int view_node; /**< index of the node that makes the view; -1: it is the same memory as view_of */
  int part;      /**< number of the output of view_node */
  int now;       /**< index of the value that it is now, because nodes changed it */
  int age;       /**< number of changes of its root that `now` includes */
  int changes;   /**< a root: number of changes so far */
  int list;      /**< ct_pt2_list_t: the list of the file that it is in */
  int item;      /**< index in this list; -1: none */
  double *data;  /**< numbers of a computed value; NULL: not computed */
  int64_t count; /**< number of them */
  uint64_t along; /**< bits of the dims that have size 1 in place of n * N */
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

/* ---- passes, in this order ---- */

/** Replaces nodes that change values (change.c). */
int ct__pt2_functional(ct__pt2_t *p);
/** Sets node->live, value->uses and value->on (live.c). */
int ct__pt2_mark_live(ct__pt2_t *p);
/** Computes values that depend on nothing (fold.c). */
int ct__pt2_fold(ct__pt2_t *p);
/** Checks that the shapes of live nodes are n and n * N (live.c). */
int ct__pt2_check_shapes(ct__pt2_t *p);

/** Returns 1 if an argument is only used for its shape. */
int ct__pt2_shape_only(const ct_pt2_node_t *node, const ct_pt2_arg_t *arg);

/** Connects values with the tensors of the file (data.c). */
int ct__pt2_connect(ct__pt2_t *p);

#endif
