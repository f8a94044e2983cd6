/* Image files as samples, decoded to one size or stored unchanged.  Each is decoded in any case,
 * since damage should be found now and not after hours of training. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/ct_heartbeat.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_hash.h"
#include "base/ct_mem.h"
#include "comm/ct_agree.h"
#include "data/image/ct_image.h"
#include "pack/ct_pack_in.h"
#include "pack/list.h"

typedef struct images {
  ct_pack_images_t o;
  ct_shape_t x; /**< shape of a decoded sample */
  ct__pack_list_t list;
  const char **class_name; /**< [list.class_names] */
  const char **input;      /**< inputs of the source */
  int tar_fd;              /**< the open tar file */
  int tar;                 /**< index of the open tar file */
  char *file;              /**< bytes of the current image, unless the caller provides memory */
  int64_t file_cap;
  int wide;         /**< 1: images of 16 bits a channel */
  uint8_t *pixels;  /**< the decoded image */
  uint8_t *resized; /**< the image after resizing */
  int64_t pixels_cap, resized_cap;
} images_t;

/* ---- the bytes of a file ---- */

static int open_tar(images_t *im, const ct__pack_entry_t *e, const char *path)
{
  int rc = CT_OK;
  if (im->tar_fd >= 0 && im->tar == e->tar) return CT_OK;
  if (im->tar_fd >= 0) close(im->tar_fd);
  im->tar_fd = open(path, O_RDONLY | O_CLOEXEC);
  im->tar = e->tar;
  if (im->tar_fd < 0) CT_FAIL(CT_ERR_IO, "cannot be opened: %s", strerror(errno));
out:
  return rc;
}

static int read_own(const ct__pack_entry_t *e, const char *path, char *to)
{
  int rc = CT_OK;
  char more;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) CT_FAIL(CT_ERR_IO, "cannot be opened: %s", strerror(errno));
  CT_TRY(ct_file_read_at(fd, "the file", 0, to, (size_t)e->bytes));
  if (pread(fd, &more, 1, (off_t)e->bytes) == 1) CT_FAIL(CT_ERR_IO, "has grown since it was found");
out:
  if (fd >= 0) close(fd);
  return rc;
}

static int read_file(images_t *im, const ct__pack_entry_t *e, char **file, int64_t *cap)
{
  int rc = CT_OK;
  char path[CT_PATH_MAX];
  if (e->bytes < 0) CT_FAIL(CT_ERR_IO, "file not found");
  if (e->bytes == 0) CT_FAIL(CT_ERR_FORMAT, "is empty");
  CT_TRY(ct__pack_list_path(&im->list, e, path, sizeof path));
  CT_TRY(ct_mem_grow((void **)file, cap, e->bytes + 1, 1));
  ct_heartbeat_file(path);
  if (e->tar < 0) {
    CT_TRY(read_own(e, path, *file));
  } else {
    CT_TRY(open_tar(im, e, path));
    CT_TRY(ct_file_read_at(im->tar_fd, "the tar file", e->at, *file, (size_t)e->bytes));
  }
out:
  ct_heartbeat_file(NULL);
  return rc;
}

/* ---- pixels ---- */

/* Computes the size of an image before the center crop: torchvision's Resize(size). */
static void resized_size(const images_t *im, const ct_image_info_t *info, int64_t *h, int64_t *w)
{
  int64_t side = im->o.height, shorter = info->height, longer = info->width;
  *h = im->o.height;
  *w = im->o.width;
  if (!im->o.crop) return;
  if (shorter > longer) {
    shorter = info->width;
    longer = info->height;
  }
  longer = (int64_t)((double)side * (double)longer / (double)shorter);
  *h = info->height <= info->width ? side : longer;
  *w = info->height <= info->width ? longer : side;
}

/* Converts H x W x C to C x H x W and takes the center crop, as torchvision's CenterCrop. */
static void planes(const ct_image_t *in, int64_t height, int64_t width, uint8_t *to)
{
  int64_t top = (int64_t)nearbyint((double)(in->height - height) / 2);
  int64_t left = (int64_t)nearbyint((double)(in->width - width) / 2);
  for (int c = 0; c < in->channels; c++)
    for (int64_t y = 0; y < height; y++) {
      const uint8_t *from = in->data + ((top + y) * in->width + left) * in->channels + c;
      for (int64_t x = 0; x < width; x++)
        *to++ = from[x * in->channels];
    }
}

/* Checks the size of an image. Another size does not make it a bad sample, which could be skipped:
 * the user has to choose an option. */
static int check_size(const images_t *im, const ct__pack_entry_t *e, const ct_image_info_t *is)
{
  int rc = CT_OK;
  const ct_shape_t *x = &im->x;
  if (is->height != x->dim[2] || is->width != x->dim[3])
    CT_FAIL(CT_ERR_SHAPE,
            "%s: is of %" PRId64 "x%" PRId64 " pixels, but the first image is of %" PRId64
            "x%" PRId64
            ": give --resize to bring all to one size, or --encoded to keep each as it is",
            ct__pack_list_text(&im->list, e->name), is->height, is->width, x->dim[2], x->dim[3]);
out:
  return rc;
}

