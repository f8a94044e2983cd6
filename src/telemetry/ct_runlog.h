/** \file ct_runlog.h  What metrics.jsonl says of a run, for who looks at it while it goes on or
 * later.  Layer 4.  All functions are local.
 *
 * Of a step that was made more than once, since the run went on from a checkpoint before it, the
 * last line counts. */
#ifndef CT_RUNLOG_H
#define CT_RUNLOG_H
#include <jansson.h>
#include <stdint.h>

#include "host/ct_lock.h"
#include "base/ct_text.h"

/** One quantity over the steps, ascending. */
typedef struct ct_curve {
  char name[48]; /**< "loss", "lr", "samples_per_s"; "eval.loss", "eval.top1", of one of eval.sets
                      "eval.noisy.top1"; "epoch.loss" */
  int64_t *step; /**< owned */
  double *value; /**< owned; no NaN */
  double *at_s;  /**< owned; since the training began, in its starts: not between them */
  int64_t n, step_cap, value_cap, at_cap;
} ct_curve_t;

enum { CT_RUNLOG_CURVES = 128 };

typedef struct ct_runlog {
  char dir[CT_PATH_MAX];
  /* what the last start says */
  int64_t run; /**< its number; 0: no line has been read yet */
  char name[128], device[128], began[40];
  int64_t ranks, nodes, samples, batch;
  /* what the last lines say */
  int64_t step, epoch;
  double elapsed_s;         /**< of this start, as of its last line */
  double before_s;          /**< of the starts before it */
  double waits_data;        /**< share of the last logged step, rank 0's */
  double waits_messages;    /**< likewise */
  char checkpoint[128];     /**< the last durable one's file; "": none */
  char best[128];           /**< the last that was the best so far; "": none */
  char end[32], error[256]; /**< reason and error of the `end` line; "": it goes on */
  ct_lock_holder_t holder;  /**< of the run's lock, as of the last reading */
  double changed;           /**< when metrics.jsonl was written last, in seconds since 1970 */
  char straggler[256];      /**< the last slow rank that was told; "": none */
  json_t *account;          /**< owned; the last one, of the whole start if it has ended; or NULL */
  /* what config.yaml says; 0: nothing */
  int64_t epochs, steps;
  ct_curve_t curve[CT_RUNLOG_CURVES];
  int curves;
  /* reading */
  int64_t offset; /**< up to which whole lines were read */
  uint64_t inode; /**< of the file that was read */
  int64_t line;   /**< their number, for messages */
} ct_runlog_t;

/** Remembers the directory; nothing is read yet. */
int ct_runlog_open(const char *dir, ct_runlog_t *out);
void ct_runlog_close(ct_runlog_t *r);
/** Reads what was added since the last call; *lines tells how many.  A line that is not whole yet
 * is left for the next call; a file that was replaced, or is shorter than before, is read anew.
 * CT_ERR_IO: there is no metrics.jsonl, or it cannot be read.  CT_ERR_FORMAT names the line. */
int ct_runlog_more(ct_runlog_t *r, int64_t *lines);
/** A curve by name; NULL: there is none. */
const ct_curve_t *ct_runlog_curve(const ct_runlog_t *r, const char *name);
/** The steps of the whole run, 0 if config.yaml does not tell. */
int64_t ct_runlog_total(const ct_runlog_t *r);

enum { CT_RUNLOG_SILENT_S = 60 }; /**< without a line, after which it is told */
/** 1: its process ended without an `end` line. */
int ct_runlog_is_killed(const ct_runlog_t *r);
/** 1: nothing tells that it goes on: no line for a while before \a now (seconds since 1970), and
 * its lock is not seen from here. */
int ct_runlog_is_lost(const ct_runlog_t *r, double now);
/** Into buf (returned): "done", "running", "killed after step 40", "no sign of life since
 * 2026-01-31T23:59:59Z". */
const char *ct_runlog_state(const ct_runlog_t *r, double now, char *buf, size_t cap);

/** How a run stands, for a terminal of \a columns; \a utf8: with characters beyond ASCII; \a now:
 * in seconds since 1970.  Appended. */
int ct_runlog_text(const ct_runlog_t *r, int columns, int utf8, double now, ct_str_t *out);

#endif
