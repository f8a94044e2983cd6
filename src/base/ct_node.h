/** \file ct_node.h  A parsed YAML document as a tree that remembers its places.  Layer 0.
 *
 * Only what a configuration needs: maps, lists and scalars; no anchors, one document; no tags but
 * `!!binary`, as which a text that is not UTF-8 (the name of a directory) is written and read. */
#ifndef CT_NODE_H
#define CT_NODE_H
#include "base/ct_text.h"

typedef enum { CT_NODE_SCALAR, CT_NODE_LIST, CT_NODE_MAP } ct_node_kind_t;

typedef struct ct_node {
  ct_node_kind_t kind;
  char *key;             /**< owned; in a map only, else NULL */
  char *text;            /**< owned; scalars only; "" for an empty value */
  int quoted;            /**< a scalar in quotes is text, never a number, bool or null */
  int line;              /**< 1-based, where the key or value stands; 0: from the command line */
  int used;              /**< set by readers: what stays 0 was not understood by anybody */
  struct ct_node *child; /**< first child, owned */
  struct ct_node *last;  /**< last child */
  struct ct_node *next;  /**< next sibling, owned by the parent */
} ct_node_t;

/** Local.  Parses text (\a name is for messages: the file's name).  An empty document is an empty
 * map. CT_ERR_USAGE with name:line for a syntax error, a duplicate key, an anchor or a second
 * document. */
int ct_node_parse(const char *text, size_t bytes, const char *name, ct_node_t **out);
void ct_node_free(ct_node_t *n);
/** Child of a map by key, or NULL; looks at one after the other. */
ct_node_t *ct_node_find(const ct_node_t *map, const char *key);
/** Children of a list or map. */
int ct_node_count(const ct_node_t *n);
/** Sets a dotted key ("optim.lr") to a value parsed as YAML ("0.1", "[1, 2]"), or to a text that is
 * not UTF-8 (a path) as it is: the way of --set.  Creates the maps on the way. */
int ct_node_set(ct_node_t *root, const char *dotted, const char *yaml);
/** New empty map, or scalar if text is given; key may be NULL.  NULL: no memory. */
ct_node_t *ct_node_new(ct_node_kind_t kind, const char *key, const char *text);
/** Appends a child; the parent owns it. */
void ct_node_append(ct_node_t *parent, ct_node_t *child);
/** Deep copy, NULL: no memory. */
ct_node_t *ct_node_copy(const ct_node_t *n);
/** The tree as YAML text, appended; parses back to the same tree. */
int ct_node_dump(const ct_node_t *n, int indent, ct_str_t *out);

#endif
