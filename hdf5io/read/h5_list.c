/* The shards of a data set: finds them, checks that they are compatible, and serializes them for
 * other ranks, so that only rank 0 opens all of them at the start. */
#include "hdf5io/read/h5_list.h"

#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"

static const ct_format_t format = CT__H5_DATA_FORMAT;

static int set_names(ct__h5_shard_t *s, const char *path)
{
  const char *slash = strrchr(path, '/');
  s->path = ct_mem_strdup(path);
  s->name = ct_mem_strdup(slash ? slash + 1 : path);
  return s->path && s->name ? CT_OK : CT_ERR_NOMEM;
}

/* Appends the files that match one pattern. */
static int add_files(ct__h5_list_t *l, const char *dir, const char *pattern, int64_t *cap)
{
  int rc = CT_OK, n;
  char **found = NULL;
  CT_TRY(ct_reader_list(&format, dir, pattern, &found, &n));
  CT_TRY(ct_mem_grow((void **)&l->v, cap, l->n + n, sizeof *l->v));
  for (int i = 0; i < n; i++) {
    l->v[l->n] = (ct__h5_shard_t){.file = l->files++};
    CT_TRY(set_names(&l->v[l->n++], found[i]));
  }
out:
  ct_file_list_free(found, n);
  return rc;
}

int ct__h5_list_find(ct__h5_list_t *l, const ct_reader_spec_t *spec)
{
  int rc = CT_OK;
  int64_t cap = 0;
  for (int i = 0; i < spec->files->n; i++)
    CT_TRY(add_files(l, spec->dir, spec->files->v[i], &cap));
out:
  return rc;
}

/* Copies a shard that has no names of classes or sizes of images. */
static int copy_shard(const ct__h5_shard_t *from, ct__h5_shard_t *to)
{
  *to = *from;
  to->class_names = NULL;
  to->path = ct_mem_strdup(from->path);
  to->name = ct_mem_strdup(from->name);
  return to->path && to->name ? CT_OK : CT_ERR_NOMEM;
}

int ct__h5_list_trajectories(ct__h5_list_t *l)
{
  int rc = CT_OK;
  ct__h5_list_t all = {.files = l->files};
  int64_t cap = 0;
  for (int i = 0; i < l->n; i++) {
    int64_t n = l->v[i].trajectories;
    if (n > INT32_MAX - all.n)
      CT_FAIL(CT_ERR_FORMAT, "%s: has too many trajectories", l->v[i].path);
    CT_TRY(ct_mem_grow((void **)&all.v, &cap, all.n + n, sizeof *all.v));
    for (int64_t k = 0; k < n; k++) {
      ct__h5_shard_t *s = &all.v[all.n++];
      CT_TRY(copy_shard(&l->v[i], s));
      s->at.index = k;
    }
  }
  if (all.n == 0 && l->n)
    CT_FAIL(CT_ERR_FORMAT, "%s: contains no trajectories%s", l->v[0].path,
            l->n > 1 ? ", as do the other files" : "");
  ct__h5_list_t old = *l;
  *l = all;
  all = old;
out:
  ct__h5_list_clear(&all);
  return rc;
}

void ct__h5_list_as_first(ct__h5_list_t *l)
{
  for (int i = 1; i < l->n; i++) {
    ct__h5_shard_t own = l->v[i], *s = &l->v[i];
    *s = l->v[0];
    s->path = own.path;
    s->name = own.name;
    s->file = own.file;
    s->class_names = NULL;
    s->undescribed = 3;
    s->stamp = (ct__h5_stamp_t){.bytes = -1};
  }
}

int ct__h5_list_of_file(const ct__h5_list_t *l, int file)
{
  int low = 0, high = l->n;
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (l->v[middle].file < file)
      low = middle + 1;
    else
      high = middle;
  }
  return low < l->n && l->v[low].file == file ? low : -1;
}

