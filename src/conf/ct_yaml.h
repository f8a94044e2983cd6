/** \file ct_yaml.h  A parsed YAML document as a tree with the file and line of each value.
 * Layer 0.
 *
 * Supports what a configuration needs: one document of maps, lists and scalars, anchors and
 * aliases, the merge key `<<` (YAML 1.1).  The only supported tag is `!!binary`, for texts that are
 * not UTF-8, such as the name of a directory. */
#ifndef CT_YAML_H
#define CT_YAML_H
#include "base/ct_text.h"

typedef enum { CT_YAML_SCALAR, CT_YAML_LIST, CT_YAML_MAP } ct_yaml_kind_t;

typedef struct ct_yaml {
  ct_yaml_kind_t kind;
  char *key;             /**< owned; in a map only, else NULL */
  char *text;            /**< owned; scalars only; "" for an empty value */
  int quoted;            /**< 1: a scalar in quotes, which is a text and never a number, bool or
                              null */
  int line;              /**< line of the key or value, from 1; 0: from the command line */
  char *file;            /**< owned; included file that contains the value; NULL: the main file */
  int used;              /**< readers set it to 1; a key whose flag stays 0 is unknown */
  struct ct_yaml *child; /**< first child, owned */
  struct ct_yaml *last;  /**< last child */
  struct ct_yaml *next;  /**< next sibling, owned by the parent */
} ct_yaml_t;

/** Local.  Parses text; \a name: the file's name, for messages.  An empty document is an empty map.
 * CT_ERR_USAGE with name:line: a syntax error, a duplicate key, an alias without an anchor, aliases
 * that stand for more than 100,000 values, or a second document. */
int ct_yaml_parse(const char *text, size_t bytes, const char *name, ct_yaml_t **out);
void ct_yaml_free(ct_yaml_t *n);
/** Returns the child of a map by its key, or NULL; a linear search. */
ct_yaml_t *ct_yaml_find(const ct_yaml_t *map, const char *key);
/** Returns the number of children of a list or map. */
int ct_yaml_count(const ct_yaml_t *n);
/** Sets a dotted key ("optim.lr") as --set does: the value is parsed as YAML ("0.1", "[1, 2]"); a
 * text that is not UTF-8 (a path) is not parsed, but becomes the value.  Creates missing maps. */
int ct_yaml_set(ct_yaml_t *root, const char *dotted, const char *yaml);
/** Merges \a over into \a under and frees \a over: maps are merged key by key; other values of
 * \a over replace values of \a under, together with file and line. */
void ct_yaml_merge(ct_yaml_t *under, ct_yaml_t *over);
/** Removes a child from its parent; the caller owns it. */
void ct_yaml_unlink(ct_yaml_t *parent, ct_yaml_t *child);
/** Returns the name of the included file that contains a value, or \a where if it is in the main
 * file: for ct_err_location(). */
const char *ct_yaml_file(const ct_yaml_t *n, const char *where);
/** Returns a new map or list without children, or a scalar with \a text; key may be NULL.  NULL:
 * out of memory. */
ct_yaml_t *ct_yaml_new(ct_yaml_kind_t kind, const char *key, const char *text);
/** Appends a child; the parent owns it. */
void ct_yaml_append(ct_yaml_t *parent, ct_yaml_t *child);
/** Returns a deep copy; NULL: out of memory. */
ct_yaml_t *ct_yaml_copy(const ct_yaml_t *n);
/** Appends the tree as YAML text, which parses to the same tree. */
int ct_yaml_dump(const ct_yaml_t *n, int indent, ct_str_t *out);
/** Appends the tree as YAML text on one line, in flow style (brackets and braces). */
int ct_yaml_flow(const ct_yaml_t *n, ct_str_t *out);

#endif
