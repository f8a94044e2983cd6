/* The reader of image files: each file is a sample.  It is meant for prediction on up to some
 * thousand images; millions of images for training should be packed, since each file costs an
 * open().  The sizes of all images are read from their headers when the reader is opened, as
 * planning needs them. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_heartbeat.h"
#include "base/ct_err.h"
#include "base/ct_fault.h"
#include "base/ct_file.h"
#include "base/ct_hash.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "data/image/ct_image.h"
#include "data/readers/ct_reader.h"

typedef struct image {
  char *path;  /* owned */
  char *moved; /* owned: the path of a copy that is read instead; NULL: none */
  ct_image_info_t info;
} image_t;

struct ct_reader {
  ct_reader_info_t info;
  image_t *image;
  int64_t cap;
};

static void images_close(ct_reader_t *r)
{
  if (!r) return;
  for (int64_t i = 0; i < r->info.samples; i++) {
    ct_mem_free(r->image[i].path);
    ct_mem_free(r->image[i].moved);
  }
  ct_mem_free(r->image);
  ct_mem_free(r);
}

static int add_image(ct_reader_t *r, const char *path, const ct_image_info_t *info)
{
  void *list = r->image;
  if (ct_mem_grow(&list, &r->cap, r->info.samples + 1, sizeof *r->image)) return CT_ERR_NOMEM;
  r->image = list;
  char *copy = ct_mem_strdup(path);
  if (!copy) return CT_ERR_NOMEM;
  r->image[r->info.samples++] = (image_t){.path = copy, .info = *info};
  return CT_OK;
}

static int files_read_header(ct_reader_t *r, const char *path)
{
  int rc = CT_OK;
  char *file = NULL;
  size_t bytes;
  ct_image_info_t info;
  ct_heartbeat_file(path);
  CT_TRY(ct_file_regular(path));
  CT_TRY(ct_file_read(path, &file, &bytes));
  rc = ct_image_info(file, bytes, &info);
  if (rc == CT_OK && info.bits == 16)
    rc = ct_err_set(CT_ERR_DATA, __FILE__, __LINE__,
                    "has 16 bits a channel, and image files are read with 8: pack stores it as "
                    "uint16, in an HDF5 file");
  if (rc != CT_OK) ct_err_prefix(rc, "%s: ", path);
  if (rc == CT_OK) rc = add_image(r, path, &info);
out:
  ct_heartbeat_file(NULL);
  ct_mem_free(file);
  return rc;
}

/* Reads the header of an image file. If data.on_error is skip, leaves out files that are not
 * images. */
static int take_image(ct_reader_t *r, const ct_reader_spec_t *spec, const char *path)
{
  int rc = files_read_header(r, path);
  if (!spec->skip_bad || (rc != CT_ERR_FORMAT && rc != CT_ERR_IO)) return rc;
  ct_log(CT_LOG_WARN, "%s; it is left out (data.on_error: skip)", ct_err_last()->text);
  r->info.left_out++;
  return CT_OK;
}

static int read_pattern(ct_reader_t *r, const ct_reader_spec_t *spec, const char *pattern)
{
  int rc = CT_OK, n = 0;
  char **found = NULL;
  CT_TRY(ct_reader_list(&ct_reader_images.format, spec->dir, pattern, &found, &n));
  for (int i = 0; i < n; i++)
    CT_TRY(take_image(r, spec, found[i]));
out:
  ct_file_list_free(found, n);
  return rc;
}

/* ---- data shared with other ranks: for each image its numbers, and its path with the NUL ---- */

typedef struct told {
  ct_image_info_t info;
  int64_t path_bytes;
} told_t;

static int images_share(const ct_reader_t *r, void **bytes, size_t *n)
{
  int rc = CT_OK;
  void *list = NULL;
  int64_t cap = 0, len = 0;
  for (int64_t i = 0; i < r->info.samples; i++) {
    const image_t *im = &r->image[i];
    told_t t = {.info = im->info, .path_bytes = (int64_t)strlen(im->path) + 1};
    CT_TRY(ct_mem_grow(&list, &cap, len + (int64_t)sizeof t + t.path_bytes, 1));
    memcpy((char *)list + len, &t, sizeof t);
    memcpy((char *)list + len + sizeof t, im->path, (size_t)t.path_bytes);
    len += (int64_t)sizeof t + t.path_bytes;
  }
  *bytes = list;
  *n = (size_t)len;
  list = NULL;
out:
  ct_mem_free(list);
  return rc;
}

static int take_told(ct_reader_t *r, const char *bytes, size_t n)
{
  int rc = CT_OK;
  for (const char *end = bytes + n; bytes < end;) {
    told_t t;
    memcpy(&t, bytes, sizeof t);
    CT_TRY(add_image(r, bytes + sizeof t, &t.info));
    bytes += sizeof t + (size_t)t.path_bytes;
  }
out:
  return rc;
}

/* ---- opening ---- */

