/* `stats`: mean, standard deviation, minimum and maximum of each channel of the stored training
 * samples, for `normalize: {from: FILE}`.
 *
 * The samples are cut into parts whose number depends on the data alone.  Each part is added up by
 * one rank, and all parts in their order by all ranks, so the numbers are the same at any number of
 * ranks. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_heartbeat.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "commands/ct_commands.h"
#include "hdf5io/ct_h5.h"
#include "setup/ct_setup.h"
#include "weights/ct_elem.h"

enum { PARTS = 1024, AT_ONCE = 4096, MOST_CHANNELS = 65536, MOST_ARRAYS = CT_GROUPS };

/* Numbers of a channel. */
typedef struct moments {
  double n, mean, squares /* sum of (x - mean)^2 */, min, max;
} moments_t;
enum { FIELDS = sizeof(moments_t) / sizeof(double) };

/* Adds up a sample with the channel's first number as origin. */
typedef struct sums {
  double n, origin, sum, squares, min, max;
} sums_t;

typedef struct stats {
  const ct_setup_t *s;
  int channels;
  int64_t parts, skipped; /* numbers that are not finite */
  moments_t *part;        /* [parts][channels] */
  sums_t *sums;           /* [channels] */
  ct_stored_t sample;
} stats_t;

/* Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample
 * variances", 1979. */
static void merge(moments_t *a, const moments_t *b)
{
  double n = a->n + b->n, off = b->mean - a->mean;
  if (b->n == 0) return;
  a->min = a->n == 0 ? b->min : fmin(a->min, b->min);
  a->max = a->n == 0 ? b->max : fmax(a->max, b->max);
  a->mean += off * b->n / n;
  a->squares += b->squares + off * off * a->n * b->n / n;
  a->n = n;
}

static void add_number(sums_t *s, double v)
{
  if (s->n == 0) *s = (sums_t){.origin = v, .min = v, .max = v};
  double off = v - s->origin;
  s->n++;
  s->sum += off;
  s->squares += off * off;
  s->min = fmin(s->min, v);
  s->max = fmax(s->max, v);
}

static int add_sample(stats_t *t, int64_t index, moments_t *to)
{
  int rc = CT_OK;
  double v[AT_ONCE];
  const ct_dataset_t *d = &t->s->data;
  CT_TRY(ct_dataset_stored(d, index, &t->sample, NULL));
  const ct_shape_t *x = &t->sample.shape;
  int64_t n = ct_shape_sample(x);
  memset(t->sums, 0, (size_t)t->channels * sizeof *t->sums);
  for (int64_t at = 0, some; at < n; at += some) {
    some = n - at < AT_ONCE ? n - at : AT_ONCE;
    const char *from = (const char *)t->sample.v + (size_t)at * ct_dtype_size(x->dtype);
    ct_elem_doubles(ct_elem_of_dtype(x->dtype), from, some, v);
    for (int64_t i = 0; i < some; i++) {
      if (isfinite(v[i]))
        add_number(&t->sums[ct_dataset_channel(d, x, at + i)], v[i]);
      else
        t->skipped++;
    }
  }
  for (int c = 0; c < t->channels; c++) {
    const sums_t *s = &t->sums[c];
    double mean = s->n > 0 ? s->sum / s->n : 0;
    moments_t own = {s->n, s->origin + mean, s->squares - mean * s->sum, s->min, s->max};
    merge(&to[c], &own);
  }
  ct_heartbeat_progress();
out:
  return rc;
}

static int add_own(stats_t *t)
{
  int rc = CT_OK;
  const ct_topo_t *topo = t->s->topo;
  int64_t samples = t->s->data.info.samples;
  for (int64_t p = topo->rank; p < t->parts; p += topo->size)
    for (int64_t i = p * samples / t->parts; i < (p + 1) * samples / t->parts; i++)
      CT_TRY(add_sample(t, i, &t->part[p * t->channels]));
out:
  return rc;
}

/* Gives all parts to all ranks: each number is 0 on all ranks but one, so the sum of its bits is
 * exact. */
static void share_parts(stats_t *t, int64_t *bits)
{
  int64_t n = t->parts * t->channels * FIELDS;
  memcpy(bits, t->part, (size_t)n * sizeof *bits);
  ct_agree_sum(t->s->topo, bits, n);
  memcpy(t->part, bits, (size_t)n * sizeof *bits);
  for (int64_t p = 1; p < t->parts; p++)
    for (int c = 0; c < t->channels; c++)
      merge(&t->part[c], &t->part[p * t->channels + c]);
}

static int compute(stats_t *t)
{
  int rc = CT_OK;
  int64_t samples = t->s->data.info.samples, channels = t->s->data.info.x.dim[1], *bits = NULL;
  if (channels > MOST_CHANNELS)
    CT_FAIL(CT_ERR_UNSUP, "samples have %" PRId64 " channels, expected up to %d", channels,
            MOST_CHANNELS);
  t->channels = (int)channels;
  t->parts = samples < PARTS ? samples : PARTS;
  t->part = ct_mem_array(t->parts * channels, sizeof *t->part, "the statistics");
  t->sums = ct_mem_array(channels, sizeof *t->sums, "the statistics");
  bits = ct_mem_array(t->parts * channels, sizeof(moments_t), "the statistics");
  if (!t->part || !t->sums || !bits) CT_TRY(CT_ERR_NOMEM);
out:
  if (rc == CT_OK) rc = add_own(t);
  rc = ct_agree(t->s->topo, rc);
  if (rc == CT_OK) share_parts(t, bits);
  if (rc == CT_OK) ct_agree_sum(t->s->topo, &t->skipped, 1);
  ct_mem_free(bits);
  return rc;
}

