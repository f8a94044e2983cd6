/** \file ct_survey.h  Statistics of the samples of a data set, and problems in them.  Layer 5.
 *
 * Samples are read as they are stored, before any transform; each rank reads a part of them. */
#ifndef CT_SURVEY_H
#define CT_SURVEY_H
#include "base/ct_err.h"
#include "base/ct_text.h"
#include "comm/ct_topo.h"
#include "data/ct_dataset.h"
#include "data/feed/ct_io_times.h"

enum {
  CT_SURVEY_CHANNELS = 64,  /**< data with more channels gets no means */
  CT_SURVEY_SAMPLES = 4096, /**< maximum number of samples read, unless all are requested */
  CT_SURVEY_BARS = 16,      /**< bars of the histogram of labels */
  CT_SURVEY_SAMPLE = 400
};

/** The number of samples with a problem, and the first one that the lowest rank found. */
typedef struct ct_survey_count {
  int64_t n;
  char location[CT_SURVEY_SAMPLE]; /**< "train-001.h5, sample 17" */
} ct_survey_count_t;

/** Statistics of one data set; plain data, sent as bytes. */
typedef struct ct_survey {
  int64_t samples;           /**< number of samples in the data set */
  int64_t looked;            /**< number of samples that were read without errors */
  ct_survey_count_t unread;  /**< unreadable samples; location has the error message */
  ct_survey_count_t odd;     /**< samples with a number that is not finite */
  ct_survey_count_t missing; /**< samples with a missing number (ct_reader_info_t) */
  double missing_numbers;    /**< fraction of all numbers that are missing */
  ct_survey_count_t flat;    /**< samples in which all numbers are the same */
  ct_survey_count_t label;   /**< samples with a label (of the sample or of a pixel) out of range,
                                  or with a target that is not finite */
  ct_survey_count_t weight;  /**< samples with a weight that is negative or not finite */
  ct_survey_count_t twice; /**< samples with the same bytes as another sample of the set; rank 0 */
  int64_t classes;         /**< number of classes */
  int64_t empty;           /**< number of classes without a sample */
  int64_t least;           /**< number of samples of the rarest class */
  int64_t most;            /**< number of samples of the most frequent class */
  int by_pixel;            /**< 1: class counts are per pixel or voxel, not per sample */
  int bars;                /**< bars of the histogram of labels; if fewer than classes, a bar
                                  counts several classes */
  int64_t bar[CT_SURVEY_BARS]; /**< number of labels in the classes of a bar; set on rank 0 */
  int channels; /**< number of channels with means; 0: more than CT_SURVEY_CHANNELS */
  double scale; /**< numbers are divided by it before statistics: 255 for uint8 */
  double numbers[CT_SURVEY_CHANNELS]; /**< number of values in each channel */
  double mean[CT_SURVEY_CHANNELS];
  double std[CT_SURVEY_CHANNELS];
  double seconds;               /**< reading time of the slowest rank */
  double io_s[CT_IO_COUNT];     /**< seconds in each phase of reading (ct_io_times.h), all ranks */
  double io_bytes[CT_IO_COUNT]; /**< bytes in each phase of reading, all ranks */
  double file_bytes;            /**< size of all files */
  double numbers_of_sample;     /**< numbers in the largest sample */
  double bytes;                 /**< bytes in memory of all samples that were read */
} ct_survey_t;

/** Statistics of both sets; valid on rank 0. */
typedef struct ct_surveys {
  ct_survey_t train, val;   /**< looked 0: the data set is not open */
  ct_survey_count_t shared; /**< samples of val that are also in train */
} ct_surveys_t;

/** Collective.  Reads samples of each set: all if \a full, else up to CT_SURVEY_SAMPLES, drawn with
 * a fixed seed.  \a val may be empty.  *out is valid on rank 0.  CT_ERR_NOMEM; problems of samples
 * are counted in *out and are not errors. */
int ct_survey(const ct_topo_t *t, const ct_dataset_t *train, const ct_dataset_t *val, int full,
              ct_surveys_t *out);
/** Pure.  Appends "normalize: {mean: [0.1307], std: [0.3081]}"; nothing if channels is 0. */
int ct_survey_normalize(const ct_survey_t *l, ct_str_t *out);
/** Pure.  Returns the first class that bar \a i counts; for i = l->bars: the number of classes.
 * All bars count the same number of classes; the last bar may count fewer. */
int64_t ct_survey_bar_begin(const ct_survey_t *l, int i);
/** Pure.  Returns the largest difference between the means of a channel in train and val, in
 * standard deviations of train; *channel is this channel.  0: the sets cannot be compared. */
double ct_survey_drift(const ct_surveys_t *l, int *channel);

#endif
