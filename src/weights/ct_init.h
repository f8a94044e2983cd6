/** \file ct_init.h  Section `init`: weights to begin from, and which tensor of a file each
 * parameter of a model gets.  Layer 3.  All functions are local.
 *
 * What load_state_dict() of PyTorch decides, by names and shapes; the tensors themselves are read
 * later, by who takes them (ct_trainer_load()). */
#ifndef CT_INIT_H
#define CT_INIT_H
#include "model/ct_graph.h"
#include "weights/ct_weights.h"

/** Section `init`. */
typedef struct ct_init_opts {
  char *from;             /**< file, or run directory; "": weights are drawn */
  char *key;              /**< of a nested file */
  int strict;             /**< names and shapes have to be the model's */
  char *strip_prefix;     /**< of the file's names */
  ct_opt_texts_t rename;  /**< rules (ct_names.h) */
  ct_opt_texts_t replace; /**< patterns of parameters (ct_graph_matches()) that begin anew */
} ct_init_opts_t;
extern const ct_opt_t ct_init_rows[];

/** What single keys cannot say.  CT_ERR_USAGE. */
int ct_init_check(const ct_init_opts_t *o);

/** Which tensor each parameter gets, and what does not fit.  {0} is empty. */
typedef struct ct_match {
  int *from;                        /**< [graph.params]: a tensor of the file; -1: none */
  int taken, replaced;              /**< parameters (and buffers) */
  int missing, misfits, unexpected; /**< those without a tensor, those of another shape, and
                                           tensors of other names */
  ct_str_t lines[4];                /**< names: missing, of another shape, unexpected, replaced */
  char prefix[CT_NAME_MAX];         /**< most names of the file begin with it, and without it they
                                         would be the model's; "": there is none */
  char names[160];                  /**< whose names the file has, if they are not the model's */
} ct_match_t;

/** The names of the file by the rules of \a o, and where these leave some of the model out by those
 * that are known of other programs (ct_names_known), if then most are there; counters
 * (num_batches_tracked, n_averaged) are passed over, and so is what init.replace means, in the
 * model and in the file.  CT_ERR_USAGE: a
 * pattern of init.replace means no parameter; CT_ERR_FORMAT: two tensors get one name.  That names
 * or shapes do not fit is no error here: ct_match_judge(). */
int ct_match_make(const ct_weights_file_t *f, const ct_graph_t *g, const ct_init_opts_t *o,
                  ct_match_t *out);
/** Opens the part of a file that o->key names, or without it the one whose names are the model's,
 * and matches it.  CT_ERR_FORMAT names the parts if several fit as well, but an averaged copy is
 * never taken for its model. */
int ct_match_open(const ct_weights_ops_t *const formats[], const char *path, const ct_graph_t *g,
                  const ct_init_opts_t *o, ct_weights_file_t *f, ct_match_t *m);
/** The same with a file that is open, of whatever part. */
int ct_match_reopen(const ct_weights_ops_t *const formats[], const ct_graph_t *g,
                    const ct_init_opts_t *o, ct_weights_file_t *f, ct_match_t *m);
/** Tells the log what does not fit, the first names of each kind.  CT_ERR_FORMAT: something does
 * not and init.strict is set, or nothing fits at all; \a file names the file. */
int ct_match_judge(const ct_match_t *m, const ct_init_opts_t *o, const char *file);
void ct_match_clear(ct_match_t *m);

#endif
