/** \file ct_opt_short.h  Abbreviated options: `{linear: 10}` for `{linear: {out: 10}}`.  Layer 0.
 */
#ifndef CT_OPT_SHORT_H
#define CT_OPT_SHORT_H
#include "conf/ct_opt.h"

/** Local.  In a list of kinds with options (`- KIND: {KEY: VALUE}`), replaces each value that is
 * not a map by a map with one key.  This key is the only required option of the kind.  If no option
 * is required, it is the only option; if there are several, the first of size, p and scale that the
 * kind has.  The value stays unchanged if no option fits, or if rows_of(kind) returns NULL. */
int ct_opt_expand(ct_yaml_t *list, const ct_opt_t *(*rows_of)(const char *kind));

#endif
