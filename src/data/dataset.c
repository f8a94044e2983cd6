/* A data set: chooses the reader of its files, plans the transforms, and checks labels; the options
 * of section `data`. */
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
#include "data/readers/windows.h"
#include "data/transform/transforms.h"

const ct_opt_t ct_data_rows[] = {
    CT_OPT_PATHS(ct_data_opts_t, train, "", "synthetic",
                 "files or globs to train on, or 'synthetic'"),
    CT_OPT_PATHS(ct_data_opts_t, val, "", "synthetic",
                 "files or globs to evaluate on, or 'synthetic'"),
    CT_OPT_TEXTS(ct_data_opts_t, input, "images",
                 "name of the sample array; of several arrays, those that differ from the first in "
                 "channels alone are concatenated with it along the channels, and the others are "
                 "extra inputs, which layers read by from: input.NAME"),
    CT_OPT_BOOL(ct_data_opts_t, join_inputs, "true",
                "false: each array of data.input is a separate input"),
    CT_OPT_TEXTS(
        ct_data_opts_t, target, "labels",
        "name of the array of labels, real-valued targets, or dense targets (a label or "
        "value for each pixel or voxel); several arrays of targets are concatenated, or with a "
        "list of losses one for each"),
    CT_OPT_TEXT(ct_data_opts_t, weight, "",
                "name of the array of sample weights: a factor of the loss for each sample; empty: "
                "all are equal"),
    CT_OPT_INT(ct_data_opts_t, batch, "64", 1, 1e9, "global batch, in samples"),
    CT_OPT_INT(ct_data_opts_t, batch_per_rank, "0", 0, 1e9,
               "batch of one rank, in samples; 0: batch decides"),
    CT_OPT_INT(ct_data_opts_t, eval_batch, "0", 0, 1e9,
               "global batch in evaluation, in samples; 0: as batch"),
    CT_OPT_BOOL(ct_data_opts_t, drop_last, "false",
                "in training, drop the last batch of an epoch if it is smaller than the others"),
    CT_OPT_CHOICE(ct_data_opts_t, shuffle, "true", "false|true|blocks",
                  "train in a new random order each epoch; blocks: in an order that reads each "
                  "chunk of the files once, for data that do not fit into memory"),
    CT_OPT_INT(ct_data_opts_t, lanes, "0", 0, 1e6,
               "shuffle: blocks: number of chunks from which a batch takes its samples at a time; "
               "0: chosen from the batch size"),
    CT_OPT_INT(ct_data_opts_t, workers, "1", 0, 64,
               "threads of a rank that prefetch batches; 0: read a batch when it is needed"),
    CT_OPT_INT(ct_data_opts_t, readahead, "4", 0, 1000,
               "batches ahead of the reading threads for which the operating system is asked to "
               "read from disk; 0: off"),
    CT_OPT_CHOICE(ct_data_opts_t, layout, "auto", "auto|nchw|nhwc",
                  "order of the dims of the stored samples"),
    CT_OPT_CHOICE(
        ct_data_opts_t, files, "shards", "shards|sample",
        "what an HDF5 or netCDF-4 file holds. shards: samples, along the first dim of its "
        "arrays; sample: one sample, whose arrays do not have that dim (with window: one "
        "trajectory)"),
    CT_OPT_NODE(
        ct_data_opts_t, window,
        "samples are windows of the arrays N x T x ... (with files: sample T x ...) of "
        "data.input: map of context (frames of the input, whose channels are joined frame by "
        "frame; default 1), target (frames that follow, the dense target; default 1) and "
        "stride (frames from one window to the next; default 1). The targets are frames of "
        "data.target, if it is not set of data.input"),
    CT_OPT_BOOL(ct_data_opts_t, normalize_targets, "false",
                "with window: the first to_tensor and normalize are applied to the target frames "
                "too; losses and metrics are then of normalized numbers"),
    CT_OPT_DOUBLES(ct_data_opts_t, shape, "",
                   "C, H, W (or C, D, H, W) of a sample; samples with as many elements are "
                   "reshaped to it; also the shape of synthetic data"),
    CT_OPT_CHOICE(ct_data_opts_t, cf, "auto", "auto|off",
                  "HDF5 and netCDF-4: apply the attributes scale_factor, add_offset, _FillValue, "
                  "missing_value, valid_range, valid_min, valid_max and _Unsigned of an array by "
                  "the CF conventions; missing numbers become NaN"),
    CT_OPT_TEXT(ct_data_opts_t, missing, "nan",
                "with data.cf: the number that replaces missing numbers; nan: none, and training "
                "refuses samples with missing numbers"),
    CT_OPT_INT(ct_data_opts_t, cache_mb, "256", 0, 1e7,
               "memory of a rank for decoded samples, in MB"),
    CT_OPT_DOUBLE(ct_data_opts_t, retry_s, "30", 0, 86400,
                  "seconds for which a failed read of a file is retried"),
    CT_OPT_CHOICE(
        ct_data_opts_t, on_error, "stop", "stop|skip",
        "stop: a damaged sample ends the training; skip: the next valid sample replaces it"),
    CT_OPT_INT(ct_data_opts_t, max_skipped, "100", 0, 1e15,
               "on_error: skip: abort when more samples than this are skipped in an epoch"),
    CT_OPT_TEXT(ct_data_opts_t, stage, "",
                "directory on each node, such as $TMPDIR, to which train and bench io copy the "
                "files before they read them; empty: off"),
    CT_OPT_BOOL(ct_data_opts_t, stage_keep, "false", "keep the copies at the end"),
    CT_OPT_TEXT(
        ct_data_opts_t, cache_dir, "",
        "directory on each node, such as $TMPDIR, where train and bench io cache the stored bytes "
        "of samples, so that they are read once from the file server; empty: off"),
    CT_OPT_BOOL(ct_data_opts_t, cache_keep, "false", "keep the cache at the end"),
    CT_OPT_BOOL(
        ct_data_opts_t, exact_decode, "false",
        "encoded images: always decode JPEGs at full size; otherwise training decodes them at 1/2, "
        "1/4 or 1/8 of their size where transforms downscale them at least that much"),
    CT_OPT_INT(ct_data_opts_t, samples, "1024", 1, 1e15, "synthetic: number of samples"),
    CT_OPT_INT(ct_data_opts_t, classes, "0", 0, 1e6, "synthetic: number of classes; 0: 10"),
    CT_OPT_INT(ct_data_opts_t, synthetic_targets, "0", 0, 1e6,
               "synthetic: real-valued targets per sample, instead of a class; 0: a class"),
    CT_OPT_BOOL(ct_data_opts_t, synthetic_pixels, "false",
                "synthetic: a class, or synthetic_targets, for each pixel"),
    CT_OPT_END};

