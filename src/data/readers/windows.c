/* Samples that are windows over the frames of trajectories.  Nothing is copied: a window is read
 * frame by frame from the reader of frames, whose runs of blocks() are the trajectories. */
#include "data/readers/windows.h"

#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_hash.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "data/readers/multi_array.h"

enum { AT_ONCE = 64 /* frames that are asked for together */ };
static const char magic[8] = "ctwindw";

/* A reader of frames. */
typedef struct frames {
  const ct_reader_ops_t *ops;
  ct_reader_t *reader;
  const ct_reader_info_t *info;
  size_t bytes; /* of a frame */
} frames_t;

struct ct_reader {
  ct_reader_info_t info;
  frames_t input,
      target; /* target.reader NULL: targets are frames of the input, or there are none */
  ct_window_t window;
  int trajectories;
  int64_t *first;   /* [trajectories] owned: first frame */
  int64_t *windows; /* [trajectories + 1] owned: number of the first window */
};

/* ---- opening ---- */

static void frames_close(frames_t *f)
{
  if (f->reader) f->ops->close(f->reader);
}

static void window_close(ct_reader_t *r)
{
  if (!r) return;
  frames_close(&r->input);
  frames_close(&r->target);
  ct_mem_free(r->first);
  ct_mem_free(r->windows);
  ct_mem_free(r);
}

static int frames_open(const ct_reader_ops_t *ops, const ct_reader_spec_t *spec, frames_t *f)
{
  int rc = CT_OK;
  f->ops = ops;
  if (ct__parts_wanted(spec)) {
    f->ops = &ct__reader_parts;
    CT_TRY(ct__parts_open(ops, spec, 0, &f->reader));
  } else {
    CT_TRY(ops->open(spec, &f->reader));
  }
  f->info = f->ops->info(f->reader);
  f->bytes = (size_t)ct_shape_sample(&f->info->x) * ct_dtype_size(f->info->x.dtype);
  if (f->info->extra.n)
    CT_FAIL(CT_ERR_USAGE,
            "data.window: the arrays of a window are joined, so '%s' must have the type and the "
            "size of frames of '%s'",
            f->info->extra.name[0], spec->input);
  if (f->info->encoded || f->info->varies)
    CT_FAIL(CT_ERR_USAGE, "data.window: array '%s' holds images, expected frames of numbers",
            spec->input);
out:
  return rc;
}

static int texts_same(const ct_opt_texts_t *a, const ct_opt_texts_t *b)
{
  int same = a->n == b->n;
  for (int i = 0; same && i < a->n; i++)
    same = strcmp(a->v[i], b->v[i]) == 0;
  return same;
}

/* Makes the sample of windows of frames. */
static void join_frames(const ct_reader_info_t *frame, int64_t frames, ct_shape_t *x,
                        ct_reader_channels_t *parts)
{
  *x = frame->x;
  x->dim[1] *= frames;
  *parts = frame->channels;
  if (!parts->groups) {
    parts->groups = 1;
    parts->count[0] = frame->x.dim[1];
    parts->last[0] = (char)(frame->channels_last && frame->x.dim[1] > 1);
  }
  parts->frames = frames;
}

static int64_t span_of(const ct_reader_t *r)
{
  return r->window.context + (r->info.dense_target.ndim ? r->window.target : 0);
}

