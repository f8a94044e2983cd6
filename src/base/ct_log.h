/** \file ct_log.h  The log: one line, one write, to stderr.  Layer 0.
 *
 * stdout is for the result of a command only; modules below `setup` print only through the log. */
#ifndef CT_LOG_H
#define CT_LOG_H

/** ERROR: the user must act now; WARN: the user should read it later; INFO: progress of the run, a
 * few lines per epoch; DEBUG: for developers. */
typedef enum { CT_LOG_ERROR, CT_LOG_WARN, CT_LOG_INFO, CT_LOG_DEBUG } ct_log_level_t;

/** Sets this process's rank and the threshold; until then the log assumes rank 0 of 1. */
void ct_log_setup(int rank, int size, ct_log_level_t threshold);
/** Writes a line on rank 0; does nothing on other ranks. */
void ct_log(ct_log_level_t level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/** Writes a line with the rank on every rank that calls it. */
void ct_log_all(ct_log_level_t level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/** Writes the error that ends the program, "ctrain-hpc: error: …", on each rank that calls it. */
void ct_log_fatal(const char *text);
/** Returns 1 if standard error is a terminal that can show a progress bar, or if standard error of
 * the MPI launcher on this node is one (ct_terminal_of_launcher()).  CTRAIN_PROGRESS in the
 * environment overrides this: 0: no bar; other values: a bar.  Always 0 on ranks other than 0. */
int ct_log_has_bar(void);
/** Redraws the progress bar, one line, if ct_log_has_bar().  Rank 0 only.  The log clears the bar
 * before it writes a line.  NULL ends the bar. */
void ct_log_progress(const char *text);

#endif
