/* A data set: plans the transforms of the samples that a reader reads, and checks labels. */
#include "data/ct_dataset.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/ct_heartbeat.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "data/feed/convert.h"
#include "data/ct_label_count.h"
#include "data/readers/ct_tiles.h"
#include "data/readers/multi_array.h"
#include "data/readers/token_windows.h"
#include "data/readers/windows.h"
#include "data/transform/transforms.h"

/* Returns 1 if a sample has the dims and channels of the largest one and is not larger. */
static int is_within(const ct_shape_t *x, const ct_shape_t *largest)
{
  int within = x->ndim == largest->ndim && x->dim[1] == largest->dim[1];
  for (int i = 0; within && i < x->ndim; i++)
    within = x->dim[i] >= 1 && x->dim[i] <= largest->dim[i];
  return within;
}

/* Checks that the transforms make all samples equal in size, before any batch is made. */
static int fit_samples(ct_dataset_t *d, const char *where)
{
  int rc = CT_OK;
  char location[256], is[64], becomes[64], wanted[64];
  ct_shape_t in, out;
  for (int64_t i = 0; i < d->info.samples && d->info.varies; i++) {
    const char *unfit = NULL;
    d->ops->shape(d->reader, i, &in);
    out = in;
    int within = is_within(&in, &d->info.x);
    if (within && d->transforms) unfit = ct__transforms_fit(d->transforms, &in, &out);
    if (within && !unfit && ct_shape_same(&out, &d->x)) continue;
    d->ops->location(d->reader, i, location, sizeof location);
    ct_shape_text(&in, is, sizeof is);
    if (!within)
      CT_FAIL(CT_ERR_FORMAT,
              "%s: has shape %s, which exceeds the largest shape that the reader reported, %s",
              location, is, ct_shape_text(&d->info.x, wanted, sizeof wanted));
    if (unfit)
      CT_FAIL(CT_ERR_USAGE, "%s: %s has shape %s, which the transform %s cannot take", where,
              location, is, unfit);
    CT_FAIL(CT_ERR_USAGE,
            "%s: samples differ in size, and after the transforms they still do: %s is %s and "
            "becomes %s, not %s; resize to [h, w], center_crop and random_resized_crop make them "
            "alike",
            where, location, is, ct_shape_text(&out, becomes, sizeof becomes),
            ct_shape_text(&d->x, wanted, sizeof wanted));
  }
out:
  return rc;
}

/* Opens several readers if there are more arrays than samples and labels. */
static int open_reader(const ct_reader_spec_t *spec, ct_dataset_t *d)
{
  int rc = CT_OK, by_pixel = 0, several = ct__parts_wanted(spec);
  const ct_reader_ops_t *ops = d->ops;
  if (spec->tokens.context) return ct__token_windows_open(spec, &d->ops, &d->reader);
  if (spec->window.context) return ct__windows_open(spec, &d->ops, &d->reader);
  if (!several || !spec->known) {
    ct_reader_spec_t first = *spec;
    if (several) first.known = NULL;
    CT_TRY(ops->open(&first, &d->reader));
    by_pixel = ops->info(d->reader)->by_pixel;
  }
  if (!several && !by_pixel) goto out;
  ops->close(d->reader);
  d->reader = NULL;
  CT_TRY(ct__parts_open(ops, spec, by_pixel, &d->reader));
  d->ops = &ct__reader_parts;
out:
  return rc;
}

/* Replaces the reader by one of tiles of its samples. */
static int cut_tiles(const struct ct_tile *tile, ct_dataset_t *d)
{
  ct_reader_t *of = d->reader;
  const ct_reader_ops_t *ops = d->ops;
  d->ops = &ct_reader_tiles;
  return ct_tiles_open(ops, of, tile, &d->reader);
}

int ct_dataset_is_whole(ct_dtype_t t)
{
  return t != CT_F32 && t != CT_F64 && t != CT_F16 && t != CT_BF16;
}

/* A target with as many dims as the samples, or one less, but another resolution cannot move along
 * with their pixels.  Refuses transforms that would move these alone. */
