/** \file predict_several.h  Output of predictions of models with several outputs, and of fields.
 * Local, on rank 0. */
#ifndef CT_PREDICT_SEVERAL_H
#define CT_PREDICT_SEVERAL_H
#include "setup/ct_setup.h"
#include "setup/ct_predictor.h"

/* ---- predict_several.c: lines of text, or a .csv file ---- */

/** One output of the model. */
typedef struct ct__output {
  const char *name; /**< of its layer; borrowed */
  ct_shape_t shape; /**< of one sample */
  int has_loss;     /**< 0: its values are given as they are */
  ct_loss_kind_t loss;
  int64_t values; /**< per sample */
  int64_t places; /**< cross-entropy: places of a sample, each with a class; else 0 */
  int64_t classes;
  int last; /**< 1: the classes are the last dim of the shape; 0: the first after the samples */
} ct__output_t;
/** Describes the outputs of the model; *n is their number. */
int ct__outputs_describe(const ct_setup_t *s, ct__output_t out[CT_OUTPUTS], int *n);
/** Finds the most likely class of each place of an output with cross-entropy. */
void ct__outputs_classes(const ct__output_t *o, int64_t places, const float *v, int64_t *best);
/** Returns 1 if the name of a file ends in this suffix. */
int ct__outputs_suffix(const char *path, const char *suffix);

typedef struct ct__outputs ct__outputs_t;

/** Opens the output.  CT_ERR_USAGE: an option that several outputs do not have. */
int ct__outputs_open(const ct_setup_t *s, const ct_predict_style_t *style, ct__outputs_t **out);
/** ct_predict_to_t.take() with a ct__outputs_t as its context. */
int ct__outputs_take(void *out, int64_t first, int64_t n, const float *outputs, const char *lost);
/** Completes the file. */
int ct__outputs_commit(ct__outputs_t *p);
/** Returns the number of samples that could not be read. */
int64_t ct__outputs_lost(const ct__outputs_t *p);
/** Frees \a p, which may be NULL. */
void ct__outputs_close(ct__outputs_t *p);

/* ---- predict_fields.c: HDF5 of several outputs and of fields, and masks ---- */

typedef struct ct__fields ct__fields_t;

/** Opens a .h5 file, or a directory for masks.  If s->tile is not NULL, samples are tiles; the
 * outputs of overlapping tiles are averaged with weights (ct_blend.h).  CT_ERR_USAGE: the model has
 * no such output. */
int ct__fields_open(const ct_setup_t *s, const ct_predict_style_t *style, ct__fields_t **out);
/** ct_predict_to_t.take() with a ct__fields_t as its context. */
int ct__fields_take(void *out, int64_t first, int64_t n, const float *outputs, const char *lost);
/** Completes the file. */
int ct__fields_commit(ct__fields_t *p);
/** Returns the number of samples that could not be read. */
int64_t ct__fields_lost(const ct__fields_t *p);
/** Frees \a p, which may be NULL.  A file that is not complete is removed. */
void ct__fields_close(ct__fields_t *p);

/* ---- palette.c ---- */

/** Sets the colours of 256 classes: those of the VOC data set, or of a file with a line `R G B`
 * (and any text after it) for each class.  CT_ERR_USAGE names the line. */
int ct__palette_read(const char *what, int64_t classes, uint8_t rgb[256 * 3]);

/* ---- predict_output.c ---- */

/** Appends the names of the samples, a line for each row of the predictions. */
int ct__samples_text(const ct_reader_ops_t *ops, const ct_reader_t *r, int64_t samples,
                     ct_str_t *out);

#endif
