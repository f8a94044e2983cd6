/* Predictions as arrays: an HDF5 file of several outputs or of fields, or a directory of masks.
 * Samples are written as they arrive, so that only one is in memory. */
#include "commands/predict_several.h"

#include <inttypes.h>
#include <string.h>

#include "setup/ct_command.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "data/image/ct_image.h"
#include "eval/ct_blend.h"
#include "eval/ct_predict.h"
#include "hdf5io/ct_field_file.h"

enum { MASK_CLASSES = 256 };

typedef struct part {
  ct__output_t o;
  ct_blend_t blend;
  float *whole;               /* owned; [values], the output of the current sample */
  int64_t most;               /* values of the largest sample */
  int finished;               /* 1: values are written as probabilities */
  int with_values, values_of; /* 1: written to this array of the file */
  int with_class, class_of;
} part_t;

struct ct__fields {
  const ct_setup_t *s;
  ct_predict_style_t style;
  const ct_reader_ops_t *ops; /* the reader of whole samples; borrowed */
  ct_reader_t *reader;
  const ct_tile_t *tile; /* NULL: samples are not cut */
  ct_field_file_t *file; /* NULL: masks */
  int parts, mask;       /* mask: the output that is written as masks */
  int64_t values, samples, lost;
  int is_lost;   /* 1: a tile of the current sample could not be read */
  int64_t *best; /* classes of the places of the current sample */
  void *class;   /* the same as they are written */
  size_t common; /* length of the directory prefix that all samples share */
  uint8_t *rgb;  /* the palette, or NULL */
  part_t part[CT_OUTPUTS];
};

/* ---- what is written ---- */

/* Chooses what is written of an output; returns 1 if anything is. */
static int choose(const ct__fields_t *p, part_t *o)
{
  ct_predict_values_t v = p->style.values;
  int is_mask = p->parts == 1 && o->o.places > 1;
  int likely = o->o.has_loss && (o->o.places || o->o.loss == CT_LOSS_BCE);
  o->with_class = o->o.places && (v == CT_PREDICT_CLASSES || v == CT_PREDICT_USUAL);
  o->with_values = v == CT_PREDICT_OUTPUTS || (v == CT_PREDICT_PROBABILITIES && likely) ||
                   (v == CT_PREDICT_USUAL && !is_mask);
  o->finished = v == CT_PREDICT_PROBABILITIES || (v == CT_PREDICT_USUAL && o->o.places < 2);
  return o->with_class || o->with_values;
}

static ct_dtype_t class_type(const ct__output_t *o)
{
  if (o->places == 1) return CT_I64;
  return o->classes <= MASK_CLASSES ? CT_U8 : CT_I32;
}

static int choose_all(ct__fields_t *p)
{
  int rc = CT_OK, any = 0;
  for (int k = 0; k < p->parts; k++)
    any += choose(p, &p->part[k]);
  if (!any)
    CT_FAIL(CT_ERR_USAGE, "predict: --values %s: the model has no output with the loss %s",
            p->style.values == CT_PREDICT_CLASSES ? "classes" : "probabilities",
            p->style.values == CT_PREDICT_CLASSES ? "cross_entropy" : "cross_entropy or bce");
out:
  return rc;
}

/* Returns the shape of the output for a whole sample of shape x, with all samples in dim 0. */
static ct_shape_t whole_shape(const ct__fields_t *p, const part_t *o, const ct_shape_t *x)
{
  ct_shape_t all = o->o.shape;
  all.batch = 0;
  all.dim[0] = p->samples;
  for (int a = 0; p->tile && a < p->tile->given; a++)
    all.dim[a + 2] = x->dim[a + 2] * all.dim[a + 2] / p->tile->size[a];
  return all;
}

