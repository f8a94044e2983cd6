/** \file ct_names.h  Renaming rules for tensors. Layer 3. All functions are local and pure.
 *
 * A rule is a text "OLD=NEW". Each '*' in OLD matches any characters, including dots or nothing, as
 * few as possible; NEW has the same number of '*', which insert the matched texts in the same
 * order. OLD without '*' matches the tensor with that name, or all tensors below the layer with
 * that name: "model.head=fc" renames model.head.weight to fc.weight. Names that do not match stay
 * unchanged. */
#ifndef CT_NAMES_H
#define CT_NAMES_H
#include "conf/ct_opt.h"

/** CT_ERR_USAGE names the first invalid rule and the reason; \a key: name of the option, for the
 * message. */
int ct_names_check(const ct_opt_texts_t *rules, const char *key);
/** Renames a tensor into *out, which is cleared first: strips \a prefix ("": none) if the name
 * starts with it and is longer, then applies the rules in order. The rules must have been
 * checked. */
int ct_names_change(const char *prefix, const ct_opt_texts_t *rules, const char *name,
                    ct_str_t *out);

enum { CT_NAMES_LISTED = 5 /**< names shown in a message; more are only counted */ };
/** ct_names_list() appends name number \a n (from 0) to a list for a message: "'a', 'b'".
 * ct_names_list_end() ends a list of \a n names and adds how many were omitted: " and 3 more". */
int ct_names_list(ct_str_t *list, int n, const char *name);
int ct_names_list_end(ct_str_t *list, int n);

/** Naming scheme of another program for a model that is supported here. */
typedef struct ct_names_known {
  const char *what;         /**< "timm's names of a vision transformer" */
  const char *const *rules; /**< texts "OLD=NEW", applied in order; ends with NULL */
} ct_names_known_t;
/** The known naming schemes. The list ends with an entry whose `what` is NULL; the rules of the
 * first entry are empty: names of this program. */
extern const ct_names_known_t ct_names_known[];
/** Appends \a name, translated by the rules of \a known, without prefixes of model wrappers: a
 * leading "module." (DistributedDataParallel, AveragedModel), and "_orig_mod." (torch.compile) and
 * similar ones anywhere. *unwrapped is set to 1 if a prefix was removed. */
int ct_names_translate(const ct_names_known_t *known, const char *name, int *unwrapped,
                       ct_str_t *out);

#endif
