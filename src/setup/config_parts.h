/** \file config_parts.h  Declarations that the files of the configuration share. */
#ifndef CT_CONFIG_CONFIG_H
#define CT_CONFIG_CONFIG_H
#include "setup/ct_config.h"

/** Calls visit() for each path in the tree: the values of PATH rows and the items of PATHS rows. */
int ct__config_each_path(int (*visit)(const ct_opt_t *row, ct_yaml_t *n, void *arg),
                         ct_yaml_t *root, void *arg);
/** The same for the values in *c. */
int ct__config_each_value(int (*visit)(const ct_opt_t *row, char **path, void *arg), ct_config_t *c,
                          void *arg);

/** Joins \a dir and \a path.  If the row's paths are patterns, wildcard characters of the directory
 * are quoted.  Absolute paths stay unchanged. */
int ct__config_below(const ct_opt_t *row, const char *dir, const char *path, char *buf, size_t cap);

/** Parses a document that must be a map. */
int ct__config_tree_of(const char *text, size_t bytes, const char *where, ct_yaml_t **out);
/** Reads the values of a tree into *c, after the KEY=VALUE texts are set in it. */
int ct__config_take(ct_config_t *c, ct_yaml_t *root, const char *where, const char *const *set,
                    int sets);
/** If the command line or an including file changes a kind, removes the keys of the included file
 * that this kind does not have, with a warning. */
int ct__config_drop_foreign(ct_yaml_t *root, const char *where);

#endif
