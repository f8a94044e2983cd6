/** \file ct_pickle.h  Parses PyTorch's pickles into a tree of nodes, without executing anything.
 * Layer 3.
 *
 * Supports the opcodes of protocol 2 that torch.load(weights_only=True) accepts, and those of
 * protocols 4 and 5 for the same objects, on a stack as in Python's pickle.py. Classes and
 * functions become nodes with their name, calls become nodes with name and arguments; the caller
 * interprets them. Only OrderedDict is known here: it becomes a dict. Nodes are shared as Python's
 * objects are, so that a small file cannot expand to a huge tree. */
#ifndef CT_PICKLE_H
#define CT_PICKLE_H
#include <stdint.h>

typedef enum {
  CT_PICKLE_PLAIN,  /**< None, a float, an empty set, an integer of more than 64 bits */
  CT_PICKLE_BOOL,   /**< value: 0 or 1 */
  CT_PICKLE_INT,    /**< value */
  CT_PICKLE_TEXT,   /**< ct_pickle_text(); count: bytes */
  CT_PICKLE_TUPLE,  /**< count items */
  CT_PICKLE_LIST,   /**< count items */
  CT_PICKLE_DICT,   /**< keys and values alternate; count includes both */
  CT_PICKLE_GLOBAL, /**< a class or function; ct_pickle_text(): "torch._utils._rebuild_tensor" */
  CT_PICKLE_CALL,   /**< first: the callee; last: a tuple with the arguments; value: 1 + the node of
                       the state passed to the result (BUILD); 0: none */
  CT_PICKLE_STORAGE /**< first: a tuple with the persistent id */
} ct_pickle_kind_t;

typedef struct ct_pickle_node {
  ct_pickle_kind_t kind;
  int count;
  int first; /**< cell of the first item */
  int last;  /**< cell of the last item */
  int64_t value;
} ct_pickle_node_t;

/** An item of a tuple, list or dict. */
typedef struct ct_pickle_cell {
  int node; /**< the item */
  int next; /**< cell of the next item; -1: none */
} ct_pickle_cell_t;

typedef struct ct_pickle {
  ct_pickle_node_t *node;
  ct_pickle_cell_t *cell;
  char *texts;
  int64_t nodes, cells, bytes, node_cap, cell_cap, text_cap;
  int root;
} ct_pickle_t;

/** Local. Parses the pickle of an open file that starts at offset \a at and ends before \a end;
 * *behind (may be NULL) is set to the offset after it. \a what names it in messages ("data.pkl").
 * CT_ERR_IO, CT_ERR_FORMAT; call ct_pickle_clear() on \a out even after an error. */
int ct_pickle_load(int fd, const char *path, const char *what, int64_t at, int64_t end,
                   ct_pickle_t *out, int64_t *behind);
void ct_pickle_clear(ct_pickle_t *p);
/** Returns the text of a text node or the name of a class node; NUL-terminated, and may contain
 * NULs. */
const char *ct_pickle_text(const ct_pickle_t *p, int node);
/** Stores up to \a cap items in \a out; returns how many were stored. */
int ct_pickle_items(const ct_pickle_t *p, int node, int cap, int out[]);

#endif
