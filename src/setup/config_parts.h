/** \file config_parts.h  What the parts of the configuration share. */
#ifndef CT_CONFIG_CONFIG_H
#define CT_CONFIG_CONFIG_H
#include "setup/ct_config.h"

/** Calls visit() for each text in the tree that is a path: the values of PATH rows, and the items
 * of PATHS rows. */
int ct__config_each_path(int (*visit)(const ct_opt_t *row, ct_yaml_t *n, void *arg),
                         ct_yaml_t *root, void *arg);
/** The same of the values in *c. */
int ct__config_each_value(int (*visit)(const ct_opt_t *row, char **path, void *arg), ct_config_t *c,
                          void *arg);

/** \a path below \a dir, as the row's kind of path wants it: where it is read as a pattern, the
 * directory's own magic characters are quoted.  Absolute paths stay as they are. */
int ct__config_below(const ct_opt_t *row, const char *dir, const char *path, char *buf, size_t cap);

/** The tree of a document that is a map. */
int ct__config_tree_of(const char *text, size_t bytes, const char *where, ct_yaml_t **out);
/** The values of a tree, to which the KEY=VALUE texts are added first. */
int ct__config_take(ct_config_t *c, ct_yaml_t *root, const char *where, const char *const *set,
                    int sets);
/** A kind that the command line or an including file sets leaves out those keys of what is under it
 * that have no meaning for it, with a warning. */
int ct__config_drop_foreign(ct_yaml_t *root, const char *where);

#endif
