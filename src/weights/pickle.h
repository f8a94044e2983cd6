/** \file pickle.h  What a pickle of PyTorch says, as a tree of nodes; nothing of it is executed.
 *
 * The opcodes of protocol 2 that torch.load(weights_only=True) knows, on a stack as Python's
 * pickle.py has it.  Classes and functions are names, and calls of them are nodes with the name and
 * the arguments: what they mean is for who reads the tree.  Only an OrderedDict is known here: it
 * is a dict.  Nodes are shared as Python's objects are, so that a file cannot make many of few. */
#ifndef CT__WEIGHTS_PICKLE_H
#define CT__WEIGHTS_PICKLE_H
#include <stdint.h>

typedef enum {
  CT__PICKLE_PLAIN,  /**< None, a real number, an empty set, an integer of more than 64 bits */
  CT__PICKLE_BOOL,   /**< value: 0, 1 */
  CT__PICKLE_INT,    /**< value */
  CT__PICKLE_TEXT,   /**< ct__pickle_text(); count: its bytes */
  CT__PICKLE_TUPLE,  /**< count items */
  CT__PICKLE_LIST,   /**< count items */
  CT__PICKLE_DICT,   /**< keys and values in turn, count of both */
  CT__PICKLE_GLOBAL, /**< a class or function; ct__pickle_text(): "torch._utils._rebuild_tensor" */
  CT__PICKLE_CALL,   /**< first: what is called; last: a tuple, the arguments; value: 1 if a state
                          was put into the result */
  CT__PICKLE_STORAGE /**< first: a tuple, the persistent id */
} ct__pickle_kind_t;

typedef struct ct__pickle_node {
  ct__pickle_kind_t kind;
  int count;
  int first, last; /**< of items: cells */
  int64_t value;
} ct__pickle_node_t;

/** An item of a tuple, list or dict. */
typedef struct ct__pickle_cell {
  int node, next; /**< next: a cell, or -1 */
} ct__pickle_cell_t;

typedef struct ct__pickle {
  ct__pickle_node_t *node;
  ct__pickle_cell_t *cell;
  char *texts;
  int64_t nodes, cells, bytes, node_cap, cell_cap, text_cap;
  int root;
} ct__pickle_t;

/** Local.  The pickle of an open file at \a at, which ends before \a end; *behind, if not NULL, is
 * where it ends.  \a what names it in messages ("data.pkl").  CT_ERR_IO, CT_ERR_FORMAT; \a out is
 * to be cleared also then. */
int ct__pickle_load(int fd, const char *path, const char *what, int64_t at, int64_t end,
                    ct__pickle_t *out, int64_t *behind);
void ct__pickle_clear(ct__pickle_t *p);
/** Of a text or a name of a class; ends in a NUL, may have others in it. */
const char *ct__pickle_text(const ct__pickle_t *p, int node);
/** The first \a cap items into \a out; returns how many it has of them. */
int ct__pickle_items(const ct__pickle_t *p, int node, int cap, int out[]);

#endif