/* Numbers the windows of all trajectories. */
static int number_windows(ct_reader_t *r)
{
  int rc = CT_OK, n = 0, is_short = 0;
  int64_t longest = 0, span = span_of(r);
  ct_block_run_t run, other;
  char location[256];
  const frames_t *in = &r->input;
  while (in->ops->blocks(in->reader, n, &run))
    n++;
  r->first = ct_mem_array(n + 1, sizeof *r->first, "the trajectories");
  r->windows = ct_mem_array(n + 1, sizeof *r->windows, "the trajectories");
  if (!r->first || !r->windows) return CT_ERR_NOMEM;
  for (int i = 0; i < n; i++) {
    in->ops->blocks(in->reader, i, &run);
    if (r->target.reader && (!r->target.ops->blocks(r->target.reader, i, &other) ||
                             other.samples != run.samples || other.first != run.first)) {
      in->ops->location(in->reader, run.first, location, sizeof location);
      CT_FAIL(CT_ERR_FORMAT,
              "%s: the trajectory has another number of frames in data.target than in data.input",
              location);
    }
    int64_t windows = run.samples < span ? 0 : (run.samples - span) / r->window.stride + 1;
    r->first[i] = run.first;
    r->windows[i + 1] = r->windows[i] + windows;
    is_short += windows == 0;
    longest = run.samples > longest ? run.samples : longest;
  }
  r->trajectories = n;
  r->info.samples = r->windows[n];
  if (r->info.samples == 0)
    CT_FAIL(CT_ERR_FORMAT,
            "%s: the longest trajectory has %lld frames, but a window of data.window has %lld",
            in->ops->file(in->reader, 0), (long long)longest, (long long)span);
  if (is_short)
    ct_log(CT_LOG_WARN,
           "data.window: %d of %d trajectories have fewer than the %lld frames of a window and are "
           "not used",
           is_short, n, (long long)span);
out:
  return rc;
}

static int check_target(const ct_reader_t *r)
{
  int rc = CT_OK, same = 1;
  char a[64], b[64];
  const ct_shape_t *x = &r->input.info->x, *y = &r->target.info->x;
  for (int i = 2; i < x->ndim; i++)
    same &= x->dim[i] == y->dim[i];
  if (x->ndim != y->ndim || !same)
    CT_FAIL(CT_ERR_FORMAT, "data.target: frames are of %s, which does not fit inputs of %s",
            ct_shape_text(y, a, sizeof a), ct_shape_text(x, b, sizeof b));
  if (x->ndim < 3)
    CT_FAIL(CT_ERR_USAGE,
            "data.window: frames of one dim have no channels; data.shape, such as "
            "[1, %lld], gives them",
            (long long)x->dim[1]);
out:
  return rc;
}

static void describe(ct_reader_t *r, const ct_reader_spec_t *spec)
{
  const frames_t *target = r->target.reader ? &r->target : &r->input;
  r->info = *r->input.info;
  r->info.channels_last = 0;
  r->info.unlabelled = !spec->target[0];
  join_frames(r->input.info, r->window.context, &r->info.x, &r->info.channels);
  if (r->info.unlabelled) return;
  join_frames(target->info, r->window.target, &r->info.dense_target, &r->info.target_parts);
  r->info.same_target = !r->target.reader;
}

static uint64_t window_fingerprint(const ct_reader_t *r)
{
  uint64_t h = ct_hash_int((int64_t)r->input.info->fingerprint, 0);
  if (r->target.reader) h = ct_hash_int((int64_t)r->target.info->fingerprint, h);
  h = ct_hash_int(r->window.context, ct_hash_int(r->window.target, h));
  return ct_hash_int(r->window.stride, h);
}

/* Splits the data of rank 0: magic, bytes of the input, the input, the target. */
static int split_known(const ct_reader_spec_t *spec, ct_reader_spec_t *input,
                       ct_reader_spec_t *target)
{
  int64_t bytes = -1;
  const char *known = spec->known;
  size_t head = sizeof magic + sizeof bytes;
  if (!known) return CT_OK;
  if (spec->known_bytes >= head && memcmp(known, magic, sizeof magic) == 0)
    memcpy(&bytes, known + sizeof magic, sizeof bytes);
  if (bytes < 0 || (uint64_t)bytes > spec->known_bytes - head)
    return ct_err_set(CT_ERR_FORMAT, __FILE__, __LINE__,
                      "the description of the data from rank 0 is truncated");
  input->known = known + head;
  input->known_bytes = (size_t)bytes;
  target->known = known + head + bytes;
  target->known_bytes = spec->known_bytes - head - (size_t)bytes;
  return CT_OK;
}