static int fit(images_t *im, const ct__pack_entry_t *e, const ct_image_info_t *info, uint8_t *to)
{
  int rc = CT_OK;
  const ct_shape_t *x = &im->x;
  ct_image_t in = {im->pixels, info->height, info->width, im->o.channels}, out = in;
  if (im->o.height) {
    resized_size(im, info, &out.height, &out.width);
    if (out.height * out.width > CT_IMAGE_PIXELS)
      CT_FAIL(CT_ERR_DATA, "of %" PRId64 "x%" PRId64 " would become too large", info->height,
              info->width);
    CT_TRY(ct_mem_grow((void **)&im->resized, &im->resized_cap,
                       out.height * out.width * out.channels, 1));
    out.data = im->resized;
    if (out.height == in.height && out.width == in.width)
      out.data = in.data;
    else
      CT_TRY(ct_image_resize(&in, &out));
  } else {
    CT_TRY(check_size(im, e, info));
  }
  planes(&out, x->dim[2], x->dim[3], to);
out:
  return rc;
}

/* Reads 16 bits a channel, unchanged, channels first. */
static int read_wide(images_t *im, const ct__pack_entry_t *e, int32_t *to)
{
  int rc = CT_OK;
  ct_image_info_t info;
  int channels = im->o.channels;
  int64_t pixels = im->x.dim[2] * im->x.dim[3];
  CT_TRY(ct_image_info(im->file, (size_t)e->bytes, &info));
  CT_TRY(check_size(im, e, &info));
  CT_TRY(ct_mem_grow((void **)&im->pixels, &im->pixels_cap, 2 * pixels * channels, 1));
  uint16_t *from = (uint16_t *)(void *)im->pixels;
  CT_TRY(ct_image_decode_wide(im->file, (size_t)e->bytes, &info, channels, from));
  for (int c = 0; c < channels; c++)
    for (int64_t i = 0; i < pixels; i++)
      *to++ = from[i * channels + c];
out:
  return rc;
}

static int images_decode(images_t *im, const char *file, const ct__pack_entry_t *e, int channels,
                         ct_image_info_t *info)
{
  int rc = CT_OK;
  CT_TRY(ct_image_info(file, (size_t)e->bytes, info));
  if (!channels) channels = info->channels;
  CT_TRY(
      ct_mem_grow((void **)&im->pixels, &im->pixels_cap, info->height * info->width * channels, 1));
  CT_TRY(ct_image_decode(file, (size_t)e->bytes, info, channels, im->pixels));
out:
  return rc;
}

/* ---- the source ---- */

static void take_targets(const ct__pack_list_t *l, int64_t index, ct_pack_sample_t *to)
{
  if (l->targets)
    memcpy(to->targets, l->target + index * l->targets, (size_t)l->targets * sizeof(float));
}

static int read_encoded(void *state, int64_t index, ct_pack_sample_t *to)
{
  int rc = CT_OK;
  images_t *im = state;
  const ct__pack_entry_t *e = &im->list.entry[index];
  ct_image_info_t info;
  CT_TRY(read_file(im, e, &to->file, &to->file_cap));
  CT_TRY(images_decode(im, to->file, e, 0, &info));
  to->file_bytes = (size_t)e->bytes;
  to->height = (int32_t)info.height;
  to->width = (int32_t)info.width;
  to->channels = info.channels;
  take_targets(&im->list, index, to);
out:
  return rc;
}

static int read_pixels(void *state, int64_t index, ct_pack_sample_t *to)
{
  int rc = CT_OK;
  images_t *im = state;
  const ct__pack_entry_t *e = &im->list.entry[index];
  ct_image_info_t info;
  CT_TRY(read_file(im, e, &im->file, &im->file_cap));
  if (im->wide) {
    CT_TRY(read_wide(im, e, to->x));
  } else {
    CT_TRY(images_decode(im, im->file, e, im->o.channels, &info));
    CT_TRY(fit(im, e, &info, to->x));
  }
  take_targets(&im->list, index, to);
out:
  return rc;
}

static int32_t images_label_of(void *state, int64_t index)
{
  const images_t *im = state;
  return im->list.entry[index].label;
}

static int64_t images_bytes_of(void *state, int64_t index)
{
  const images_t *im = state;
  int64_t bytes = im->list.entry[index].bytes;
  return bytes > 0 ? bytes : 0;
}

static void images_place_of(void *state, int64_t index, char *buf, size_t cap)
{
  const images_t *im = state;
  const ct__pack_entry_t *e = &im->list.entry[index];
  const char *name = ct__pack_list_text(&im->list, e->name);
  if (e->tar < 0)
    ct_text_fit(buf, cap, "%s", name);
  else
    ct_text_fit(buf, cap, "%s: %s", ct__pack_list_text(&im->list, im->list.tar_name[e->tar]), name);
}

