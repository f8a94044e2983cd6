/** \file kern/free_max.h  Max pooling whose windows are not blocks of one size: with gaps between
 * the taps, or adaptive.  Module-internal. */
#ifndef CT_KERN_FREE_MAX_H
#define CT_KERN_FREE_MAX_H
#include "cpu/kern/op.h"

typedef struct cpu__free_max cpu__free_max_t;

/** Returns 1 if a pooling op is such a maximum. */
int cpu__is_free_max(const ct_op_desc_t *d);
/** Local.  Prepares it, and sets info->saved and scratch.  *out is freed with ct_mem_free(). */
int cpu__free_max_make(const ct_dev_t *dev, const ct_op_desc_t *d, cpu__free_max_t **out,
                       ct_op_info_t *info);
/** Hot.  Runs the passes in a->pass. */
int cpu__free_max_run(const cpu__free_max_t *k, const ct_op_args_t *a);

#endif
