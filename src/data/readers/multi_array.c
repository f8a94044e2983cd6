/* A data set of several arrays in the same files.  Each array is read by its own reader, which does
 * not know the others. */
#include "data/readers/multi_array.h"

#include <math.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_hash.h"
#include "base/ct_mem.h"

enum { PARTS = CT_GROUPS };
static const char magic[8] = "ctparts";

/* The use of a part.  The first is an INPUT; following inputs become MORE (extra inputs) if they
 * cannot be concatenated with it. FURTHER: a target after the first, with targets_apart. */
typedef enum { INPUT, EXTRA, TARGET, DENSE_TARGET, FURTHER, WEIGHT } role_t;

typedef struct part {
  role_t role;
  const char *name; /* name of its array, borrowed while it is opened */
  ct_reader_t *reader;
  const ct_reader_info_t *info;
} part_t;

struct ct_reader {
  const ct_reader_ops_t *ops;
  ct_reader_info_t info;
  part_t part[PARTS];
  int parts, inputs;
  int apart;       /* 1: inputs are not concatenated with the first one */
  int with_target; /* 1: the reader of the first input also reads the labels or targets */
};

static int is_known(const ct_reader_spec_t *spec)
{
  return spec->known_bytes > sizeof magic && memcmp(spec->known, magic, sizeof magic) == 0;
}

static int several(const ct_opt_texts_t *list)
{
  return list && list->n > 1;
}

int ct__parts_wanted(const ct_reader_spec_t *spec)
{
  return is_known(spec) || several(spec->inputs) || several(spec->targets_of) ||
         (spec->weight && spec->weight[0]);
}

/* ---- opening ---- */

static int multi_array_add(ct_reader_t *r, role_t role, const char *name)
{
  int rc = CT_OK;
  if (r->parts == PARTS) CT_FAIL(CT_ERR_USAGE, "data: more than %d arrays are asked for", PARTS);
  r->part[r->parts++] = (part_t){.role = role, .name = name};
  r->inputs += role == INPUT;
out:
  return rc;
}

static int list_parts(ct_reader_t *r, const ct_reader_spec_t *spec, int by_pixel)
{
  int rc = CT_OK;
  CT_TRY(multi_array_add(r, INPUT, spec->input));
  for (int i = 1; several(spec->inputs) && i < spec->inputs->n; i++)
    CT_TRY(multi_array_add(r, INPUT, spec->inputs->v[i]));
  int apart = spec->targets_apart;
  for (int i = 0; several(spec->targets_of) && !apart && i < spec->targets_of->n; i++)
    CT_TRY(multi_array_add(r, TARGET, spec->targets_of->v[i]));
  if (by_pixel) CT_TRY(multi_array_add(r, DENSE_TARGET, spec->target));
  for (int i = 1; several(spec->targets_of) && apart && i < spec->targets_of->n; i++)
    CT_TRY(multi_array_add(r, FURTHER, spec->targets_of->v[i]));
  if (spec->weight && spec->weight[0]) CT_TRY(multi_array_add(r, WEIGHT, spec->weight));
  r->with_target = !by_pixel && (apart || !several(spec->targets_of));
out:
  return rc;
}

/* Finds the data that rank 0 shared for the next part; advances *at. */
static int take_known(const ct_reader_spec_t *spec, size_t *at, ct_reader_spec_t *of_part)
{
  int64_t bytes = -1;
  const char *known = spec->known;
  if (spec->known_bytes - *at >= sizeof bytes) memcpy(&bytes, known + *at, sizeof bytes);
  if (bytes < 0 || (uint64_t)bytes > spec->known_bytes - *at - sizeof bytes)
    return ct_err_set(CT_ERR_FORMAT, __FILE__, __LINE__,
                      "the description of the data from rank 0 is truncated");
  *at += sizeof bytes;
  of_part->known = bytes ? known + *at : NULL;
  of_part->known_bytes = (size_t)bytes;
  *at += (size_t)bytes;
  return CT_OK;
}

/* data.shape applies to the first array, and to others with as many elements. */
static int has_shape_of(const ct_reader_info_t *info, const ct_reader_spec_t *spec)
{
  int64_t count = 1;
  for (int i = 0; spec->shape && i < spec->shape_dims; i++)
    count *= spec->shape[i];
  return spec->shape && ct_shape_sample(&info->x) == count;
}

static int is_alike(const ct_reader_info_t *a, const ct_reader_info_t *b)
{
  int alike = a->x.ndim == b->x.ndim && a->x.dtype == b->x.dtype && !a->varies && !b->varies;
  for (int i = 2; i < a->x.ndim; i++)
    alike &= a->x.dim[i] == b->x.dim[i];
  return alike;
}

