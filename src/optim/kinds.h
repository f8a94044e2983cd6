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

/** Checks that options which \a kind does not have are at their defaults; otherwise CT_ERR_USAGE.
 * \a kind: value of the row "kind".  \a only ends with a NULL key; options that it does not list
 * belong to all kinds. */
int ct__optim_check_only(const ct_opt_t *rows, const void *values, const ct__optim_only_t *only,
                         int kind, const char *section);

/** Returns 1 if \a kind has the option \a key, else 0. */
int ct__optim_has_key(const ct_opt_t *rows, const ct__optim_only_t *only, const char *kind,
                      const char *key);

/** Returns 1 if the optimizer has betas instead of momentum (muon: for what is not a matrix). */
int ct__optim_has_betas(const ct_optim_opts_t *o);
/** Returns the factor of the learning rate of a matrix; 0: the optimizer is not muon. */
double ct__optim_matrix_factor(const ct_optim_opts_t *o, int64_t rows, int64_t columns);

#endif
