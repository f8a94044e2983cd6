/** \file convert.h  What `convert` makes.  Layer 5, local. */
#ifndef CT_CONVERT_H
#define CT_CONVERT_H
#include "setup/ct_command.h"
#include "conf/ct_opt.h"
#include "weights/ct_weights.h"

/** The rules of the option `rename`, "OLD=NEW,OLD=NEW" (ct_names.h), owned by the caller.
 * CT_ERR_USAGE says which is none. */
int ct_convert_rules(const ct_args_t *a, ct_opt_texts_t *out);
void ct_convert_rules_clear(ct_opt_texts_t *rules);

/** The format of weight files that \a out is named as, of those that are written; NULL: none. */
const ct_weights_ops_t *ct_convert_format(const char *out);
/** Writes the tensors of a weight file as another, of ct_convert_format(out), by other names where
 * `strip-prefix` and `rename` say so.  The configuration that the file carries goes along, or that
 * of the option `config`, each with --set.  CT_ERR_USAGE: a rule is none, or two tensors would get
 * one name. */
int ct_convert_weights(const char *in, const char *out, const ct_args_t *a);

/** Writes the model of a weight file as ONNX.  Its configuration, which says what the weights are
 * weights of, is that of the option `config`, or the one that the file carries, each with --set.
 * CT_ERR_USAGE: there is none, or it does not say what a sample is; CT_ERR_FORMAT lists all weights
 * that are missing or of another shape. */
int ct_convert_onnx(const char *in, const char *out, const ct_args_t *a);

#endif
