/* The confusion matrix.  Counts are integers, so that their sum over the ranks does not depend on
 * the distribution of samples. */
#include "eval/ct_confusion.h"

#include <math.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"

int ct_confusion_open(int64_t classes, ct_confusion_t *out)
{
  out->classes = classes;
  out->count = ct_mem_array(classes * classes, sizeof *out->count, "the confusion matrix");
  return out->count ? CT_OK : CT_ERR_NOMEM;
}

void ct_confusion_close(ct_confusion_t *c)
{
  ct_mem_free(c->count);
  *c = (ct_confusion_t){0};
}

/* NaN is larger than all numbers, as in torch.argmax. */
static int64_t predicted(const float *logits, int64_t apart, int64_t classes)
{
  int64_t best = 0;
  for (int64_t i = 1; i < classes; i++) {
    float most = logits[best * apart];
    if (most == most && !(logits[i * apart] <= most)) best = i;
  }
  return best;
}

void ct_confusion_add(ct_confusion_t *c, const float *logits, int64_t apart, int32_t label)
{
  if (label < 0 || label >= c->classes) return; /* ignored */
  c->count[label * c->classes + predicted(logits, apart, c->classes)]++;
}

int64_t ct_confusion_samples(const ct_confusion_t *c, int64_t label)
{
  int64_t sum = 0;
  for (int64_t i = 0; i < c->classes; i++)
    sum += c->count[label * c->classes + i];
  return sum;
}

double ct_confusion_iou(const ct_confusion_t *c, int64_t label)
{
  int64_t all = ct_confusion_samples(c, label) - ct_confusion_right(c, label);
  for (int64_t i = 0; i < c->classes; i++)
    all += c->count[i * c->classes + label];
  return all ? (double)ct_confusion_right(c, label) / (double)all : NAN;
}

int64_t ct_confusion_right(const ct_confusion_t *c, int64_t label)
{
  return c->count[label * c->classes + label];
}