static int open_memory(ct__fields_t *p, const ct_shape_t *x)
{
  int rc = CT_OK;
  int64_t most = 1;
  for (int k = 0; k < p->parts; k++) {
    part_t *o = &p->part[k];
    ct_shape_t all = whole_shape(p, o, x);
    if (p->tile)
      CT_TRY(ct_blend_open(&o->blend, p->style.blend, p->tile, o->o.name, &o->o.shape, x));
    if (p->tile) CT_TRY(ct_blend_begin(&o->blend, x));
    o->most = ct_shape_sample(&all);
    if (o->o.places && o->most / o->o.classes > most) most = o->most / o->o.classes;
    p->values += o->o.values;
    o->whole = ct_mem_array(o->most, sizeof *o->whole, "an output of a sample");
    CT_TRY(o->whole ? CT_OK : CT_ERR_NOMEM);
  }
  p->best = ct_mem_array(most, sizeof *p->best, "the classes of a sample");
  p->class = ct_mem_array(most, sizeof *p->best, "the classes of a sample");
  CT_TRY(p->best && p->class ? CT_OK : CT_ERR_NOMEM);
out:
  return rc;
}

/* ---- the HDF5 file ---- */

static int add_arrays(ct__fields_t *p, part_t *o, const ct_shape_t *x)
{
  int rc = CT_OK;
  char name[CT_NAME_MAX + 32];
  const char *of = p->parts > 1 ? o->o.name : "", *slash = p->parts > 1 ? "/" : "";
  const char *values = p->style.values == CT_PREDICT_PROBABILITIES ? "/probabilities" : "/outputs";
  ct_shape_t all = whole_shape(p, o, x), class = all;
  CT_TRY(ct_text_format(name, sizeof name, "%s%s%s", values, slash, of));
  if (o->with_values) CT_TRY(ct_field_file_add(p->file, name, &all, 1, &o->values_of));
  class.dtype = class_type(&o->o);
  class.ndim = o->o.places == 1 ? 1 : all.ndim - 1;
  for (int i = 1; i < CT_MAX_DIMS; i++)
    class.dim[i] = i < class.ndim ? all.dim[i + !o->o.last] : 1;
  CT_TRY(ct_text_format(name, sizeof name, "/class%s%s", slash, of));
  if (o->with_class) CT_TRY(ct_field_file_add(p->file, name, &class, 0, &o->class_of));
out:
  return rc;
}

static int open_file(ct__fields_t *p, const ct_shape_t *x)
{
  int rc = CT_OK;
  const ct_reader_info_t *info = p->ops->info(p->reader);
  const ct_field_like_t like = {.path = p->ops->file(p->reader, 0),
                                .array = p->s->cfg.data.input.n ? p->s->cfg.data.input.v[0] : "",
                                .channels_last = info->channels_last};
  if (p->tile && info->varies)
    CT_FAIL(CT_ERR_USAGE,
            "predict: --output %s: the samples differ in size, and an array holds "
            "samples of one size: give a directory, which gets a mask for each",
            p->style.output);
  CT_TRY(choose_all(p));
  CT_TRY(ct_field_file_create(p->style.output, &like, &p->file));
  for (int k = 0; k < p->parts; k++)
    CT_TRY(add_arrays(p, &p->part[k], x));
out:
  return rc;
}

/* Writes the classes, in the smallest type that holds them. */
static int put_classes(const ct__fields_t *p, const part_t *o, int64_t sample, int64_t places)
{
  ct_dtype_t type = class_type(&o->o);
  for (int64_t i = 0; i < places; i++) {
    if (type == CT_U8) ((uint8_t *)p->class)[i] = (uint8_t)p->best[i];
    if (type == CT_I32) ((int32_t *)p->class)[i] = (int32_t)p->best[i];
  }
  return ct_field_file_put(p->file, o->class_of, sample, type == CT_I64 ? p->best : p->class);
}

/* ---- masks ---- */

/* Returns the length of the directory prefix that the paths of all samples share. */
static size_t common_folder(const ct__fields_t *p)
{
  char first[CT_PATH_MAX], location[CT_PATH_MAX];
  p->ops->location(p->reader, 0, first, sizeof first);
  const char *slash = strrchr(first, '/');
  size_t n = slash ? (size_t)(slash - first) + 1 : 0;
  for (int64_t i = 1; i < p->samples && n; i++) {
    p->ops->location(p->reader, i, location, sizeof location);
    while (n && (strncmp(first, location, n) != 0 || first[n - 1] != '/'))
      n--;
  }
  return n;
}

