/* Makes a batch: selects, reads, checks, converts, transforms and mixes its samples.
 *
 * The result depends on the number of the batch alone, not on the thread or the time. */
#include "data/feed/batch.h"

#include <math.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_fault.h"
#include "base/ct_mem.h"
#include "data/feed/convert.h"
#include "data/feed/ct_io_times.h"
#include "data/readers/multi_array.h"
#include "data/feed/skip.h"

/* Prefixes an error with the origin of its sample. */
static int at_sample(const ct_dataset_t *d, int64_t id, int rc)
{
  char location[300];
  d->ops->location(d->reader, id, location, sizeof location);
  return ct_err_prefix(rc, "%s: ", location);
}

/* A NaN may not show in the loss: the next ReLU may turn it into 0 while the weights before it are
 * lost. */
static int not_finite(const ct_dataset_t *d, int64_t id)
{
  return at_sample(
      d, id,
      ct_err_set(CT_ERR_DATA, __FILE__, __LINE__,
                 "holds a value that is not finite (NaN or infinite)%s",
                 d->info.missing ? "; missing numbers are NaN: data.missing replaces them" : ""));
}

/* Makes targets NaN that are to be skipped.  Returns the index of the first one that is neither
 * finite nor skipped; -1: there is none. */
static int64_t skip_targets(int skips, float skipped, int64_t n, float *targets)
{
  for (int64_t i = 0; i < n; i++) {
    if (skips && targets[i] == skipped) targets[i] = NAN;
    if (!isfinite(targets[i]) && !(skips && isnan(targets[i]))) return i;
  }
  return -1;
}

static int check_targets(const ct_dataset_t *d, int n, const int64_t *ids, float *targets)
{
  int64_t of_one = d->info.targets, i = skip_targets(d->skips, d->skipped, n * of_one, targets);
  return i < 0 ? CT_OK
               : at_sample(d, ids[i / of_one],
                           ct_err_set(CT_ERR_DATA, __FILE__, __LINE__,
                                      "target %lld is not finite (NaN or infinite)",
                                      (long long)(i % of_one)));
}

static int check_label(const ct_dataset_t *d, const ct_more_as_t *as, int64_t id, int64_t label)
{
  int rc = CT_OK;
  int64_t classes = as->classes > 0 ? as->classes : INT32_MAX;
  int is_class = label >= 0 && label < classes;
  if (is_class || (as->has_ignored && label == as->ignored)) return CT_OK;
  if (as->classes == 0)
    CT_FAIL(CT_ERR_DATA, "label %lld is not a class number (classes count from 0)",
            (long long)label);
  CT_FAIL(CT_ERR_DATA, "label %lld is not in 0 to %lld (%lld classes)", (long long)label,
          (long long)as->classes - 1, (long long)as->classes);
out:
  return at_sample(d, id, rc);
}

static int batch_check_label(const ct_dataset_t *d, int64_t id, int64_t label)
{
  const ct_more_as_t as = {
      .classes = d->classes, .has_ignored = d->has_ignored, .ignored = d->ignored};
  return check_label(d, &as, id, label);
}

/* Returns the address of the label or targets of the i-th of the samples that are read together. */
static void *dense_target_at(const ct_dataset_t *d, void *dense_targets, int64_t i)
{
  size_t bytes = d->info.targets ? (size_t)d->info.targets * sizeof(float) : sizeof(int64_t);
  return (char *)dense_targets + (size_t)i * bytes;
}

/* Reads samples together. Samples that differ in size are read one by one, when they are
 * converted. */
static int read_together(ct__make_t *m, int64_t epoch, int n, const int64_t *ids, void *stored,
                         void *dense_targets)
{
  const ct_dataset_t *d = m->data;
  if (d->decode_time)
    return ct__encoded_read(&m->encoded, d, m->sampler->seed, epoch, n, ids, stored, dense_targets);
  return d->info.varies ? CT_OK : d->ops->read(d->reader, n, ids, stored, dense_targets);
}

