/** \file ct_study.h  A scaling study, read from its points.jsonl: sizes, each measured in several
 * rounds.  Layer 4.
 *
 * Each line is a JSON object (docs/scaling.md).  Unknown events and keys are ignored, and so is an
 * incomplete last line.  All functions are local. */
#ifndef CT_STUDY_H
#define CT_STUDY_H
#include <jansson.h>

#include "base/ct_step_times.h"
#include "base/ct_text.h"
#include "study/model/ct_timeline.h"

enum {
  CT_STUDY_ROUNDS = 256, /**< rounds of one size that are kept */
  CT_STUDY_RUN = 0,      /**< all ranks train together */
  CT_STUDY_ALONE,        /**< one rank alone, with the local batch of a larger size */
  CT_STUDY_NEIGHBOURS    /**< the ranks of a node compute at the same time, without communication */
};

/** Seconds per step: means over the rounds of a size, weighted by their steps.  All members are of
 * type double. */
typedef struct ct_study_means {
  double step_s, busy_s, steady_s, random_s, transfer_s, busy_sd_s;
  ct_step_times_t kinds; /**< adds up to step_s */
} ct_study_means_t;

/** Time breakdown of a size. */
typedef struct ct_study_breakdown {
  int64_t steps; /**< 0: there is no time breakdown */
  ct_study_means_t mean;
  int slowest; /**< rank; -1: unknown.  This and all below are of the round with most steps */
  char slowest_host[64], slowest_kind[24];
  /** Time off-CPU per step: of the slowest rank; mean of all ranks; 0: none, or not known. */
  double slowest_offcpu_s, offcpu_s;
  double p50_s, p95_s, p99_s, max_s;
  int64_t most;         /**< steps of that round */
  json_t *bins;         /**< borrowed: histogram [[begin_s, steps], …]; or NULL */
  json_t *ranks_busy_s; /**< borrowed: one number per rank; or NULL */
} ct_study_breakdown_t;

/** The measurements of one size. */
typedef struct ct_study_size {
  int kind; /**< CT_STUDY_RUN, CT_STUDY_ALONE or CT_STUDY_NEIGHBOURS */
  int ranks, nodes, local_ranks, threads;
  double batch, local_batch;
  int rounds;                      /**< number of rounds; 0: the size failed */
  double round_s[CT_STUDY_ROUNDS]; /**< mean step of each round */
  int round[CT_STUDY_ROUNDS]; /**< identifies a round, so that rounds of two sizes can be paired */
  double median_s, low_s, high_s; /**< of the rounds; low and high: interval of the median */
  double covers;                  /**< confidence level of the interval; 0: no interval */
  double gradient_bytes;
  double energy_j, energy_samples; /**< of all nodes, for so many samples; 0: not known */
  int algorithm;                   /**< ct_comm_algorithm_t; -1: the default of this program */
  ct_study_breakdown_t breakdown;
  char error[200]; /**< why its last run failed */
} ct_study_size_t;

typedef struct ct_study {
  json_t *lines;          /**< owned; other members borrow from it */
  json_t *about;          /**< borrowed: the line with the event `study`; or NULL */
  char path[CT_PATH_MAX]; /**< of points.jsonl */
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

/** 1: all sizes have the same local batch (weak scaling). */
int ct_study_is_weak(const ct_study_t *s);
/** The smallest measured size, whose efficiency is 1 by definition.  NULL: none was measured. */
const ct_study_size_t *ct_study_base(const ct_study_t *s);
/** Seconds of a step of \a size at the efficiency of \a base, whose step takes base_s. */
double ct_study_ideal(const ct_study_size_t *base, const ct_study_size_t *size, double base_s);
/** Samples per second at a step of step_s. */
double ct_study_rate(const ct_study_size_t *size, double step_s);
/** The size of kind \a kind with the same threads and local batch as \a size, and for
 * CT_STUDY_NEIGHBOURS also the same ranks per node.  NULL: none. */
const ct_study_size_t *ct_study_beside(const ct_study_t *s, const ct_study_size_t *size, int kind);

/** The efficiency of a size relative to the base: median and interval over the rounds that both
 * sizes have; without common rounds the ratio of their medians, with no interval (covers 0). */
typedef struct ct_study_ratio {
  double median, low, high, covers;
} ct_study_ratio_t;
ct_study_ratio_t ct_study_efficiency(const ct_study_size_t *base, const ct_study_size_t *size);

/** Pure.  Sorts v[n].  Returns the median and its nonparametric confidence interval: the narrowest
 * symmetric pair of order statistics with a confidence level of at least 95%; for n <= 5 the least
 * and the largest value, with the level that they reach (Hettmansperger and Sheather 1986). */
ct_study_ratio_t ct_study_median(double *v, int n);

#endif