static int open_masks(ct__fields_t *p)
{
  int rc = CT_OK, found = 0;
  const ct_predict_style_t *style = &p->style;
  for (int k = p->parts - 1; k >= 0; k--) {
    const ct__output_t *o = &p->part[k].o;
    if (o->places < 2 || o->shape.ndim != 4) continue;
    p->mask = k;
    found++;
  }
  if (found != 1)
    CT_FAIL(
        CT_ERR_USAGE,
        "predict: --output %s: a directory is for masks, from models with one output that has a "
        "class per pixel of an image; otherwise the name must end in .h5 or .csv",
        style->output);
  const ct__output_t *o = &p->part[p->mask].o;
  if (o->shape.dim[1] > MASK_CLASSES)
    CT_FAIL(CT_ERR_UNSUP, "predict: masks have up to %d classes, the model has %" PRId64,
            MASK_CLASSES, o->shape.dim[1]);
  if (style->values != CT_PREDICT_USUAL)
    CT_FAIL(CT_ERR_USAGE, "predict: --values is for --output FILE.h5; masks hold classes");
  if (style->palette) {
    p->rgb = ct_mem_alloc(256 * 3, "a palette");
    CT_TRY(p->rgb ? CT_OK : CT_ERR_NOMEM);
    CT_TRY(ct__palette_read(style->palette, o->shape.dim[1], p->rgb));
  }
  p->common = common_folder(p);
  CT_TRY(ct_file_mkdirs(style->output));
out:
  return rc;
}

/* Writes the mask to DIR/NAME.png; NAME is the path of the sample without the prefix that all paths
 * share. */
static int write_mask(const ct__fields_t *p, int64_t sample, const part_t *o)
{
  int rc = CT_OK;
  char path[CT_PATH_MAX], dir[CT_PATH_MAX], name[CT_PATH_MAX], location[CT_PATH_MAX];
  const int64_t *size = p->tile ? o->blend.whole : &o->o.shape.dim[2];
  p->ops->location(p->reader, sample, location, sizeof location);
  const char *inside = location + p->common;
  size_t n = strlen(inside);
  int is_png = n > 4 && strcmp(inside + n - 4, ".png") == 0;
  CT_TRY(ct_text_format(name, sizeof name, "%s%s", inside, is_png ? "" : ".png"));
  CT_TRY(ct_path_join(path, sizeof path, p->style.output, name));
  CT_TRY(ct_path_dir(dir, sizeof dir, path));
  CT_TRY(ct_file_mkdirs(dir));
  for (int64_t i = 0; i < size[0] * size[1]; i++)
    ((uint8_t *)p->class)[i] = (uint8_t)p->best[i];
  CT_TRY(ct_image_write_mask(path, size[0], size[1], p->class, p->rgb));
out:
  return rc;
}

/* ---- opening ---- */

static int open_fields(ct__fields_t *p)
{
  int rc = CT_OK, n;
  const ct_dataset_t *d = &p->s->val;
  ct__output_t outputs[CT_OUTPUTS];
  p->ops = d->ops;
  p->reader = d->reader;
  if (p->s->tile) p->tile = ct_tiles_tile(d->reader);
  if (p->s->tile) p->reader = ct_tiles_of(d->reader, &p->ops);
  const ct_reader_info_t *info = p->ops->info(p->reader);
  p->samples = info->samples;
  p->lost = info->left_out;
  CT_TRY(ct__outputs_describe(p->s, outputs, &n));
  for (p->parts = 0; p->parts < n; p->parts++)
    p->part[p->parts].o = outputs[p->parts];
  if (p->style.names || p->style.top > 1)
    CT_FAIL(CT_ERR_USAGE, "predict: --%s is for text and .csv, not for --output %s",
            p->style.names ? "names" : "top", p->style.output);
  CT_TRY(open_memory(p, &info->x));
  rc = ct__outputs_suffix(p->style.output, ".h5") ? open_file(p, &info->x) : open_masks(p);
out:
  return rc;
}

int ct__fields_open(const ct_setup_t *s, const ct_predict_style_t *style, ct__fields_t **out)
{
  int rc = CT_OK;
  ct__fields_t *p = ct_mem_alloc(sizeof *p, "the outputs");
  *out = NULL;
  if (!p) return CT_ERR_NOMEM;
  p->s = s;
  p->style = *style;
  CT_TRY(open_fields(p));
  *out = p;
  p = NULL;
out:
  ct__fields_close(p);
  return rc;
}

