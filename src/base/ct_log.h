/** \file ct_log.h  The log: one line, one write, to stderr.  Layer 0.
 *
 * stdout belongs to the result of a command; below `app` nothing prints except through the log. */
#ifndef CT_LOG_H
#define CT_LOG_H

/** Who reads it: ERROR the user, now; WARN the user, later; INFO whoever follows the run (a few
 * lines per epoch); DEBUG a developer. */
typedef enum { CT_LOG_ERROR, CT_LOG_WARN, CT_LOG_INFO, CT_LOG_DEBUG } ct_log_level_t;

/** Tells the log who it is: called once the ranks are known; before that, rank 0 of 1. */
void ct_log_setup(int rank, int size, ct_log_level_t threshold);
/** Written by rank 0 only. */
void ct_log(ct_log_level_t level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/** Written by every rank that calls it, with its rank. */
void ct_log_all(ct_log_level_t level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/** The error that ends the program, "ctrain-hpc: error: …".  Written by whoever calls it. */
void ct_log_fatal(const char *text);
/** Whether there is a terminal for a progress bar: the standard error's, or that of the launcher
 * which started this rank from the same node (ct_terminal_of_launcher()).  CTRAIN_PROGRESS in the
 * environment decides instead: 0 for no bar, else a bar.  0 on all ranks but 0. */
int ct_log_has_bar(void);
/** Where a progress bar writes: redraws one line on a terminal, silent elsewhere.  Rank 0 only.
 * The log clears the bar before it writes a line.  NULL ends the bar. */
void ct_log_progress(const char *text);

#endif
