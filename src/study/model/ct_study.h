/** \file ct_study.h  A study as its points.jsonl has it: sizes, each measured in blocks.  Layer 4.
 *
 * A line is a JSON object (docs/scaling.md); events and keys that are not known are passed over, a
 * last line that was not written whole too.  All functions are local. */
#ifndef CT_STUDY_H
#define CT_STUDY_H
#include <jansson.h>

#include "base/ct_step_times.h"
#include "base/ct_text.h"
#include "study/model/ct_timeline.h"

enum {
  CT_STUDY_BLOCKS = 256, /**< of one size that are kept */
  CT_STUDY_RUN = 0,      /**< a point: all ranks train */
  CT_STUDY_ALONE,        /**< one rank alone, at the local batch of others */
  CT_STUDY_NEIGHBOURS    /**< with neighbours that compute, too, but without messages */
};

/** Means over the blocks of a size, weighted with their steps: seconds a step.  Nothing but numbers
 * of this type. */
typedef struct ct_study_means {
  double step_s, busy_s, steady_s, random_s, transfer_s, busy_sd_s;
  ct_step_times_t kinds; /**< adds up to step_s */
} ct_study_means_t;

typedef struct ct_study_account {
  int64_t steps; /**< 0: there is no account */
  ct_study_means_t mean;
  int slowest; /**< rank; -1: unknown.  This, and all below, of the block with the most steps */
  char slowest_host[64], slowest_kind[24];
  double slowest_taken_s, taken_s; /**< others had its core; mean of the ranks; 0: or not known */
  double p50_s, p95_s, p99_s, max_s;
  int64_t most;         /**< steps of that block */
  json_t *bins;         /**< borrowed: [[begin_s, steps], …]; or NULL */
  json_t *ranks_busy_s; /**< borrowed: a number a rank; or NULL */
} ct_study_account_t;

/** What was measured of one size. */
typedef struct ct_study_size {
  int kind;
  int ranks, nodes, local_ranks, threads;
  double batch, local_batch;
  int blocks;                      /**< 0: it failed */
  double block_s[CT_STUDY_BLOCKS]; /**< mean step of each … */
  int block[CT_STUDY_BLOCKS];      /**< … and its launch and number, for pairs */
  double median_s, low_s, high_s;  /**< of the blocks; the interval holds the median … */
  double covers;                   /**< … with at least this probability; 0: no interval */
  double gradient_bytes;
  double energy_j, energy_samples; /**< of all nodes, for so many samples; 0: not known */
  int algorithm;                   /**< ct_comm_algorithm_t; -1: the one that this program takes */
  ct_study_account_t account;
  char error[200]; /**< why it failed, the last time */
} ct_study_size_t;

typedef struct ct_study {
  json_t *lines;          /**< owned; what the rest borrows from */
  json_t *about;          /**< borrowed: the line `study`; or NULL */
  char path[CT_PATH_MAX]; /**< of points.jsonl */
  ct_study_size_t *size;  /**< by kind, ranks, nodes, threads, batch */
  int sizes;
  int64_t cap;
  ct_timeline_t timeline;
  double timeline_bucket_bytes, timeline_local_batch; /**< 0: unknown */
} ct_study_t;

/** Reads \a path, a directory with points.jsonl or such a file.  CT_ERR_IO; CT_ERR_FORMAT names
 * the line and the key. */
int ct_study_read(const char *path, ct_study_t *s);
void ct_study_clear(ct_study_t *s);

/** 1: all sizes have the same batch on each rank (weak scaling). */
int ct_study_is_weak(const ct_study_t *s);
/** The smallest size that was measured: efficiency is 1 there.  NULL: there is none. */
const ct_study_size_t *ct_study_base(const ct_study_t *s);
/** The step that \a size would take if it were as efficient as \a base, from base_s. */
double ct_study_ideal(const ct_study_size_t *base, const ct_study_size_t *size, double base_s);
/** Samples a second. */
double ct_study_rate(const ct_study_size_t *size, double step_s);
/** A size of that kind with the same threads and local batch, or, for NEIGHBOURS, also the same
 * ranks on a node.  NULL: none. */
const ct_study_size_t *ct_study_beside(const ct_study_t *s, const ct_study_size_t *size, int kind);

/** The efficiency of a size against the base: medians and interval of what it is block by block,
 * where both are in the same blocks; else of the medians, with no interval (covers 0). */
typedef struct ct_study_ratio {
  double median, low, high, covers;
} ct_study_ratio_t;
ct_study_ratio_t ct_study_efficiency(const ct_study_size_t *base, const ct_study_size_t *size);

/** Pure.  Sorts v[n]; the median, and the narrowest pair of order statistics, alike far from both
 * ends, that holds the median of the distribution, whatever that is, with at least 95 %; with 5
 * or fewer all of them, and what that comes to (Hettmansperger and Sheather 1986). */
ct_study_ratio_t ct_study_median(double *v, int n);

#endif
