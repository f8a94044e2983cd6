/** \file field_errors.h  Errors of real-valued predictions, by channel and of all: RMSE, MAE,
 * VRMSE, relative L2. */
#ifndef CT_FIELD_ERRORS_H
#define CT_FIELD_ERRORS_H
#include "comm/ct_agree.h"
#include "eval/compared.h"
#include "eval/ct_eval.h"
#include "eval/exact_sum.h"

/** Sums over samples of a channel, or of all channels if there are more than CT_EVAL_CHANNELS. */
typedef struct ct__channel_sums {
  ct__exact_t square, absolute; /**< of prediction minus target */
  ct__exact_t vrmse;            /**< of each sample's channel */
  int64_t values;               /**< summed in the first two */
  int64_t channels;             /**< summed in vrmse */
} ct__channel_sums_t;

/** Sums of this rank.  May be all zero: nothing is summed. */
typedef struct ct__field_errors {
  int64_t channels; /**< 0: not requested */
  int sigmoid;      /**< 1: the predictions are the sigmoid of the outputs */
  int rows;         /**< of `row` */
  ct__channel_sums_t *row;
  ct__exact_t relative_l2; /**< of each sample */
  int64_t samples;         /**< summed in relative_l2 */
  float *predicted;        /**< [places], with sigmoid */
} ct__field_errors_t;

/** Local.  Allocates memory; \a places: values of a channel. */
int ct__field_errors_open(ct__field_errors_t *s, int64_t places);
void ct__field_errors_close(ct__field_errors_t *s);
/** Local, Hot.  Adds a batch. */
void ct__field_errors_batch(ct__field_errors_t *s, const ct__compared_t *b);
/** Collective.  Writes the errors of each channel, and of all of them, into the result. */
void ct__field_errors_result(ct__field_errors_t *s, const ct_topo_t *topo, ct_eval_result_t *out);

#endif
