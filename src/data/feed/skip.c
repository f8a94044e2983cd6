/* Skips damaged samples (data.on_error: skip).  They are searched one by one only after a batch has
 * failed, so undamaged data has no overhead. */
#include "data/feed/skip.h"

#include <string.h>

#include "base/ct_err.h"

enum { MOST = 10000 /* samples that are tried as a replacement: a whole chunk may be damaged */ };

static int is_of_sample(int rc)
{
  return rc == CT_ERR_IO || rc == CT_ERR_FORMAT || rc == CT_ERR_DATA;
}

/* Returns a batch that consists of the i-th sample of a batch. */
static ct_batch_t one_of(const ct_dataset_t *d, const ct_batch_t *b, int i)
{
  ct_batch_t one = *b;
  one.n = 1;
  one.first += i;
  one.ids += i;
  if (b->x) one.x += i * ct_shape_sample(&d->x);
  if (b->bytes) one.bytes += i * ct_shape_sample(&d->x);
  if (b->labels) one.labels += i * d->pixels;
  if (b->labels2) one.labels2 += i;
  if (b->mix) one.mix += i;
  if (b->weights) one.weights += i;
  if (b->targets) one.targets += i * d->info.targets;
  for (int k = 0; k < d->extra.n; k++)
    one.extra[k] += i * ct_shape_sample(&d->extra.x[k]);
  for (int k = 0; k < d->more.n; k++)
    one.more[k] = (float *)one.more[k] + i * ct_shape_sample(&d->more.x[k]);
  return one;
}

static void skip_note(ct_batch_t *b, int64_t id, int64_t instead, const ct_err_info_t *why)
{
  if (b->skipped++ >= CT_SKIPS_LOGGED) return;
  ct_skip_t *s = &b->skip[b->skipped - 1];
  memset(s, 0, sizeof *s);
  s->id = id;
  s->instead = instead;
  snprintf(s->why, sizeof s->why, "%.*s", (int)sizeof s->why - 1, why->text);
}

int ct__skip_make(ct__make_t *m, ct_batch_t *b, int (*make)(ct__make_t *m, ct_batch_t *b))
{
  int rc = CT_OK;
  int64_t samples = m->sampler->samples;
  for (int i = 0; i < b->n; i++) {
    ct_batch_t one = one_of(m->data, b, i);
    int64_t id = one.ids[0];
    int first = rc = make(m, &one);
    if (rc == CT_OK) continue;
    ct_err_info_t why = *ct_err_last();
    for (int64_t k = 1; is_of_sample(rc) && k <= MOST && k < samples; k++) {
      one.ids[0] = (id + k) % samples;
      rc = make(m, &one);
    }
    if (rc != CT_OK) {
      ct_err_put(&why);
      return first;
    }
    skip_note(b, id, one.ids[0], &why);
  }
  return rc;
}