static int check_spec(const ct_reader_spec_t *spec, const ct_reader_ops_t *ops)
{
  int rc = CT_OK;
  if (!ops->blocks || !ops->format.probe)
    CT_FAIL(CT_ERR_USAGE, "data.window is for arrays of HDF5 files, not for %s", ops->format.name);
  if (spec->weight && spec->weight[0])
    CT_FAIL(CT_ERR_USAGE, "data.weight: windows (data.window) do not have weights");
  if (spec->targets_apart)
    CT_FAIL(CT_ERR_USAGE, "loss: windows (data.window) have one target, so one loss");
out:
  return rc;
}

int ct__windows_open(const ct_reader_spec_t *spec, const ct_reader_ops_t **ops, ct_reader_t **out)
{
  int rc = CT_OK;
  ct_reader_t *r = NULL;
  ct_reader_spec_t input = *spec, target = *spec;
  *out = NULL;
  CT_TRY(check_spec(spec, *ops));
  r = ct_mem_alloc(sizeof *r, "the windows");
  if (!r) CT_TRY(CT_ERR_NOMEM);
  r->window = spec->window;
  input.target = target.target = "";
  input.targets_of = target.targets_of = NULL;
  CT_TRY(split_known(spec, &input, &target));
  int own = spec->target[0] && spec->inputs && spec->targets_of &&
            !texts_same(spec->inputs, spec->targets_of);
  if (own) input.cache_bytes = target.cache_bytes = spec->cache_bytes / 2;
  CT_TRY(frames_open(*ops, &input, &r->input));
  if (own) {
    target.input = spec->target;
    target.inputs = spec->targets_of;
    target.apart = 0;
    target.classes_of_pixels = !spec->values;
    CT_TRY(frames_open(*ops, &target, &r->target));
    CT_TRY(check_target(r));
  }
  describe(r, spec);
  CT_TRY(number_windows(r));
  r->info.fingerprint = window_fingerprint(r);
  size_t seen = strlen(r->info.seen);
  snprintf(r->info.seen + seen, sizeof r->info.seen - seen,
           "%s%lld windows of %lld + %lld frames of %d trajector%s", seen ? "; " : "",
           (long long)r->info.samples, (long long)r->window.context,
           (long long)(span_of(r) - r->window.context), r->trajectories,
           r->trajectories == 1 ? "y" : "ies");
  *ops = &ct__reader_windows;
  *out = r;
  r = NULL;
out:
  window_close(r);
  return rc;
}

/* Never called: ct__windows_open() opens it. */
static int windows_open(const ct_reader_spec_t *spec, ct_reader_t **out)
{
  (void)spec;
  *out = NULL;
  return ct_err_set(CT_ERR_UNSUP, __FILE__, __LINE__, "windows cannot be selected as a reader");
}

static int window_share(const ct_reader_t *r, void **bytes, size_t *n)
{
  int rc = CT_OK;
  void *input = NULL, *target = NULL;
  size_t input_bytes = 0, target_bytes = 0;
  CT_TRY(r->input.ops->share(r->input.reader, &input, &input_bytes));
  if (r->target.reader) CT_TRY(r->target.ops->share(r->target.reader, &target, &target_bytes));
  int64_t first = (int64_t)input_bytes;
  *n = sizeof magic + sizeof first + input_bytes + target_bytes;
  char *to = *bytes = ct_mem_alloc(*n, "the description of the data");
  if (!to) CT_TRY(CT_ERR_NOMEM);
  memcpy(to, magic, sizeof magic);
  memcpy(to + sizeof magic, &first, sizeof first);
  to += sizeof magic + sizeof first;
  if (input_bytes) memcpy(to, input, input_bytes);
  if (target_bytes) memcpy(to + input_bytes, target, target_bytes);
out:
  ct_mem_free(input);
  ct_mem_free(target);
  return rc;
}

/* ---- reading ---- */

/* Returns the first frame of a window. */
static int64_t frame_of(const ct_reader_t *r, int64_t index)
{
  int low = 0, high = r->trajectories - 1;
  while (low < high) {
    int middle = low + (high - low + 1) / 2;
    if (r->windows[middle] <= index)
      low = middle;
    else
      high = middle - 1;
  }
  return r->first[low] + (index - r->windows[low]) * r->window.stride;
}

