/* The confusion matrix.  Counts are integers, so that their sum over the ranks does not depend on
 * the distribution of samples. */
#include "eval/ct_confusion.h"

#include <math.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"

/* The loops over pixels are vectorised in a build with -O2 too. */
#if defined __GNUC__ && !defined __clang__
#  pragma GCC optimize("O3", "no-trapping-math")
#endif

int ct_confusion_open(int64_t classes, ct_confusion_t *out)
{
  *out = (ct_confusion_t){.classes = classes};
  out->count = ct_mem_array(classes * classes, sizeof *out->count, "the confusion matrix");
  return out->count ? CT_OK : CT_ERR_NOMEM;
}

int ct_confusion_open_sets(int64_t classes, ct_confusion_t *out)
{
  *out = (ct_confusion_t){.classes = classes};
  out->set = ct_mem_array(classes, sizeof *out->set, "the counts of classes");
  return out->set ? CT_OK : CT_ERR_NOMEM;
}

void ct_confusion_close(ct_confusion_t *c)
{
  ct_mem_free(c->count);
  ct_mem_free(c->set);
  *c = (ct_confusion_t){0};
}

void ct_confusion_clear(ct_confusion_t *c)
{
  size_t classes = (size_t)c->classes;
  if (c->count) memset(c->count, 0, classes * classes * sizeof *c->count);
  if (c->set) memset(c->set, 0, classes * sizeof *c->set);
  c->whole = c->wholes = 0;
}

/* Class by class over a block of pixels, so that the inner loop is of consecutive logits, without
 * branches.  NaN is larger than all numbers, as in torch.argmax. */
void ct_confusion_predict(const float *logits, int64_t classes, int64_t apart, int64_t n,
                          int32_t *said)
{
  enum { BLOCK = 1024 };
  float most[BLOCK];
  for (int64_t first = 0; first < n; first += BLOCK) {
    int m = n - first < BLOCK ? (int)(n - first) : BLOCK;
    int32_t *to = said + first;
    memcpy(most, logits + first, (size_t)m * sizeof *most);
    memset(to, 0, (size_t)m * sizeof *to);
    for (int k = 1; k < classes; k++) {
      const float *x = logits + k * apart + first;
      for (int i = 0; i < m; i++) {
        float had = most[i], have = x[i];
        int32_t larger = -(int32_t)((had == had) & !(have <= had));
        to[i] = (to[i] & ~larger) | (k & larger);
        most[i] = larger ? have : had;
      }
    }
  }
}

void ct_confusion_add(ct_confusion_t *c, const float *logits, int64_t apart, int32_t label)
{
  int32_t said;
  if (label < 0 || label >= c->classes) return; /* ignored */
  ct_confusion_predict(logits, c->classes, apart, 1, &said);
  c->count[label * c->classes + said]++;
}

ct_class_count_t ct_confusion_class(const ct_confusion_t *c, int64_t label)
{
  if (c->set) return c->set[label];
  ct_class_count_t n = {.right = c->count[label * c->classes + label]};
  for (int64_t i = 0; i < c->classes; i++) {
    n.labelled += c->count[label * c->classes + i];
    n.predicted += c->count[i * c->classes + label];
  }
  return n;
}

int64_t ct_confusion_samples(const ct_confusion_t *c, int64_t label)
{
  return ct_confusion_class(c, label).labelled;
}

double ct_class_iou(const ct_class_count_t *n)
{
  int64_t either = n->labelled + n->predicted - n->right;
  return either ? (double)n->right / (double)either : NAN;
}

double ct_class_dice(const ct_class_count_t *n)
{
  int64_t sizes = n->labelled + n->predicted;
  return sizes ? 2 * (double)n->right / (double)sizes : NAN;
}

double ct_confusion_iou(const ct_confusion_t *c, int64_t label)
{
  ct_class_count_t n = ct_confusion_class(c, label);
  return ct_class_iou(&n);
}

int64_t ct_confusion_right(const ct_confusion_t *c, int64_t label)
{
  return ct_confusion_class(c, label).right;
}
