/** \file ct_transform_list.h  The lists `transforms` and `val_transforms` of a configuration.
 * Layer 2. */
#ifndef CT_TRANSFORM_LIST_H
#define CT_TRANSFORM_LIST_H
#include "conf/ct_yaml.h"

/** Local.  Replaces short forms of options by long ones (ct_opt_expand()); \a list may be NULL. */
int ct_transforms_expand(ct_yaml_t *list);

#endif
