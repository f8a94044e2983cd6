/** \file ct_study.h  A scaling study, read from its points.jsonl: configurations, each measured in
 * several rounds.  Layer 4.
 *
 * A configuration (ct_study_size_t) is a number of ranks with their nodes, threads and batch.
 * Each line is a JSON object (docs/scaling.md).  Unknown events and keys are ignored, and so is an
 * incomplete last line.  All functions are local. */
#ifndef CT_STUDY_H
#define CT_STUDY_H
#include <jansson.h>

#include "base/ct_step_times.h"
#include "base/ct_text.h"
#include "study/model/ct_timeline.h"

enum {
  CT_STUDY_ROUNDS = 256, /**< maximum number of rounds of one configuration that are kept */
  CT_STUDY_RUN = 0,      /**< kind of a configuration: its ranks train together */
  CT_STUDY_ALONE,        /**< one rank alone, with the local batch of a larger configuration */
  CT_STUDY_NEIGHBOURS    /**< the ranks of a node compute at the same time, without communication */
};

/** Seconds per step: means over the rounds of a configuration, weighted by the steps of the rounds.
 * All members are of type double. */
typedef struct ct_study_means {
  double step_s, busy_s, steady_s, random_s, transfer_s, busy_sd_s;
  ct_step_times_t kinds; /**< adds up to step_s */
} ct_study_means_t;

/** Time breakdown of a configuration. */
typedef struct ct_study_breakdown {
  int64_t steps; /**< steps of all rounds; 0: the study has no time breakdown */
  ct_study_means_t mean;
  /* from the round with the largest number of steps: */
  int slowest;           /**< the slowest rank; -1: unknown */
  char slowest_host[64]; /**< host of the slowest rank */
  char slowest_kind[24]; /**< the kind of time in which it exceeds the mean the most */
  double
      slowest_offcpu_s; /**< seconds off-CPU per step of the slowest rank; 0: none, or not known */
  double offcpu_s;      /**< seconds off-CPU per step, mean over the ranks; 0: none, or not known */
  double p50_s, p95_s, p99_s, max_s; /**< percentiles and maximum of the step times */
  int64_t most;                      /**< number of steps of this round */
  json_t *bins;                      /**< borrowed: histogram [[begin_s, steps], …]; or NULL */
  json_t *ranks_busy_s;              /**< borrowed: one number per rank; or NULL */
} ct_study_breakdown_t;

/** The measurements of one configuration. */
typedef struct ct_study_size {
  int kind; /**< CT_STUDY_RUN, CT_STUDY_ALONE or CT_STUDY_NEIGHBOURS */
  int ranks, nodes, local_ranks, threads;
  double batch, local_batch;
  int rounds;                      /**< number of rounds; 0: the configuration failed */
  double round_s[CT_STUDY_ROUNDS]; /**< mean step of each round */
  int round[CT_STUDY_ROUNDS];      /**< number of each round, so that the same round of two
                                        configurations can be compared */
  double median_s;                 /**< median of round_s */
  double low_s, high_s;            /**< confidence interval of the median */
  double covers;                   /**< confidence level of the interval; 0: no interval */
  double gradient_bytes;
  double energy_j;       /**< joules of all nodes for energy_samples samples; 0: not known */
  double energy_samples; /**< number of samples during which the energy was measured */
  int algorithm;         /**< ct_comm_algorithm_t; -1: the default of this program */
  ct_study_breakdown_t breakdown;
  char error[200]; /**< why its last round failed */
} ct_study_size_t;

typedef struct ct_study {
  json_t *lines;          /**< owned; other members borrow from it */
  json_t *about;          /**< borrowed: the line with the event `study`; or NULL */
  char path[CT_PATH_MAX]; /**< path of points.jsonl */
  ct_study_size_t *size;  /**< sorted by kind, ranks, nodes, threads, batch */
  int sizes;
  int64_t cap;
  ct_timeline_t timeline;
  double timeline_bucket_bytes, timeline_local_batch; /**< 0: unknown */
} ct_study_t;

/** Reads a study.  \a path: a points.jsonl, or the directory that contains it.  CT_ERR_IO;
 * CT_ERR_FORMAT names the line and the key. */
int ct_study_read(const char *path, ct_study_t *s);
void ct_study_clear(ct_study_t *s);

/** Returns 1 if all configurations have the same local batch (weak scaling). */
int ct_study_is_weak(const ct_study_t *s);
/** Returns the base: the smallest measured configuration, whose efficiency is 1 by definition.
 * NULL: all configurations failed. */
const ct_study_size_t *ct_study_base(const ct_study_t *s);
/** Returns the seconds of a step of \a size at the efficiency of \a base, whose step takes base_s.
 */
double ct_study_ideal(const ct_study_size_t *base, const ct_study_size_t *size, double base_s);
/** Returns the samples per second of a configuration if a step takes step_s. */
double ct_study_rate(const ct_study_size_t *size, double step_s);
/** Returns the configuration of kind \a kind with the same threads and local batch as \a size, and
 * for CT_STUDY_NEIGHBOURS also the same ranks per node.  NULL: not measured. */
const ct_study_size_t *ct_study_beside(const ct_study_t *s, const ct_study_size_t *size, int kind);

/** The efficiency of a configuration relative to the base: median and interval over the rounds that
 * both have; without common rounds, the ratio of their medians and no interval (covers 0). */
typedef struct ct_study_ratio {
  double median, low, high, covers;
} ct_study_ratio_t;
ct_study_ratio_t ct_study_efficiency(const ct_study_size_t *base, const ct_study_size_t *size);

/** Pure.  Sorts v[n].  Returns the median and its nonparametric confidence interval: the narrowest
 * symmetric pair of order statistics with a confidence level of at least 95%; for n <= 5 the
 * smallest and the largest value, with the level that this pair reaches (Hettmansperger and
 * Sheather 1986). */
ct_study_ratio_t ct_study_median(double *v, int n);

#endif
