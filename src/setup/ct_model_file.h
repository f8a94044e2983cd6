/** \file model_path.h  Which file a run's model is, by one rule for all commands.  Layer 5.  All
 * functions are local. */
#ifndef CT_MODEL_PATH_H
#define CT_MODEL_PATH_H
#include "setup/ct_setup.h"
#include "weights/ct_init.h"

/* ---- model_path.c: which file; all functions are local ---- */

/** 1: a word of --checkpoint, `best` or `latest`; a file of that name is ./best. */
int ct_model_is_word(const char *text);
/** The file of \a what: of a run's directory its best checkpoint where its checkpoint.best is on,
 * else its newest good one, or the one of \a word (NULL: none is given); of any other file itself.
 * CT_ERR_USAGE: a directory without a checkpoint, or a word that is none; CT_ERR_FORMAT: a
 * directory of another program. */
int ct_model_path(const char *what, const char *word, char *path, size_t cap);
/** The same of the run of a configuration; \a checkpoint is a word, a file, a run's directory, or
 * NULL. */
int ct_model_path_of_run(const ct_config_t *c, const char *checkpoint, char *path, size_t cap);

/* ---- model_file.c: what is in it ---- */

/** What a command asks for. */
typedef struct ct_model_ask {
  const char *what;            /**< a configuration, a run's directory, or a model file, which
                                    carries its configuration */
  const char *checkpoint;      /**< its weights: ct_model_path_of_run(); "": none are read */
  const char *key;             /**< of a nested file; NULL: none is given */
  const ct_opt_texts_t *input; /**< files without labels that become data.val, relative to the
                                    working directory, of none it stays; NULL: data.val, as it is */
  const char *nothing;         /**< what it means if data.val is not set */
} ct_model_ask_t;

/** Collective.  The configuration, and on rank 0 the file of the weights, open in *w. */
int ct_model_config(ct_setup_t *s, const ct_args_t *a, const ct_model_ask_t *ask,
                    ct_weights_file_t *w);
/** Local, rank 0, behind ct_setup_model().  Which tensor of the file each parameter of s->graph is;
 * all must fit.  CT_ERR_FORMAT names the file and what does not. */
int ct_model_match(const ct_setup_t *s, const char *key, ct_weights_file_t *w, ct_match_t *m);
/** Local, rank 0.  The store of a checkpoint; of another file none. */
int ct_model_store(const ct_weights_file_t *w, ct_ckpt_found_t *out);
/** Collective, behind ct_setup_model().  A trainer that evaluates, with the weights of the file
 * that rank 0 has open. */
int ct_model_trainer(ct_setup_t *s, const char *key, ct_weights_file_t *w);

#endif
