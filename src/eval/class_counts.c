/* Counts of classes.  The outputs of a batch are on the host by now; a pixel costs a comparison per
 * class, in loops over consecutive pixels, and an increment.  Counts are integers, and means over
 * samples are exact sums, so neither depends on the distribution of samples over the ranks. */
#include "eval/class_counts.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"

int ct__class_counts_open(ct__class_counts_t *s, int64_t places)
{
  if (!s->all) return CT_OK;
  ct_confusion_clear(s->all);
  s->said = ct_mem_array(places, sizeof *s->said, "the classes of pixels");
  s->one = ct_mem_array(s->all->classes, sizeof *s->one, "the classes of a sample");
  return s->said && s->one ? CT_OK : CT_ERR_NOMEM;
}

void ct__class_counts_close(ct__class_counts_t *s)
{
  ct_mem_free(s->said);
  ct_mem_free(s->one);
  *s = (ct__class_counts_t){0};
}

/* ---- one label per place ---- */

static void count_labels(ct__class_counts_t *s, const ct__compared_t *b, int64_t sample)
{
  int64_t classes = b->classes;
  const int32_t *labels = b->labels + sample * b->places;
  ct_confusion_predict(b->out + sample * classes * b->places, classes, b->places, b->places,
                       s->said);
  for (int64_t i = 0; i < b->places; i++) {
    int32_t label = labels[i], said = s->said[i];
    if (label < 0 || label >= classes || (b->has_ignored && label == b->ignored)) continue;
    s->all->count[label * classes + said]++;
    if (!s->by_sample) continue;
    s->one[label].labelled++;
    s->one[said].predicted++;
    s->one[label].right += label == said;
  }
}

/* ---- any number of labels per place ---- */

enum { KNOWN = 1, WRONG = 2 }; /* a label of the place is known; is predicted wrongly */

static int count_class(ct__class_counts_t *s, const ct__compared_t *b, int64_t sample, int64_t k)
{
  int rc = CT_OK;
  const float *targets = b->targets + (sample * b->classes + k) * b->places;
  const float *out = b->out + (sample * b->classes + k) * b->places;
  ct_class_count_t *one = &s->one[k];
  for (int64_t i = 0; i < b->places; i++) {
    int is = targets[i] == 1, said = out[i] > 0;
    if (targets[i] != targets[i]) continue; /* unknown */
    if (!is && targets[i] != 0)
      CT_FAIL(CT_ERR_DATA,
              "target %" PRId64 " of sample %" PRId64
              " is %g, but metrics of classes (eval.metrics) with loss.kind bce need targets 0 and "
              "1",
              k * b->places + i, b->ids ? b->ids[sample] : sample, (double)targets[i]);
    one->labelled += is;
    one->predicted += said;
    one->right += is & said;
    one->seen++;
    s->said[i] |= is != said ? KNOWN | WRONG : KNOWN;
  }
out:
  return rc;
}

static int count_sets(ct__class_counts_t *s, const ct__compared_t *b, int64_t sample)
{
  int rc = CT_OK;
  memset(s->said, 0, (size_t)b->places * sizeof *s->said);
  for (int64_t k = 0; k < b->classes; k++)
    CT_TRY(count_class(s, b, sample, k));
  for (int64_t k = 0; k < b->classes; k++) {
    const ct_class_count_t *one = &s->one[k];
    ct_class_count_t *all = &s->all->set[k];
    all->right += one->right;
    all->labelled += one->labelled;
    all->predicted += one->predicted;
    all->seen += one->seen;
  }
  for (int64_t i = 0; i < b->places; i++) {
    s->all->whole += s->said[i] == KNOWN;
    s->all->wholes += s->said[i] != 0;
  }
out:
  return rc;
}

/* ---- means over samples ---- */

/* Adds the mean over the classes of a sample; a class that is neither labelled nor predicted counts
 * as \a absent, or with NaN not at all. */
static void add_sample(const ct__class_counts_t *s, double (*of)(const ct_class_count_t *n),
                       double absent, ct__sample_mean_t *to)
{
  double sum = 0;
  int64_t n = 0, found = 0;
  for (int64_t k = 0; k < s->all->classes; k++) {
    double one = of(&s->one[k]);
    found += !isnan(one) || s->one[k].seen;
    if (isnan(one)) one = absent;
    if (isnan(one)) continue;
    sum += one;
    n++;
  }
  if (!n || !found) return; /* all its pixels are ignored */
  ct__exact_add(&to->sum, sum / (double)n);
  to->n++;
}

int ct__class_counts_batch(ct__class_counts_t *s, const ct__compared_t *b)
{
  int rc = CT_OK;
  for (int64_t i = 0; s->all && i < b->n; i++) {
    if (s->by_sample || s->all->set) memset(s->one, 0, (size_t)b->classes * sizeof *s->one);
    if (s->all->set)
      CT_TRY(count_sets(s, b, i));
    else
      count_labels(s, b, i);
    if (!s->by_sample) continue;
    add_sample(s, ct_class_iou, 1, &s->iou);
    add_sample(s, ct_class_dice, NAN, &s->dice);
  }
out:
  return rc;
}

void ct__class_counts_sum(ct__class_counts_t *s, const ct_topo_t *topo)
{
  ct_confusion_t *c = s->all;
  if (!c) return;
  if (c->count) ct_agree_sum(topo, c->count, c->classes * c->classes);
  if (c->set) {
    ct_agree_sum(topo, (int64_t *)c->set, c->classes * (int64_t)(sizeof *c->set / sizeof(int64_t)));
    ct_agree_sum(topo, &c->whole, 1);
    ct_agree_sum(topo, &c->wholes, 1);
  }
  if (!s->by_sample) return;
  ct_agree_sum(topo, (int64_t *)&s->iou, sizeof s->iou / sizeof(int64_t));
  ct_agree_sum(topo, (int64_t *)&s->dice, sizeof s->dice / sizeof(int64_t));
}

double ct__sample_mean(const ct__sample_mean_t *m)
{
  return m->n ? ct__exact_value(&m->sum) / (double)m->n : NAN;
}
