/** \file ct_model_file.h  Finds, opens and loads a trained model, in the same way for all commands.
 * Layer 5. */
#ifndef CT_MODEL_PATH_H
#define CT_MODEL_PATH_H
#include "setup/ct_setup.h"
#include "weights/ct_init.h"

/* ---- model_path.c: finds the file; all functions are local ---- */

/** Returns 1 if \a text is a keyword of --checkpoint: `best` or `latest`. (./best is a file.) */
int ct_model_is_word(const char *text);
/** Finds the model file of \a what.  If \a what is a run directory: its best checkpoint if the
 * run's configuration sets checkpoint.best, otherwise its newest valid one; \a word (`best`,
 * `latest`, or NULL) overrides this.  If \a what is a file or a directory of
 * Hugging Face: itself.  CT_ERR_USAGE: a directory without a checkpoint, or an unknown word;
 * CT_ERR_FORMAT: a directory of another program. */
int ct_model_path(const char *what, const char *word, char *path, size_t cap);
/** Finds the model file for a configuration whose run.dir has checkpoints.  \a checkpoint is
 * `best`, `latest`, a file, a run directory, or NULL. */
int ct_model_path_of_run(const ct_config_t *c, const char *checkpoint, char *path, size_t cap);

/* ---- model_file.c: opens and loads the file ---- */

/** The model and data that a command was asked to use. */
typedef struct ct_model_ask {
  const char *what;            /**< a configuration, a run directory, or a model file that
                                    contains its configuration */
  const char *checkpoint;      /**< weights to load, as for ct_model_path_of_run(); "": no
                                    weights are read */
  const char *key;             /**< group in a nested file; NULL: none */
  const ct_opt_texts_t *input; /**< unlabelled files that replace data.val, relative to the
                                    working directory; an empty list or NULL keeps data.val */
  int without_data;            /**< 1: the command reads no data */
  const char *nothing;         /**< end of the error message if data.val is not set */
} ct_model_ask_t;

/** Collective.  Reads the configuration.  On rank 0, also opens the weight file in *w. */
int ct_model_config(ct_setup_t *s, const ct_args_t *a, const ct_model_ask_t *ask,
                    ct_weights_file_t *w);
/** Local.  Makes the model of a configuration, which is one of tokens, for sequences of \a length
 * tokens and without extra inputs.  CT_ERR_USAGE: its samples are not sequences of ids. */
int ct_model_graph(const ct_config_t *c, int64_t length, ct_graph_t **out);
/** Local, rank 0, after ct_setup_model().  Finds the tensor of the file for each parameter of
 * s->graph.  CT_ERR_FORMAT names the file and all tensors that are missing or have a wrong shape.
 */
int ct_model_match(const ct_setup_t *s, const char *key, ct_weights_file_t *w, ct_match_t *m);
/** Local, rank 0.  If the file is a checkpoint, opens its store in *out; otherwise leaves *out
 * unchanged. */
int ct_model_store(const ct_weights_file_t *w, ct_ckpt_found_t *out);
/** Collective, after ct_setup_model().  Creates a trainer for evaluation, with the weights of the
 * file that rank 0 has open in *w. */
int ct_model_trainer(ct_setup_t *s, const char *key, ct_weights_file_t *w);

#endif