static int check_resolution(const ct_dataset_t *d, const char *name, const ct_shape_t *y,
                            const char *where)
{
  int rc = CT_OK, space = d->info.x.ndim - 2;
  int64_t least = INT64_MAX;
  char is[64], of[64];
  const char *moves = ct__transforms_moves(d->transforms);
  for (int i = 0; i < space && y->ndim > space; i++)
    least = y->dim[y->ndim - 1 - i] < least ? y->dim[y->ndim - 1 - i] : least;
  int is_grid = space > 1 && y->ndim - 1 - space <= 1 && least > 1 && least < INT64_MAX;
  if (!moves || !is_grid) return CT_OK;
  CT_FAIL(CT_ERR_USAGE,
          "%s: transforms: %s moves the pixels of samples, which are %s, but %s is %s and cannot "
          "move along with them",
          where, moves, strchr(ct_shape_text(&d->info.x, of, sizeof of), 'x') + 1, name,
          strchr(ct_shape_text(y, is, sizeof is), 'x') + 1);
out:
  return rc;
}

/* Plans integers for the places of a sample, which transforms leave as they are. */
static int set_places(ct_dataset_t *d, const char *where)
{
  int64_t places = ct_shape_sample(&d->info.dense_target);
  int rc = check_resolution(d, "data.target", &d->info.dense_target, where);
  d->dense_target = d->info.dense_target;
  d->dense_target.dtype = CT_F32;
  d->dense_target.layout = CT_PLAIN;
  d->pixels = d->by_class ? places : 1;
  d->classes = d->by_class ? d->info.classes : places;
  if (!d->by_class) d->info.targets = places;
  return rc;
}

/* Plans dense targets.  The transforms apply to a target as to its sample, so it has the same
 * height and width. */
static int set_dense_target(ct_dataset_t *d, int values, const char *where)
{
  int rc = CT_OK;
  if (ct__transforms_mixes(d->transforms))
    CT_FAIL(CT_ERR_USAGE,
            "%s: transforms: mixup and cutmix mix one label of a sample, but here it "
            "has a dense target",
            where);
  if (!ct__convert_can(d->info.dense_target.dtype))
    CT_FAIL(CT_ERR_UNSUP, "data.target holds %s, which cannot be trained on",
            ct_dtype_name(d->info.dense_target.dtype));
  d->by_class = ct_dataset_is_whole(d->info.dense_target.dtype) && !values;
  if (d->info.by_place) return set_places(d, where);
  d->dense_target = d->x;
  d->dense_target.dim[1] = d->info.dense_target.dim[1];
  if (d->by_class && d->dense_target.dim[1] != 1)
    CT_FAIL(CT_ERR_FORMAT, "data.target: %lld labels for each pixel or voxel, expected one",
            (long long)d->dense_target.dim[1]);
  d->pixels = d->by_class ? ct_shape_sample(&d->dense_target) : 1;
  if (d->by_class) d->classes = d->info.classes;
  if (d->targets_mapped && (d->by_class || !d->info.same_target))
    CT_FAIL(CT_ERR_USAGE, "data.normalize_targets: the targets are not frames of data.input");
  if (!d->by_class) d->info.targets = ct_shape_sample(&d->dense_target);
  if (!d->by_class) d->classes = d->dense_target.dim[1];
  ct__transforms_make_room_along(d->transforms, d->dense_target.dim[1]);
out:
  return rc;
}

/* Returns 1 if an array has a value for each pixel of a sample. */
static int has_pixels(const ct_shape_t *y, const ct_shape_t *x)
{
  int space = x->ndim - 2, same = space > 1 && y->ndim > space;
  for (int i = 0; same && i < space; i++)
    same = y->dim[y->ndim - 1 - i] == x->dim[x->ndim - 1 - i];
  return same;
}

/* Plans an array beside the samples and the first target: if it has their pixels, these move along
 * with them, and *along is the number of its channels. */
static void set_along(const ct_dataset_t *d, ct_shape_t *y, int64_t *along)
{
  int space = d->info.x.ndim - 2;
  int64_t channels = ct_shape_sample(y);
  y->dtype = CT_F32;
  y->layout = CT_PLAIN;
  if (!d->transforms || d->info.varies || !has_pixels(y, &d->info.x)) return;
  for (int i = 0; i < space; i++) {
    channels /= d->info.x.dim[2 + i];
    y->dim[y->ndim - 1 - i] = d->x.dim[d->x.ndim - 1 - i];
  }
  *along = channels;
  ct__transforms_make_room_along(d->transforms, channels);
}

