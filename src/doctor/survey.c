/* Reads stored samples, computes statistics of numbers, channels and labels, and finds
 * duplicates. */
#include "doctor/ct_survey.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/ct_clock.h"
#include "base/ct_hash.h"
#include "base/ct_mem.h"
#include "comm/ct_agree.h"
#include "data/order/ct_sampler.h"
#include "weights/ct_elem.h"

/* Fingerprints that a rank sends in one message, whose byte count is an int. */
#define PIECE ((int64_t)1024)
/* Numbers of a sample that are converted at a time. */
#define NUMBERS ((int64_t)4096)

/* The fingerprint of a sample. */
typedef struct print {
  uint64_t hash;
  int64_t index; /* -1: none */
} print_t;

/* The survey of a data set on this rank. */
typedef struct in {
  const ct_dataset_t *d;
  ct_survey_t l;
  ct_stored_t x;          /* a sample */
  void *extra, *y;        /* an extra input, the targets of a sample */
  double number[NUMBERS]; /* some of its numbers */
  int64_t *of_class;      /* [l.classes] */
  print_t *mine, *all;    /* [room], [ranks][room]; all: on rank 0 only */
  int64_t room, prints;
} in_t;

static void count_at(in_t *in, ct_survey_count_t *c, int64_t index)
{
  if (c->n++ == 0) in->d->ops->location(in->d->reader, index, c->location, sizeof c->location);
}

/* ---- a sample ---- */

/* Converts the next of \a n elements, from index \a at on, into in->number; returns how many. */
static int64_t survey_take(in_t *in, ct_dtype_t type, const void *from, int64_t n, int64_t at)
{
  int64_t some = n - at < NUMBERS ? n - at : NUMBERS;
  const char *first = (const char *)from + (size_t)at * ct_dtype_size(type);
  ct_elem_doubles(ct_elem_of_dtype(type), first, some, in->number);
  return some;
}

/* 1: all numbers are finite.  If \a missing is given, NaN is allowed and counted there.  *flat, if
 * given: 1 if all numbers are the same. */
static int check_numbers(in_t *in, ct_dtype_t type, const void *from, int64_t n, int *flat,
                         int64_t *missing)
{
  int finite = 1, same = n > 1;
  double first = 0;
  for (int64_t at = 0, some; at < n; at += some) {
    some = survey_take(in, type, from, n, at);
    if (at == 0) first = in->number[0];
    for (int64_t i = 0; i < some; i++) {
      int gap = missing && isnan(in->number[i]);
      finite &= gap || isfinite(in->number[i]);
      if (gap) ++*missing;
      same &= in->number[i] == first;
    }
  }
  if (flat) *flat = same;
  return finite;
}

/* Updates the mean of each channel by Welford's method; missing numbers are skipped. */
static void survey_add_numbers(in_t *in, const ct_stored_t *x, int64_t n)
{
  ct_survey_t *l = &in->l;
  for (int64_t at = 0, some; at < n && l->channels; at += some) {
    some = survey_take(in, x->shape.dtype, x->v, n, at);
    for (int64_t i = 0; i < some; i++) {
      if (isnan(in->number[i])) continue;
      int64_t c = ct_dataset_channel(in->d, &x->shape, at + i);
      double value = in->number[i] / l->scale, off = value - l->mean[c];
      l->mean[c] += off / ++l->numbers[c];
      l->std[c] += off * (value - l->mean[c]); /* a sum of squares until finish() */
    }
  }
}

static int add_label(in_t *in, int64_t label)
{
  if (in->d->has_ignored && label == in->d->ignored) return 1;
  if (label < 0 || (in->l.classes && label >= in->l.classes)) return 0;
  if (in->l.classes) in->of_class[label]++;
  return 1;
}

/* Checks the dense target of a sample and counts its labels per pixel. */
static int add_places(in_t *in)
{
  const ct_shape_t *y = &in->d->info.dense_target;
  int good = 1;
  int64_t n = ct_shape_sample(y);
  if (!in->d->by_class) return check_numbers(in, y->dtype, in->y, n, NULL, NULL);
  for (int64_t at = 0, some; at < n; at += some) {
    some = survey_take(in, y->dtype, in->y, n, at);
    for (int64_t i = 0; i < some; i++)
      good &= fabs(in->number[i]) < 0x1p31 && add_label(in, (int64_t)in->number[i]);
  }
  return good;
}

