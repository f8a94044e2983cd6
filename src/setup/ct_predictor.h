/** \file ct_predictor.h  A trainer for prediction only, and the output of predictions.  Layer 5. */
#ifndef CT_PREDICT_APP_H
#define CT_PREDICT_APP_H
#include "eval/ct_blend.h"
#include "setup/ct_setup.h"
#include "weights/ct_weights.h"

/** Collective, after ct_setup_model().  Folds the batchnorms, creates a trainer for prediction
 * only, and loads the weights of \a w into it. w: the open file on rank 0, NULL on the other ranks;
 * NULL on all ranks keeps the initial weights.  CT_ERR_FORMAT names the file and the missing
 * tensors. */
int ct_predict_trainer(ct_setup_t *s, const char *key, ct_weights_file_t *w);

/* ---- predict_output.c: output of predictions ---- */

/** What is written to an HDF5 file.  CT_PREDICT_USUAL: the classes of masks; of all else the values
 * (probabilities, if a sample has one class) and the classes. */
typedef enum {
  CT_PREDICT_USUAL,
  CT_PREDICT_PROBABILITIES,
  CT_PREDICT_CLASSES,
  CT_PREDICT_OUTPUTS
} ct_predict_values_t;
/** Output options. */
typedef struct ct_predict_out ct_predict_out_t;
typedef struct ct_predict_style {
  int top;                    /**< number of most likely classes printed per sample */
  const char *names;          /**< file with class names, one per line; NULL: print class numbers */
  const char *output;         /**< .h5 or .csv file, or a directory for masks; NULL: stdout */
  const char *palette;        /**< of masks: `voc` or a file of colours; NULL: grey */
  ct_predict_values_t values; /**< of HDF5 */
  ct_blend_kind_t blend;      /**< of tiles */
} ct_predict_style_t;

/** Local, rank 0.  Opens the output; borrows \a s.  CT_ERR_USAGE: unknown output format, or a wrong
 * number of class names. */
int ct_predict_out_open(const ct_setup_t *s, const ct_predict_style_t *style,
                        ct_predict_out_t **out);
/** Local, rank 0.  Writes the outputs of one batch; a callback as ct_predict_to_t.take. */
int ct_predict_out_take(void *out, int64_t first, int64_t n, const float *outputs,
                        const char *lost);
/** Returns the number of samples that could not be read, plus the number of files that were skipped
 * when the data set was opened. */
int64_t ct_predict_out_lost(const ct_predict_out_t *out);
/** Local, rank 0.  Completes the output file; it appears whole or not at all. */
int ct_predict_out_commit(ct_predict_out_t *out);
/** Frees \a out, which may be NULL.  Removes output that was not committed. */
void ct_predict_out_close(ct_predict_out_t *out);

#endif