static int open_as(ct_reader_t *r, part_t *p, const ct_reader_spec_t *spec)
{
  int rc = CT_OK;
  if (p->reader) r->ops->close(p->reader);
  p->reader = NULL;
  CT_TRY(r->ops->open(spec, &p->reader));
  p->info = r->ops->info(p->reader);
out:
  return rc;
}

/* Sees the dims of a further input as those of the first one, if they can be. */
static int see_as_first(ct_reader_t *r, part_t *p, const ct_reader_spec_t *spec,
                        ct_reader_spec_t *own)
{
  int rc = CT_OK, layout = own->layout;
  const ct_reader_info_t *first = r->part[0].info;
  if (has_shape_of(p->info, spec)) {
    own->shape = spec->shape;
    return open_as(r, p, own);
  }
  if (layout || is_alike(first, p->info)) return CT_OK;
  own->layout = p->info->channels_last ? 1 : 2;
  CT_TRY(open_as(r, p, own));
  if (is_alike(first, p->info)) goto out;
  own->layout = layout;
  CT_TRY(open_as(r, p, own));
out:
  return rc;
}

static int open_part(ct_reader_t *r, int i, const ct_reader_spec_t *spec, size_t *at)
{
  int rc = CT_OK;
  part_t *p = &r->part[i];
  ct_reader_spec_t own = *spec;
  own.target = p->role == INPUT && i == 0 && r->with_target ? spec->target : "";
  own.cache_bytes = spec->cache_bytes / r->parts;
  own.readers = r->parts;
  if (i > 0) own.beside = r->part[0].reader;
  if (p->role == TARGET)
    own.target = p->name;
  else
    own.input = p->name;
  if (i > 0) own.shape = NULL;
  own.classes_of_pixels = p->role == DENSE_TARGET && !spec->values;
  if (p->role == DENSE_TARGET) own.layout = r->part[0].info->channels_last ? 2 : 1;
  if (p->role == FURTHER) {
    own.classes_of_pixels = 1;
    own.layout = 1;
  }
  own.known = NULL;
  own.known_bytes = 0;
  if (is_known(spec)) CT_TRY(take_known(spec, at, &own));
  CT_TRY(open_as(r, p, &own));
  if (p->role == INPUT && i > 0) CT_TRY(see_as_first(r, p, spec, &own));
out:
  return rc;
}

/* ---- checking that arrays fit together ---- */

/* Makes a part an extra input. */
static int add_extra(ct_reader_t *r, part_t *p)
{
  int rc = CT_OK;
  ct_inputs_t *in = &r->info.extra;
  if (in->n == CT_INPUTS_EXTRA)
    CT_FAIL(CT_ERR_USAGE, "data.input: more than %d extra inputs", CT_INPUTS_EXTRA);
  if (p->info->varies)
    CT_FAIL(CT_ERR_UNSUP,
            "data.input: samples of '%s' differ in size, which only those of the "
            "first array may",
            p->name);
  if (strlen(p->name) >= CT_INPUT_NAME)
    CT_FAIL(CT_ERR_USAGE, "data.input: the name '%.80s' has more than %d characters", p->name,
            CT_INPUT_NAME - 1);
  for (int k = 0; k < in->n; k++)
    if (strcmp(in->name[k], p->name) == 0)
      CT_FAIL(CT_ERR_USAGE, "data.input: '%s' is named twice", p->name);
  strcpy(in->name[in->n], p->name);
  in->x[in->n] = p->info->x;
  r->info.extra_last[in->n++] = p->info->channels_last;
  p->role = EXTRA;
out:
  return rc;
}

static int check_further(ct_reader_t *r, part_t *p)
{
  int rc = CT_OK;
  ct_inputs_t *more = &r->info.more;
  if (more->n == CT_TARGETS_MORE)
    CT_FAIL(CT_ERR_USAGE, "data.target: more than %d arrays", CT_TARGETS_MORE + 1);
  if (p->info->varies)
    CT_FAIL(CT_ERR_UNSUP, "data.target: the values of '%s' differ in number between samples",
            p->name);
  if (strlen(p->name) >= CT_INPUT_NAME)
    CT_FAIL(CT_ERR_USAGE, "data.target: the name '%.80s' has more than %d characters", p->name,
            CT_INPUT_NAME - 1);
  strcpy(more->name[more->n], p->name);
  more->x[more->n++] = p->info->x;
out:
  return rc;
}

static void add_group(ct_reader_channels_t *to, const ct_reader_info_t *own)
{
  to->count[to->groups] = own->x.dim[1];
  to->last[to->groups++] = (char)(own->channels_last && own->x.dim[1] > 1);
}

