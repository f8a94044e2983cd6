/** \file ct_names.h  Names of tensors, changed by rules.  Layer 3.  All functions are local and
 * pure.
 *
 * A rule is the text "OLD=NEW".  In OLD each '*' stands for any characters, dots and none too, as
 * few as fit; NEW has as many, and they stand for the same characters in the same order.  OLD
 * without '*' means the tensor of that name, or all below the layer of that name: "model.head=fc"
 * makes fc.weight of model.head.weight.  A name that OLD does not mean stays as it is. */
#ifndef CT_NAMES_H
#define CT_NAMES_H
#include "base/ct_opt.h"

/** CT_ERR_USAGE says which rule cannot be one, and why; \a key names the option for it. */
int ct_names_check(const ct_opt_texts_t *rules, const char *key);
/** A name of a file becomes *out, which is emptied first: without \a prefix ("": none), where it
 * begins with it and more follows, then by each of the rules, which were checked, in their
 * order. */
int ct_names_change(const char *prefix, const ct_opt_texts_t *rules, const char *name,
                    ct_str_t *out);

#endif
