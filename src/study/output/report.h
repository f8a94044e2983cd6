/** \file report.h  The sections of a study's page; each function appends its section.  Internal to
 * report. */
#ifndef CT_REPORT_PRIVATE_H
#define CT_REPORT_PRIVATE_H
#include "study/output/ct_report.h"
#include "study/output/chart.h"

enum { CT__LOSSES = 4, CT__WORDS = 700 };

/** Fills size[] with the configurations that did not fail, in the order of the study; returns their
 * number, at most \a cap. */
int ct__report_sizes(const ct_study_t *s, const ct_study_size_t **size, int cap);
/** Returns the last configuration that did not fail; NULL: all failed. */
const ct_study_size_t *ct__report_largest(const ct_study_t *s);

/** A loss of efficiency as text: its amount, its cause, and a remedy. */
typedef struct ct__loss {
  int term;     /**< ct_term_t */
  double share; /**< fraction of the step */
  char words[CT__WORDS];
} ct__loss_t;
/** Finds the losses of a configuration that are at least 1% of the step, largest first; returns
 * their number. */
int ct__report_losses(const ct_report_t *r, const ct_study_size_t *size,
                      ct__loss_t loss[CT__LOSSES]);
/** Writes "At 16 ranks 11.0 % of the time is lost.  Losses are 12.5 %, gains 1.5 %: bandwidth
 * 1.5 %." */
void ct__report_sum(const ct_report_t *r, const ct_study_size_t *size, char *buf, size_t cap);

int ct__report_rate(const ct_report_t *r, ct_str_t *out);
/** Appends the time breakdown of each configuration. */
int ct__report_breakdown(const ct_report_t *r, ct_str_t *out);
int ct__report_steps(const ct_report_t *r, ct_str_t *out);
int ct__report_ranks(const ct_report_t *r, ct_str_t *out);
/** Appends one step from a trace.json in the directory of points.jsonl; nothing if the file is
 * missing. */
int ct__report_timeline(const ct_report_t *r, ct_str_t *out);
int ct__report_model(const ct_report_t *r, ct_str_t *out);
int ct__report_machine(const ct_report_t *r, ct_str_t *out);
int ct__report_rules(const ct_report_t *r, ct_str_t *out);

#endif
