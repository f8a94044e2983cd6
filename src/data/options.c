/* The options of section `data`, and which reader reads its files. */
#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_text.h"
#include "data/ct_dataset.h"
#include "data/readers/windows.h"

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
    CT_OPT_INT(ct_data_opts_t, batch_tokens, "0", 0, 1e15,
               "windows of tokens: global batch in tokens, a multiple of data.context; 0: batch "
               "decides"),
    CT_OPT_INT_OR(ct_data_opts_t, batch_per_rank, "0", 0, 1e9, "auto",
                  "batch of one rank, in samples; 0: batch decides; auto: the largest for which "
                  "train.memory suffices"),
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
    CT_OPT_INT(ct_data_opts_t, context, "0", 0, 1 << 24,
               "samples are windows of this many tokens of an array of one dim, and the label of "
               "each token is the one that follows; 0: samples are not tokens"),
    CT_OPT_INT(ct_data_opts_t, stride, "0", 0, 1 << 30,
               "context: tokens from one window to the next in training; 0: as context"),
    CT_OPT_INT(ct_data_opts_t, eval_stride, "0", 0, 1 << 24,
               "context: the same in evaluation, where each token is predicted once: of windows "
               "that overlap, only the last tokens of the later one count; 0: as context"),
    CT_OPT_CHOICE(
        ct_data_opts_t, documents, "stream", "stream|mask|pad",
        "context: stream: tokens of one document after another, as one text; mask: the first token "
        "of a document is not predicted, and the extra input input.first, by which layers keep "
        "documents apart, gives for each token the place in the window where its document begins; "
        "pad: a sample is a document, its first tokens or padded with data.pad.  Documents begin "
        "where the array document_starts says; with mask and without it after each token that the "
        "attribute eot of the tokens names"),
    CT_OPT_INT(ct_data_opts_t, pad, "-1", -1, 1 << 24,
               "context: id of padding, which is not predicted, of documents: pad and of arrays of "
               "padded rows; -1: the attribute pad of the tokens.  With mask_tokens, the extra "
               "input input.keys is 0 for padding and 1 for other tokens"),
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

/* Fills the options of windows of tokens. */
static int tokens_spec(const ct_data_opts_t *o, int training, ct_token_facts_t *out)
{
  int rc = CT_OK;
  int64_t stride = training ? o->stride : o->eval_stride;
  if (!o->context && (o->stride || o->eval_stride))
    CT_FAIL(CT_ERR_USAGE, "data.%s is of windows of tokens: set data.context",
            o->stride ? "stride" : "eval_stride");
  if (!o->context && (o->documents || o->pad >= 0))
    CT_FAIL(CT_ERR_USAGE, "data.%s is of windows of tokens: set data.context",
            o->documents ? "documents" : "pad");
  if (!training && stride > o->context)
    CT_FAIL(CT_ERR_USAGE,
            "data.eval_stride is %lld, but in evaluation each token is predicted once: at most "
            "data.context, %lld",
            (long long)stride, (long long)o->context);
  *out = (ct_token_facts_t){.context = o->context,
                            .stride = stride > 0 ? stride : o->context,
                            .documents = (ct_documents_t)o->documents,
                            .pad = o->pad,
                            .once = !training};
out:
  return rc;
}

int ct_data_spec(const ct_data_opts_t *o, const ct_opt_texts_t *files, const char *dir,
                 uint64_t seed, int64_t shape[CT_MAX_DIMS - 1], ct_reader_spec_t *out)
{
  int rc = CT_OK;
  float number;
  ct_window_t window;
  ct_token_facts_t tokens;
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
  CT_TRY(tokens_spec(o, files == &o->train, &tokens));
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
      .tokens = tokens,
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
