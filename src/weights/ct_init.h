/** \file ct_init.h  Section `init`: initial weights, and the mapping of a file's tensors to a
 * model's parameters. Layer 3. All functions are local.
 *
 * Names and shapes are matched as PyTorch's load_state_dict() does. The tensors themselves are read
 * later, by the caller (ct_trainer_load()). */
#ifndef CT_INIT_H
#define CT_INIT_H
#include "model/ct_graph.h"
#include "weights/ct_weights.h"

/** Options of the section `init`. */
typedef struct ct_init_opts {
  char *from;             /**< weight file or run directory; "": random initialization */
  char *key;              /**< which dict of a nested file */
  int strict;             /**< 1: names and shapes must match the model exactly */
  char *strip_prefix;     /**< prefix to strip from the file's tensor names */
  ct_opt_texts_t rename;  /**< renaming rules (ct_names.h) */
  ct_opt_texts_t replace; /**< patterns of parameters (ct_graph_matches()) that keep their random
                             initialization */
} ct_init_opts_t;
extern const ct_opt_t ct_init_rows[];

/** Checks that the keys are consistent. CT_ERR_USAGE. */
int ct_init_check(const ct_init_opts_t *o);

/** Mapping of tensors to parameters, and all mismatches. All zero: empty. */
typedef struct ct_match {
  int *from;                /**< [graph.params]: index of a tensor in the file; -1: none */
  int *second;              /**< [graph.params]: tensor with a second name of the parameter, such as
                                 lm_head.weight of a tied head; -1: none */
  int taken;                /**< parameters and buffers that get a tensor of the file */
  int replaced;             /**< parameters and buffers selected by init.replace */
  int missing;              /**< parameters without a tensor */
  int constants;            /**< constants without a tensor: state dicts do not have them */
  int misfits;              /**< parameters whose tensor has another shape */
  int unexpected;           /**< tensors without a parameter */
  ct_str_t lines[4];        /**< lists of names: missing, different shape, unexpected,
                                       replaced */
  char prefix[CT_NAME_MAX]; /**< prefix of most names in the file without which they would
                                       match the model; "": none */
  char names[160];          /**< which program's naming scheme the file uses, if not the
                                       model's own */
} ct_match_t;

/** Matches the file's names to the model's. Applies the rules of \a o, and if some of the model's
 * names are still missing, the known naming schemes of other programs (ct_names_known), provided
 * that most names match then. Counters (num_batches_tracked, n_averaged) and buffers of
 * transformers are ignored, and so are parameters and tensors selected by init.replace.
 * CT_ERR_USAGE: a pattern of init.replace matches no parameter; CT_ERR_FORMAT: two tensors map to
 * one name. Mismatched names or shapes are not errors here; see ct_match_judge(). */
int ct_match_make(const ct_weights_file_t *f, const ct_graph_t *g, const ct_init_opts_t *o,
                  ct_match_t *out);
/** Opens the dict of the file that o->key names, or without a key the dict whose names match the
 * model, and matches its tensors to the parameters. CT_ERR_FORMAT lists the dicts if several match
 * equally well; an averaged copy is never preferred to its model. */
int ct_match_open(const ct_weights_ops_t *const formats[], const char *path, const ct_graph_t *g,
                  const ct_init_opts_t *o, ct_weights_file_t *f, ct_match_t *m);
/** Chooses the dict and matches it as ct_match_open() does, for a file that is already open; the
 * open dict may be replaced by another one. */
int ct_match_reopen(const ct_weights_ops_t *const formats[], const ct_graph_t *g,
                    const ct_init_opts_t *o, ct_weights_file_t *f, ct_match_t *m);
/** Logs the mismatches with the first names of each kind. CT_ERR_FORMAT if there are any and
 * init.strict is set, or if nothing matches at all; \a file: name for the message. */
int ct_match_judge(const ct_match_t *m, const ct_init_opts_t *o, const char *file);
/** Reads tensor \a i of the file as float32 into \a to, the values of parameter \a p, which has the
 * tensor's shape: transposes the weight of a Conv1D if the file holds it as in x out. Errors as of
 * ct_weights_floats(). */
int ct_match_read(const ct_weights_file_t *f, int i, const ct_param_t *p, float *to);
void ct_match_clear(ct_match_t *m);

#endif