static void check_dense_target(in_t *in, int64_t index)
{
  const ct_dataset_t *d = in->d;
  int good = 1;
  float weight;
  if (d->info.weighted && ct_dataset_weights(d, 1, &index, &weight) != CT_OK)
    count_at(in, &in->l.weight, index);
  if (d->info.unlabelled) return;
  for (int64_t i = 0; i < d->info.targets && !d->info.dense_target.ndim; i++)
    good &= isfinite(((const float *)in->y)[i]) != 0;
  if (d->info.dense_target.ndim)
    good = add_places(in);
  else if (!d->info.targets)
    good = add_label(in, *(const int64_t *)in->y);
  if (!good) count_at(in, &in->l.label, index);
}

/* Adds the extra inputs to the hash of a sample.  0: one of them has a number that is not
 * finite. */
static int check_extra(in_t *in, int64_t index, uint64_t *hash)
{
  int good = 1;
  const ct_inputs_t *extra = &in->d->info.extra;
  for (int k = 0; k < extra->n; k++) {
    int64_t n = ct_shape_sample(&extra->x[k]);
    if (ct_dataset_extra(in->d, k, 1, &index, in->extra) != CT_OK) return 0;
    good &= check_numbers(in, extra->x[k].dtype, in->extra, n, NULL, NULL);
    *hash = ct_hash(in->extra, (size_t)n * ct_dtype_size(extra->x[k].dtype), *hash);
  }
  return good;
}

static void look_at(in_t *in, int64_t index)
{
  int flat;
  int64_t missing = 0;
  if (ct_dataset_stored(in->d, index, &in->x, in->y) != CT_OK) {
    if (in->l.unread.n++ == 0)
      ct_text_fit(in->l.unread.location, sizeof in->l.unread.location, "%s", ct_err_last()->text);
    return;
  }
  in->l.looked++;
  ct_dtype_t type = in->x.shape.dtype;
  int64_t n = ct_shape_sample(&in->x.shape);
  size_t bytes = (size_t)n * ct_dtype_size(type);
  uint64_t hash = ct_hash(in->x.v, bytes, (uint64_t)n);
  in->l.bytes += (double)bytes;
  int good = check_numbers(in, type, in->x.v, n, &flat, in->d->info.missing ? &missing : NULL);
  if (good && missing) count_at(in, &in->l.missing, index);
  if (good) in->l.missing_numbers += (double)missing;
  if (good) survey_add_numbers(in, &in->x, n);
  if (flat) count_at(in, &in->l.flat, index);
  if (!check_extra(in, index, &hash) || !good) count_at(in, &in->l.odd, index);
  check_dense_target(in, index);
  in->mine[in->prints++] = (print_t){hash, index};
}

/* ---- the samples of this rank ---- */

static int survey_begin(const ct_topo_t *t, const ct_dataset_t *d, int64_t looks, in_t *in)
{
  int64_t first, extra_bytes = 0;
  *in = (in_t){.d = d, .l = {.samples = d->info.samples}};
  for (int k = 0; k < d->info.extra.n; k++) {
    const ct_shape_t *x = &d->info.extra.x[k];
    int64_t bytes = ct_shape_sample(x) * (int64_t)ct_dtype_size(x->dtype);
    if (bytes > extra_bytes) extra_bytes = bytes;
  }
  int64_t dense_targets =
      d->info.dense_target.ndim ? ct_shape_sample(&d->info.dense_target) : d->info.targets;
  int values = d->info.dense_target.ndim ? !d->by_class : d->info.targets > 0;
  in->l.classes = values || d->info.unlabelled ? 0 : d->classes;
  int64_t frames = d->info.channels.frames > 1 ? d->info.channels.frames : 1;
  int64_t channels = d->info.x.dim[1] / frames; /* as normalize has them */
  in->l.channels = channels <= CT_SURVEY_CHANNELS ? (int)channels : 0;
  in->l.scale = d->info.x.dtype == CT_U8 ? 255 : d->info.wide ? 65535 : 1;
  in->l.numbers_of_sample = (double)ct_shape_sample(&d->info.x);
  in->room = ct_sampler_cut(looks, 0, t->size, &first);
  in->extra = ct_mem_array(extra_bytes + 1, 1, "an extra input");
  in->y = ct_mem_array(dense_targets + 2, sizeof(int64_t), "the targets of a sample");
  in->of_class = ct_mem_array(in->l.classes + 1, sizeof *in->of_class, "the count of classes");
  in->mine = ct_mem_array(in->room + 1, sizeof *in->mine, "the hashes of samples");
  if (t->rank == 0)
    in->all = ct_mem_array((in->room + 1) * t->size, sizeof *in->all, "the hashes of samples");
  int good = in->extra && in->y && in->of_class && in->mine && (t->rank || in->all);
  return good ? CT_OK : CT_ERR_NOMEM;
}