/* Extra inputs are converted to float32. */
static int set_extra(ct_dataset_t *d, const char *where)
{
  int rc = CT_OK;
  d->extra = d->info.extra;
  if (d->extra.n && ct__transforms_mixes(d->transforms))
    CT_FAIL(CT_ERR_USAGE,
            "%s: transforms: mixup and cutmix mix samples of one input, but here there is input.%s "
            "too",
            where, d->extra.name[0]);
  for (int k = 0; k < d->extra.n; k++) {
    if (!ct__convert_can(d->extra.x[k].dtype))
      CT_FAIL(CT_ERR_UNSUP, "data.input: array '%s' holds %s, which cannot be trained on",
              d->extra.name[k], ct_dtype_name(d->extra.x[k].dtype));
    set_along(d, &d->extra.x[k], &d->extra_along[k]);
  }
out:
  return rc;
}

/* Further targets are converted. */
static int set_more(ct_dataset_t *d, const char *where)
{
  int rc = CT_OK;
  d->more = d->info.more;
  for (int k = 0; k < d->more.n; k++) {
    const char *name = d->more.name[k];
    if (!ct__convert_can(d->more.x[k].dtype))
      CT_FAIL(CT_ERR_UNSUP, "data.target: array '%s' holds %s, which cannot be trained on", name,
              ct_dtype_name(d->more.x[k].dtype));
    if (ct__transforms_mixes(d->transforms))
      CT_FAIL(CT_ERR_USAGE,
              "%s: transforms: mixup and cutmix mix the first target alone, but here there is '%s' "
              "too",
              where, name);
    set_along(d, &d->more.x[k], &d->more_along[k]);
    if (!d->more_along[k]) CT_TRY(check_resolution(d, name, &d->more.x[k], where));
  }
out:
  return rc;
}

int ct_dataset_open(const ct_reader_ops_t *ops, const ct_reader_spec_t *spec,
                    const ct_transforms_opts_t *transforms, const char *where, ct_dataset_t *out)
{
  int rc = CT_OK;
  ct_dataset_t d = {.ops = ops};
  *out = (ct_dataset_t){0};
  ct_reader_spec_t own = *spec;
  own.values = transforms && transforms->values;
  own.tokens.same |= transforms && ct__transforms_mask(transforms->list);
  if (transforms && !transforms->training && transforms->val_list &&
      ct__transforms_mask(transforms->val_list) != own.tokens.same)
    CT_FAIL(CT_ERR_USAGE, "%s: transforms and val_transforms: only one of them has mask_tokens",
            where);
  CT_TRY(open_reader(&own, &d));
  if (own.tile) CT_TRY(cut_tiles(own.tile, &d));
  d.info = *d.ops->info(d.reader);
  if (!ct__convert_can(d.info.x.dtype))
    CT_FAIL(CT_ERR_UNSUP, "the data set holds samples of %s, which cannot be trained on",
            ct_dtype_name(d.info.x.dtype));
  if (!d.ops->encoded || d.info.dense_target.ndim) d.info.encoded = 0; /* decoded as a whole */
  d.x = d.info.x;
  d.x.dtype = CT_F32;
  d.x.layout = CT_PLAIN;
  d.pixels = 1;
  d.classes = d.info.targets ? d.info.targets : d.info.classes;
  CT_TRY(ct__transforms_open(transforms, where, &d.info, &d.x, &d.affine, &d.transforms));
  d.targets_mapped = transforms && transforms->normalize_targets;
  if (d.targets_mapped && !d.info.dense_target.ndim)
    d.targets_mapped = 0; /* data without targets: nothing to map */
  if (own.tile && !ct_shape_same(&d.x, &d.info.x))
    CT_FAIL(CT_ERR_USAGE,
            "%s: a transform changes the size of samples: with --tile they stay as "
            "they are stored; set val_transforms",
            where);
  if (d.info.dense_target.ndim)
    CT_TRY(set_dense_target(&d, transforms && transforms->values, where));
  CT_TRY(set_extra(&d, where));
  CT_TRY(set_more(&d, where));
  CT_TRY(fit_samples(&d, where));
  CT_TRY(ct__decode_time_take(&d.transforms, &d.info, &d.decode_time));
  d.reduces = transforms && transforms->training && !transforms->exact_decode;
  *out = d;
  d.reader = NULL;
out:
  if (d.reader) ct_dataset_close(&d);
  return rc;
}

void ct_dataset_close(ct_dataset_t *d)
{
  if (!d || !d->ops) return;
  d->ops->close(d->reader);
  ct__transforms_close(d->transforms);
  ct__decode_time_close(d->decode_time);
  *d = (ct_dataset_t){0};
}

