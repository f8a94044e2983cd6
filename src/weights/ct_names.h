/** \file ct_names.h  Names of tensors, changed by rules.  Layer 3.  All functions are local and
 * pure.
 *
 * A rule is the text "OLD=NEW".  In OLD each '*' stands for any characters, dots and none too, as
 * few as fit; NEW has as many, and they stand for the same characters in the same order.  OLD
 * without '*' means the tensor of that name, or all below the layer of that name: "model.head=fc"
 * makes fc.weight of model.head.weight.  A name that OLD does not mean stays as it is. */
#ifndef CT_NAMES_H
#define CT_NAMES_H
#include "conf/ct_opt.h"

/** CT_ERR_USAGE says which rule cannot be one, and why; \a key names the option for it. */
int ct_names_check(const ct_opt_texts_t *rules, const char *key);
/** A name of a file becomes *out, which is emptied first: without \a prefix ("": none), where it
 * begins with it and more follows, then by each of the rules, which were checked, in their
 * order. */
int ct_names_change(const char *prefix, const ct_opt_texts_t *rules, const char *name,
                    ct_str_t *out);

enum { CT_NAMES_LISTED = 5 /**< in a message; of more their number is told */ };
/** Appends name \a n, counted from 0, of a list for a message: "'a', 'b'"; the end of a list of
 * \a n names says how many were left out: " and 3 more". */
int ct_names_list(ct_str_t *list, int n, const char *name);
int ct_names_list_end(ct_str_t *list, int n);

/** Names that other programs give to weights of models that are known here. */
typedef struct ct_names_known {
  const char *what;         /**< "timm's names of a vision transformer" */
  const char *const *rules; /**< texts "OLD=NEW", one after the other; ended by NULL */
} ct_names_known_t;
/** Ended by one without `what`; the first one has no rules. */
extern const ct_names_known_t ct_names_known[];
/** Appends \a name by the rules of \a known, without what wrappers around a model put into names:
 * a leading "module." (DistributedDataParallel, AveragedModel) and "_orig_mod." (torch.compile) and
 * its like anywhere; *unwrapped becomes 1 if there was such. */
int ct_names_translate(const ct_names_known_t *known, const char *name, int *unwrapped,
                       ct_str_t *out);

#endif
