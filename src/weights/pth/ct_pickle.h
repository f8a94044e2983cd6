/** \file ct_pickle.h  What a pickle of PyTorch says, as a tree of nodes; nothing of it is executed.
 * Layer 3.
 *
 * The opcodes of protocol 2 that torch.load(weights_only=True) knows, on a stack as Python's
 * pickle.py has it.  Classes and functions are names, and calls of them are nodes with the name and
 * the arguments: what they mean is for who reads the tree.  Only an OrderedDict is known here: it
 * is a dict.  Nodes are shared as Python's objects are, so that a file cannot make many of few. */
#ifndef CT_PICKLE_H
#define CT_PICKLE_H
#include <stdint.h>

typedef enum {
  CT_PICKLE_PLAIN,  /**< None, a real number, an empty set, an integer of more than 64 bits */
  CT_PICKLE_BOOL,   /**< value: 0, 1 */
  CT_PICKLE_INT,    /**< value */
  CT_PICKLE_TEXT,   /**< ct_pickle_text(); count: its bytes */
  CT_PICKLE_TUPLE,  /**< count items */
  CT_PICKLE_LIST,   /**< count items */
  CT_PICKLE_DICT,   /**< keys and values in turn, count of both */
  CT_PICKLE_GLOBAL, /**< a class or function; ct_pickle_text(): "torch._utils._rebuild_tensor" */
  CT_PICKLE_CALL,   /**< first: what is called; last: a tuple, the arguments; value: the node of
                         a state that was put into the result + 1; 0: none */
  CT_PICKLE_STORAGE /**< first: a tuple, the persistent id */
} ct_pickle_kind_t;

typedef struct ct_pickle_node {
  ct_pickle_kind_t kind;
  int count;
  int first, last; /**< of items: cells */
  int64_t value;
} ct_pickle_node_t;

/** An item of a tuple, list or dict. */
typedef struct ct_pickle_cell {
  int node, next; /**< next: a cell, or -1 */
} ct_pickle_cell_t;

typedef struct ct_pickle {
  ct_pickle_node_t *node;
  ct_pickle_cell_t *cell;
  char *texts;
  int64_t nodes, cells, bytes, node_cap, cell_cap, text_cap;
  int root;
} ct_pickle_t;

/** Local.  The pickle of an open file at \a at, which ends before \a end; *behind, if not NULL, is
 * where it ends.  \a what names it in messages ("data.pkl").  CT_ERR_IO, CT_ERR_FORMAT; \a out is
 * to be cleared also then. */
int ct_pickle_load(int fd, const char *path, const char *what, int64_t at, int64_t end,
                   ct_pickle_t *out, int64_t *behind);
void ct_pickle_clear(ct_pickle_t *p);
/** Of a text or a name of a class; ends in a NUL, may have others in it. */
const char *ct_pickle_text(const ct_pickle_t *p, int node);
/** The first \a cap items into \a out; returns how many it has of them. */
int ct_pickle_items(const ct_pickle_t *p, int node, int cap, int out[]);

#endif
