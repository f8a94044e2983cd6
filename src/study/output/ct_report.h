/** \file ct_report.h  A scaling study as an HTML page, as text, as CSV and as JSON.  Layer 4.
 *
 * The page is one HTML file without external resources: its charts are inline SVG (chart.h).  It
 * follows the rules of Hoefler and Belli, "Scientific Benchmarking of Parallel Computing Systems"
 * (SC15), and cites them.  All functions are local. */
#ifndef CT_REPORT_H
#define CT_REPORT_H
#include "study/model/ct_scaling.h"

typedef struct ct_report {
  const ct_study_t *study;   /**< borrowed; at least one of its configurations did not fail */
  const ct_scaling_t *model; /**< borrowed; NULL: too few configurations to fit a model */
  const char *no_model;      /**< if model is NULL: the reason */
} ct_report_t;

/** Appends the whole page, with the n studies one after another. */
int ct_report_html(const ct_report_t *r, int n, ct_str_t *out);
/** Appends a CSV line per configuration, with units in the names of the columns; the column `error`
 * says why a configuration failed. */
int ct_report_csv(const ct_report_t *r, int n, ct_str_t *out);
/** Returns the study as a new JSON object.  \a predict: numbers of ranks, as in ct_scaling_json();
 * NULL: two and four times the ranks of the largest configuration, or no prediction if only one
 * configuration has several ranks.  Returns NULL with the error recorded: out of memory, \a predict
 * is wrong, or \a predict is given and r->model is NULL. */
json_t *ct_report_json(const ct_report_t *r, const char *predict);
/** Appends a table and a sentence per loss, for the terminal. */
int ct_report_text(const ct_report_t *r, ct_str_t *out);

#endif