static int check_alike(const ct__h5_shard_t *a, const ct__h5_shard_t *b)
{
  int rc = CT_OK;
  char x[64], y[64];
  if (!a->encoding != !b->encoding)
    CT_FAIL(CT_ERR_FORMAT, "%s: samples are %s, but those of %s are %s", b->path,
            b->encoding ? "encoded images" : "numbers", a->path,
            a->encoding ? "encoded images" : "numbers");
  if (!a->encoding && (a->x.dtype != b->x.dtype || !ct_shape_same(&a->x, &b->x) ||
                       a->channels_last != b->channels_last))
    CT_FAIL(CT_ERR_FORMAT, "%s: samples are %s %s%s, but those of %s are %s %s%s", b->path,
            ct_dtype_name(b->x.dtype), ct_shape_text(&b->x, x, sizeof x),
            b->channels_last ? " (channels last)" : "", a->path, ct_dtype_name(a->x.dtype),
            ct_shape_text(&a->x, y, sizeof y), a->channels_last ? " (channels last)" : "");
  if (a->targets != b->targets)
    CT_FAIL(CT_ERR_FORMAT, "%s: a sample has %lld targets, but in %s it has %lld (0: a label)",
            b->path, (long long)b->targets, a->path, (long long)a->targets);
  if (a->documents != b->documents)
    CT_FAIL(CT_ERR_FORMAT, "%s: has %s array 'document_starts', unlike %s", b->path,
            b->documents ? "an" : "no", a->path);
  if (a->eot != b->eot)
    CT_FAIL(CT_ERR_FORMAT, "%s: attribute 'eot' is %lld, but in %s it is %lld (-1: none)", b->path,
            (long long)b->eot, a->path, (long long)a->eot);
  if (a->pad != b->pad)
    CT_FAIL(CT_ERR_FORMAT, "%s: attribute 'pad' is %lld, but in %s it is %lld (-1: none)", b->path,
            (long long)b->pad, a->path, (long long)a->pad);
  if (a->classes != b->classes)
    CT_FAIL(CT_ERR_FORMAT, "%s: attribute '%s' is %lld, but in %s it is %lld (0: none)", b->path,
            a->documents || a->text_bytes || a->eot ? "vocab" : "classes", (long long)b->classes,
            a->path, (long long)a->classes);
  if (a->class_names && b->class_names && strcmp(a->class_names, b->class_names) != 0)
    CT_FAIL(CT_ERR_FORMAT,
            "%s: attribute 'class_names' has other names than in %s: the same labels mean other "
            "classes there",
            b->path, a->path);
out:
  return rc;
}

int ct__h5_list_finish(ct__h5_list_t *l)
{
  int rc = CT_OK;
  for (int i = 0; i < l->n; i++) {
    CT_TRY(check_alike(&l->v[0], &l->v[i]));
    l->v[i].first = l->samples;
    l->samples += l->v[i].count;
  }
  if (l->samples == 0)
    CT_FAIL(CT_ERR_FORMAT, "%s: contains no samples%s", l->n ? l->v[0].path : "data",
            l->n > 1 ? ", as do the other files" : "");
out:
  return rc;
}

int64_t ct__h5_list_text_bytes(const ct__h5_list_t *l)
{
  int64_t bytes = 0;
  for (int i = 0; i < l->n; i++) {
    if (l->v[i].text_bytes == 0) return 0;
    bytes += l->v[i].text_bytes;
  }
  return bytes;
}

/* ---- serialized form: numbers of shards and files, the structs, their paths, image sizes.  If all
 * shards but the first are undescribed, the first struct stands for all ---- */

typedef struct head {
  int shards, files, structs;
} head_t;

static size_t sizes_bytes(const ct__h5_shard_t *s)
{
  return s->has_sizes ? 2 * (size_t)s->count * sizeof *s->sizes : 0;
}

