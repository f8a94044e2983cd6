/* Samples that are windows of tokens.  A window is read by one request of one token more than the
 * context, which gives the input and, one place later, the labels. */
#include "data/readers/token_windows.h"

#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_hash.h"
#include "base/ct_mem.h"

enum { AT_ONCE = 4096 /* tokens that are read together */ };

struct ct_reader {
  ct_reader_info_t info;
  const ct_reader_ops_t *ops;
  ct_reader_t *of; /* owned: the tokens, one after another */
  ct_tokens_t opts;
  int64_t vocab;
  int files;
  int64_t *first;   /* [files + 1] owned: first token */
  int64_t *windows; /* [files + 1] owned: number of the first window */
};

/* ---- opening ---- */

static void tokens_close(ct_reader_t *r)
{
  if (!r) return;
  if (r->of) r->ops->close(r->of);
  ct_mem_free(r->first);
  ct_mem_free(r->windows);
  ct_mem_free(r);
}

static int64_t count_windows(const ct_tokens_t *o, int64_t tokens)
{
  int64_t later = tokens - 1 - o->context;
  return 1 + (later + (o->once ? o->stride - 1 : 0)) / o->stride;
}

static int number_windows(ct_reader_t *r)
{
  int rc = CT_OK, n = 0;
  ct_block_run_t run;
  while (r->ops->blocks(r->of, n, &run))
    n++;
  r->first = ct_mem_array(n + 1, sizeof *r->first, "the files of tokens");
  r->windows = ct_mem_array(n + 1, sizeof *r->windows, "the files of tokens");
  if (!r->first || !r->windows) return CT_ERR_NOMEM;
  for (int i = 0; i < n; i++) {
    const char *file = r->ops->file(r->of, i);
    r->ops->blocks(r->of, i, &run);
    if (run.samples <= r->opts.context)
      CT_FAIL(CT_ERR_FORMAT,
              "%s: holds %lld tokens, expected at least %lld: those of data.context and the one "
              "that follows",
              file ? file : "synthetic tokens", (long long)run.samples,
              (long long)r->opts.context + 1);
    r->first[i] = run.first;
    r->first[i + 1] = run.first + run.samples;
    r->windows[i + 1] = r->windows[i] + count_windows(&r->opts, run.samples);
  }
  r->files = n;
  r->info.samples = r->windows[n];
out:
  return rc;
}

static uint64_t tokens_fingerprint(const ct_reader_t *r)
{
  uint64_t h = ct_hash_int((int64_t)r->info.fingerprint, 0);
  h = ct_hash_int(r->opts.context, ct_hash_int(r->opts.stride, h));
  return ct_hash_int(r->opts.once, h);
}

static void describe(ct_reader_t *r, const ct_reader_spec_t *spec)
{
  const ct_reader_info_t *of = r->ops->info(r->of);
  r->info = *of;
  r->info.x = ct_shape(2, 1, r->opts.context);
  r->info.x.dtype = CT_I32;
  r->info.wide = 0;
  r->vocab = r->info.classes > 0 ? r->info.classes : CT_CLASSES_MAX;
  if (r->opts.vocab > 0 && r->opts.vocab < r->vocab) r->vocab = r->opts.vocab;
  r->info.unlabelled = !spec->target[0];
  if (r->info.unlabelled) return;
  r->info.dense_target = r->info.x;
  r->info.by_place = 1;
}

