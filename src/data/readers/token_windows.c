/* Samples that are windows of tokens.  A window is read by one request of one token more than the
 * context, which gives the input and, one place later, the labels. */
#include "data/readers/token_windows.h"

#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_hash.h"
#include "base/ct_mem.h"

enum {
  AT_ONCE = 4096, /* tokens that are read together */
  STARTS = 64     /* places of documents that are read together */
};

struct ct_reader {
  ct_reader_info_t info;
  const ct_reader_ops_t *ops;
  ct_reader_t *of;      /* owned: the tokens, one after another */
  ct_reader_t *starts;  /* owned: where documents begin in their file; NULL: not read */
  int64_t *first_start; /* [files + 1] owned: number of the first document of a file */
  ct_token_facts_t opts;
  int64_t vocab, pad;
  int64_t span; /* tokens of a window */
  int rows;     /* 1: samples are rows of an array of two dims */
  int files;
  int64_t *first;   /* [files + 1] owned: first token */
  int64_t *windows; /* [files + 1] owned: number of the first window */
};

/* ---- opening ---- */

static void tokens_close(ct_reader_t *r)
{
  if (!r) return;
  if (r->of) r->ops->close(r->of);
  if (r->starts) r->ops->close(r->starts);
  ct_mem_free(r->first_start);
  ct_mem_free(r->first);
  ct_mem_free(r->windows);
  ct_mem_free(r);
}

static int64_t count_windows(const ct_reader_t *r, int64_t tokens)
{
  int64_t later = tokens - r->span, stride = r->opts.stride;
  return r->rows ? tokens : 1 + (later + (r->opts.once ? stride - 1 : 0)) / stride;
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
    if (run.samples < r->span && !r->rows && r->opts.documents != CT_DOCUMENTS_PAD)
      CT_FAIL(CT_ERR_FORMAT,
              "%s: holds %lld tokens, expected at least %lld: those of data.context%s",
              file ? file : "synthetic tokens", (long long)run.samples, (long long)r->span,
              r->opts.same ? "" : " and the one that follows");
    r->first[i] = run.first;
    r->first[i + 1] = run.first + run.samples;
    r->windows[i + 1] = r->windows[i] + count_windows(r, run.samples);
  }
  r->files = n;
  r->info.samples = r->windows[n];
  r->info.tokens = r->first[n] * (r->rows ? r->span : 1);
out:
  return rc;
}

/* Opens the array of the places where documents begin. */
static int open_starts(ct_reader_t *r, const ct_reader_spec_t *spec)
{
  int rc = CT_OK;
  ct_block_run_t run;
  ct_reader_spec_t starts = *spec;
  const char *file = r->ops->file(r->of, 0);
  int pads = r->opts.documents == CT_DOCUMENTS_PAD;
  if (!r->info.documents && (r->info.eot < 0 || pads))
    CT_FAIL(CT_ERR_USAGE, "data.documents: %s has %s array 'document_starts'%s%s%s",
            file ? file : "synthetic data", pads ? "no" : "neither an",
            pads ? "" : " nor an attribute 'eot' at its array '", pads ? "" : spec->input,
            pads ? "" : "'");
  if (pads && r->pad < 0)
    CT_FAIL(CT_ERR_USAGE, "data.pad is not set, and %s has no attribute 'pad' at its array '%s'",
            file, spec->input);
  if (!r->info.documents) return CT_OK;
  starts.input = "document_starts";
  CT_TRY(r->ops->open(&starts, &r->starts));
  r->first_start = ct_mem_array(r->files + 1, sizeof *r->first_start, "the documents of files");
  if (!r->first_start) CT_TRY(CT_ERR_NOMEM);
  for (int i = 0; i < r->files && r->ops->blocks(r->starts, i, &run); i++) {
    r->first_start[i] = run.first;
    r->first_start[i + 1] = run.first + run.samples;
  }
  if (!pads) goto out;
  memcpy(r->windows, r->first_start, (size_t)(r->files + 1) * sizeof *r->windows);
  r->info.samples = r->windows[r->files];
out:
  return rc;
}

