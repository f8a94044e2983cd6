/** \file predict_several.h  Output of predictions of models with several outputs.  Local, on rank
 * 0. */
#ifndef CT_PREDICT_SEVERAL_H
#define CT_PREDICT_SEVERAL_H
#include "setup/ct_setup.h"
#include "setup/ct_predictor.h"

typedef struct ct__outputs ct__outputs_t;

/** Opens the output: lines of text, or a .csv or .h5 file.  CT_ERR_USAGE: an option that several
 * outputs do not have. */
int ct__outputs_open(const ct_setup_t *s, const ct_predict_style_t *style, ct__outputs_t **out);
/** ct_predict_to_t.take() with a ct__outputs_t as its context. */
int ct__outputs_take(void *out, int64_t first, int64_t n, const float *outputs, const char *lost);
/** Completes the file. */
int ct__outputs_commit(ct__outputs_t *p);
/** Returns the number of samples that could not be read. */
int64_t ct__outputs_lost(const ct__outputs_t *p);
/** Frees \a p, which may be NULL. */
void ct__outputs_close(ct__outputs_t *p);

/** Writes the names of the first `samples` samples of d, a line for each row of the predictions, as
 * /samples of an open store (predict_output.c). Local. */
int ct__put_samples(const ct_dataset_t *d, int64_t samples, const ct_store_ops_t *ops,
                    ct_store_t *store);

#endif
