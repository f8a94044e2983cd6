/** \file ct_layers.h The list `model.layers` of a configuration.  Layer 2. */
#ifndef CT_LAYERS_H
#define CT_LAYERS_H
#include "conf/ct_yaml.h"

/** Local. Replaces abbreviated option names by full ones (ct_opt_expand()). \a list may be NULL. */
int ct_layers_expand(ct_yaml_t *list);

#endif
