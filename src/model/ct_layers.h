/** \file ct_layers.h  The list `layers` of a configuration.  Layer 2. */
#ifndef CT_LAYERS_H
#define CT_LAYERS_H
#include "conf/ct_yaml.h"

/** Local.  Options in short become long (ct_opt_expand()).  NULL is fine. */
int ct_layers_expand(ct_yaml_t *list);

#endif
