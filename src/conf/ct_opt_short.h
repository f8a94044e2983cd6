/** \file ct_opt_short.h  Options in short: `{linear: 10}` for `{linear: {out: 10}}`.  Layer 0. */
#ifndef CT_OPT_SHORT_H
#define CT_OPT_SHORT_H
#include "conf/ct_opt.h"

/** Local.  In a list of kinds with options (`- KIND: {KEY: VALUE}`), each value that is no map
 * becomes the map that it stands for: of the only option that is required; where none is, of the
 * only one that there is, or else of size, p or scale, whichever comes first in this order.  Where
 * no option is meant so, and where \a rows_of a kind is NULL, it stays as it is. */
int ct_opt_expand(ct_yaml_t *list, const ct_opt_t *(*rows_of)(const char *kind));

#endif
