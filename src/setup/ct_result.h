/** \file ct_result.h  What a finished run leaves behind and says.  Layer 5. */
#ifndef CT_RESULT_H
#define CT_RESULT_H
#include "setup/ct_config.h"
#include "run/ct_loop.h"
#include <jansson.h>

/** Local; rank 0.  summary.json in the run directory, and, if \a shown, the final table on stdout.
 * \a confusion: of the last evaluation, or NULL; \a set: eval.sets, or NULL. */
int ct_result_write(const ct_config_t *c, int ranks, const ct_loop_result_t *result,
                    const ct_confusion_t *confusion, const ct_eval_set_t *set, int shown);
/** The lines of an evaluation for people.  Appended. */
int ct_result_eval(const ct_eval_result_t *e, ct_str_t *out);
/** The lines below them, with the names of the classes (of none: numbers alone): accuracy,
 * precision and F1 of each class; \a by_place: of the places of samples, accuracy and
 * intersection over union. Appended. */
int ct_result_classes(const ct_confusion_t *c, int by_pixel, const ct_opt_texts_t *names,
                      ct_str_t *out);
/** An evaluation as a JSON object: loss, samples, top1 and top5 or mae, classes.  \a c may be NULL.
 * NULL: no memory. */
json_t *ct_result_eval_json(const ct_eval_result_t *e, const ct_confusion_t *c,
                            const ct_opt_texts_t *names);
/** What summary.json and `eval` say of eval.sets, a list: set, loss, samples, scores.  NULL: no
 * memory. */
json_t *ct_result_sets_json(const ct_eval_set_t *set, int n);
/** "  noisy             loss 0.1234  top-1 0.9876  of 360".  Appended. */
int ct_result_set(const ct_eval_set_t *set, ct_str_t *out);
/** Local; rank 0.  The matrix as csv: a line for each label, a column for each predicted class. The
 * file is there whole or not at all. */
int ct_result_confusion(const ct_confusion_t *c, const ct_opt_texts_t *names, const char *path);

#endif
