/** \file ct_walltime.h  The job's time limit and whether enough time is left. Layer 1.
 *
 * The end time is read once, when the program starts. A limit changed while the job runs (`scontrol
 * update`) is not visible in the environment: if it was shortened, the batch system's warning
 * signal stops training in time; if it was extended, training stops at the old limit, which loses
 * nothing. */
#ifndef CT_WALLTIME_H
#define CT_WALLTIME_H
#include "base/ct_err.h"
#include "job/ct_job.h"

/** End of the job. */
typedef struct ct_walltime {
  const char *source; /**< source of the end time: "CTRAIN_END_TIME"; NULL: no end is known */
  double end_s;       /**< Unix time */
  double end_clock_s; /**< the same moment in ct_clock() time */
  int by_clock;       /**< 1: given as a duration; the system clock does not matter */
} ct_walltime_t;

/** Pure. Parses a duration: days-hours:minutes:seconds or hours:minutes:seconds as Slurm writes
 * them, a number of seconds, or a number with a unit s, m, h or d (90m, 1.5h). Ambiguous forms
 * (10:30) are rejected. CT_ERR_ARG: not a duration, or not positive (no error record). */
int ct_walltime_duration(const char *text, double *seconds);
/** Pure. CT_ERR_USAGE if a value of `job.walltime` is neither auto, off nor a duration. */
int ct_walltime_check(const char *text);

/** Local. Determines the job's end from a value of `job.walltime`; source is NULL for no end:
 *
 *   off         no end
 *   auto        CTRAIN_END_TIME in the environment, a Unix time (set it in the job script if the
 *               batch system does not provide the end); else the first of \a job's end times
 *               that is in the future
 *   a duration  this long after the start of the process
 *
 * An end time in the past cannot be this job's (a variable exported by another job, an extended
 * limit) and is ignored with a warning. */
int ct_walltime_open(const char *text, const ct_job_t *job, ct_walltime_t *out);

/** Pure. Returns the seconds left at the given Unix and ct_clock() time; INFINITY if no end is
 * known. If the system clock was set while the job runs, it is unclear which setting was right; the
 * earlier end counts, since stopping early loses nothing. */
double ct_walltime_left(const ct_walltime_t *w, double epoch_s, double clock_s);
/** Local, Hot. Returns the seconds left now. */
double ct_walltime_left_now(const ct_walltime_t *w);

/** Time needed before the end. */
typedef struct ct_walltime_need {
  double step_s;   /**< recent maximum of a step's or evaluation batch's time */
  double save_s;   /**< recent maximum of a checkpoint's time, from snapshot to durable */
  int writing;     /**< 1: an earlier checkpoint is still being written, and must complete first */
  double margin_s; /**< job.margin_s: for everything that is not measured */
} ct_walltime_need_t;
/** Pure. Call before a step: 1 if it must be the last one, because no time remains after it for
 * another step and a checkpoint. */
int ct_walltime_is_last(double left_s, const ct_walltime_need_t *need);
/** Pure. Updates a recent maximum: returns the larger of the decayed \a before_s and \a now_s, so
 * that a single slow step is gradually forgotten. */
double ct_walltime_slowest(double before_s, double now_s);
/** Pure. Estimated seconds of the first checkpoint: 1 s plus \a bytes at 50 MB/s, a slow file
 * system. */
double ct_walltime_guess_save(double bytes);

#endif