static void files_sum_up(ct_reader_t *r, int channels)
{
  ct_reader_info_t *info = &r->info;
  const ct_image_info_t *first = &r->image[0].info;
  int64_t h = 0, w = 0, c = channels;
  for (int64_t i = 0; i < info->samples; i++) {
    const ct_image_info_t *im = &r->image[i].info;
    if (im->height > h) h = im->height;
    if (im->width > w) w = im->width;
    if (!channels && im->channels > c) c = im->channels;
    if (im->height != first->height || im->width != first->width) info->varies = 1;
    info->fingerprint = ct_hash_text(r->image[i].path, info->fingerprint);
    info->fingerprint = ct_hash_int(im->height, info->fingerprint);
    info->fingerprint = ct_hash_int(im->width, info->fingerprint);
  }
  info->x = ct_shape(4, 1, c, h, w);
  info->x.dtype = CT_U8;
  info->channels_last = 1;
  info->encoded = 1;
  info->unlabelled = 1;
  info->fingerprint = ct_hash_int(c, info->fingerprint);
  info->layout = (ct_reader_layout_t){.files = (int)info->samples,
                                      .blocks = info->samples,
                                      .block_rows = 1,
                                      .block_bytes = (size_t)(c * h * w),
                                      .compressed = 1};
}

static int check_spec(const ct_reader_spec_t *spec)
{
  int rc = CT_OK;
  if (*spec->target)
    CT_FAIL(CT_ERR_USAGE,
            "data.target is '%s', but image files have no labels: set it to \"\" to predict",
            spec->target);
  if (spec->channels && spec->channels != 1 && spec->channels != 3)
    CT_FAIL(CT_ERR_USAGE,
            "the model's samples have %d channels, but image files are read with 1 or 3",
            spec->channels);
out:
  return rc;
}

static int images_open(const ct_reader_spec_t *spec, ct_reader_t **out)
{
  int rc = CT_OK;
  ct_reader_t *r = NULL;
  *out = NULL;
  CT_TRY(ct_fault("reader.open"));
  CT_TRY(check_spec(spec));
  r = ct_mem_alloc(sizeof *r, "the reader of images");
  if (!r) CT_TRY(CT_ERR_NOMEM);
  if (spec->known) CT_TRY(take_told(r, spec->known, spec->known_bytes));
  for (int i = 0; !spec->known && i < spec->files->n; i++)
    CT_TRY(read_pattern(r, spec, spec->files->v[i]));
  if (r->info.samples < 1) CT_FAIL(CT_ERR_USAGE, "no images found");
  files_sum_up(r, spec->channels);
  *out = r;
  r = NULL;
out:
  images_close(r);
  return rc;
}

/* ---- questions ---- */

static const char *images_file(const ct_reader_t *r, int i)
{
  if (i < 0 || i >= r->info.samples) return NULL;
  return r->image[i].moved ? r->image[i].moved : r->image[i].path;
}

static int images_move(ct_reader_t *r, int i, const char *path)
{
  char *copy = ct_mem_strdup(path);
  if (!copy) return CT_ERR_NOMEM;
  ct_mem_free(r->image[i].moved);
  r->image[i].moved = copy;
  return CT_OK;
}

static const ct_reader_info_t *images_info(const ct_reader_t *r)
{
  return &r->info;
}

static void images_shape(const ct_reader_t *r, int64_t index, ct_shape_t *out)
{
  *out = r->info.x;
  out->dim[2] = r->image[index].info.height;
  out->dim[3] = r->image[index].info.width;
}

static int read_image(const ct_reader_t *r, int64_t index, uint8_t *to)
{
  int rc = CT_OK;
  char *file = NULL;
  size_t bytes;
  const char *path = images_file(r, (int)index);
  CT_TRY(ct_file_read(path, &file, &bytes));
  rc = ct_image_decode(file, bytes, &r->image[index].info, (int)r->info.x.dim[1], to);
  if (rc != CT_OK) ct_err_prefix(rc, "%s: ", path);
out:
  ct_mem_free(file);
  return rc;
}

static int images_read(ct_reader_t *r, int n, const int64_t index[], void *x, void *y)
{
  int rc = CT_OK;
  uint8_t *to = x;
  for (int i = 0; i < n; i++) {
    if (index[i] < 0 || index[i] >= r->info.samples)
      CT_FAIL(CT_ERR_ARG, "image %" PRId64 " is out of range: there are %" PRId64, index[i],
              r->info.samples);
    if (x) CT_TRY(read_image(r, index[i], to));
    const ct_image_info_t *im = &r->image[index[i]].info;
    if (x) to += im->height * im->width * r->info.x.dim[1];
    if (y) ((int64_t *)y)[i] = 0;
  }
out:
  return rc;
}

static int images_encoded(ct_reader_t *r, int64_t index, ct_reader_file_t *to)
{
  int rc = CT_OK;
  char *file = NULL;
  if (index < 0 || index >= r->info.samples)
    CT_FAIL(CT_ERR_ARG, "image %" PRId64 " is out of range: there are %" PRId64, index,
            r->info.samples);
  CT_TRY(ct_file_read(images_file(r, (int)index), &file, &to->bytes));
  CT_TRY(ct_mem_grow(&to->v, &to->cap, (int64_t)to->bytes, 1));
  memcpy(to->v, file, to->bytes);
out:
  ct_mem_free(file);
  return rc;
}

static void images_location(const ct_reader_t *r, int64_t index, char *buf, size_t cap)
{
  ct_text_fit(buf, cap, "%s", r->image[index].path);
}

const ct_reader_ops_t ct_reader_images = {
    .format = {.name = "PNG or JPEG",
               .suffixes = {".png", ".jpg", ".jpeg", ".JPEG"},
               .probe = ct_image_probe},
    .open = images_open,
    .share = images_share,
    .file = images_file,
    .move = images_move,
    .info = images_info,
    .shape = images_shape,
    .read = images_read,
    .encoded = images_encoded,
    .location = images_location,
    .close = images_close,
};
