/** \file ct_yaml.h  A parsed YAML document as a tree that remembers its places.  Layer 0.
 *
 * Only what a configuration needs: maps, lists and scalars, anchors and aliases, the merge key `<<`
 * (YAML 1.1); one document; no tags but `!!binary`, as which a text that is not UTF-8 (the name of
 * a directory) is written and read. */
#ifndef CT_YAML_H
#define CT_YAML_H
#include "base/ct_text.h"

typedef enum { CT_YAML_SCALAR, CT_YAML_LIST, CT_YAML_MAP } ct_yaml_kind_t;

typedef struct ct_yaml {
  ct_yaml_kind_t kind;
  char *key;             /**< owned; in a map only, else NULL */
  char *text;            /**< owned; scalars only; "" for an empty value */
  int quoted;            /**< a scalar in quotes is text, never a number, bool or null */
  int line;              /**< 1-based, where the key or value stands; 0: from the command line */
  char *file;            /**< owned; the included file that it stands in; NULL: the file itself */
  int used;              /**< set by readers: what stays 0 was not understood by anybody */
  struct ct_yaml *child; /**< first child, owned */
  struct ct_yaml *last;  /**< last child */
  struct ct_yaml *next;  /**< next sibling, owned by the parent */
} ct_yaml_t;

/** Local.  Parses text (\a name is for messages: the file's name).  An empty document is an empty
 * map. CT_ERR_USAGE with name:line for a syntax error, a duplicate key, an alias
 * without an anchor, aliases that stand for more than 100,000 values, or a second document. */
int ct_yaml_parse(const char *text, size_t bytes, const char *name, ct_yaml_t **out);
void ct_yaml_free(ct_yaml_t *n);
/** Child of a map by key, or NULL; looks at one after the other. */
ct_yaml_t *ct_yaml_find(const ct_yaml_t *map, const char *key);
/** Children of a list or map. */
int ct_yaml_count(const ct_yaml_t *n);
/** Sets a dotted key ("optim.lr") to a value parsed as YAML ("0.1", "[1, 2]"), or to a text that is
 * not UTF-8 (a path) as it is: the way of --set.  Creates the maps on the way. */
int ct_yaml_set(ct_yaml_t *root, const char *dotted, const char *yaml);
/** Puts \a over, which is consumed, over the values of \a under: maps are joined key by key, and
 * what is no map in both is replaced.  Places go along. */
void ct_yaml_merge(ct_yaml_t *under, ct_yaml_t *over);
/** Takes a child out of its parent; the caller owns it. */
void ct_yaml_unlink(ct_yaml_t *parent, ct_yaml_t *child);
/** The file that a value stands in, \a where for all that no include brought: for
 * ct_err_place(). */
const char *ct_yaml_file(const ct_yaml_t *n, const char *where);
/** New empty map, or scalar if text is given; key may be NULL.  NULL: no memory. */
ct_yaml_t *ct_yaml_new(ct_yaml_kind_t kind, const char *key, const char *text);
/** Appends a child; the parent owns it. */
void ct_yaml_append(ct_yaml_t *parent, ct_yaml_t *child);
/** Deep copy, NULL: no memory. */
ct_yaml_t *ct_yaml_copy(const ct_yaml_t *n);
/** The tree as YAML text, appended; parses back to the same tree. */
int ct_yaml_dump(const ct_yaml_t *n, int indent, ct_str_t *out);
/** The same on one line, in brackets and braces. */
int ct_yaml_flow(const ct_yaml_t *n, ct_str_t *out);

#endif
