/** \file kinds.h Options that only some kinds of optimizers and schedules have. */
#ifndef CT_OPTIM_KINDS_H
#define CT_OPTIM_KINDS_H
#include "optim/ct_optim.h"

/** An option, and the kinds of its section that have it. */
typedef struct ct__optim_only {
  const char *key;
  unsigned kinds; /**< bits CT__OPTIM_KIND(kind) */
} ct__optim_only_t;
#define CT__OPTIM_KIND(kind) (1u << (kind))

/** CT_ERR_USAGE if an option that \a kind does not have differs from its default.  \a kind: value
 * of the row "kind".  \a only ends with a NULL key; options not listed in it belong to all
 * kinds. */
int ct__optim_check_only(const ct_opt_t *rows, const void *values, const ct__optim_only_t *only,
                         int kind, const char *section);

/** 0 if \a kind does not have the option. */
int ct__optim_has_key(const ct_opt_t *rows, const ct__optim_only_t *only, const char *kind,
                      const char *key);

/** 1 if the optimizer has betas in place of momentum: adam, adamw, lamb. */
int ct__optim_has_betas(const ct_optim_opts_t *o);

#endif
