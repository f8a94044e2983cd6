/* Reads, plans and runs the list of transforms. */
#include "data/transform/transforms.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "conf/ct_opt_short.h"
#include "data/transform/ct_transform_list.h"

static const ct__transform_kind_t *const kinds[] = {&ct__transform_to_tensor,
                                                    &ct__transform_normalize,
                                                    &ct__transform_random_crop,
                                                    &ct__transform_random_flip,
                                                    &ct__transform_random_vertical_flip,
                                                    &ct__transform_symmetry,
                                                    &ct__transform_roll,
                                                    &ct__transform_random_resized_crop,
                                                    &ct__transform_resize,
                                                    &ct__transform_center_crop,
                                                    &ct__transform_random_rotation,
                                                    &ct__transform_random_affine,
                                                    &ct__transform_random_perspective,
                                                    &ct__transform_elastic_transform,
                                                    &ct__transform_color_jitter,
                                                    &ct__transform_grayscale,
                                                    &ct__transform_random_grayscale,
                                                    &ct__transform_gaussian_blur,
                                                    &ct__transform_gaussian_noise,
                                                    &ct__transform_trivial_augment_wide,
                                                    &ct__transform_rand_augment,
                                                    &ct__transform_random_erasing,
                                                    &ct__transform_mask_tokens,
                                                    &ct__transform_mixup,
                                                    &ct__transform_cutmix};
enum {
  KINDS = sizeof kinds / sizeof kinds[0],
  CHOICE = -1,  /* the position from which the choice between them is drawn */
  ALIGNED = 16, /* floats */
  MAX_SIDE = 1 << 30
};

/* ---- reading ---- */

/* The state while a list is planned. */
typedef struct transforms_build {
  ct_transforms_t *t;
  ct__transform_location_t at;
  int tells;               /* 1: log warnings, which is done once, for the training data */
  int training;            /* 0: without its random transforms */
  int varies;              /* samples differ in size */
  int converted;           /* the map of the conversion is fixed */
  ct_affine_t *first;      /* the map of the conversion */
  ct__transform_map_t map; /* the map being folded */
  ct_shape_t now;          /* the shape of a sample at this position */
  const ct_reader_info_t *info;
  int scaled;                    /* 1: the list has had a to_tensor so far */
  int mapped;                    /* 1: the list has had any affine map so far */
  double largest;                /* result of the previous maps for stored integers */
  ct__decode_time_probe_t probe; /* finds the decode-time transforms */
} build_t;

void ct__transform_clear(ct__transform_t *s)
{
  if (!s->o) return;
  if (s->kind->clear) s->kind->clear(s->o);
  if (s->kind->rows) ct_opt_clear(s->kind->rows, s->o);
  ct_mem_free(s->o);
  s->o = NULL;
}

void ct__transforms_close(ct_transforms_t *t)
{
  if (!t) return;
  for (int i = 0; t->step && i < t->steps; i++)
    ct__transform_clear(&t->step[i]);
  for (int i = 0; i < t->mixes; i++)
    ct__transform_clear(&t->mix[i]);
  ct_mem_free(t->step);
  ct_mem_free(t);
}

static int transforms_find(const build_t *b, const char *name, const ct__transform_kind_t **out)
{
  const char *names[KINDS];
  char all[800] = "";
  ct__transform_location_t at = b->at;
  size_t len = 0;
  at.name = NULL;
  for (int i = 0; i < KINDS; i++) {
    *out = kinds[i];
    names[i] = kinds[i]->name;
    if (strcmp(names[i], name) == 0) return CT_OK;
    len += (size_t)snprintf(all + len, sizeof all - len, "%s%s", i ? ", " : "", names[i]);
  }
  const char *nearest = ct_opt_nearest(name, names, KINDS);
  if (nearest)
    return ct__transform_refuse(&at, "unknown '%.80s'; did you mean '%s'?", name, nearest);
  return ct__transform_refuse(&at, "unknown '%.80s'; there are %s", name, all);
}