/* Returns 1 if all samples are finite; else 0, and *bad is the first that is not. */
static int batch_convert(const ct_dataset_t *d, const ct_shape_t *shape, int n, const void *from,
                         float *to, int *bad)
{
  ct_io_phase_t before = ct_io_enter(CT_IO_CONVERT);
  ct__convert(d, shape, n, from, to);
  *bad = ct__convert_check(d, shape, n, to);
  ct_io_enter(before);
  return *bad < 0;
}

/* Makes the i-th of the samples that are read together. */
static int make_sample(const ct__make_t *m, int64_t epoch, int64_t id, int64_t i,
                       void *dense_targets, float *x)
{
  int rc = CT_OK, bad;
  const ct_dataset_t *d = m->data;
  size_t bytes = (size_t)ct_shape_sample(&d->info.x) * ct_dtype_size(d->info.x.dtype);
  char *from = m->stored;
  ct_shape_t shape = d->info.x;
  if (d->info.varies) {
    d->ops->shape(d->reader, id, &shape);
    CT_TRY(d->ops->read(d->reader, 1, &id, from, dense_target_at(d, dense_targets, i)));
  } else {
    from += (size_t)i * bytes;
  }
  float *converted = d->transforms ? ct__transforms_start(d->transforms, m->work, x) : x;
  if (!batch_convert(d, &shape, 1, from, converted, &bad)) return not_finite(d, id);
  ct_io_phase_t before = ct_io_enter(CT_IO_TRANSFORM);
  if (d->transforms)
    ct__transforms_run(d->transforms, &shape, m->sampler->seed, epoch, id, m->work, x);
  ct_io_enter(before);
out:
  return rc;
}

static int make_samples(const ct__make_t *m, int64_t epoch, int n, const int64_t *ids,
                        void *dense_targets, float *x)
{
  int rc = CT_OK;
  const ct_dataset_t *d = m->data;
  if (!d->transforms && !d->info.varies) { /* all at once */
    int bad;
    return batch_convert(d, &d->info.x, n, m->stored, x, &bad) ? CT_OK : not_finite(d, ids[bad]);
  }
  for (int i = 0; i < n; i++, x += ct_shape_sample(&d->x))
    CT_TRY(make_sample(m, epoch, ids[i], i, dense_targets, x));
out:
  return rc;
}

/* Transforms samples that are not converted. */
static void make_bytes(const ct__make_t *m, int64_t epoch, int n, const int64_t *ids, uint8_t *x)
{
  const ct_dataset_t *d = m->data;
  int64_t sample = ct_shape_sample(&d->info.x), channels = d->info.x.dim[1];
  const uint8_t *stored = m->stored;
  ct__pixels_t p =
      d->info.channels_last ? (ct__pixels_t){1, (size_t)channels} : (ct__pixels_t){channels, 1};
  ct_io_phase_t before = ct_io_enter(CT_IO_TRANSFORM);
  for (int i = 0; i < n; i++, stored += sample, x += ct_shape_sample(&d->x))
    ct__transforms_run_bytes(d->transforms, p, m->sampler->seed, epoch, ids[i], stored,
                             (uint8_t *)m->work, x);
  ct_io_enter(before);
}

/* Mixes in the labels or targets of the other sample; \a at: its index among the partners. */
static int mix_dense_targets(const ct__make_t *m, ct_batch_t *b, int i, int64_t at)
{
  int rc = CT_OK;
  const ct_dataset_t *d = m->data;
  int64_t targets = d->info.targets;
  if (targets) CT_TRY(check_targets(d, 1, &m->partner_ids[at], m->partner_targets + at * targets));
  for (int64_t k = 0; k < targets; k++) {
    float *t = &b->targets[i * targets + k];
    *t = b->mix[i] * *t + (1 - b->mix[i]) * m->partner_targets[at * targets + k];
  }
  if (targets) return CT_OK;
  CT_TRY(batch_check_label(d, m->partner_ids[at], m->labels[at]));
  b->labels2[i] = (int32_t)m->labels[at];
out:
  return rc;
}

/* Mixes the samples of a batch with their partners, which are read after them into the same
 * buffers. */
