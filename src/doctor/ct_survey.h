/** \file ct_survey.h  What the samples of a data set are like.  Layer 5.
 *
 * Samples are read as they are stored, before any transform; all ranks share the reading. */
#ifndef CT_SURVEY_H
#define CT_SURVEY_H
#include "base/ct_err.h"
#include "base/ct_text.h"
#include "comm/ct_topo.h"
#include "data/ct_dataset.h"
#include "data/feed/ct_io_times.h"

enum {
  CT_SURVEY_CHANNELS = 64,  /**< with a mean of their own */
  CT_SURVEY_SAMPLES = 4096, /**< that are read, unless all are */
  CT_SURVEY_BARS = 16,      /**< of the histogram of labels */
  CT_SURVEY_PLACE = 400
};

/** So many samples have it; one of them, the first that was found by the lowest rank. */
typedef struct ct_survey_count {
  int64_t n;
  char place[CT_SURVEY_PLACE]; /**< "train-001.h5, sample 17" */
} ct_survey_count_t;

/** Of one data set; plain data, sent as bytes. */
typedef struct ct_survey {
  int64_t samples, looked;   /**< how many there are; read well */
  ct_survey_count_t unread;  /**< cannot be read; the place is the message */
  ct_survey_count_t odd;     /**< a number is not finite */
  ct_survey_count_t missing; /**< a number is missing (ct_reader_info_t) */
  double missing_numbers;    /**< so many of all */
  ct_survey_count_t flat;    /**< all numbers of a channel-wise sample are the same */
  ct_survey_count_t
      label; /**< a label that is out of range, also of a place, or a target that is not finite */
  ct_survey_count_t weight;    /**< a weight that is negative or not finite */
  ct_survey_count_t twice;     /**< the same bytes as another sample of the set; set on rank 0 */
  int64_t classes, empty;      /**< classes; how many of them no sample was found of */
  int64_t least, most;         /**< samples of the rarest and of the most frequent class */
  int by_place;                /**< 1: of classes, places of samples are counted, not samples */
  int bars;                    /**< of the histogram; fewer than classes: each is of several */
  int64_t bar[CT_SURVEY_BARS]; /**< how many have a label of its classes; set on rank 0 */
  int channels;                /**< with a mean; 0: too many */
  double scale;                /**< numbers are looked at after division by it: 255 of uint8 */
  double numbers[CT_SURVEY_CHANNELS], mean[CT_SURVEY_CHANNELS], std[CT_SURVEY_CHANNELS];
  double seconds;                                  /**< the slowest rank read for */
  double io_s[CT_IO_COUNT], io_bytes[CT_IO_COUNT]; /**< of the reading, over all ranks */
  double file_bytes;                               /**< of all files */
  double numbers_of_sample;                        /**< of the largest */
  double bytes;                                    /**< in memory, of those looked at */
} ct_survey_t;

/** Of both sets: rank 0's. */
typedef struct ct_surveys {
  ct_survey_t train, val;   /**< looked 0: there is none */
  ct_survey_count_t shared; /**< samples of val that are in train too */
} ct_surveys_t;

/** Collective.  Reads all samples of each set, or up to CT_SURVEY_SAMPLES that are drawn by a fixed
 * seed; \a val may hold no samples.  *out is meant on rank 0.  CT_ERR_NOMEM; what is wrong with
 * samples is no error. */
int ct_survey(const ct_topo_t *t, const ct_dataset_t *train, const ct_dataset_t *val, int full,
              ct_surveys_t *out);
/** Pure.  "normalize: {mean: [0.1307], std: [0.3081]}"; nothing if channels have no mean.
 * Appended. */
int ct_survey_normalize(const ct_survey_t *l, ct_str_t *out);
/** Pure.  The first of the classes that bar \a i counts; of l->bars: one behind the last.
 * All bars count as many classes, the last maybe fewer. */
int64_t ct_survey_bar_begin(const ct_survey_t *l, int i);
/** Pure.  The largest distance of the means of a channel, in standard deviations of \a train; 0:
 * they cannot be compared. */
double ct_survey_drift(const ct_surveys_t *l, int *channel);

#endif
