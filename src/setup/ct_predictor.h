/** \file ct_predictor.h  A trainer that predicts, and what becomes of its predictions.  Layer 5. */
#ifndef CT_PREDICT_APP_H
#define CT_PREDICT_APP_H
#include "setup/ct_setup.h"
#include "weights/ct_weights.h"

/** Collective, behind ct_setup_model().  Folds the model, makes the trainer that only predicts,
 * and gives it the weights of \a w (on rank 0; NULL on the others, or everywhere: the initial
 * ones), whose names must be the model's.  CT_ERR_FORMAT names the file and what is missing. */
int ct_predict_trainer(ct_setup_t *s, const char *key, ct_weights_file_t *w);

/* ---- predict_output.c: what becomes of predictions ---- */

/** How they are told. */
typedef struct ct_predict_out ct_predict_out_t;
typedef struct ct_predict_style {
  int top;            /**< classes of a sample that are told */
  const char *names;  /**< file with the classes' names, a line each; NULL: numbers */
  const char *output; /**< .h5 or .csv; NULL: standard output */
} ct_predict_style_t;

/** Local, rank 0.  Borrows the set-up.  CT_ERR_USAGE: an output of another format; as many names as
 * classes are needed. */
int ct_predict_out_open(const ct_setup_t *s, const ct_predict_style_t *style,
                        ct_predict_out_t **out);
/** Local, rank 0.  ct_predict_to_t.take. */
int ct_predict_out_take(void *out, int64_t first, int64_t n, const float *outputs,
                        const char *lost);
/** Samples that were lost, or files that were left out before. */
int64_t ct_predict_out_lost(const ct_predict_out_t *out);
/** Local, rank 0.  The file is there whole, or not at all. */
int ct_predict_out_commit(ct_predict_out_t *out);
/** NULL is fine; what was not committed is removed. */
void ct_predict_out_close(ct_predict_out_t *out);

#endif