static int mix_samples(ct__make_t *m, ct_batch_t *b)
{
  int rc = CT_OK, partners = 0;
  const ct_dataset_t *d = m->data;
  int64_t sample = ct_shape_sample(&d->x), at = 0;
  void *dense_targets = d->info.targets ? (void *)m->partner_targets : m->labels;
  for (int i = 0; i < b->n; i++) {
    m->mix[i] = ct__transform_mix_draw(d->transforms, m->sampler->seed, b->epoch, b->ids[i],
                                       m->sampler->samples);
    if (m->mix[i].partner >= 0)
      m->partner_ids[partners++] =
          ct_sampler_near(m->sampler, b->epoch, b->cursor + b->first + i, m->mix[i].partner);
    b->mix[i] = m->mix[i].share;
    b->labels2[i] = b->labels[i];
  }
  CT_TRY(read_together(m, b->epoch, partners, m->partner_ids, m->stored, dense_targets));
  for (int i = 0; i < b->n; i++) {
    if (m->mix[i].partner < 0) continue;
    CT_TRY(make_sample(m, b->epoch, m->partner_ids[at], at, dense_targets, m->partner));
    ct__transform_mix_apply(d->transforms, &m->mix[i], m->partner, b->x + i * sample);
    CT_TRY(mix_dense_targets(m, b, i, at++));
  }
out:
  return rc;
}

/* ---- dense targets ---- */

/* Checks n labels that are held as floats, and makes them integers. */
static int take_labels(const ct_dataset_t *d, const ct_more_as_t *as, int64_t id, int64_t n,
                       const float *from, int32_t *labels)
{
  int rc = CT_OK;
  for (int64_t i = 0; i < n; i++) {
    float v;
    memcpy(&v, &from[i], sizeof v); /* `labels` may be the same memory */
    int fits = v >= (float)INT32_MIN && v < -(float)INT32_MIN;
    CT_TRY(check_label(d, as, id, fits ? (int64_t)v : INT64_MIN));
    labels[i] = (int32_t)v;
  }
out:
  return rc;
}

/* Converts one sample of an array that moves along with the samples, and applies their geometric
 * transforms.  Returns 0 if it holds a value that is neither finite nor skipped. */
static int make_along(const ct__make_t *m, const ct_dataset_t *as, const ct_more_as_t *how,
                      const ct__along_t *along, int64_t epoch, int64_t id, const void *from,
                      float *to)
{
  int bad;
  const ct_transforms_t *transforms = along ? m->data->transforms : NULL;
  float *converted = transforms ? ct__transforms_start_along(transforms, m->work, to) : to;
  batch_convert(as, &as->info.x, 1, from, converted, &bad);
  if (skip_targets(how->skips, how->skipped, ct_shape_sample(&as->info.x), converted) >= 0)
    return 0;
  if (transforms)
    ct__transforms_run_along(transforms, along, m->sampler->seed, epoch, id, m->work, to);
  return 1;
}

/* Converts dense targets and applies the geometric transforms of their samples. */
static int make_dense_targets(const ct__make_t *m, ct_batch_t *b)
{
  int rc = CT_OK;
  const ct_dataset_t *d = m->data;
  const ct_shape_t *stored = &d->info.dense_target;
  const ct_more_as_t how = {.classes = d->classes,
                            .has_ignored = d->has_ignored,
                            .ignored = d->ignored,
                            .skips = d->skips,
                            .skipped = d->skipped};
  const ct__along_t along = {
      .channels = d->dense_target.dim[1], .by_class = d->by_class, .is_target = 1};
  size_t bytes = (size_t)ct_shape_sample(stored) * ct_dtype_size(stored->dtype);
  for (int i = 0; i < b->n; i++) {
    const char *from = (const char *)m->dense_targets + (size_t)i * bytes;
    float *dense_target = d->by_class ? m->dense_target : b->targets + i * d->info.targets;
    if (!make_along(m, &m->as_dense_target, &how, d->info.by_place ? NULL : &along, b->epoch,
                    b->ids[i], from, dense_target))
      return at_sample(d, b->ids[i],
                       ct_err_set(CT_ERR_DATA, __FILE__, __LINE__,
                                  "its targets hold a value that is not finite"));
    if (d->by_class)
      CT_TRY(take_labels(d, &how, b->ids[i], d->pixels, dense_target, b->labels + i * d->pixels));
    if (d->by_class)
      ct__transforms_mask_labels(d->transforms, m->sampler->seed, b->epoch, b->ids[i], d->pixels,
                                 (int32_t)d->ignored, b->labels + i * d->pixels);
  }
out:
  return rc;
}