static uint64_t tokens_fingerprint(const ct_reader_t *r)
{
  uint64_t h = ct_hash_int((int64_t)r->info.fingerprint, 0);
  h = ct_hash_int(r->opts.context, ct_hash_int(r->opts.stride, h));
  h = ct_hash_int(r->opts.once, ct_hash_int(r->opts.documents, h));
  h = ct_hash_int(r->opts.same, ct_hash_int(r->pad, h));
  return r->starts ? ct_hash_int((int64_t)r->ops->info(r->starts)->fingerprint, h) : h;
}

static void describe(ct_reader_t *r, const ct_reader_spec_t *spec)
{
  const ct_reader_info_t *of = r->ops->info(r->of);
  r->info = *of;
  r->info.x = ct_shape(2, 1, r->opts.context);
  r->info.x.dtype = CT_I32;
  r->info.wide = 0;
  if (r->opts.same) r->info.text_bytes = 0; /* not all tokens are predicted */
  r->vocab = r->info.classes > 0 ? r->info.classes : CT_CLASSES_MAX;
  if (r->opts.vocab > 0 && r->opts.vocab < r->vocab) r->vocab = r->opts.vocab;
  r->info.unlabelled = !spec->target[0];
  r->pad = r->info.pad = r->opts.pad >= 0 ? r->opts.pad : r->info.pad;
  const char *extra = r->opts.documents == CT_DOCUMENTS_MASK ? "first" : "keys";
  int padded = (r->rows && r->pad >= 0) || r->opts.documents == CT_DOCUMENTS_PAD;
  if (r->opts.documents == CT_DOCUMENTS_MASK || (padded && r->opts.same)) {
    r->info.extra = (ct_inputs_t){.n = 1, .x = {r->info.x}};
    snprintf(r->info.extra.name[0], sizeof r->info.extra.name[0], "%s", extra);
    r->info.extra_last[0] = 0;
  }
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

/* Rows are samples as they are. */
static int check_rows(const ct_reader_t *r, const ct_reader_spec_t *spec)
{
  int rc = CT_OK;
  const char *file = r->ops->file(r->of, 0);
  int64_t width = r->ops->info(r->of)->x.dim[1];
  if (r->opts.documents)
    CT_FAIL(CT_ERR_USAGE, "data.documents: %s: the rows of array '%s' are samples by themselves",
            file, spec->input);
  if (width != r->span || width > AT_ONCE + 1)
    CT_FAIL(CT_ERR_FORMAT,
            "%s: array '%s' has rows of %lld tokens, expected %lld, and at most %d: "
            "those of data.context%s",
            file, spec->input, (long long)width, (long long)r->span, AT_ONCE + 1,
            r->opts.same ? "" : " and the one that follows");
out:
  return rc;
}

/* Splits the data of rank 0: bytes of the tokens' part, that part, the part of the documents. */
static int split_known(const ct_reader_spec_t *spec, ct_reader_spec_t *of, ct_reader_spec_t *starts)
{
  int64_t bytes = -1;
  const char *known = spec->known;
  if (!known) return CT_OK;
  if (spec->known_bytes >= sizeof bytes) memcpy(&bytes, known, sizeof bytes);
  if (bytes < 0 || (uint64_t)bytes > spec->known_bytes - sizeof bytes)
    return ct_err_set(CT_ERR_FORMAT, __FILE__, __LINE__,
                      "the description of the data from rank 0 is truncated");
  of->known = known + sizeof bytes;
  of->known_bytes = (size_t)bytes;
  starts->known = known + sizeof bytes + bytes;
  starts->known_bytes = spec->known_bytes - sizeof bytes - (size_t)bytes;
  return CT_OK;
}

int ct__token_windows_open(const ct_reader_spec_t *spec, const ct_reader_ops_t **ops,
                           ct_reader_t **out)
{
  int rc = CT_OK;
  ct_reader_t *r = NULL;
  ct_reader_spec_t of = *spec, starts;
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
  starts = of;
  CT_TRY(split_known(spec, &of, &starts));
  CT_TRY((*ops)->open(&of, &r->of));
  r->span = r->opts.context + !r->opts.same;
  r->rows = r->ops->info(r->of)->x.dim[1] > 1;
  if (r->rows) CT_TRY(check_rows(r, spec));
  describe(r, spec);
  CT_TRY(number_windows(r));
  if (r->opts.documents) CT_TRY(open_starts(r, &starts));
  r->info.fingerprint = tokens_fingerprint(r);
  if (r->rows || r->opts.documents == CT_DOCUMENTS_PAD)
    snprintf(r->info.seen, sizeof r->info.seen, "%lld %s, of up to %lld tokens",
             (long long)r->info.samples, r->rows ? "rows" : "documents", (long long)r->span);
  else
    snprintf(r->info.seen, sizeof r->info.seen, "%lld windows of %lld tokens, every %lld, of %lld",
             (long long)r->info.samples, (long long)r->opts.context, (long long)r->opts.stride,
             (long long)r->info.tokens);
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
  int rc = CT_OK;
  void *of = NULL, *starts = NULL;
  size_t of_bytes = 0, starts_bytes = 0;
  CT_TRY(r->ops->share(r->of, &of, &of_bytes));
  if (r->starts) CT_TRY(r->ops->share(r->starts, &starts, &starts_bytes));
  int64_t first = (int64_t)of_bytes;
  *n = sizeof first + of_bytes + starts_bytes;
  char *to = *bytes = ct_mem_alloc(*n, "the description of the data");
  if (!to) CT_TRY(CT_ERR_NOMEM);
  memcpy(to, &first, sizeof first);
  if (of_bytes) memcpy(to + sizeof first, of, of_bytes);
  if (starts_bytes) memcpy(to + sizeof first + of_bytes, starts, starts_bytes);
out:
  ct_mem_free(of);
  ct_mem_free(starts);
  return rc;
}

/* ---- reading ---- */

/* A window in its file. */
typedef struct token_window {
  int file;
  int64_t first;  /* token in the data set, or row */
  int64_t tokens; /* before the padding */
  int64_t new;    /* number of its last labels that no earlier window has */
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

static int64_t id_at(ct_dtype_t type, const void *ids, int64_t i)
{
  return ct_dtype_whole(type, (const char *)ids + (size_t)i * ct_dtype_size(type));
}

static int starts_read(ct_reader_t *r, int64_t first, int n, int64_t *out)
{
  int64_t stored[STARTS];
  ct_dtype_t type = r->ops->info(r->starts)->x.dtype;
  int rc = r->ops->range(r->starts, first, n, stored);
  for (int i = 0; rc == CT_OK && i < n; i++)
    out[i] = id_at(type, stored, i);
  return rc;
}

/* Finds a document, which is a sample. */
static int document_of(ct_reader_t *r, int64_t index, token_window_t *w)
{
  int rc = CT_OK, last = index + 1 == r->first_start[w->file + 1];
  int64_t length = r->first[w->file + 1] - r->first[w->file], at[2] = {0, length};
  CT_TRY(starts_read(r, index, last ? 1 : 2, at));
  if (at[0] < 0 || at[0] >= at[1] || at[1] > length)
    CT_FAIL(CT_ERR_FORMAT,
            "%s: document %lld of array 'document_starts' goes from token %lld to %lld, of %lld",
            r->ops->file(r->of, w->file), (long long)(index - r->first_start[w->file]),
            (long long)at[0], (long long)at[1], (long long)length);
  w->first = r->first[w->file] + at[0];
  w->tokens = at[1] - at[0] < r->span ? at[1] - at[0] : r->span;
out:
  return rc;
}

static int window_of(ct_reader_t *r, int64_t index, token_window_t *w)
{
  int rc = CT_OK, file = file_of(r, index);
  *w = (token_window_t){file, index, r->span, r->opts.context};
  if (r->rows) return CT_OK;
  if (r->opts.documents == CT_DOCUMENTS_PAD) return document_of(r, index, w);
  int64_t begin = r->first[file], last = r->first[file + 1] - r->span;
  int64_t i = index - r->windows[file], at = begin + i * r->opts.stride;
  w->first = at < last ? at : last;
  if (r->opts.once && i > 0) w->new = w->first - (at - r->opts.stride);
  return rc;
}

static int refuse_id(const ct_reader_t *r, int64_t place, int64_t id)
{
  char location[300];
  r->ops->location(r->of, place, location, sizeof location);
  return ct_err_set(CT_ERR_DATA, __FILE__, __LINE__, "%s: id %lld is not in 0 to %lld (vocabulary)",
                    location, (long long)id, (long long)r->vocab - 1);
}

/* The tokens of a window, read in pieces. */
static int read_ids(ct_reader_t *r, const token_window_t *w, int64_t done, int64_t n, int64_t *ids)
{
  return r->ops->range(r->of, r->rows ? w->first : w->first + done, r->rows ? 1 : n, ids);
}

/* Writes the tokens of a window to x, and the label of each to y. */
static int read_window(ct_reader_t *r, const token_window_t *w, int32_t *x, int32_t *y)
{
  int rc = CT_OK;
  int64_t ids[AT_ONCE + 1], context = r->opts.context, n = 0, last = -1, shift = !r->opts.same;
  int64_t eot = r->opts.documents && !r->starts ? r->info.eot : INT64_MIN;
  ct_dtype_t type = r->ops->info(r->of)->x.dtype;
  for (int64_t done = 0; done < w->tokens; done += n) {
    n = w->tokens - done < AT_ONCE + 1 ? w->tokens - done : AT_ONCE + 1;
    CT_TRY(read_ids(r, w, done, n, ids));
    for (int64_t i = 0; i < n; i++) {
      int64_t id = id_at(type, ids, i), to = done + i;
      if (id < 0 || id >= r->vocab) return refuse_id(r, w->first + (r->rows ? 0 : to), id);
      int is_label = shift ? last != eot : 1;
      if (x && to < context) x[to] = (int32_t)id;
      if (y && to >= shift)
        y[to - shift] = (int32_t)(is_label && id != r->pad ? id : r->opts.ignored);
      last = id;
    }
  }
  for (int64_t to = w->tokens; to < r->span; to++) {
    if (x && to < context) x[to] = (int32_t)r->pad;
    if (y && to >= shift) y[to - shift] = (int32_t)r->opts.ignored;
  }
out:
  return rc;
}

/* ---- documents ---- */

/* The documents that begin in a window, one after another. */
typedef struct starts {
  int64_t next, end; /* documents of the file that are not read yet */
  int64_t begin;     /* first token of the file */
  int64_t have[STARTS];
  int n, used;
} starts_t;

/* Finds the first document that begins at a token of the data set or later. */
static int starts_find(ct_reader_t *r, int file, int64_t token, starts_t *s)
{
  int rc = CT_OK;
  int64_t place = token - r->first[file], at;
  *s = (starts_t){
      .next = r->first_start[file], .end = r->first_start[file + 1], .begin = r->first[file]};
  for (int64_t high = s->end; s->next < high;) {
    int64_t middle = s->next + (high - s->next) / 2;
    CT_TRY(starts_read(r, middle, 1, &at));
    if (at < place)
      s->next = middle + 1;
    else
      high = middle;
  }
out:
  return rc;
}

/* Returns in *token where the next document begins; INT64_MAX: there is none in the file. */
static int starts_next(ct_reader_t *r, starts_t *s, int64_t *token)
{
  int rc = CT_OK;
  *token = INT64_MAX;
  if (s->used == s->n) {
    s->n = s->end - s->next < STARTS ? (int)(s->end - s->next) : STARTS;
    s->used = 0;
    if (s->n == 0) return CT_OK;
    CT_TRY(starts_read(r, s->next, s->n, s->have));
    s->next += s->n;
  }
  *token = s->begin + s->have[s->used++];
out:
  return rc;
}

/* Ignores the labels of a window that begin a document. */
static int ignore_starts(ct_reader_t *r, const token_window_t *w, int32_t *y)
{
  int rc = CT_OK;
  int64_t token, after = w->first;
  starts_t s;
  CT_TRY(starts_find(r, w->file, w->first + 1, &s));
  for (;; after = token) {
    CT_TRY(starts_next(r, &s, &token));
    if (token > w->first + r->opts.context) break;
    if (token <= after)
      CT_FAIL(CT_ERR_FORMAT, "%s: the places in array 'document_starts' do not ascend",
              r->ops->file(r->of, w->file));
    y[token - w->first - 1] = (int32_t)r->opts.ignored;
  }
out:
  return rc;
}

/* Writes for each token of a window the place in it where its document begins. */
static int write_first(ct_reader_t *r, const token_window_t *w, int32_t *out)
{
  int rc = CT_OK;
  int64_t context = r->opts.context, token = INT64_MAX, begin = 0;
  starts_t s;
  if (!r->starts) CT_TRY(read_window(r, w, out, NULL));
  if (r->starts) CT_TRY(starts_find(r, w->file, w->first + 1, &s));
  if (r->starts) CT_TRY(starts_next(r, &s, &token));
  for (int64_t i = 0; i < context; i++) {
    int ends = !r->starts && out[i] == r->info.eot;
    if (w->first + i == token) {
      begin = i;
      CT_TRY(starts_next(r, &s, &token));
    }
    out[i] = (int32_t)begin;
    if (ends) begin = i + 1;
  }
out:
  return rc;
}

/* Writes 1 for each token and 0 for padding. */
static int write_keys(ct_reader_t *r, const token_window_t *w, int32_t *out)
{
  int rc = read_window(r, w, out, NULL);
  for (int64_t i = 0; i < r->opts.context; i++)
    out[i] = i < w->tokens && out[i] != r->pad;
  return rc;
}

static int tokens_extra(ct_reader_t *r, int k, int n, const int64_t index[], void *x)
{
  int rc = CT_OK, first = r->opts.documents == CT_DOCUMENTS_MASK;
  token_window_t w;
  (void)k;
  for (int i = 0; i < n; i++) {
    int32_t *to = (int32_t *)x + i * r->opts.context;
    CT_TRY(window_of(r, index[i], &w));
    CT_TRY(first ? write_first(r, &w, to) : write_keys(r, &w, to));
  }
out:
  return rc;
}

/* ---- samples ---- */

static int tokens_read(ct_reader_t *r, int n, const int64_t index[], void *x, void *y)
{
  int rc = CT_OK, masks = r->starts && r->opts.documents == CT_DOCUMENTS_MASK && !r->opts.same;
  int64_t context = r->opts.context;
  int32_t *to_x = x, *to_y = r->info.unlabelled ? NULL : y;
  token_window_t w;
  if (y && r->info.unlabelled) memset(y, 0, (size_t)n * sizeof(int64_t));
  for (int i = 0; i < n; i++) {
    if (index[i] < 0 || index[i] >= r->info.samples)
      CT_FAIL(CT_ERR_ARG, "sample %lld is out of range: there are %lld", (long long)index[i],
              (long long)r->info.samples);
    CT_TRY(window_of(r, index[i], &w));
    CT_TRY(read_window(r, &w, to_x, to_y));
    if (to_y && masks) CT_TRY(ignore_starts(r, &w, to_y));
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
  for (int i = 0; r->ops->ahead && r->opts.documents != CT_DOCUMENTS_PAD && i < n; i++) {
    int some = 0;
    token_window_t w;
    int64_t end = window_of(r, index[i], &w) == CT_OK && !r->rows ? w.first + w.tokens - 1 : 0;
    for (int64_t at = w.first; at < end && some<MOST - 1; at += rows> 0 ? rows : 1)
      ids[some++] = at;
    ids[some++] = r->rows ? w.first : end;
    r->ops->ahead(r->of, some, ids);
  }
}

static int tokens_blocks(const ct_reader_t *r, int i, ct_block_run_t *out)
{
  if (i >= r->files) return 0;
  r->ops->blocks(r->of, i, out);
  if (r->opts.documents == CT_DOCUMENTS_PAD) return r->ops->blocks(r->starts, i, out);
  int64_t rows = r->rows ? out->rows : out->rows / r->opts.stride;
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
  int rc = r->ops->move(r->of, i, path);
  return rc == CT_OK && r->starts ? r->ops->move(r->starts, i, path) : rc;
}

static void tokens_keep_in(ct_reader_t *r, ct_cache_t *cache)
{
  if (r->ops->keep_in) r->ops->keep_in(r->of, cache);
  if (r->ops->keep_in && r->starts) r->ops->keep_in(r->starts, cache);
}

static void tokens_location(const ct_reader_t *r, int64_t index, char *buf, size_t cap)
{
  token_window_t w;
  if (window_of((ct_reader_t *)(uintptr_t)r, index, &w) != CT_OK) w.first = r->first[w.file];
  r->ops->location(r->of, w.first, buf, cap);
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
    .extra = tokens_extra,
    .location = tokens_location,
    .close = tokens_close,
};
