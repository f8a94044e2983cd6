/** \file ct_result.h  Output of the results of a finished run or evaluation.  Layer 5. */
#ifndef CT_RESULT_H
#define CT_RESULT_H
#include "setup/ct_config.h"
#include "run/ct_loop.h"
#include <jansson.h>

/** Local, rank 0.  Writes summary.json into the run directory and, if \a shown, prints the final
 * table to stdout.  \a confusion: of the last evaluation, or NULL; \a set: results of eval.sets, or
 * NULL. */
int ct_result_write(const ct_config_t *c, int ranks, const ct_loop_result_t *result,
                    const ct_confusion_t *confusion, const ct_eval_set_t *set, int shown);
/** Appends the scores of an evaluation as text. */
int ct_result_eval(const ct_eval_result_t *e, ct_str_t *out);
/** Appends a table of the classes: accuracy, precision and F1 of each, or accuracy and IoU per
 * pixel if \a by_pixel is 1.  \a names: the class names; empty: only numbers are printed. */
int ct_result_classes(const ct_confusion_t *c, int by_pixel, const ct_opt_texts_t *names,
                      ct_str_t *out);
/** Returns an evaluation as a JSON object: loss, samples, top1 and top5 or mae, classes.  \a c may
 * be NULL. The caller owns the result; NULL: out of memory. */
json_t *ct_result_eval_json(const ct_eval_result_t *e, const ct_confusion_t *c,
                            const ct_opt_texts_t *names);
/** Returns the results of eval.sets as a JSON list: set, loss, samples, scores.  The caller owns
 * it; NULL: out of memory. */
json_t *ct_result_sets_json(const ct_eval_set_t *set, int n);
/** Appends one line for a set: " noisy loss 0.1234 top-1 0.9876 of 360". */
int ct_result_set(const ct_eval_set_t *set, ct_str_t *out);
/** Local, rank 0.  Writes the confusion matrix as csv: one row per label, one column per predicted
 * class.  The file appears whole or not at all. */
int ct_result_confusion(const ct_confusion_t *c, const ct_opt_texts_t *names, const char *path);

#endif