static int take_dense_targets(const ct__make_t *m, ct_batch_t *b)
{
  int rc = CT_OK;
  const ct_dataset_t *d = m->data;
  if (m->dense_targets) return make_dense_targets(m, b);
  if (d->info.targets) return check_targets(d, b->n, b->ids, b->targets);
  for (int i = 0; i < b->n; i++) {
    CT_TRY(batch_check_label(d, b->ids[i], m->labels[i]));
    b->labels[i] = (int32_t)m->labels[i];
  }
out:
  return rc;
}

/* Converts n samples of an array of an input or target to float32; its pixels may move along with
 * those of the samples.  CT_ERR_DATA: a value is neither finite nor skipped. */
static int convert_beside(const ct__make_t *m, ct_batch_t *b, const ct_dataset_t *as,
                          const ct_more_as_t *how, const ct__along_t *along, const char *name,
                          int64_t values, float *to)
{
  int rc = CT_OK, unused;
  int64_t bad = -1;
  const ct_shape_t *stored = &as->info.x;
  size_t bytes = (size_t)ct_shape_sample(stored) * ct_dtype_size(stored->dtype);
  if (!along->channels) {
    batch_convert(as, stored, b->n, m->stored_extra, to, &unused);
    int64_t at = skip_targets(how->skips, how->skipped, b->n * values, to);
    bad = at < 0 ? -1 : at / values;
  }
  for (int i = 0; along->channels && bad < 0 && i < b->n; i++) {
    const char *from = (const char *)m->stored_extra + (size_t)i * bytes;
    if (!make_along(m, as, how, along, b->epoch, b->ids[i], from, to + i * values)) bad = i;
  }
  if (bad < 0) return CT_OK;
  rc = ct_err_set(CT_ERR_DATA, __FILE__, __LINE__,
                  "its '%s' holds a value that is not finite (NaN or infinite)", name);
  return at_sample(m->data, b->ids[bad], rc);
}

/* Reads an extra input and converts it to float32. */
static int make_extra(const ct__make_t *m, ct_batch_t *b, int k)
{
  int rc = CT_OK;
  const ct_dataset_t *d = m->data;
  const ct_shape_t *stored = &d->info.extra.x[k];
  const ct_dataset_t as = {.info = {.x = *stored, .channels_last = d->info.extra_last[k]},
                           .affine = {.channels = 1, .a = {1}}};
  const ct__along_t along = {.channels = d->extra_along[k],
                             .by_class = ct_dataset_is_whole(stored->dtype)};
  CT_TRY(ct_dataset_extra(d, k, b->n, b->ids, m->stored_extra));
  CT_TRY(convert_beside(m, b, &as, &(ct_more_as_t){0}, &along, d->extra.name[k],
                        ct_shape_sample(&d->extra.x[k]), b->extra[k]));
out:
  return rc;
}