static int read_options(const build_t *b, ct__transform_t *s, const ct_yaml_t *options)
{
  int rc = CT_OK;
  char section[80];
  ct_yaml_t nothing = {.kind = CT_YAML_SCALAR, .text = (char[]){""}, .line = b->at.line};
  const ct__transform_kind_t *k = s->kind;
  s->o = ct_mem_alloc(k->size > 0 ? k->size : 1, "the options of a transform");
  if (!s->o) return CT_ERR_NOMEM;
  int given = options && (options->child || (options->text && options->text[0]));
  if (!k->rows && given) return ct__transform_refuse(&b->at, "it has no options");
  if (!k->rows) return CT_OK;
  snprintf(section, sizeof section, "%s.%s", b->at.key, k->name);
  CT_TRY(ct_opt_defaults(k->rows, s->o));
  CT_TRY(ct_opt_read(k->rows, s->o, options ? options : &nothing, b->at.where, section, NULL));
out:
  return rc;
}

/* Returns 1 for too large samples: sizes in bytes of several samples must fit into integers. */
static int is_too_large(const ct_shape_t *s)
{
  return ct_shape_sample(s) > INT64_MAX / 64;
}

/* Ends the current map: it becomes the map of the conversion, or a step. */
static int end_map(build_t *b)
{
  ct_transforms_t *t = b->t;
  if (!b->converted) {
    ct__transform_map_end(&b->map, b->first);
    b->converted = 1;
    return CT_OK;
  }
  if (!b->map.used) return CT_OK;
  ct__transform_t *s = &t->step[t->steps++];
  *s = (ct__transform_t){.kind = &ct__transform_affine, .in = b->now, .out = b->now};
  s->o = ct_mem_alloc(sizeof(ct_affine_t), "a map of channels");
  if (!s->o) return CT_ERR_NOMEM;
  ct__transform_map_end(&b->map, s->o);
  return CT_OK;
}

static int check_shape(const build_t *b, const ct__transform_kind_t *k)
{
  char shape[64];
  if (k->flags & CT__TRANSFORM_ANY_SHAPE) return CT_OK;
  if (b->now.ndim == 4 && b->now.dim[2] <= MAX_SIDE && b->now.dim[3] <= MAX_SIDE) return CT_OK;
  if (b->now.ndim == 5 && k->flags & CT__TRANSFORM_VOLUMES) return CT_OK;
  ct_shape_text(&b->now, shape, sizeof shape);
  return ct__transform_refuse(&b->at, "needs samples of C x H x W%s, but these are %s",
                              k->flags & CT__TRANSFORM_VOLUMES ? " or C x D x H x W" : "",
                              strchr(shape, 'x') + 1);
}

static int add_mix(build_t *b, ct__transform_t *s)
{
  ct_transforms_t *t = b->t;
  for (int i = 0; i < t->mixes; i++)
    if (t->mix[i].kind == s->kind) return ct__transform_refuse(&b->at, "is listed twice");
  if (!b->training) return CT_OK;
  t->mix[t->mixes++] = *s;
  s->o = NULL;
  return CT_OK;
}

/* Returns 1 if the step may be applied before or after the map of the conversion: it moves pixels,
 * and if it pads, then with zeros of the stored samples, to which no offset has been added. */
static int commutes(const build_t *b, const ct__transform_t *s)
{
  int pads = s->kind->within && (s->varies || !s->kind->within(s));
  if (b->converted || !s->kind->move) return 0;
  for (int c = 0; pads && c < b->map.channels && c < CT_AFFINE_MAX; c++)
    if (b->map.b[c] != 0) return 0;
  return 1;
}

static int add_step(build_t *b, ct__transform_t *s)
{
  int rc = CT_OK;
  ct_transforms_t *t = b->t;
  s->in = s->out = b->now;
  s->varies = b->varies;
  if (s->kind->plan)
    CT_TRY(s->kind->plan(s, &b->at));
  else if (s->kind->fit)
    s->kind->fit(s);
  if (is_too_large(&s->out))
    return ct__transform_refuse(&b->at, "makes samples that are too large");
  /* an affine map of channels commutes with selecting and resizing pixels */
  if (commutes(b, s)) s->map = &t->map;
  if (!ct__decode_time_probe(&b->probe, s) && !s->map) CT_TRY(end_map(b));
  b->now = s->out;
  t->moves += !(s->kind->flags & CT__TRANSFORM_IN_PLACE);
  t->along_moves += !(s->kind->flags & (CT__TRANSFORM_IN_PLACE | CT__TRANSFORM_COLOUR));
  t->step[t->steps++] = *s;
  s->o = NULL;
out:
  return rc;
}