static void close_images(void *state)
{
  images_t *im = state;
  if (!im) return;
  if (im->tar_fd >= 0) close(im->tar_fd);
  ct__pack_list_clear(&im->list);
  ct_mem_free(im->class_name);
  ct_mem_free(im->input);
  ct_mem_free(im->file);
  ct_mem_free(im->pixels);
  ct_mem_free(im->resized);
  ct_mem_free(im);
}

/* ---- opening ---- */

static int make_list(const ct_pack_images_t *o, ct__pack_list_t *l)
{
  if (o->folder) return ct__pack_list_folder(o->folder, l);
  if (o->list) return ct__pack_list_csv(o, l);
  return ct__pack_list_tar(o->tar, l);
}

/* Without --resize all images must have the size of the first one that can be read. */
static int first_size(images_t *im)
{
  int rc = CT_ERR_FORMAT;
  ct_image_info_t info = {0};
  int64_t tried = im->list.n < 100 ? im->list.n : 100;
  for (int64_t i = 0; i < tried && rc != CT_OK; i++) {
    const ct__pack_entry_t *e = &im->list.entry[i];
    rc = read_file(im, e, &im->file, &im->file_cap);
    if (rc == CT_OK) rc = ct_image_info(im->file, (size_t)e->bytes, &info);
    if (rc == CT_ERR_NOMEM || rc == CT_ERR_UNSUP) break;
  }
  if (rc != CT_OK) {
    char place[CT_PATH_MAX];
    images_place_of(im, 0, place, sizeof place);
    return ct_err_prefix(rc, "none of the first images can be read, such as %s: ", place);
  }
  im->x.dim[2] = info.height;
  im->x.dim[3] = info.width;
  im->wide = info.bits == 16;
  if (im->wide) im->x.dtype = CT_I32;
  return rc;
}

static uint64_t identity_of(const images_t *im)
{
  const ct__pack_list_t *l = &im->list;
  const int64_t options[] = {im->o.encoded, im->o.channels, im->o.height,
                             im->o.width,   im->o.crop,     l->n};
  uint64_t hash = ct_hash(options, sizeof options, 0);
  hash = ct_hash(l->entry, (size_t)l->n * sizeof *l->entry, hash);
  hash = ct_hash(l->text, (size_t)l->text_bytes, hash);
  if (l->targets) hash = ct_hash(l->target, (size_t)(l->n * l->targets) * sizeof(float), hash);
  for (int64_t i = 0; i < l->tars; i++)
    hash = ct_pack_identity(ct__pack_list_text(l, l->tar_name[i]), hash);
  return hash;
}

/* Images are not listed as inputs: no shard has the name of an image. */
static int name_parts(images_t *im)
{
  ct__pack_list_t *l = &im->list;
  int64_t n = 0;
  im->class_name = ct_mem_array(l->class_names + 1, sizeof *im->class_name, "names of classes");
  im->input = ct_mem_array(l->tars + 2, sizeof *im->input, "names of files");
  if (!im->class_name || !im->input) return CT_ERR_NOMEM;
  for (int64_t i = 0; i < l->class_names; i++)
    im->class_name[i] = ct__pack_list_text(l, l->class_name[i]);
  for (int64_t i = 0; i < l->tars; i++)
    im->input[n++] = ct__pack_list_text(l, l->tar_name[i]);
  if (im->o.list) im->input[n++] = im->o.list;
  if (im->o.folder) im->input[n++] = im->o.folder;
  return CT_OK;
}

static void fill_source(images_t *im, ct_pack_source_t *out)
{
  const ct__pack_list_t *l = &im->list;
  *out = (ct_pack_source_t){.x = im->x,
                            .unsigned16 = im->wide,
                            .encoded = im->o.encoded,
                            .samples = l->n,
                            .targets = l->targets,
                            .classes = l->targets ? 0 : l->classes,
                            .class_names = l->class_names ? im->class_name : NULL,
                            .identity = identity_of(im),
                            .inputs = im->input,
                            .state = im,
                            .label = l->targets ? NULL : images_label_of,
                            .bytes = im->o.encoded ? images_bytes_of : NULL,
                            .read = im->o.encoded ? read_encoded : read_pixels,
                            .place = images_place_of,
                            .close = close_images};
}

int ct_pack_open_images(const ct_topo_t *t, const ct_pack_images_t *o, ct_pack_source_t *out)
{
  int rc = CT_OK;
  images_t *im = ct_mem_alloc(sizeof *im, "a source of images");
  *out = (ct_pack_source_t){0};
  CT_TRY_ALL(t, im ? CT_OK : CT_ERR_NOMEM);
  im->o = *o;
  im->tar_fd = -1;
  im->x = ct_shape(4, 1, o->channels, o->height, o->crop ? o->height : o->width);
  im->x.dtype = CT_U8;
  CT_TRY(ct__pack_list_share(t, t->rank ? CT_OK : make_list(o, &im->list), &im->list));
  CT_TRY_ALL(t, name_parts(im));
  if (!o->encoded && !o->height) CT_TRY_ALL(t, first_size(im));
  fill_source(im, out);
  im = NULL;
out:
  close_images(im);
  return rc;
}