/* ---- result ---- */

static int is_extra(const ct_dataset_t *d, const char *name)
{
  for (int k = 0; k < d->extra.n; k++)
    if (strcmp(d->extra.name[k], name) == 0) return 1;
  return 0;
}

static double std_of(const moments_t *m)
{
  return sqrt(m->squares / m->n);
}

static double mean_of(const moments_t *m)
{
  return m->mean;
}

static double min_of(const moments_t *m)
{
  return m->min;
}

static double max_of(const moments_t *m)
{
  return m->max;
}

static const struct {
  const char *name;
  double (*of)(const moments_t *m);
} columns[] = {{"mean", mean_of}, {"std", std_of}, {"min", min_of}, {"max", max_of}};
enum { COLUMNS = sizeof columns / sizeof columns[0] };

/* Appends the arrays of one input, and prints them. */
static int add_array(const stats_t *t, const char *name, int first, int channels, double *v,
                     ct_h5_numbers_t *list, ct_str_t *text)
{
  int rc = CT_OK;
  for (int k = 0; k < COLUMNS; k++, v += t->channels) {
    list[k].v = v + first;
    list[k].n = channels;
    CT_TRY(ct_text_format(list[k].name, sizeof list[k].name, "%s/%s", name, columns[k].name));
    for (int c = first; c < first + channels; c++)
      v[c] = columns[k].of(&t->part[c]);
  }
  v -= (int64_t)COLUMNS * t->channels;
  for (int c = first; c < first + channels; c++) {
    CT_TRY(ct_str_add(text, "%s[%d]", name, c - first));
    for (int k = 0; k < COLUMNS; k++)
      CT_TRY(ct_str_add(text, "  %s %.6g", columns[k].name, v[(int64_t)k * t->channels + c]));
    CT_TRY(ct_str_add(text, "\n"));
  }
out:
  return rc;
}

/* Rank 0. */
static int stats_write(const stats_t *t, const char *path)
{
  int rc = CT_OK, arrays = 0, first = 0;
  const ct_dataset_t *d = &t->s->data;
  const ct_opt_texts_t *names = &t->s->cfg.data.input;
  const ct_reader_channels_t *groups = &d->info.channels;
  ct_str_t text = {0};
  ct_h5_numbers_t *list =
      ct_mem_array((int64_t)MOST_ARRAYS * COLUMNS, sizeof *list, "the statistics");
  double *v = ct_mem_array((int64_t)COLUMNS * t->channels, sizeof *v, "the statistics");
  if (!list || !v) CT_TRY(CT_ERR_NOMEM);
  if (t->skipped)
    ct_log(CT_LOG_WARN, "stats: %" PRId64 " numbers are not finite and are left out", t->skipped);
  for (int c = 0; c < t->channels; c++)
    if (t->part[c].n == 0) CT_FAIL(CT_ERR_DATA, "stats: channel %d has no finite number", c);
  for (int i = 0; i < names->n && first < t->channels; i++) {
    if (i > 0 && is_extra(d, names->v[i])) continue;
    int own = groups->groups ? (int)groups->count[arrays] : t->channels;
    CT_TRY(add_array(t, names->v[i], first, own, v, list + (int64_t)arrays * COLUMNS, &text));
    first += own;
    arrays++;
  }
  CT_TRY(ct_h5_numbers_write(path, list, arrays * COLUMNS));
  CT_TRY(ct_app_print(text.data));
out:
  ct_mem_free(v);
  ct_mem_free(list);
  ct_str_clear(&text);
  return rc;
}

/* Of windows, each frame counts once. */
static int see_frames(ct_config_t *c)
{
  int rc = CT_OK;
  if (!c->data.window) return CT_OK;
  CT_TRY(ct_yaml_set(c->data.window, "context", "1"));
  CT_TRY(ct_yaml_set(c->data.window, "stride", "1"));
out:
  return rc;
}

int ct_cmd_stats(const ct_args_t *a, const ct_topo_t *topo, int *status)
{
  enum { OWN = 3 };
  static const char *const own[OWN] = {"transforms=", "val_transforms=", "data.target="};
  int rc = CT_OK;
  ct_setup_t s = {.topo = topo, .without_loss = 1};
  stats_t t = {.s = &s};
  ct_args_t args = *a;
  const char *output = ct_args_get(a, "output");
  (void)status;
  args.set = ct_mem_array(a->sets + OWN, sizeof *args.set, "options");
  CT_TRY_ALL(topo, args.set ? CT_OK : CT_ERR_NOMEM);
  for (int i = 0; i < a->sets; i++)
    args.set[i] = a->set[i];
  for (int i = 0; i < OWN; i++)
    args.set[args.sets++] = own[i]; /* the stored numbers of samples alone */
  if (!output)
    CT_TRY_ALL(topo,
               ct_err_set(CT_ERR_USAGE, __FILE__, __LINE__, "stats: --output FILE.h5 is missing"));
  CT_TRY(ct_setup_config(&s, a->rest[0], &args));
  CT_TRY_ALL(topo, see_frames(&s.cfg));
  CT_TRY(ct_setup_data(&s, 1, 0));
  CT_TRY(compute(&t));
  CT_TRY_ALL(topo, topo->rank == 0 ? stats_write(&t, output) : CT_OK);
out:
  ct_stored_clear(&t.sample);
  ct_mem_free(t.part);
  ct_mem_free(t.sums);
  ct_mem_free(args.set);
  ct_setup_close(&s);
  return rc;
}
