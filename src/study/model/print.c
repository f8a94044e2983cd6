/* Predictions as a table and as JSON: the requested numbers of ranks with error bands, the numbers
 * of ranks at which efficiency drops and why, and the effect of other settings. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_json.h"
#include "study/model/scaling.h"

enum { ASKED = 64, MOST_RANKS = 1 << 17 };

/* Parses "64,256,4096". */
static int read_list(const char *list, int *ranks, int *n)
{
  int rc = CT_OK;
  *n = 0;
  for (const char *at = list; *at;) {
    char *end;
    long v = strtol(at, &end, 10);
    if (end == at || (*end && *end != ',') || v < 1 || v > MOST_RANKS || *n == ASKED)
      CT_FAIL(CT_ERR_USAGE, "'%s': expected up to %d numbers of ranks from 1 to %d, as 8,16,64",
              list, ASKED, MOST_RANKS);
    ranks[(*n)++] = (int)v;
    at = *end ? end + 1 : end;
  }
  if (!*n) CT_FAIL(CT_ERR_USAGE, "the list of numbers of ranks is empty");
out:
  return rc;
}

/* ---- the table ---- */

static int add_link(const char *where, const ct_link_t *l, int sizes, ct_str_t *out)
{
  if (l->bytes_per_s <= 0) return CT_OK;
  if (!sizes)
    return ct_str_add(out, "; %s %.3g us, %.4g GB/s (measured by bench comm)", where,
                      1e6 * l->alpha_s, 1e-9 * l->bytes_per_s);
  return ct_str_add(out, "; %s %.3g us, %.4g GB/s (fitted to %d configuration%s)", where,
                    1e6 * l->alpha_s, 1e-9 * l->bytes_per_s, sizes, sizes == 1 ? "" : "s");
}

static int add_head(const ct_scaling_t *m, ct_str_t *out)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(out, "prediction from configurations of up to %d ranks", m->largest));
  CT_TRY(add_link("inside a node", &m->inside, m->fitted_inside, out));
  CT_TRY(add_link("between nodes", &m->between, m->fitted_between, out));
  if (m->left_ranks)
    CT_TRY(ct_str_add(
        out, "\nerror of a prediction for %d ranks from configurations of up to %d ranks: %+.1f %%",
        m->left_ranks, m->left_from, 100 * m->left_out));
  else
    CT_TRY(ct_str_add(
        out, "\nthe error is unknown: the study has only one configuration with several ranks"));
  CT_TRY(ct_str_add(out, "\n"));
out:
  return rc;
}

static int print_add_row(const ct_scaling_prediction_t *p, ct_str_t *out)
{
  char loss[80], step[60];
  ct_terms_loss(&p->terms, p->step_s, loss, sizeof loss);
  snprintf(step, sizeof step, "%.5g [%.4g,%.4g]", 1e3 * p->step_s, 1e3 * p->low_s, 1e3 * p->high_s);
  return ct_str_add(out, "%6d %5d %7g %19s %9.4g %12.1f  %s\n", p->ranks, p->nodes, p->batch, step,
                    p->samples_per_s, 100 * p->efficiency, loss);
}

static int add_knees(const ct_scaling_t *m, ct_str_t *out)
{
  static const double below[] = {0.75, 0.5};
  int rc = CT_OK;
  for (int i = 0; i < 2 && m->left_ranks; i++) { /* one configuration: the error is unknown */
    ct_scaling_prediction_t p;
    int ranks = ct_scaling_knee(m, below[i], MOST_RANKS, &p);
    if (ranks)
      CT_TRY(ct_str_add(out, "efficiency below %.0f %% from %d ranks: %s (%s)\n", 100 * below[i],
                        ranks, ct_term_name(ct_terms_largest(&p.terms)),
                        ct_term_help(ct_terms_largest(&p.terms))));
    else
      CT_TRY(
          ct_str_add(out, "efficiency above %.0f %% up to %d ranks\n", 100 * below[i], MOST_RANKS));
  }
out:
  return rc;
}