/* Reads a further target and converts it to int32 labels or float32 values. */
static int make_more(const ct__make_t *m, ct_batch_t *b, int k)
{
  int rc = CT_OK;
  const ct_dataset_t *d = m->data;
  const ct_shape_t *stored = &d->info.more.x[k];
  const ct_more_as_t *how = &d->more_as[k];
  const ct_dataset_t as = {.info = {.x = *stored}, .affine = {.channels = 1, .a = {1}}};
  const ct__along_t along = {.channels = d->more_along[k], .by_class = how->labels};
  int64_t values = ct_shape_sample(&d->more.x[k]);
  int32_t *labels = b->more[k];
  const char *from = m->stored_extra;
  CT_TRY(ct_dataset_more(d, k, b->n, b->ids, m->stored_extra));
  if (!how->labels || along.channels)
    CT_TRY(convert_beside(m, b, &as, how, &along, d->more.name[k], values, b->more[k]));
  for (int64_t i = 0; how->labels && along.channels && i < b->n; i++)
    CT_TRY(take_labels(d, how, b->ids[i], values, (float *)b->more[k] + i * values,
                       labels + i * values));
  for (int64_t i = 0; how->labels && !along.channels && i < b->n * values;
       i++, from += ct_dtype_size(stored->dtype)) {
    int64_t label = ct_dtype_whole(stored->dtype, from);
    CT_TRY(check_label(d, how, b->ids[i / values], label));
    labels[i] = (int32_t)label;
  }
out:
  return rc;
}

/* Reads the samples b->ids. */
static int batch_make(ct__make_t *m, ct_batch_t *b)
{
  int rc = CT_OK;
  const ct_dataset_t *d = m->data;
  void *dense_targets = m->dense_targets  ? m->dense_targets
                        : d->info.targets ? (void *)b->targets
                                          : m->labels;
  CT_TRY(read_together(m, b->epoch, b->n, b->ids, m->stored ? m->stored : b->bytes, dense_targets));
  if (!m->bytes) CT_TRY(make_samples(m, b->epoch, b->n, b->ids, dense_targets, b->x));
  if (m->bytes && d->transforms) make_bytes(m, b->epoch, b->n, b->ids, b->bytes);
  for (int k = 0; k < d->extra.n; k++)
    CT_TRY(make_extra(m, b, k));
  CT_TRY(take_dense_targets(m, b));
  for (int k = 0; k < d->more.n; k++)
    CT_TRY(make_more(m, b, k));
  if (d->info.weighted) CT_TRY(ct__parts_weights(d->reader, b->n, b->ids, b->weights));
  if (ct__transforms_mixes(d->transforms)) CT_TRY(mix_samples(m, b));
out:
  return rc;
}

int ct__make_batch(ct__make_t *m, ct_batch_t *b)
{
  int rc = CT_OK;
  CT_TRY(ct_fault("feed.read"));
  for (int i = 0; i < b->n; i++)
    b->ids[i] = ct_sampler_at(m->sampler, b->epoch, b->cursor + b->first + i);
  b->skipped = 0;
  rc = batch_make(m, b);
  if (rc != CT_OK && m->data->skip) rc = ct__skip_make(m, b, batch_make);
out:
  return rc;
}

/* ---- memory ---- */

static int alloc_mix(ct__make_t *m, int64_t n)
{
  const ct_dataset_t *d = m->data;
  m->mix = ct_mem_array(n, sizeof *m->mix, "the mixes of a batch");
  m->partner_ids = ct_mem_array(n, sizeof *m->partner_ids, "the partners of a batch");
  m->partner = ct_mem_array(ct_shape_sample(&d->x), sizeof *m->partner, "a sample");
  if (!m->mix || !m->partner_ids || !m->partner) return CT_ERR_NOMEM;
  if (!d->info.targets) return CT_OK;
  m->partner_targets =
      ct_mem_array(n * d->info.targets, sizeof *m->partner_targets, "the partners' targets");
  return m->partner_targets ? CT_OK : CT_ERR_NOMEM;
}

/* Dense targets are converted without an affine map, unless they are normalized as the samples. */
static int alloc_dense_targets(ct__make_t *m, int64_t n)
{
  const ct_dataset_t *d = m->data;
  const ct_shape_t *stored = &d->info.dense_target;
  size_t bytes = (size_t)ct_shape_sample(stored) * ct_dtype_size(stored->dtype);
  m->as_dense_target.info.x = *stored;
  m->as_dense_target.info.channels_last = d->info.dense_target_last;
  m->as_dense_target.info.channels = d->info.target_parts;
  m->as_dense_target.affine = (ct_affine_t){.channels = 1, .a = {1}};
  if (d->targets_mapped) m->as_dense_target.affine = d->affine;
  m->dense_targets = ct_mem_array(n, bytes, "the stored dense targets of a batch");
  m->dense_target =
      ct_mem_array(ct_shape_sample(&d->dense_target), sizeof *m->dense_target, "a dense target");
  return m->dense_targets && m->dense_target ? CT_OK : CT_ERR_NOMEM;
}