/* Returns 1 if samples are images stored as integers. */
static int is_pixels(const build_t *b)
{
  return b->now.ndim >= 4 && (b->info->x.dtype == CT_U8 || b->info->wide);
}

static void note_map(build_t *b, const ct__transform_kind_t *kind)
{
  int scales = kind == &ct__transform_to_tensor;
  if (scales && b->mapped && !b->scaled && b->tells)
    ct_log(CT_LOG_WARN,
           "%s:%d: %s: normalize is before to_tensor, which divides its result by %g: put "
           "to_tensor before it",
           b->at.where, b->at.line, b->at.key, b->at.full);
  for (int c = 0; c < b->map.channels && c < CT_AFFINE_MAX && !scales && !b->mapped; c++) {
    double low = fabs(b->map.b[c]), high = fabs(b->map.a[c] * b->at.full + b->map.b[c]);
    b->largest = fmax(b->largest, fmax(low, high));
  }
  b->at.unscaled = 0;
  b->mapped = 1;
  b->scaled |= scales;
}

/* Warns of unscaled inputs: with inputs of 0 to 255 a model begins with a loss in the hundreds. */
static void warn_of_scale(const build_t *b)
{
  enum { LARGE = 100, LARGE_WIDE = 300 /* many such files use 12 bits */ };
  double largest = b->mapped ? b->largest : b->at.full;
  if (!b->tells || b->scaled || !is_pixels(b) || largest <= (b->info->wide ? LARGE_WIDE : LARGE))
    return;
  ct_log(CT_LOG_WARN,
         "%s: %s: images are stored as integers of 0 to %g, and the model gets numbers as large as "
         "%.4g: to_tensor divides by %g%s",
         b->at.where, b->at.key, b->at.full, largest, b->at.full,
         b->mapped ? ", before normalize" : "");
}

/* `NAME`, or a map of one key: `NAME: {options}`. */
static int transforms_add(build_t *b, ct_yaml_t *item, int position)
{
  int rc = CT_OK, named = item->kind == CT_YAML_MAP && ct_yaml_count(item) == 1;
  ct__transform_t s = {.position = position};
  b->at.name = NULL;
  b->at.line = item->line;
  item->used = 1;
  if (item->kind != CT_YAML_SCALAR && !named)
    return ct__transform_refuse(&b->at,
                                "expected a name, or a name and its options: {name: {...}}");
  ct_yaml_t *options = named ? item->child : NULL;
  CT_TRY(transforms_find(b, named ? options->key : item->text, &s.kind));
  b->at.name = s.kind->name;
  if (named) options->used = 1;
  CT_TRY(read_options(b, &s, options));
  CT_TRY(check_shape(b, s.kind));
  if (s.kind->map) {
    CT_TRY(s.kind->map(s.o, &b->at, &b->map));
    note_map(b, s.kind);
  } else if (s.kind->flags & CT__TRANSFORM_MIX) {
    CT_TRY(add_mix(b, &s));
  } else if (s.kind->flags & CT__TRANSFORM_TOKENS && b->info->unlabelled) {
    goto out; /* nothing is predicted, so nothing is hidden */
  } else if (b->training || !(s.kind->flags & CT__TRANSFORM_RANDOM)) {
    CT_TRY(add_step(b, &s));
  }
out:
  ct__transform_clear(&s);
  return rc;
}

static int is_integer(ct_dtype_t t)
{
  return t != CT_F32 && t != CT_F64 && t != CT_F16 && t != CT_BF16;
}

void ct__transforms_grow(ct_transforms_t *t, int64_t sample, int64_t scratch)
{
  int64_t floats = (sample + ALIGNED - 1) / ALIGNED * ALIGNED;
  if (floats > t->widest) t->widest = floats;
  if (scratch > t->scratch) t->scratch = scratch;
}