static void survey_end(in_t *in)
{
  ct_stored_clear(&in->x);
  ct_mem_free(in->extra);
  ct_mem_free(in->y);
  ct_mem_free(in->of_class);
  ct_mem_free(in->mine);
  ct_mem_free(in->all);
}

static void survey_share(const ct_topo_t *t, in_t *in, int64_t looks)
{
  int64_t first, n = ct_sampler_cut(looks, t->rank, t->size, &first);
  ct_sampler_t order = {
      .seed = 1, .samples = in->l.samples, .batch = 1, .shuffle = looks < in->l.samples};
  ct_io_times_t times = {0};
  double start = ct_clock();
  ct_io_times_begin(&times, CT_IO_COPY);
  for (int64_t i = 0; i < n; i++)
    look_at(in, ct_sampler_at(&order, 0, first + i));
  ct_io_times_begin(NULL, CT_IO_COPY);
  in->l.seconds = ct_clock() - start;
  for (int i = 0; i < CT_IO_COUNT; i++) {
    in->l.io_s[i] = 1e-9 * (double)times.ns[i];
    in->l.io_bytes[i] = (double)times.bytes[i];
  }
  for (int64_t i = in->prints; i <= in->room; i++)
    in->mine[i].index = -1;
}

/* ---- all ranks ---- */

static void merge_count(ct_survey_count_t *to, const ct_survey_count_t *from)
{
  if (to->n == 0) memcpy(to->location, from->location, sizeof to->location);
  to->n += from->n;
}

/* Merges means and sums of squares of two parts (Chan, Golub, LeVeque 1979). */
static void survey_merge(ct_survey_t *to, const ct_survey_t *from)
{
  to->looked += from->looked;
  to->bytes += from->bytes;
  merge_count(&to->unread, &from->unread);
  merge_count(&to->odd, &from->odd);
  merge_count(&to->missing, &from->missing);
  to->missing_numbers += from->missing_numbers;
  merge_count(&to->flat, &from->flat);
  merge_count(&to->label, &from->label);
  merge_count(&to->weight, &from->weight);
  if (from->seconds > to->seconds) to->seconds = from->seconds;
  for (int i = 0; i < CT_IO_COUNT; i++) {
    to->io_s[i] += from->io_s[i];
    to->io_bytes[i] += from->io_bytes[i];
  }
  for (int c = 0; c < to->channels; c++) {
    double n = to->numbers[c] + from->numbers[c], off = from->mean[c] - to->mean[c];
    if (from->numbers[c] == 0) continue;
    to->mean[c] += off * from->numbers[c] / n;
    to->std[c] += from->std[c] + off * off * to->numbers[c] * from->numbers[c] / n;
    to->numbers[c] = n;
  }
}

static int by_hash(const void *a, const void *b)
{
  const print_t *p = a, *q = b;
  if (p->hash != q->hash) return (p->hash > q->hash) - (p->hash < q->hash);
  return (p->index > q->index) - (p->index < q->index);
}

/* On rank 0: sorts the fingerprints of all ranks and counts duplicates. */
static void sort_prints(in_t *in, int ranks)
{
  int64_t kept = 0;
  for (int64_t i = 0; i < (in->room + 1) * ranks; i++)
    if (in->all[i].index >= 0) in->all[kept++] = in->all[i];
  in->prints = kept;
  qsort(in->all, (size_t)kept, sizeof *in->all, by_hash);
  for (int64_t i = 1; i < kept; i++)
    if (in->all[i].hash == in->all[i - 1].hash) count_at(in, &in->l.twice, in->all[i].index);
}

static int64_t classes_of_bar(const ct_survey_t *l)
{
  return (l->classes + CT_SURVEY_BARS - 1) / CT_SURVEY_BARS;
}

static void count_labels(in_t *in)
{
  ct_survey_t *l = &in->l;
  int bar = 0;
  l->by_pixel = in->d->pixels > 1;
  l->bars = l->classes ? (int)((l->classes - 1) / classes_of_bar(l)) + 1 : 0;
  l->least = l->classes ? INT64_MAX : 0;
  for (int64_t i = 0; i < l->classes; i++) {
    while (i >= ct_survey_bar_begin(l, bar + 1))
      bar++;
    l->bar[bar] += in->of_class[i];
    l->empty += in->of_class[i] == 0;
    if (in->of_class[i] < l->least) l->least = in->of_class[i];
    if (in->of_class[i] > l->most) l->most = in->of_class[i];
  }
}