static int check_spec(const ct_reader_spec_t *spec, const ct_reader_ops_t *ops)
{
  int rc = CT_OK;
  if (!ops->range)
    CT_FAIL(CT_ERR_USAGE, "data.context is for tokens in HDF5 files, not for %s", ops->format.name);
  if (spec->window.context) CT_FAIL(CT_ERR_USAGE, "data.context and data.window: use one of them");
  if (spec->weight && spec->weight[0])
    CT_FAIL(CT_ERR_USAGE, "data.weight: windows of tokens (data.context) do not have weights");
  if (spec->view != CT_VIEW_SAMPLES)
    CT_FAIL(CT_ERR_USAGE, "data.files: sample: files of tokens (data.context) are shards");
  if (spec->shape)
    CT_FAIL(CT_ERR_USAGE, "data.shape: samples of tokens have the length of data.context");
  if (spec->inputs && spec->inputs->n > 1)
    CT_FAIL(CT_ERR_USAGE, "data.input: names %d arrays, but tokens (data.context) are in one",
            spec->inputs->n);
  if (spec->targets_apart)
    CT_FAIL(CT_ERR_USAGE, "loss: windows of tokens (data.context) have one target, so one loss");
out:
  return rc;
}

int ct__token_windows_open(const ct_reader_spec_t *spec, const ct_reader_ops_t **ops,
                           ct_reader_t **out)
{
  int rc = CT_OK;
  ct_reader_t *r = NULL;
  ct_reader_spec_t of = *spec;
  *out = NULL;
  if (*ops == &ct_reader_synthetic) *ops = &ct__reader_synthetic_tokens;
  CT_TRY(check_spec(spec, *ops));
  r = ct_mem_alloc(sizeof *r, "the windows of tokens");
  if (!r) CT_TRY(CT_ERR_NOMEM);
  r->ops = *ops;
  r->opts = spec->tokens;
  of.target = "";
  of.targets_of = NULL;
  of.as_stored = 1;
  CT_TRY((*ops)->open(&of, &r->of));
  describe(r, spec);
  CT_TRY(number_windows(r));
  r->info.fingerprint = tokens_fingerprint(r);
  snprintf(r->info.seen, sizeof r->info.seen, "%lld windows of %lld tokens, every %lld, of %lld",
           (long long)r->info.samples, (long long)r->opts.context, (long long)r->opts.stride,
           (long long)r->first[r->files]);
  *ops = &ct__reader_token_windows;
  *out = r;
  r = NULL;
out:
  tokens_close(r);
  return rc;
}

/* Never called: ct__token_windows_open() opens it. */
static int windows_open(const ct_reader_spec_t *spec, ct_reader_t **out)
{
  (void)spec;
  *out = NULL;
  return ct_err_set(CT_ERR_UNSUP, __FILE__, __LINE__, "windows cannot be selected as a reader");
}

static int tokens_share(const ct_reader_t *r, void **bytes, size_t *n)
{
  return r->ops->share(r->of, bytes, n);
}

/* ---- reading ---- */

/* A window in its file. */
typedef struct token_window {
  int64_t first; /* token in the data set */
  int64_t new;   /* number of its last labels that no earlier window has */
} token_window_t;