/* Completes a list; drops it if it consists only of a map. */
static int transforms_finish(build_t *b, ct_transforms_t **out)
{
  int rc = CT_OK;
  ct_transforms_t *t = b->t;
  CT_TRY(end_map(b));
  t->map = *b->first;
  t->decode_time = b->probe.length;
  ct__transforms_grow(t, ct_shape_sample(&b->now), 0);
  for (int i = 0; i < t->mixes; i++)
    t->mix[i].in = t->mix[i].out = b->now;
  for (int i = t->decode_time; i < t->steps; i++)
    ct__transforms_grow(t, ct_shape_sample(&t->step[i].in), t->step[i].scratch);
  t->varies = b->varies;
  if (t->steps + t->mixes > 0) {
    *out = t;
    b->t = NULL;
  }
out:
  return rc;
}

static const ct_opt_t *options_of(const char *name)
{
  for (int i = 0; i < KINDS; i++)
    if (strcmp(kinds[i]->name, name) == 0) return kinds[i]->rows;
  return NULL;
}

int ct_transforms_expand(ct_yaml_t *list)
{
  return ct_opt_expand(list, options_of);
}

static int transforms_build(const ct_yaml_t *list, const ct__transform_location_t *at, int training,
                            int tells, const ct_reader_info_t *info, ct_shape_t *x,
                            ct_affine_t *first, ct_transforms_t **out)
{
  int rc = CT_OK, position = 0;
  build_t b = {.at = *at,
               .training = training,
               .tells = tells,
               .varies = info->varies,
               .info = info,
               .first = first,
               .now = *x};
  *out = NULL;
  int nothing = !list || (list->kind == CT_YAML_SCALAR && !list->text[0]);
  b.at.line = list ? list->line : 0;
  if (list) b.at.where = ct_yaml_file(list, at->where);
  if (!nothing && list->kind != CT_YAML_LIST)
    return ct__transform_refuse(&b.at, "expected a list: [to_tensor, ...]");
  CT_TRY(ct_transforms_expand((ct_yaml_t *)(uintptr_t)list)); /* as if the configuration contained
                                                                 it */
  ct__decode_time_probe_begin(&b.probe, info);
  int64_t frames = info->channels.frames > 1 ? info->channels.frames : 1;
  int64_t channels = x->dim[1] / frames; /* all frames get the same map */
  ct__transform_map_begin(&b.map, channels < INT32_MAX ? (int)channels : INT32_MAX);
  b.t = ct_mem_alloc(sizeof *b.t, "the transforms");
  if (!b.t) return CT_ERR_NOMEM;
  b.t->step = ct_mem_array(2 * (nothing ? 0 : ct_yaml_count(list)) + 1, sizeof *b.t->step,
                           "the transforms"); /* at most one map after each */
  if (!b.t->step) CT_TRY(CT_ERR_NOMEM);
  for (ct_yaml_t *item = nothing ? NULL : list->child; item; item = item->next)
    CT_TRY(transforms_add(&b, item, position++));
  warn_of_scale(&b);
  CT_TRY(transforms_finish(&b, out));
  *x = b.now;
out:
  ct__transforms_close(b.t);
  return rc;
}

static int check_val_list(const ct_yaml_t *list, const ct__transform_location_t *at)
{
  for (const ct_yaml_t *n = list->kind == CT_YAML_LIST ? list->child : NULL; n; n = n->next) {
    const char *name = n->kind == CT_YAML_MAP && n->child ? n->child->key : n->text;
    ct__transform_location_t here = *at;
    here.line = n->line;
    here.where = ct_yaml_file(n, at->where);
    for (int i = 0; name && i < KINDS; i++)
      if (strcmp(kinds[i]->name, name) == 0 && kinds[i]->flags & CT__TRANSFORM_RANDOM) {
        here.name = name;
        return ct__transform_refuse(&here, "is random: for training only");
      }
  }
  return CT_OK;
}

/* Evaluation uses the list without its random transforms, which must not change the shape the model
 * sees. */