static int add_what_ifs(const ct_scaling_t *m, int ranks, ct_str_t *out)
{
  int rc = CT_OK;
  double best;
  ct_scaling_ask_t ask = {.ranks = ranks};
  ct_scaling_prediction_t as_is, with;
  CT_TRY(ct_scaling_predict(m, &ask, &as_is));
  CT_TRY(ct_scaling_best_bucket(m, &ask, &best));
  ask.bucket_bytes = best;
  CT_TRY(ct_scaling_predict(m, &ask, &with));
  CT_TRY(ct_str_add(out, "at %d ranks: parallel.bucket_mb=%g %+.1f %%", ranks, best / (1 << 20),
                    100 * (with.step_s / as_is.step_s - 1)));
  ask = (ct_scaling_ask_t){.ranks = ranks, .faster = 2};
  CT_TRY(ct_scaling_predict(m, &ask, &with));
  CT_TRY(ct_str_add(out, "; a network twice as fast %+.1f %% of the step",
                    100 * (with.step_s / as_is.step_s - 1)));
  ask = (ct_scaling_ask_t){.ranks = ranks, .local_batch = 2 * as_is.local_batch};
  CT_TRY(ct_scaling_predict(m, &ask, &with));
  CT_TRY(ct_str_add(out, "; twice the samples per rank %+.1f %% samples/s\n",
                    100 * (with.samples_per_s / as_is.samples_per_s - 1)));
out:
  return rc;
}

int ct_scaling_print(const ct_scaling_t *m, const char *list, ct_str_t *out)
{
  int rc = CT_OK, n, ranks[ASKED];
  ct_scaling_prediction_t p;
  CT_TRY(read_list(list, ranks, &n));
  CT_TRY(add_head(m, out));
  CT_TRY(ct_str_add(out, "%6s %5s %7s %19s %9s %12s  %s\n", "ranks", "nodes", "batch",
                    "step_ms [band]", "samples/s", "efficiency_%", "largest loss, %"));
  for (int i = 0; i < n; i++) {
    ct_scaling_ask_t ask = {.ranks = ranks[i]};
    CT_TRY(ct_scaling_predict(m, &ask, &p));
    CT_TRY(print_add_row(&p, out));
  }
  CT_TRY(add_knees(m, out));
  CT_TRY(add_what_ifs(m, ranks[n - 1], out));
out:
  return rc;
}

/* ---- as JSON ---- */

static json_t *json_link(const ct_link_t *l, int sizes)
{
  if (l->bytes_per_s <= 0 || !isfinite(l->bytes_per_s)) return json_null();
  return json_pack("{s:f, s:f, s:i}", "alpha_s", l->alpha_s, "bytes_per_s", l->bytes_per_s, "sizes",
                   sizes);
}

static json_t *json_terms(const ct_terms_t *t)
{
  json_t *o = json_object();
  for (int i = 0; i < CT_TERMS; i++)
    if (t->s[i] != 0) json_object_set_new(o, ct_term_name(i), json_real(t->s[i]));
  return o;
}

static json_t *json_prediction(const ct_scaling_t *m, int ranks)
{
  double best = 0;
  ct_scaling_ask_t ask = {.ranks = ranks};
  ct_scaling_prediction_t p;
  if (ct_scaling_predict(m, &ask, &p) != CT_OK) return NULL;
  ct_scaling_best_bucket(m, &ask, &best);
  return json_pack("{s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o}", "ranks", p.ranks,
                   "nodes", p.nodes, "batch", p.batch, "local_batch", p.local_batch, "step_s",
                   p.step_s, "step_low_s", p.low_s, "step_high_s", p.high_s, "samples_per_s",
                   p.samples_per_s, "efficiency", p.efficiency, "best_bucket_mb", best / (1 << 20),
                   "terms_s", json_terms(&p.terms));
}

static json_t *json_knee(const ct_scaling_t *m, double below)
{
  ct_scaling_prediction_t p;
  int ranks = m->left_ranks ? ct_scaling_knee(m, below, MOST_RANKS, &p) : 0;
  if (!ranks) return json_null();
  return json_pack("{s:i, s:f, s:s}", "ranks", ranks, "efficiency", p.efficiency, "term",
                   ct_term_name(ct_terms_largest(&p.terms)));
}

json_t *ct_scaling_json(const ct_scaling_t *m, const char *list)
{
  int n, ranks[ASKED];
  json_t *sizes = json_array();
  if (read_list(list, ranks, &n) != CT_OK) return json_decref(sizes), NULL;
  for (int i = 0; i < n; i++) {
    json_t *one = json_prediction(m, ranks[i]);
    if (!one) return json_decref(sizes), NULL;
    json_array_append_new(sizes, one);
  }
  return json_pack("{s:i, s:o, s:o, s:f, s:f, s:i, s:i, s:o, s:o, s:o}", "from_ranks", m->largest,
                   "inside", json_link(&m->inside, m->fitted_inside), "between",
                   json_link(&m->between, m->fitted_between), "fit_error", m->fit_error,
                   "left_out_error", m->left_out, "left_out_ranks", m->left_ranks,
                   "left_out_from_ranks", m->left_from, "below_75", json_knee(m, 0.75), "below_50",
                   json_knee(m, 0.5), "sizes", sizes);
}
