/** \file config_parts.h  Internal functions that the files of the configuration share. */
#ifndef CT_CONFIG_CONFIG_H
#define CT_CONFIG_CONFIG_H
#include "setup/ct_config.h"

/** Calls visit() for each path in the tree: the values of PATH rows and the items of PATHS rows. */
int ct__config_each_path(int (*visit)(const ct_opt_t *row, ct_yaml_t *n, void *arg),
                         ct_yaml_t *root, void *arg);
/** Calls visit() for each path in *c. */
int ct__config_each_value(int (*visit)(const ct_opt_t *row, char **path, void *arg), ct_config_t *c,
                          void *arg);

/** Joins \a dir and \a path into \a buf.  An absolute path is copied unchanged.  If the row's paths
 * are glob patterns, wildcard characters of \a dir are escaped. */
int ct__config_below(const ct_opt_t *row, const char *dir, const char *path, char *buf, size_t cap);

/** Parses a YAML document whose root must be a map.  The caller frees *out. */
int ct__config_tree_of(const char *text, size_t bytes, const char *where, ct_yaml_t **out);
/** Sets the KEY=VALUE texts in the tree, then reads the values of the tree into *c. */
int ct__config_take(ct_config_t *c, ct_yaml_t *root, const char *where, const char *const *set,
                    int sets);
/** Removes keys of an included file that do not apply any more because the command line or the
 * including file changes the kind of their section (such as optim.kind); logs a warning. */
int ct__config_drop_foreign(ct_yaml_t *root, const char *where);

#endif
