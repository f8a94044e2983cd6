/** \file report.h  The parts of a page; each appends itself.  Internal to report. */
#ifndef CT_REPORT_PRIVATE_H
#define CT_REPORT_PRIVATE_H
#include "study/output/ct_report.h"
#include "study/output/chart.h"

enum { CT__LOSSES = 4, CT__WORDS = 700 };

/** The sizes that ran, in their order; returns how many, up to \a cap. */
int ct__report_sizes(const ct_study_t *s, const ct_study_size_t **size, int cap);
/** The last of them; NULL: there is none. */
const ct_study_size_t *ct__report_largest(const ct_study_t *s);

/** A loss in words: how much, by what or by whom, what to try. */
typedef struct ct__loss {
  int term;
  double share; /**< of the step */
  char words[CT__WORDS];
} ct__loss_t;
/** The largest losses of a size, from 1 % on, largest first; returns how many. */
int ct__report_losses(const ct_report_t *r, const ct_study_size_t *size,
                      ct__loss_t loss[CT__LOSSES]);
/** "At 16 ranks 11.0 % of the time is lost.  Losses are 12.5 %, gains 1.5 %: bandwidth 1.5 %." */
void ct__report_sum(const ct_report_t *r, const ct_study_size_t *size, char *buf, size_t cap);

int ct__report_rate(const ct_report_t *r, ct_str_t *out);
int ct__report_account(const ct_report_t *r, ct_str_t *out);
int ct__report_steps(const ct_report_t *r, ct_str_t *out);
int ct__report_ranks(const ct_report_t *r, ct_str_t *out);
/** Of a trace.json beside the points; nothing without one. */
int ct__report_timeline(const ct_report_t *r, ct_str_t *out);
int ct__report_model(const ct_report_t *r, ct_str_t *out);
int ct__report_machine(const ct_report_t *r, ct_str_t *out);
int ct__report_rules(const ct_report_t *r, ct_str_t *out);

#endif
