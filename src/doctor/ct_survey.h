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
  CT_SURVEY_CHANNELS = 64,  /**< more channels than these get no means */
  CT_SURVEY_SAMPLES = 4096, /**< read at most, unless all are requested */
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
  int64_t samples, looked;   /**< in the set; read without errors */
  ct_survey_count_t unread;  /**< unreadable; place holds the error message */
  ct_survey_count_t odd;     /**< with a number that is not finite */
  ct_survey_count_t missing; /**< with a missing number (ct_reader_info_t) */
  double missing_numbers;    /**< fraction of all numbers that are missing */
  ct_survey_count_t flat;    /**< all numbers of the sample are the same */
  ct_survey_count_t
      label; /**< with a label (of the sample or of a pixel) out of range, or a target not finite */
  ct_survey_count_t weight; /**< with a weight that is negative or not finite */
  ct_survey_count_t twice;  /**< with the same bytes as another sample of the set; set on rank 0 */
  int64_t classes, empty;   /**< number of classes; classes without a sample */
  int64_t least, most;      /**< samples of the rarest and the most frequent class */
  int by_pixel;             /**< 1: class counts are per pixel or voxel, not per sample */
  int bars;                 /**< of the histogram; fewer than classes: a bar counts several */
  int64_t bar[CT_SURVEY_BARS]; /**< number of labels in the classes of a bar; set on rank 0 */
  int channels;                /**< with means; 0: more than CT_SURVEY_CHANNELS */
  double scale;                /**< numbers are divided by it before statistics: 255 for uint8 */
  double numbers[CT_SURVEY_CHANNELS], mean[CT_SURVEY_CHANNELS], std[CT_SURVEY_CHANNELS];
  double seconds;                                  /**< reading time of the slowest rank */
  double io_s[CT_IO_COUNT], io_bytes[CT_IO_COUNT]; /**< per phase of reading, over all ranks */
  double file_bytes;                               /**< size of all files */
  double numbers_of_sample;                        /**< numbers in the largest sample */
  double bytes;                                    /**< in memory, of all samples read */
} ct_survey_t;

/** Statistics of both sets; valid on rank 0. */
typedef struct ct_surveys {
  ct_survey_t train, val;   /**< looked 0: there is no such set */
  ct_survey_count_t shared; /**< samples of val that are also in train */
} ct_surveys_t;

/** Collective.  Reads samples of each set: all if \a full, else up to CT_SURVEY_SAMPLES, drawn with
 * a fixed seed.  \a val may be empty.  *out is valid on rank 0.  CT_ERR_NOMEM; problems of samples
 * are counted in *out and are not errors. */
int ct_survey(const ct_topo_t *t, const ct_dataset_t *train, const ct_dataset_t *val, int full,
              ct_surveys_t *out);
/** Pure.  Appends "normalize: {mean: [0.1307], std: [0.3081]}"; nothing if there are no means. */
int ct_survey_normalize(const ct_survey_t *l, ct_str_t *out);
/** Pure.  The first class that bar \a i counts; for i = l->bars: one after the last class.  All
 * bars count the same number of classes; the last one may count fewer. */
int64_t ct_survey_bar_begin(const ct_survey_t *l, int i);
/** Pure.  The largest difference between the means of a channel in train and val, in standard
 * deviations of train; *channel is that channel.  0: the sets cannot be compared. */
double ct_survey_drift(const ct_surveys_t *l, int *channel);

#endif