/* ---- samples ---- */

/* Writes an output of a whole sample. */
static int finish_part(ct__fields_t *p, part_t *o, int64_t sample)
{
  int rc = CT_OK;
  int64_t values = o->o.values, places = o->o.places;
  if (p->tile) {
    values = o->o.shape.dim[1];
    for (int a = 0; a < p->tile->given; a++)
      values *= o->blend.whole[a];
    if (places) places = values / o->o.shape.dim[1];
  }
  if (places) ct__outputs_classes(&o->o, places, o->whole, p->best);
  if (!p->file) return o == &p->part[p->mask] ? write_mask(p, sample, o) : CT_OK;
  if (o->with_class) CT_TRY(put_classes(p, o, sample, places));
  if (!o->with_values) goto out;
  int64_t of_each = places ? places : 1;
  if (o->finished && o->o.has_loss && o->o.last)
    ct_predict_finish(o->o.loss, of_each, o->o.classes, 1, o->whole);
  else if (o->finished && o->o.has_loss)
    ct_predict_finish(o->o.loss, 1, values / of_each, of_each, o->whole);
  CT_TRY(ct_field_file_put(p->file, o->values_of, sample, o->whole));
out:
  return rc;
}

static int finish_sample(ct__fields_t *p, int64_t sample)
{
  int rc = CT_OK;
  p->lost += p->is_lost;
  for (int k = 0; !p->is_lost && k < p->parts; k++)
    CT_TRY(finish_part(p, &p->part[k], sample));
out:
  return rc;
}

static int take_tile(ct__fields_t *p, int64_t index, const float *v, int lost)
{
  int rc = CT_OK;
  ct_tile_at_t at;
  ct_tiles_at(p->s->val.reader, index, &at);
  p->is_lost = lost || (at.tile && p->is_lost);
  for (int k = 0; k < p->parts; v += p->part[k++].o.values) {
    part_t *o = &p->part[k];
    if (at.tile == 0) CT_TRY(ct_blend_begin(&o->blend, &at.x));
    if (at.tile == 0) memset(o->whole, 0, (size_t)o->most * sizeof *v);
    if (!lost) ct_blend_add(&o->blend, o->o.shape.dim[1], at.start, v, o->whole);
  }
  if (at.tile == at.tiles - 1) CT_TRY(finish_sample(p, at.sample));
out:
  return rc;
}

static int take_whole(ct__fields_t *p, int64_t sample, const float *v, int lost)
{
  p->is_lost = lost;
  for (int k = 0; k < p->parts; v += p->part[k++].o.values)
    memcpy(p->part[k].whole, v, (size_t)p->part[k].o.values * sizeof *v);
  return finish_sample(p, sample);
}

int ct__fields_take(void *out, int64_t first, int64_t n, const float *outputs, const char *lost)
{
  int rc = CT_OK;
  ct__fields_t *p = out;
  for (int64_t i = 0; i < n; i++, outputs += p->values) {
    if (p->tile)
      CT_TRY(take_tile(p, first + i, outputs, lost[i]));
    else
      CT_TRY(take_whole(p, first + i, outputs, lost[i]));
  }
out:
  return rc;
}

/* ---- completing the file ---- */

int ct__fields_commit(ct__fields_t *p)
{
  int rc = CT_OK;
  ct_str_t text = {0};
  if (!p->file) return CT_OK;
  CT_TRY(ct__samples_text(p->ops, p->reader, p->samples, &text));
  CT_TRY(ct_field_file_text(p->file, "/samples", text.data));
  rc = ct_field_file_commit(p->file);
  p->file = NULL;
out:
  ct_str_clear(&text);
  return rc;
}

int64_t ct__fields_lost(const ct__fields_t *p)
{
  return p->lost;
}

void ct__fields_close(ct__fields_t *p)
{
  if (!p) return;
  ct_field_file_discard(p->file);
  for (int k = 0; k < p->parts; k++) {
    ct_blend_close(&p->part[k].blend);
    ct_mem_free(p->part[k].whole);
  }
  ct_mem_free(p->best);
  ct_mem_free(p->class);
  ct_mem_free(p->rgb);
  ct_mem_free(p);
}