static void survey_finish(in_t *in)
{
  struct stat st;
  const char *path;
  ct_survey_t *l = &in->l;
  for (int c = 0; c < l->channels; c++)
    l->std[c] = l->numbers[c] > 0 ? sqrt(l->std[c] / l->numbers[c]) : 0;
  count_labels(in);
  for (int i = 0; (path = in->d->ops->file(in->d->reader, i)); i++)
    if (stat(path, &st) == 0) l->file_bytes += (double)st.st_size;
}

/* Gathers fingerprints on rank 0, in any order: they are sorted later. */
static void gather_prints(const ct_topo_t *t, in_t *in)
{
  for (int64_t at = 0; at <= in->room; at += PIECE) {
    int64_t n = in->room + 1 - at < PIECE ? in->room + 1 - at : PIECE;
    ct_agree_gather(t, in->mine + at, (int)((size_t)n * sizeof *in->mine),
                    in->all ? in->all + at * t->size : NULL);
  }
}

static int survey_set(const ct_topo_t *t, const ct_dataset_t *d, int full, in_t *in)
{
  int rc = CT_OK;
  int64_t looks = full || d->info.samples < CT_SURVEY_SAMPLES ? d->info.samples : CT_SURVEY_SAMPLES;
  ct_survey_t *all = NULL;
  CT_TRY_ALL(t, survey_begin(t, d, looks, in));
  survey_share(t, in, looks);
  all = t->rank == 0 ? ct_mem_array(t->size, sizeof *all, "surveys of all ranks") : NULL;
  CT_TRY(ct_agree(t, t->rank == 0 && !all ? CT_ERR_NOMEM : CT_OK));
  ct_agree_gather(t, &in->l, (int)sizeof in->l, all);
  gather_prints(t, in);
  ct_agree_sum(t, in->of_class, in->l.classes);
  for (int r = 1; r < t->size && all; r++)
    survey_merge(&in->l, &all[r]);
  if (t->rank == 0) sort_prints(in, t->size);
  if (t->rank == 0) survey_finish(in);
out:
  ct_mem_free(all);
  return rc;
}

/* On rank 0: counts samples of val that are also in train. */
static void compare(const in_t *train, in_t *val, ct_survey_count_t *shared)
{
  for (int64_t i = 0, k = 0; i < val->prints; i++) {
    while (k < train->prints && train->all[k].hash < val->all[i].hash)
      k++;
    if (k < train->prints && train->all[k].hash == val->all[i].hash)
      count_at(val, shared, val->all[i].index);
  }
}

int ct_survey(const ct_topo_t *t, const ct_dataset_t *train, const ct_dataset_t *val, int full,
              ct_surveys_t *out)
{
  int rc = CT_OK;
  in_t a = {0}, b = {0};
  *out = (ct_surveys_t){0};
  CT_TRY(survey_set(t, train, full, &a));
  if (val->info.samples) CT_TRY(survey_set(t, val, full, &b));
  if (t->rank == 0 && val->info.samples) compare(&a, &b, &out->shared);
  out->train = a.l;
  out->val = b.l;
out:
  survey_end(&a);
  survey_end(&b);
  return rc;
}

/* ---- results ---- */

int ct_survey_normalize(const ct_survey_t *l, ct_str_t *out)
{
  int rc = CT_OK;
  if (!l->channels || l->looked == 0) return CT_OK;
  CT_TRY(ct_str_add(out, "normalize: {mean: ["));
  for (int c = 0; c < l->channels; c++)
    CT_TRY(ct_str_add(out, "%s%.4g", c ? ", " : "", l->mean[c]));
  CT_TRY(ct_str_add(out, "], std: ["));
  for (int c = 0; c < l->channels; c++)
    CT_TRY(ct_str_add(out, "%s%.4g", c ? ", " : "", l->std[c] > 0 ? l->std[c] : 1.0));
  CT_TRY(ct_str_add(out, "]}"));
out:
  return rc;
}

int64_t ct_survey_bar_begin(const ct_survey_t *l, int i)
{
  int64_t each = classes_of_bar(l), first = i * each;
  return first < l->classes ? first : l->classes;
}

double ct_survey_drift(const ct_surveys_t *l, int *channel)
{
  double most = 0;
  *channel = 0;
  if (l->train.channels != l->val.channels || l->train.scale != l->val.scale) return 0;
  for (int c = 0; c < l->train.channels; c++) {
    double off = fabs(l->val.mean[c] - l->train.mean[c]);
    if (l->train.std[c] <= 0 || l->val.numbers[c] <= 0 || off <= most * l->train.std[c]) continue;
    most = off / l->train.std[c];
    *channel = c;
  }
  return most;
}
