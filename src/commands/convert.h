/** \file convert.h  Internal functions of the command `convert`.  Layer 5, local. */
#ifndef CT_CONVERT_H
#define CT_CONVERT_H
#include "setup/ct_command.h"
#include "conf/ct_opt.h"
#include "weights/ct_weights.h"

/** Parses the option `rename`, "OLD=NEW,OLD=NEW" (ct_names.h); the caller clears *out.
 * CT_ERR_USAGE names the invalid rule. */
int ct_convert_rules(const ct_args_t *a, ct_opt_texts_t *out);
void ct_convert_rules_clear(ct_opt_texts_t *rules);

/** Returns the writable weight format that the suffix of \a out selects; NULL: unknown suffix. */
const ct_weights_ops_t *ct_convert_format(const char *out);
/** Copies the tensors of weight file \a in to \a out in another format, and renames them by the
 * options `strip-prefix` and `rename`.  The configuration is copied too: that of the option
 * `config` or the one in \a in, changed by --set.  CT_ERR_USAGE: an invalid rule, or two tensors
 * with the same new name. */
int ct_convert_weights(const char *in, const char *out, const ct_args_t *a);

/** Returns 1 if \a out means a directory of Hugging Face: a directory, a name that ends in '/', or
 * one without a dot. */
int ct_convert_is_directory(const char *out);
/** Writes a model of a family over tokens as a new directory of Hugging Face, under the names and
 * in the layout of transformers; rows of the vocabulary beyond the option `vocab` are left out.
 * The configuration is found as by ct_convert_onnx(). CT_ERR_USAGE: another family, or the
 * directory is not empty. */
int ct_convert_hf(const char *in, const char *out, const ct_args_t *a);

/** Writes the model of a weight file as ONNX. The configuration that describes the model is that of
 * the option `config` or the one in the file, changed by --set.  CT_ERR_USAGE: the configuration is
 * missing, or it does not give the shape of a sample; CT_ERR_FORMAT lists all weights that are
 * missing or have a wrong shape. */
int ct_convert_onnx(const char *in, const char *out, const ct_args_t *a);

#endif