int ct__h5_list_pack(const ct__h5_list_t *l, void **bytes, size_t *n)
{
  head_t head = {l->n, l->files, l->n > 1 && l->v[1].undescribed ? 1 : l->n};
  size_t shards = (size_t)head.structs * sizeof *l->v, total = sizeof head + shards;
  for (int i = 0; i < l->n; i++)
    total += strlen(l->v[i].path) + 1 + sizes_bytes(&l->v[i]);
  char *to = *bytes = ct_mem_alloc(total, "what is known of the shards");
  *n = total;
  if (!to) return CT_ERR_NOMEM;
  memcpy(to, &head, sizeof head);
  memcpy(to + sizeof head, l->v, shards);
  to += sizeof head + shards;
  for (int i = 0; i < l->n; i++) {
    size_t length = strlen(l->v[i].path) + 1;
    memcpy(to, l->v[i].path, length);
    to += length;
  }
  for (int i = 0; i < l->n; i++) {
    if (l->v[i].has_sizes) memcpy(to, l->v[i].sizes, sizes_bytes(&l->v[i]));
    to += sizes_bytes(&l->v[i]);
  }
  return CT_OK;
}

static int take_sizes(ct__h5_list_t *l, const char *from, const char *end)
{
  int rc = CT_OK;
  for (int i = 0; i < l->n; i++) {
    ct__h5_shard_t *s = &l->v[i];
    if (!s->has_sizes) continue;
    size_t bytes = sizes_bytes(s);
    if (s->count < 0 || bytes > (size_t)(end - from))
      CT_FAIL(CT_ERR_ARG, "the list of shards from another rank is truncated");
    s->sizes = ct_mem_array(2 * s->count + 1, sizeof *s->sizes, "the sizes of images");
    if (!s->sizes) CT_TRY(CT_ERR_NOMEM);
    memcpy(s->sizes, from, bytes);
    from += bytes;
  }
out:
  return rc;
}

int ct__h5_list_unpack(ct__h5_list_t *l, const void *bytes, size_t n)
{
  int rc = CT_OK;
  head_t head = {0};
  const char *from = bytes, *end = from + n;
  if (n >= sizeof head) memcpy(&head, from, sizeof head);
  from += sizeof head;
  if (head.shards < 1 || (size_t)head.shards > n || head.structs < 1 ||
      (size_t)head.structs > n / sizeof *l->v || (head.structs != head.shards && head.structs != 1))
    CT_FAIL(CT_ERR_ARG, "the list of shards from another rank is malformed");
  l->v = ct_mem_array(head.shards, sizeof *l->v, "the shards");
  if (!l->v) CT_TRY(CT_ERR_NOMEM);
  l->files = head.files;
  const char *path = from + (size_t)head.structs * sizeof *l->v;
  for (int i = 0; i < head.shards; i++, path += strlen(path) + 1) {
    ct__h5_shard_t *s = &l->v[l->n++];
    memcpy(s, from + (size_t)(i % head.structs) * sizeof *s, sizeof *s);
    s->path = s->name = NULL; /* pointers of the other process */
    s->sizes = NULL;
    s->class_names = NULL;
    if (path >= end || !memchr(path, 0, (size_t)(end - path)))
      CT_FAIL(CT_ERR_ARG, "the list of shards from another rank is truncated");
    if (head.structs < head.shards) s->file = i;
    CT_TRY(set_names(s, path));
  }
  if (head.structs < head.shards) ct__h5_list_as_first(l);
  CT_TRY(take_sizes(l, path, end));
out:
  return rc;
}

void ct__h5_list_clear(ct__h5_list_t *l)
{
  for (int i = 0; i < l->n; i++) {
    ct_mem_free(l->v[i].path);
    ct_mem_free(l->v[i].name);
    ct_mem_free(l->v[i].sizes);
    ct_mem_free(l->v[i].class_names);
  }
  ct_mem_free(l->v);
  *l = (ct__h5_list_t){0};
}
