/** \file describe.h  A configuration in a few lines for people.  Layer 5. */
#ifndef CT_DESCRIBE_H
#define CT_DESCRIBE_H
#include "config/ct_config.h"

/** Local.  What is on, for so many ranks: a line for each part of the recipe that is not the
 * plainest one. Appended. */
int ct_describe(const ct_config_t *c, const ct_graph_t *g, int ranks, ct_str_t *out);

#endif