static int check_input(ct_reader_t *r, part_t *p)
{
  const ct_reader_info_t *first = r->part[0].info, *own = p->info;
  if (r->apart || !is_alike(first, own)) return add_extra(r, p);
  r->info.x.dim[1] += own->x.dim[1];
  add_group(&r->info.channels, own);
  r->info.channels_last = 0;
  return CT_OK;
}

static int check_target(ct_reader_t *r, part_t *p)
{
  int rc = CT_OK;
  if (p->info->by_pixel || !p->info->targets)
    CT_FAIL(CT_ERR_USAGE,
            "data.target: array '%s' holds %s, but several targets are joined only if all are "
            "real numbers of a sample",
            p->name, p->info->by_pixel ? "a dense target" : "class numbers");
  r->info.targets += p->info->targets;
out:
  return rc;
}

static int check_weight(ct_reader_t *r, part_t *p)
{
  int rc = CT_OK;
  char shape[64];
  if (ct_shape_sample(&p->info->x) != 1)
    CT_FAIL(CT_ERR_FORMAT, "data.weight: array '%s' is of %s, expected one number for each sample",
            p->name, ct_shape_text(&p->info->x, shape, sizeof shape));
  r->info.weighted = 1;
out:
  return rc;
}

static int is_real(ct_dtype_t t)
{
  return t == CT_F32 || t == CT_F64 || t == CT_F16 || t == CT_BF16;
}

/* Checks that a dense target has the pixels or voxels of the input.  For volumes, an array of 4
 * dims looks like images with channels.  Integers of another shape are labels of places. */
static int check_dense_target(ct_reader_t *r, part_t *p)
{
  int rc = CT_OK;
  char a[64], b[64];
  ct_shape_t x = p->info->x;
  const ct_shape_t *in = &r->part[0].info->x;
  if (x.ndim == in->ndim - 1) {
    for (int i = x.ndim; i >= 2; i--)
      x.dim[i] = x.dim[i - 1];
    x.dim[1] = 1;
    x.ndim++;
  }
  int fits = x.ndim == in->ndim && in->ndim > 3;
  for (int i = 2; i < x.ndim; i++)
    fits &= x.dim[i] == in->dim[i];
  if (!fits && !is_real(x.dtype)) {
    r->info.by_place = 1;
    x = p->info->x;
    fits = 1;
  }
  if (!fits)
    CT_FAIL(CT_ERR_FORMAT, "data.target: array '%s' is of %s, which does not fit samples of %s",
            p->name, ct_shape_text(&p->info->x, a, sizeof a), ct_shape_text(in, b, sizeof b));
  r->info.dense_target = x;
  r->info.dense_target_last = p->info->channels_last;
out:
  return rc;
}

/* Checks that each file, or each trajectory, has as many samples in both arrays. */
static int check_runs(const ct_reader_t *r, const part_t *p)
{
  int rc = CT_OK, more = r->ops->blocks != NULL;
  ct_block_run_t a, b;
  char location[256];
  for (int i = 0; more && r->ops->blocks(r->part[0].reader, i, &a); i++) {
    more = r->ops->blocks(p->reader, i, &b);
    if (more && a.first == b.first && a.samples == b.samples) continue;
    r->ops->location(r->part[0].reader, a.first, location, sizeof location);
    CT_FAIL(CT_ERR_FORMAT, "%s: from here on, array '%s' has %lld samples and '%s' %lld", location,
            r->part[0].name, (long long)a.samples, p->name, more ? (long long)b.samples : 0LL);
  }
out:
  return rc;
}

static int check_part(ct_reader_t *r, int i)
{
  static int (*const check[])(ct_reader_t * r, part_t * p) = {[INPUT] = check_input,
                                                              [TARGET] = check_target,
                                                              [DENSE_TARGET] = check_dense_target,
                                                              [FURTHER] = check_further,
                                                              [WEIGHT] = check_weight};
  int rc = CT_OK;
  part_t *p = &r->part[i];
  const ct_reader_info_t *first = r->part[0].info;
  r->info.fingerprint = ct_hash_int((int64_t)p->info->fingerprint, r->info.fingerprint);
  if (i == 0) return CT_OK;
  if (p->info->samples != first->samples)
    CT_FAIL(CT_ERR_FORMAT, "array '%s' holds %lld samples, but '%s' %lld", p->name,
            (long long)p->info->samples, r->part[0].name, (long long)first->samples);
  CT_TRY(check_runs(r, p));
  if ((first->varies || p->info->varies) && p->role == DENSE_TARGET)
    CT_FAIL(CT_ERR_UNSUP, "samples that differ in size cannot have dense targets");
  CT_TRY(check[p->role](r, p));
out:
  return rc;
}