static int read_frames(const frames_t *f, int64_t first, int64_t n, char *to)
{
  int rc = CT_OK;
  int64_t ids[AT_ONCE];
  for (int64_t done = 0; done < n;) {
    int some = n - done < AT_ONCE ? (int)(n - done) : AT_ONCE;
    for (int i = 0; i < some; i++)
      ids[i] = first + done + i;
    CT_TRY(f->ops->read(f->reader, some, ids, to + (size_t)done * f->bytes, NULL));
    done += some;
  }
out:
  return rc;
}

static int window_read(ct_reader_t *r, int n, const int64_t index[], void *x, void *y)
{
  int rc = CT_OK;
  const frames_t *target = r->target.reader ? &r->target : &r->input;
  int64_t context = r->window.context;
  char *to_x = x, *to_y = y;
  if (y && r->info.unlabelled) memset(y, 0, (size_t)n * sizeof(int64_t));
  for (int i = 0; i < n; i++) {
    if (index[i] < 0 || index[i] >= r->info.samples)
      CT_FAIL(CT_ERR_ARG, "sample %lld is out of range: there are %lld", (long long)index[i],
              (long long)r->info.samples);
    int64_t first = frame_of(r, index[i]);
    if (x) CT_TRY(read_frames(&r->input, first, context, to_x));
    if (x) to_x += (size_t)context * r->input.bytes;
    if (!y || r->info.unlabelled) continue;
    CT_TRY(read_frames(target, first + context, r->window.target, to_y));
    to_y += (size_t)r->window.target * target->bytes;
  }
out:
  return rc;
}

static void window_ahead(ct_reader_t *r, int n, const int64_t index[])
{
  int64_t ids[AT_ONCE], span = span_of(r);
  const frames_t *f = &r->input;
  for (int i = 0; f->ops->ahead && i < n; i++) {
    int64_t first = frame_of(r, index[i]);
    int some = span < AT_ONCE ? (int)span : AT_ONCE;
    for (int k = 0; k < some; k++)
      ids[k] = first + k;
    f->ops->ahead(f->reader, some, ids);
  }
}

static int window_blocks(const ct_reader_t *r, int i, ct_block_run_t *out)
{
  if (i >= r->trajectories) return 0;
  r->input.ops->blocks(r->input.reader, i, out);
  int64_t rows = out->rows / r->window.stride;
  *out = (ct_block_run_t){r->windows[i], r->windows[i + 1] - r->windows[i], rows > 0 ? rows : 1};
  return 1;
}

static const ct_reader_info_t *window_info(const ct_reader_t *r)
{
  return &r->info;
}

static const char *window_file(const ct_reader_t *r, int i)
{
  return r->input.ops->file(r->input.reader, i);
}

static int window_move(ct_reader_t *r, int i, const char *path)
{
  int rc = r->input.ops->move(r->input.reader, i, path);
  if (rc == CT_OK && r->target.reader) rc = r->target.ops->move(r->target.reader, i, path);
  return rc;
}

static void window_keep_in(ct_reader_t *r, ct_cache_t *cache)
{
  if (r->input.ops->keep_in) r->input.ops->keep_in(r->input.reader, cache);
  if (r->target.reader && r->target.ops->keep_in) r->target.ops->keep_in(r->target.reader, cache);
}

static void window_location(const ct_reader_t *r, int64_t index, char *buf, size_t cap)
{
  r->input.ops->location(r->input.reader, frame_of(r, index), buf, cap);
}

const ct_reader_ops_t ct__reader_windows = {
    .format = {.name = "windows"},
    .open = windows_open,
    .share = window_share,
    .file = window_file,
    .move = window_move,
    .keep_in = window_keep_in,
    .info = window_info,
    .blocks = window_blocks,
    .ahead = window_ahead,
    .read = window_read,
    .location = window_location,
    .close = window_close,
};