int ct_dataset_extra(const ct_dataset_t *d, int k, int n, const int64_t index[], void *x)
{
  return d->ops->extra(d->reader, k, n, index, x);
}

int ct_dataset_more(const ct_dataset_t *d, int k, int n, const int64_t index[], void *y)
{
  return ct__parts_more(d->reader, k, n, index, y);
}

int ct_dataset_weights(const ct_dataset_t *d, int n, const int64_t index[], float *weights)
{
  return ct__parts_weights(d->reader, n, index, weights);
}

int64_t ct_dataset_channel(const ct_dataset_t *d, const ct_shape_t *x, int64_t i)
{
  int64_t channels = x->dim[1], plane = ct_shape_sample(x) / channels, first = 0;
  const ct_reader_channels_t *parts = &d->info.channels;
  for (int g = 0, n = parts->groups; n > 0; first += parts->count[g], g = (g + 1) % n) {
    if (g == 0) first = 0;
    int64_t own = parts->count[g] * plane;
    if (i < own) return first + (parts->last[g] ? i % parts->count[g] : i / plane);
    i -= own;
  }
  return d->info.channels_last ? i % channels : i / plane;
}

int ct_dataset_blocks(const ct_dataset_t *d, ct_blocks_t **out)
{
  int rc = CT_OK, n = 0;
  int64_t cap = 0;
  ct_block_run_t alone = {0, d->info.samples, 1}, run, *runs = NULL;
  *out = NULL;
  if (!d->ops->blocks) return ct_blocks_make(&alone, 1, out);
  while (d->ops->blocks(d->reader, n, &run)) {
    CT_TRY(ct_mem_grow((void **)&runs, &cap, n + 1, sizeof *runs));
    runs[n++] = run;
  }
  CT_TRY(ct_blocks_make(runs, n, out));
out:
  ct_mem_free(runs);
  return rc;
}

int ct_dataset_is_bytes(const ct_dataset_t *d)
{
  return d->info.x.dtype == CT_U8 && !d->info.varies && !d->info.channels.groups &&
         ct__transforms_keeps_bytes(d->transforms);
}

/* Warns of a very large label: a single damaged one may be the cause. */
static void warn_of_label(const ct_dataset_t *d, int64_t id, int64_t label)
{
  char location[256];
  d->ops->location(d->reader, id, location, sizeof location);
  ct_log(
      CT_LOG_WARN,
      "%s: has label %lld, so there are %lld classes for %lld samples: if it is right, say so in "
      "model.classes",
      location, (long long)label, (long long)label + 1, (long long)d->info.samples);
}

int ct_dataset_count_classes(ct_dataset_t *d, int64_t limit)
{
  enum { AT_ONCE = 512 };
  int rc = CT_OK;
  int64_t ids[AT_ONCE], labels[AT_ONCE], highest = -1, highest_id = 0;
  int64_t end = limit > 0 && limit < d->info.samples ? limit : d->info.samples;
  char location[256];
  ct_label_count_t count = {0};
  for (int64_t first = 0; first < end; first += AT_ONCE) {
    int n = end - first < AT_ONCE ? (int)(end - first) : AT_ONCE;
    for (int i = 0; i < n; i++)
      ids[i] = first + i;
    CT_TRY(d->ops->read(d->reader, n, ids, NULL, labels));
    ct_heartbeat_progress();
    for (int i = 0; i < n; i++) {
      if (d->has_ignored && labels[i] == d->ignored) continue;
      if (labels[i] > highest) {
        highest = labels[i];
        highest_id = ids[i];
      }
      if (labels[i] >= 0 && labels[i] < CT_CLASSES_MAX) {
        CT_TRY(ct_label_count_add(&count, labels[i]));
        continue;
      }
      d->ops->location(d->reader, ids[i], location, sizeof location);
      CT_FAIL(CT_ERR_DATA,
              "%s: label %lld is not a class number (classes count from 0); up to %d classes are "
              "expected",
              location, (long long)labels[i], CT_CLASSES_MAX);
    }
  }
  d->classes = highest + 1;
  if (highest >= d->info.samples)
    warn_of_label(d, highest_id, highest);
  else
    ct_label_count_warn(&count, "data");
out:
  ct_label_count_clear(&count);
  return rc;
}