static void parts_close(ct_reader_t *r)
{
  if (!r) return;
  for (int i = 0; i < r->parts; i++)
    r->ops->close(r->part[i].reader);
  ct_mem_free(r);
}

int ct__parts_open(const ct_reader_ops_t *ops, const ct_reader_spec_t *spec, int by_pixel,
                   ct_reader_t **out)
{
  int rc = CT_OK;
  size_t at = sizeof magic + 1;
  ct_reader_t *r = ct_mem_alloc(sizeof *r, "the readers of several arrays");
  *out = NULL;
  if (!r) return CT_ERR_NOMEM;
  r->ops = ops;
  r->apart = spec->apart;
  if (is_known(spec)) by_pixel = ((const char *)spec->known)[sizeof magic];
  CT_TRY(list_parts(r, spec, by_pixel));
  for (int i = 0; i < r->parts; i++) {
    CT_TRY(open_part(r, i, spec, &at));
    if (i == 0) r->info = *r->part[0].info;
    if (i == 0) add_group(&r->info.channels, r->part[0].info);
    if (i == 0 && !r->with_target) r->info.unlabelled = 0;
    CT_TRY(check_part(r, i));
  }
  if (r->info.channels.groups == 1) r->info.channels = (ct_reader_channels_t){0};
  *out = r;
  r = NULL;
out:
  parts_close(r);
  return rc;
}

/* Never called: ct__parts_open() opens it. */
static int parts_open(const ct_reader_spec_t *spec, ct_reader_t **out)
{
  (void)spec;
  *out = NULL;
  return ct_err_set(CT_ERR_UNSUP, __FILE__, __LINE__,
                    "a data set of several arrays cannot be selected as a reader");
}

/* Serializes the magic number, whether the data has dense targets, and for each part the size and
 * bytes of its shared data. */
static int parts_share(const ct_reader_t *r, void **bytes, size_t *n)
{
  int rc = CT_OK;
  void *own[PARTS] = {0};
  size_t size[PARTS] = {0};
  char *at = NULL;
  *n = sizeof magic + 1;
  for (int i = 0; i < r->parts; i++) {
    CT_TRY(r->ops->share(r->part[i].reader, &own[i], &size[i]));
    *n += sizeof(int64_t) + size[i];
  }
  *bytes = at = ct_mem_alloc(*n, "the description of the data");
  if (!at) CT_TRY(CT_ERR_NOMEM);
  memcpy(at, magic, sizeof magic);
  at += sizeof magic;
  *at++ = r->info.dense_target.ndim > 0;
  for (int i = 0; i < r->parts; i++) {
    int64_t own_bytes = (int64_t)size[i];
    memcpy(at, &own_bytes, sizeof own_bytes);
    at += sizeof own_bytes;
    if (size[i]) memcpy(at, own[i], size[i]);
    at += size[i];
  }
out:
  for (int i = 0; i < r->parts; i++)
    ct_mem_free(own[i]);
  return rc;
}

/* ---- reading ---- */

static const char *parts_file(const ct_reader_t *r, int i)
{
  return r->ops->file(r->part[0].reader, i);
}

static int parts_move(ct_reader_t *r, int i, const char *path)
{
  int rc = CT_OK;
  for (int p = 0; p < r->parts; p++)
    CT_TRY(r->ops->move(r->part[p].reader, i, path));
out:
  return rc;
}

static void parts_keep_in(ct_reader_t *r, ct_cache_t *cache)
{
  for (int p = 0; p < r->parts; p++)
    if (r->ops->keep_in) r->ops->keep_in(r->part[p].reader, cache);
}

static const ct_reader_info_t *parts_info(const ct_reader_t *r)
{
  return &r->info;
}

/* Announces the first input; the others are small or stored in the same way. */
static void parts_ahead(ct_reader_t *r, int n, const int64_t index[])
{
  if (r->ops->ahead) r->ops->ahead(r->part[0].reader, n, index);
}

static int parts_blocks(const ct_reader_t *r, int i, ct_block_run_t *out)
{
  *out = (ct_block_run_t){.samples = r->info.samples, .rows = 1};
  if (r->ops->blocks) return r->ops->blocks(r->part[0].reader, i, out);
  return i == 0;
}

static void parts_shape(const ct_reader_t *r, int64_t index, ct_shape_t *out)
{
  r->ops->shape(r->part[0].reader, index, out);
}