static int check_same(const ct_shape_t *training, const ct_shape_t *evaluation,
                      const ct_transforms_t *trained, ct__transform_location_t *at,
                      const ct_yaml_t *list)
{
  int rc = CT_OK;
  char a[64], b[64];
  ct_str_t usual = {0};
  if (ct_shape_same(training, evaluation)) return CT_OK;
  CT_TRY(ct__transforms_usual(list, trained, &usual));
  ct_shape_text(training, a, sizeof a);
  ct_shape_text(evaluation, b, sizeof b);
  at->line = list->line;
  at->where = ct_yaml_file(list, at->where);
  rc = ct__transform_refuse(
      at,
      "samples become %s in training, but stay %s in evaluation, which has no "
      "random transforms: give a list val_transforms too, such as val_transforms: %s",
      strchr(a, 'x') + 1, strchr(b, 'x') + 1, usual.data);
out:
  ct_str_clear(&usual);
  return rc;
}

int ct__transforms_open(const ct_transforms_opts_t *o, const char *where,
                        const ct_reader_info_t *info, ct_shape_t *x, ct_affine_t *first,
                        ct_transforms_t **out)
{
  int rc = CT_OK;
  char shape[128];
  ct_transforms_t *training = NULL;
  static const ct_transforms_opts_t none = {.training = 1};
  if (!o) o = &none;
  *out = NULL;
  if (is_too_large(x))
    CT_FAIL(CT_ERR_FORMAT, "samples of %s are too large", ct_shape_text(x, shape, sizeof shape));
  ct__transform_location_t at = {.where = where,
                                 .key = "transforms",
                                 .full = info->wide ? 65535 : 255,
                                 .unscaled = is_integer(info->x.dtype),
                                 .vocab = info->tokens ? info->classes : -1,
                                 .pad = info->tokens ? info->pad : -1,
                                 .target_channels =
                                     info->dense_target.ndim ? info->dense_target.dim[1] : 0};
  ct_shape_t trained = *x;
  if (o->training) return transforms_build(o->list, &at, 1, o != &none, info, x, first, out);
  if (o->val_list) {
    at.key = "val_transforms";
    CT_TRY(check_val_list(o->val_list, &at));
    return transforms_build(o->val_list, &at, 0, 0, info, x, first, out);
  }
  CT_TRY(transforms_build(o->list, &at, 1, 0, info, &trained, first, &training));
  CT_TRY(transforms_build(o->list, &at, 0, 0, info, x, first, out));
  CT_TRY(check_same(&trained, x, training, &at, o->list));
out:
  ct__transforms_close(training);
  if (rc != CT_OK) {
    ct__transforms_close(*out);
    *out = NULL;
  }
  return rc;
}

int ct_transforms_help(ct_str_t *out)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(
      out,
      "  transforms is a list of `NAME` or `NAME: {options}`, applied in its order to every "
      "sample.\n"
      "  Evaluation skips the random ones, or uses the list val_transforms.  mixup and\n"
      "  cutmix are applied last, wherever they are listed; with both, each sample gets one of "
      "them.\n"
      "  A value instead of the options sets the only required option; if none is required, the\n"
      "  only option, or else size, p or scale: `resize: 256`, `random_flip: 0.5`.\n"));
  for (int i = 0; i < KINDS; i++) {
    CT_TRY(ct_str_add(out, " %s: %s%s\n", kinds[i]->name, kinds[i]->help,
                      kinds[i]->flags & CT__TRANSFORM_RANDOM ? " (random: training only)" : ""));
    if (kinds[i]->rows) CT_TRY(ct_opt_help(kinds[i]->rows, "", out));
  }
out:
  return rc;
}

/* ---- samples that differ in size ---- */

/* Plans the step for a sample of shape *now, which becomes the shape after it.  Returns 0 if the
 * kind rejects the sample or the result is too large. */
static int fit_step(ct__transform_t *s, ct_shape_t *now)
{
  s->in = s->out = *now;
  int fits = !s->kind->fit || s->kind->fit(s);
  *now = s->out;
  return fits && !is_too_large(now);
}

const char *ct__transforms_fit(ct_transforms_t *t, const ct_shape_t *in, ct_shape_t *out)
{
  *out = *in;
  for (int i = 0; i < t->steps; i++) {
    ct__transform_t s = t->step[i];
    if (!fit_step(&s, out)) return s.kind->name;
    if (i >= t->decode_time) ct__transforms_grow(t, ct_shape_sample(&s.in), s.scratch);
  }
  return NULL;
}