/* Opens the first file that a pattern matches.  Of a directory the suffixes decide. */
static int find_by_file(const ct_format_t *const formats[], int n, const ct_reader_spec_t *spec,
                        int *row)
{
  int rc = CT_OK, files = 0;
  char **list = NULL, path[CT_PATH_MAX];
  CT_TRY(ct_path_join(path, sizeof path, spec->dir, spec->files->v[0]));
  if (!ct_file_is_dir(path)) {
    CT_TRY(ct_file_glob(spec->dir, spec->files->v[0], &list, &files));
    CT_TRY(ct_format_find(formats, n, list[0], row));
    goto out;
  }
  for (*row = 0; *row < n; (*row)++) {
    if (!formats[*row]->probe) continue;
    rc = ct_reader_list(formats[*row], spec->dir, spec->files->v[0], &list, &files);
    if (rc == CT_OK) break;
  }
out:
  ct_file_list_free(list, files);
  return rc;
}

int ct_reader_find(const ct_reader_ops_t *const readers[], const ct_reader_spec_t *spec,
                   int64_t *row)
{
  int rc = CT_OK, n = 0, found = 0;
  const ct_format_t *formats[CT_FORMATS];
  const char *first = spec->files->v[0];
  for (; readers[n] && n < CT_FORMATS; n++)
    formats[n] = &readers[n]->format;
  for (; found < n; found++) { /* the suffix of a pattern suffices: no directory is read */
    int named = !formats[found]->probe && spec->files->n == 1;
    if (named && strcmp(first, formats[found]->name) == 0) break;
    if (ct_format_has_suffix(formats[found], first)) break;
  }
  if (found == n) CT_TRY(find_by_file(formats, n, spec, &found));
  *row = found;
out:
  return rc;
}