/* Returns the bytes of a sample of the largest of some arrays, or \a most. */
static int64_t largest_of(const ct_inputs_t *list, int64_t most)
{
  for (int k = 0; k < list->n; k++) {
    int64_t bytes = ct_shape_sample(&list->x[k]) * (int64_t)ct_dtype_size(list->x[k].dtype);
    if (bytes > most) most = bytes;
  }
  return most;
}

static size_t stored_bytes(const ct_shape_t *s)
{
  return (size_t)ct_shape_sample(s) * ct_dtype_size(s->dtype);
}

size_t ct__make_bytes(const ct_dataset_t *d, int64_t n, int bytes)
{
  size_t all = (size_t)n, one = 0, sample = 0;
  int mixes = ct__transforms_mixes(d->transforms);
  if (!(bytes && !d->transforms)) *(d->info.varies ? &one : &sample) += stored_bytes(&d->info.x);
  sample += (size_t)largest_of(&d->info.more, largest_of(&d->info.extra, 0));
  if (d->dense_target.ndim) {
    sample += stored_bytes(&d->info.dense_target);
    one += (size_t)ct_shape_sample(&d->dense_target) * sizeof(float);
    return all * sample + one;
  }
  if (!d->info.targets) sample += sizeof(int64_t);
  if (mixes) sample += sizeof(ct__transform_mix_t) + sizeof(int64_t);
  if (mixes) sample += (size_t)d->info.targets * sizeof(float);
  if (mixes) one += (size_t)ct_shape_sample(&d->x) * sizeof(float);
  return all * sample + one;
}

int ct__make_init(ct__make_t *m, const ct_dataset_t *data, const ct_sampler_t *sampler, int64_t n,
                  int bytes)
{
  const ct_dataset_t *d = data;
  const ct_transforms_t *t = d->transforms;
  size_t stored = (size_t)ct_shape_sample(&d->info.x) * ct_dtype_size(d->info.x.dtype);
  *m = (ct__make_t){.data = data, .sampler = sampler, .bytes = bytes};
  int direct = m->bytes && !t; /* samples are read into the batch */
  if (!direct)
    m->stored = ct_mem_array(d->info.varies ? 1 : n, stored, "the stored samples of a batch");
  if (!direct && !m->stored) return CT_ERR_NOMEM;
  int64_t most = largest_of(&d->info.more, largest_of(&d->info.extra, 0));
  if (most) m->stored_extra = ct_mem_array(n, most, "the other arrays of a batch");
  if (most && !m->stored_extra) return CT_ERR_NOMEM;
  if (t) m->work = ct_mem_array(ct__transforms_workspace(t), sizeof *m->work, "the transforms");
  if (t && !m->work) return CT_ERR_NOMEM;
  if (d->dense_target.ndim) return alloc_dense_targets(m, n);
  if (!d->info.targets)
    m->labels = ct_mem_array(n, sizeof *m->labels, "the stored labels of a batch");
  if (!d->info.targets && !m->labels) return CT_ERR_NOMEM;
  return ct__transforms_mixes(t) ? alloc_mix(m, n) : CT_OK;
}

void ct__make_clear(ct__make_t *m)
{
  ct_mem_free(m->stored);
  ct_mem_free(m->labels);
  ct_mem_free(m->stored_extra);
  ct_mem_free(m->dense_targets);
  ct_mem_free(m->dense_target);
  ct_mem_free(m->work);
  ct__encoded_clear(&m->encoded);
  ct_mem_free(m->mix);
  ct_mem_free(m->partner_ids);
  ct_mem_free(m->partner);
  ct_mem_free(m->partner_targets);
}