/* Sample by sample, the arrays are concatenated. */
static int read_inputs(ct_reader_t *r, int n, const int64_t index[], char *x)
{
  int rc = CT_OK;
  for (int i = 0; i < n; i++) {
    for (int p = 0; p < r->parts; p++) {
      const ct_shape_t *own = &r->part[p].info->x;
      if (r->part[p].role != INPUT) continue;
      CT_TRY(r->ops->read(r->part[p].reader, 1, &index[i], x, NULL));
      x += (size_t)ct_shape_sample(own) * ct_dtype_size(own->dtype);
    }
  }
out:
  return rc;
}

static int read_targets(ct_reader_t *r, int n, const int64_t index[], float *y)
{
  int rc = CT_OK;
  for (int i = 0; i < n; i++) {
    for (int p = 0; p < r->parts; p++) {
      if (r->part[p].role != TARGET) continue;
      CT_TRY(r->ops->read(r->part[p].reader, 1, &index[i], NULL, y));
      y += r->part[p].info->targets;
    }
  }
out:
  return rc;
}

static int read_dense_targets(ct_reader_t *r, int n, const int64_t index[], void *y)
{
  for (int p = 0; p < r->parts; p++)
    if (r->part[p].role == DENSE_TARGET) return r->ops->read(r->part[p].reader, n, index, y, NULL);
  return CT_OK;
}

static int parts_read(ct_reader_t *r, int n, const int64_t index[], void *x, void *y)
{
  int rc = CT_OK;
  void *first = r->with_target ? y : NULL;
  int joined = r->inputs - r->info.extra.n > 1;
  if ((x && !joined) || first)
    CT_TRY(r->ops->read(r->part[0].reader, n, index, joined ? NULL : x, first));
  if (x && joined) CT_TRY(read_inputs(r, n, index, x));
  if (!y || r->with_target) goto out;
  CT_TRY(r->info.dense_target.ndim ? read_dense_targets(r, n, index, y)
                                   : read_targets(r, n, index, y));
out:
  return rc;
}

static double multi_array_number(ct_dtype_t type, const void *p)
{
  switch (type) {
  case CT_F32:
    return *(const float *)p;
  case CT_F64:
    return *(const double *)p;
  case CT_U8:
  case CT_I8:
  case CT_I16:
  case CT_I32:
  case CT_I64:
    return (double)ct_dtype_whole(type, p);
  default:
    return NAN;
  }
}

static void parts_location(const ct_reader_t *r, int64_t index, char *buf, size_t cap)
{
  r->ops->location(r->part[0].reader, index, buf, cap);
}

static int parts_extra(ct_reader_t *r, int k, int n, const int64_t index[], void *x)
{
  for (int p = 0; p < r->parts; p++)
    if (r->part[p].role == EXTRA && k-- == 0)
      return r->ops->read(r->part[p].reader, n, index, x, NULL);
  return ct_err_set(CT_ERR_ARG, __FILE__, __LINE__, "the extra input does not exist");
}

int ct__parts_more(ct_reader_t *r, int k, int n, const int64_t index[], void *y)
{
  for (int p = 0; p < r->parts; p++)
    if (r->part[p].role == FURTHER && k-- == 0)
      return r->ops->read(r->part[p].reader, n, index, y, NULL);
  return ct_err_set(CT_ERR_ARG, __FILE__, __LINE__, "the further target does not exist");
}

int ct__parts_weights(ct_reader_t *r, int n, const int64_t index[], float *weights)
{
  int rc = CT_OK;
  const part_t *p = &r->part[r->parts - 1];
  char location[300];
  for (int i = 0; i < n; i++) {
    union {
      int64_t whole;
      double real;
    } room = {0};
    CT_TRY(r->ops->read(p->reader, 1, &index[i], &room, NULL));
    double v = multi_array_number(p->info->x.dtype, &room);
    weights[i] = (float)v;
    if (v >= 0 && isfinite(weights[i])) continue;
    parts_location(r, index[i], location, sizeof location);
    CT_FAIL(CT_ERR_DATA,
            "%s: its weight (data.weight) is %g, expected a finite number of at least 0", location,
            v);
  }
out:
  return rc;
}

const ct_reader_ops_t ct__reader_parts = {
    .format = {.name = "parts"},
    .open = parts_open,
    .share = parts_share,
    .file = parts_file,
    .move = parts_move,
    .keep_in = parts_keep_in,
    .info = parts_info,
    .shape = parts_shape,
    .blocks = parts_blocks,
    .ahead = parts_ahead,
    .read = parts_read,
    .extra = parts_extra,
    .location = parts_location,
    .close = parts_close,
};