static int read_missing(const char *text, float *out)
{
  int rc = CT_OK;
  double v;
  *out = NAN;
  if (!text || strcasecmp(text, "nan") == 0) return CT_OK;
  if (ct_text_double(text, &v) != CT_OK || !isfinite((float)v))
    CT_FAIL(CT_ERR_USAGE, "data.missing: '%.80s' is neither nan nor a number", text);
  *out = (float)v;
out:
  return rc;
}

static const ct_opt_t window_rows[] = {
    CT_OPT_INT(ct_window_t, context, "1", 1, 1e6, "frames of the input"),
    CT_OPT_INT(ct_window_t, target, "1", 1, 1e6, "frames of the target, which follow"),
    CT_OPT_INT(ct_window_t, stride, "1", 1, 1e9, "frames from one window to the next"), CT_OPT_END};

int ct_data_window(const ct_data_opts_t *o, const char *where, ct_window_t *out)
{
  int rc = CT_OK;
  *out = (ct_window_t){0};
  if (!o->window) return CT_OK;
  CT_TRY(ct_opt_defaults(window_rows, out));
  CT_TRY(ct_opt_read(window_rows, out, o->window, where, "data.window", NULL));
out:
  return rc;
}

int ct_data_spec(const ct_data_opts_t *o, const ct_opt_texts_t *files, const char *dir,
                 uint64_t seed, int64_t shape[CT_MAX_DIMS - 1], ct_reader_spec_t *out)
{
  int rc = CT_OK;
  float number;
  ct_window_t window;
  if (files->n == 0)
    CT_FAIL(CT_ERR_USAGE, "data.%s: no files are given", files == &o->val ? "val" : "train");
  if (o->stage && *o->stage && o->cache_dir && *o->cache_dir)
    CT_FAIL(CT_ERR_USAGE, "data.stage and data.cache_dir: use one of them; the copies of "
                          "data.stage are on the node's disk already");
  if (o->shape.n > CT_MAX_DIMS - 1)
    CT_FAIL(CT_ERR_USAGE, "data.shape: has %d numbers, a sample up to %d", o->shape.n,
            CT_MAX_DIMS - 1);
  for (int i = 0; i < o->shape.n; i++) {
    double v = o->shape.v[i];
    if (!(v >= 1 && v <= 1e9) || v != floor(v))
      CT_FAIL(CT_ERR_USAGE, "data.shape: %g must be an integer of at least 1", v);
    shape[i] = (int64_t)v;
  }
  CT_TRY(read_missing(o->missing, &number));
  CT_TRY(ct_data_window(o, "configuration", &window));
  ct_view_t of_shards = window.context ? CT_VIEW_TRAJECTORIES : CT_VIEW_SAMPLES;
  ct_view_t of_sample = window.context ? CT_VIEW_SAMPLES : CT_VIEW_FILE;
  *out = (ct_reader_spec_t){
      .dir = dir,
      .files = files,
      .input = o->input.n ? o->input.v[0] : "",
      .target = o->target.n ? o->target.v[0] : "",
      .inputs = &o->input,
      .targets_of = &o->target,
      .apart = !o->join_inputs,
      .weight = o->weight,
      .layout = o->layout,
      .view = o->files ? of_sample : of_shards,
      .window = window,
      .as_stored = o->cf,
      .fills_missing = !isnan(number),
      .missing = number,
      .shape = o->shape.n > 0 ? shape : NULL,
      .shape_dims = o->shape.n,
      .cache_bytes = o->cache_mb * 1000000,
      .retry_s = o->retry_s,
      .threads = o->workers > 0 ? (int)o->workers : 1,
      .samples = o->samples,
      .classes = o->classes,
      .targets = o->synthetic_targets,
      .pixels = o->synthetic_pixels,
      .seed = seed,
      .skip_bad = o->on_error,
  };
out:
  return rc;
}

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
  return ct__parts_extra(d->reader, k, n, index, x);
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