/* ---- running ---- */

int64_t ct__transforms_workspace(const ct_transforms_t *t)
{
  int64_t workspace;
  if (__builtin_add_overflow(2 * t->widest, t->scratch, &workspace)) return INT64_MAX;
  return workspace;
}

int ct__transforms_keeps_bytes(const ct_transforms_t *t)
{
  if (ct__transforms_mixes(t)) return 0;
  for (int i = 0; t && i < t->steps; i++)
    if (!t->step[i].map) return 0;
  return 1;
}

float *ct__transforms_start(const ct_transforms_t *t, float *work, float *x)
{
  return t->moves > 0 ? work : x;
}

void ct__transforms_run(const ct_transforms_t *t, const ct_shape_t *in, uint64_t seed,
                        int64_t epoch, int64_t id, float *work, float *x)
{
  float *now = ct__transforms_start(t, work, x), *other = work + t->widest;
  int moves = t->moves;
  ct__transform_t fitted;
  ct_shape_t shape;
  if (t->varies) shape = *in;
  for (int i = 0; i < t->steps; i++) {
    const ct__transform_t *s = &t->step[i];
    if (t->varies) {
      fitted = *s;
      fit_step(&fitted, &shape);
      s = &fitted;
    }
    ct__draws_t draws = {0};
    float *to = now;
    if (s->kind->flags & (CT__TRANSFORM_RANDOM | CT__TRANSFORM_TOKENS))
      draws = ct__draws(seed, epoch, s->position, id);
    if (!(s->kind->flags & CT__TRANSFORM_IN_PLACE)) to = --moves == 0 ? x : other;
    if (s->kind->move)
      s->kind->move(s, &draws, (ct__pixels_t){s->in.dim[1], sizeof *x}, now, to);
    else
      s->kind->apply(s, &draws, now, to, work + 2 * t->widest);
    if (to != now) other = now;
    now = to;
  }
}

void ct__transforms_run_bytes(const ct_transforms_t *t, ct__pixels_t p, uint64_t seed,
                              int64_t epoch, int64_t id, const uint8_t *stored, uint8_t *work,
                              uint8_t *x)
{
  int moves = t->moves;
  uint8_t *now = moves > 0 ? work : x, *other = work + t->widest;
  memcpy(now, stored, (size_t)ct_shape_sample(&t->step[0].in));
  for (int i = 0; i < t->steps; i++) {
    ct__transform_t s = t->step[i];
    ct__draws_t draws = {0};
    uint8_t *to = now;
    s.map = NULL;
    if (s.kind->flags & CT__TRANSFORM_RANDOM) draws = ct__draws(seed, epoch, s.position, id);
    if (!(s.kind->flags & CT__TRANSFORM_IN_PLACE)) to = --moves == 0 ? x : other;
    s.kind->move(&s, &draws, p, now, to);
    if (to != now) other = now;
    now = to;
  }
}

int ct__transforms_mixes(const ct_transforms_t *t)
{
  return t && t->mixes > 0;
}

ct__transform_mix_t ct__transform_mix_draw(const ct_transforms_t *t, uint64_t seed, int64_t epoch,
                                           int64_t id, int64_t samples)
{
  const ct__transform_t *s = &t->mix[0];
  if (t->mixes == CT__TRANSFORM_MIXES) {
    ct__draws_t choice = ct__draws(seed, epoch, CHOICE, id);
    s = &t->mix[ct__draw_below(&choice, CT__TRANSFORM_MIXES)];
  }
  ct__draws_t draws = ct__draws(seed, epoch, s->position, id);
  return ct__transform_mix_draw_kind(s, &draws, samples);
}

void ct__transform_mix_apply(const ct_transforms_t *t, const ct__transform_mix_t *m,
                             const float *partner, float *x)
{
  const ct_shape_t *shape = &t->mix[0].in;
  if (m->partner < 0) return;
  if (m->box.w > 0)
    ct__image_paste(x, partner, ct__image_size(shape), m->box);
  else
    ct__image_blend(x, partner, ct_shape_sample(shape), m->share);
}
