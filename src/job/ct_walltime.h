/** \file ct_walltime.h  When the batch system ends the job, and whether there is time left.
 * Layer 1.
 *
 * The end is looked up once, at the program's start.  A limit that is changed while the job runs
 * (`scontrol update`) does not show in the environment: then it is the signal before the limit that
 * stops training in time, or the old end that stops it too early, which loses nothing. */
#ifndef CT_WALLTIME_H
#define CT_WALLTIME_H
#include "base/ct_err.h"
#include "job/ct_job.h"

/** The job's end. */
typedef struct ct_walltime {
  const char *source; /**< who says so: "CTRAIN_END_TIME"; NULL: no end is known */
  double end_s;       /**< seconds since the epoch */
  double end_clock_s; /**< the same moment by ct_clock() */
  int by_clock;       /**< a duration: the time of day does not matter */
} ct_walltime_t;

/** Pure.  Seconds of a duration: days-hours:minutes:seconds or hours:minutes:seconds as Slurm
 * writes them, a number of seconds, or a number with one of the units s, m, h, d (90m, 1.5h).  What
 * other tools read in different ways (10:30) is none.  CT_ERR_ARG: not a duration, or not above 0
 * (nothing is recorded). */
int ct_walltime_duration(const char *text, double *seconds);
/** Pure.  CT_ERR_USAGE if a value of `job.walltime` is neither auto nor off nor a duration. */
int ct_walltime_check(const char *text);

/** Local.  The end that a value of `job.walltime` means; one without a source if there is none:
 *
 *   off         none
 *   auto        CTRAIN_END_TIME in the environment, in seconds since the epoch (set it in the job
 *               script where the batch system does not say the end); else the first of
 *               \a job's ends that is to come
 *   a duration  so long after this process was started
 *
 * A time that is over already cannot be this job's end (an exported variable of another job, a
 * limit that was extended), and is not heeded, with a warning. */
int ct_walltime_open(const char *text, const ct_job_t *job, ct_walltime_t *out);

/** Pure.  Seconds left at the given times of the two clocks; INFINITY if no end is known.  When the
 * time of day is set while the job runs, nobody knows whether it was wrong before or is now: the
 * sooner end counts, since to stop early loses nothing. */
double ct_walltime_left(const ct_walltime_t *w, double epoch_s, double clock_s);
/** Local, Hot.  The same now. */
double ct_walltime_left_now(const ct_walltime_t *w);

/** What must still fit. */
typedef struct ct_walltime_need {
  double step_s;   /**< a step, or a batch of an evaluation: the slowest of late */
  double save_s;   /**< a checkpoint, from the snapshot until it is durable */
  int writing;     /**< an older checkpoint is being written, which the last one waits for */
  double margin_s; /**< job.margin_s: for what nobody measured */
} ct_walltime_need_t;
/** Pure.  Asked before a step: 1 if it must be the last, since behind it there is no time for
 * another one and a checkpoint. */
int ct_walltime_is_last(double left_s, const ct_walltime_need_t *need);
/** Pure.  The slowest of late: of the \a before and a new one; one slow step is forgotten by and
 * by. */
double ct_walltime_slowest(double before_s, double now_s);
/** Pure.  Before a checkpoint was ever written: seconds for so many bytes on a slow file system: 1
 * s, and 50 MB/s. */
double ct_walltime_guess_save(double bytes);

#endif