static int file_of(const ct_reader_t *r, int64_t index)
{
  int low = 0, high = r->files - 1;
  while (low < high) {
    int middle = low + (high - low + 1) / 2;
    if (r->windows[middle] <= index)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

static token_window_t window_of(const ct_reader_t *r, int64_t index)
{
  int file = file_of(r, index);
  int64_t begin = r->first[file], last = r->first[file + 1] - 1 - r->opts.context;
  int64_t i = index - r->windows[file], at = begin + i * r->opts.stride;
  token_window_t w = {at < last ? at : last, r->opts.context};
  if (r->opts.once && i > 0) w.new = w.first - (at - r->opts.stride);
  if (w.new > r->opts.context) w.new = r->opts.context;
  return w;
}

static int64_t id_at(ct_dtype_t type, const void *ids, int64_t i)
{
  return ct_dtype_whole(type, (const char *)ids + (size_t)i * ct_dtype_size(type));
}

static int refuse_id(const ct_reader_t *r, int64_t place, int64_t id)
{
  char location[300];
  r->ops->location(r->of, place, location, sizeof location);
  return ct_err_set(CT_ERR_DATA, __FILE__, __LINE__, "%s: id %lld is not in 0 to %lld (vocabulary)",
                    location, (long long)id, (long long)r->vocab - 1);
}

/* Reads the tokens of a window into x, and from the second one on into y. */
static int read_window(ct_reader_t *r, int64_t first, int32_t *x, int32_t *y)
{
  int rc = CT_OK;
  int64_t ids[AT_ONCE + 1], context = r->opts.context, n = 0;
  ct_dtype_t type = r->ops->info(r->of)->x.dtype;
  for (int64_t done = 0; done <= context; done += n) {
    n = context + 1 - done < AT_ONCE + 1 ? context + 1 - done : AT_ONCE + 1;
    CT_TRY(r->ops->range(r->of, first + done, n, ids));
    for (int64_t i = 0; i < n; i++) {
      int64_t id = id_at(type, ids, i), to = done + i;
      if (id < 0 || id >= r->vocab) return refuse_id(r, first + to, id);
      if (x && to < context) x[to] = (int32_t)id;
      if (y && to > 0) y[to - 1] = (int32_t)id;
    }
  }
out:
  return rc;
}

static int tokens_read(ct_reader_t *r, int n, const int64_t index[], void *x, void *y)
{
  int rc = CT_OK;
  int64_t context = r->opts.context;
  int32_t *to_x = x, *to_y = r->info.unlabelled ? NULL : y;
  if (y && r->info.unlabelled) memset(y, 0, (size_t)n * sizeof(int64_t));
  for (int i = 0; i < n; i++) {
    if (index[i] < 0 || index[i] >= r->info.samples)
      CT_FAIL(CT_ERR_ARG, "sample %lld is out of range: there are %lld", (long long)index[i],
              (long long)r->info.samples);
    token_window_t w = window_of(r, index[i]);
    CT_TRY(read_window(r, w.first, to_x, to_y));
    for (int64_t k = 0; to_y && k < context - w.new; k++)
      to_y[k] = (int32_t)r->opts.ignored;
    if (to_x) to_x += context;
    if (to_y) to_y += context;
  }
out:
  return rc;
}

static void tokens_ahead(ct_reader_t *r, int n, const int64_t index[])
{
  enum { MOST = 64 };
  int64_t ids[MOST], rows = r->ops->info(r->of)->layout.block_rows;
  for (int i = 0; r->ops->ahead && i < n; i++) {
    int64_t first = window_of(r, index[i]).first;
    int some = 0;
    for (int64_t at = 0; at < r->opts.context && some<MOST - 1; at += rows> 0 ? rows : 1)
      ids[some++] = first + at;
    ids[some++] = first + r->opts.context;
    r->ops->ahead(r->of, some, ids);
  }
}

static int tokens_blocks(const ct_reader_t *r, int i, ct_block_run_t *out)
{
  if (i >= r->files) return 0;
  r->ops->blocks(r->of, i, out);
  int64_t rows = out->rows / r->opts.stride;
  *out = (ct_block_run_t){r->windows[i], r->windows[i + 1] - r->windows[i], rows > 0 ? rows : 1};
  return 1;
}

static const ct_reader_info_t *tokens_info(const ct_reader_t *r)
{
  return &r->info;
}

static const char *tokens_file(const ct_reader_t *r, int i)
{
  return r->ops->file(r->of, i);
}

static int tokens_move(ct_reader_t *r, int i, const char *path)
{
  return r->ops->move(r->of, i, path);
}

static void tokens_keep_in(ct_reader_t *r, ct_cache_t *cache)
{
  if (r->ops->keep_in) r->ops->keep_in(r->of, cache);
}

static void tokens_location(const ct_reader_t *r, int64_t index, char *buf, size_t cap)
{
  r->ops->location(r->of, window_of(r, index).first, buf, cap);
}

const ct_reader_ops_t ct__reader_token_windows = {
    .format = {.name = "tokens"},
    .open = windows_open,
    .share = tokens_share,
    .file = tokens_file,
    .move = tokens_move,
    .keep_in = tokens_keep_in,
    .info = tokens_info,
    .blocks = tokens_blocks,
    .ahead = tokens_ahead,
    .read = tokens_read,
    .location = tokens_location,
    .close = tokens_close,
};
