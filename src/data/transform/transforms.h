/** \file transforms.h  What a transform is, and how a list of them is run.  Internal to data.
 *
 * Each kind is one row of the table in transforms.c: its name, its options, what it makes of a
 * shape and what it does to a sample.  The semantics are those of torchvision.transforms.v2 on
 * float tensors.
 *
 * Every draw is a pure function of (seed, epoch, sample, position in the list, number of the draw):
 * the same at any rank count, thread count and batch size. */
#ifndef CT_DATA_TRANSFORMS_H
#define CT_DATA_TRANSFORMS_H
#include "data/ct_dataset.h"

/* ---- draws (random_draws.c) ---- */

/** The random numbers of one transform for one sample, in the order in which it asks for them. */
typedef struct ct__draws {
  uint64_t key, id;
  uint32_t next;
} ct__draws_t;

ct__draws_t ct__draws(uint64_t seed, int64_t epoch, int position, int64_t id);
/** Uniform in [0, 1), 53 bits. */
double ct__draw(ct__draws_t *d);
/** Uniform in [lo, hi). */
double ct__draw_in(ct__draws_t *d, double lo, double hi);
/** Uniform in 0 … n-1. */
int64_t ct__draw_below(ct__draws_t *d, int64_t n);
/** Standard normal. */
double ct__draw_normal(ct__draws_t *d);
/** Beta(alpha, alpha), exact, by two gamma variates. */
double ct__draw_beta(ct__draws_t *d, double alpha);

/* ---- kinds ---- */

/** C x H x W. */
typedef struct ct__image_size {
  int64_t c, h, w;
} ct__image_size_t;

/** A rectangle of an image; top and left may lie outside of it where that is said. */
typedef struct ct__image_box {
  int64_t top, left, h, w;
} ct__image_box_t;

/** What the head of a list makes of an image: a box of it, resized, a window of that, maybe
 * mirrored. */
typedef struct ct__view {
  ct__image_box_t box;    /**< of the image */
  int64_t h, w;           /**< that it is resized to; as the box: it is not */
  ct__image_box_t window; /**< of those h x w: the result */
  int flip;
} ct__view_t;

/** Where a transform stands, for messages, and what is known of the samples that reach it. */
typedef struct ct__transform_place {
  const char *where, *key, *name; /**< "train.yaml", "transforms", "random_crop" */
  int line;                       /**< 0: from the command line */
  double full;                    /**< what to_tensor divides by */
  int unscaled;                   /**< stored integers that nothing has mapped yet */
} ct__transform_place_t;

/** CT_ERR_USAGE: "file:line: transforms.random_crop: " and the text. */
int ct__transform_refuse(const ct__transform_place_t *at, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/** n options that have to be whole numbers.  CT_ERR_USAGE names \a option. */
int ct__transform_whole(const ct__transform_place_t *at, const char *option,
                        const ct_opt_doubles_t *v, int64_t out[]);
/** A range [lo, hi] of two numbers, lo <= hi.  CT_ERR_USAGE names \a option. */
int ct__transform_range(const ct__transform_place_t *at, const char *option,
                        const ct_opt_doubles_t *v, double out[2]);

/** The affine map so far, in double: rounded once at the end. */
typedef struct ct__transform_map {
  int channels; /**< of a sample */
  int used;     /**< it is not empty */
  int varies;   /**< channels differ */
  double a[CT_AFFINE_MAX], b[CT_AFFINE_MAX];
} ct__transform_map_t;

enum {
  CT__TRANSFORM_RANDOM = 1,    /**< for training only */
  CT__TRANSFORM_IN_PLACE = 2,  /**< apply() gets in == out, and the shape stays */
  CT__TRANSFORM_ANY_SHAPE = 4, /**< not only for C x H x W */
  CT__TRANSFORM_MIX = 8,       /**< mixes two samples: is not applied in the list but after it */
  CT__TRANSFORM_COLOUR = 16,   /**< changes values, not their places: answers by place stay */
  CT__TRANSFORM_RESIZES = 32,  /**< of those with look(): once in a view */
  CT__TRANSFORM_MIRRORS = 64   /**< of those with look(): the last of a view */
};

typedef struct ct__transform ct__transform_t;

typedef struct ct__transform_kind {
  const char *name, *help;
  int flags;
  size_t size;          /**< of its struct, which begins with the options */
  const ct_opt_t *rows; /**< NULL: no options */
  /** Affine kinds have this one only: puts itself behind the map. */
  int (*map)(const void *o, const ct__transform_place_t *at, ct__transform_map_t *m);
  /** Checks the options, sets s->out (it is s->in before) and s->scratch (0 before).  NULL: fit()
   * does. */
  int (*plan)(ct__transform_t *s, const ct__transform_place_t *at);
  /** Those that change the shape: sets s->out and s->scratch from s->in, for plan() and then, where
   * samples differ in size, hot and for each of them.  0: the sample is too small. */
  int (*fit)(ct__transform_t *s);
  /** Hot.  One sample; \a scratch has room for s->scratch floats. */
  void (*apply)(const ct__transform_t *s, ct__draws_t *d, const float *in, float *out,
                float *scratch);
  /** Hot.  The same of labels by place, which have no mean: with the same draws.  NULL: apply(). */
  void (*apply_labels)(const ct__transform_t *s, ct__draws_t *d, const float *in, float *out,
                       float *scratch);
  /** Hot.  Kinds that choose and resize pixels, and no more: what apply() does becomes part of the
   * view of an image that is yet to be decoded.  s->in is the size of the view so far.  NULL: not
   * of that sort. */
  void (*look)(const ct__transform_t *s, ct__draws_t *d, ct__view_t *v);
  /** 1 if its result lies within s->in, 0 if zeros come around it; NULL: always within. */
  int (*within)(const ct__transform_t *s);
  /** Frees what plan() allocated, besides the options; NULL: nothing. */
  void (*clear)(void *o);
} ct__transform_kind_t;

/** A transform in a list. */
struct ct__transform {
  const ct__transform_kind_t *kind;
  void *o;      /**< owned: the kind's struct */
  int position; /**< in the list, from 0 */
  int varies;   /**< in is the largest shape of samples that differ in size */
  ct_shape_t in, out;
  int64_t scratch;
};

extern const ct__transform_kind_t ct__transform_to_tensor, ct__transform_normalize,
    ct__transform_random_crop, ct__transform_center_crop, ct__transform_random_flip,
    ct__transform_resize, ct__transform_random_resized_crop, ct__transform_color_jitter,
    ct__transform_random_erasing, ct__transform_mixup, ct__transform_cutmix;
/** Folded to_tensor and normalize behind another transform; not in the table. */
extern const ct__transform_kind_t ct__transform_affine;

ct__image_size_t ct__image_size(const ct_shape_t *s);
/** The map without an effect, for so many channels. */
void ct__transform_map_begin(ct__transform_map_t *m, int channels);
/** The map in float; it is empty then. */
void ct__transform_map_end(ct__transform_map_t *m, ct_affine_t *out);

/* ---- what the kinds do, at given parameters ---- */

/** The window of y's size whose corner is (top, left) of x; zeros outside of x. */
void ct__image_crop(const float *x, ct__image_size_t in, int64_t top, int64_t left, float *y,
                    ct__image_size_t out);
/** Where center_crop's window lies: negative if it is larger than the image. */
void ct__image_center(ct__image_size_t in, ct__image_size_t out, int64_t *top, int64_t *left);
void ct__image_flip(float *x, ct__image_size_t s);
void ct__image_brightness(float *x, ct__image_size_t s, float factor);
void ct__image_contrast(float *x, ct__image_size_t s, float factor);
void ct__image_saturation(float *x, ct__image_size_t s, float factor);
/** factor in -0.5 to 0.5: of the colour circle. */
void ct__image_hue(float *x, ct__image_size_t s, float factor);
/** value: one for each channel. */
void ct__image_erase(float *x, ct__image_size_t s, ct__image_box_t b, const float *value);
/** y = share * y + (1 - share) * other. */
void ct__image_blend(float *y, const float *other, int64_t n, float share);
/** Copies the box from another image. */
void ct__image_paste(float *y, const float *other, ct__image_size_t s, ct__image_box_t b);
/** CutMix' box of area 1 - lambda around (y, x), cut off at the borders. */
ct__image_box_t ct__image_cutmix_box(ct__image_size_t s, double lambda, int64_t y, int64_t x);

/** Weights of one direction of a resize: output i is the sum of n[i] inputs from first[i] on. */
typedef struct ct__image_taps {
  int64_t outputs, span; /**< span: room for the weights of an output */
  int32_t *first, *n;
  float *weight;
} ct__image_taps_t;
/** Floats of memory for the taps from up to \a in inputs to \a out outputs. */
int64_t ct__image_taps_room(int64_t in, int64_t out);
/** Bilinear weights with antialiasing, in \a room. */
void ct__image_taps(int64_t in, int64_t out, float *room, ct__image_taps_t *t);
/** The same for outputs \a from to \a from + \a n - 1, of \a out in all, from inputs that begin at
 * \a start and are \a length long, of which those from \a lo to \a hi - 1 exist; first[] counts as
 * they do.  For ct__image_taps_room(length rounded up, out) floats. */
typedef struct ct__image_span {
  double start, length;
  int64_t lo, hi, out, from, n;
} ct__image_span_t;
void ct__image_taps_of(const ct__image_span_t *s, float *room, ct__image_taps_t *t);
enum { CT__IMAGE_RESIZE_ROWS = 8 }; /**< that are resized across together */
/** The nearest pixel of the box for each of y, as torchvision resizes masks. */
void ct__image_nearest(const float *x, ct__image_size_t in, ct__image_box_t b, float *y,
                       ct__image_size_t out);
/** Floats of scratch for boxes of up to \a w columns. */
int64_t ct__image_resize_room(int64_t w);
/** Resizes the box of x to y, which has t[0].outputs rows (t[0]: down, t[1]: across). */
void ct__image_resize(const float *x, ct__image_size_t in, ct__image_box_t b,
                      const ct__image_taps_t t[2], float *scratch, float *y);

/** Floats of scratch for ct__image_resample() of \a w columns. */
int64_t ct__image_resample_room(int64_t w, int channels);
/** Resizes bytes x[][w][channels] to y[t[0].outputs][t[1].outputs][channels], rounded. */
void ct__image_resample(const uint8_t *x, int64_t w, int channels, const ct__image_taps_t t[2],
                        float *scratch, uint8_t *y);

/* ---- reading and running a list ---- */

enum { CT__TRANSFORM_MIXES = 2 }; /**< mixup and cutmix */

struct ct_transforms {
  ct__transform_t *step; /**< what is done to a sample of its own, after its conversion */
  int steps, moves;      /**< moves: those of them that are not in place */
  int head;              /**< steps of the head, until it is taken out */
  ct__transform_t mix[CT__TRANSFORM_MIXES];
  int mixes;
  int varies;              /**< samples differ in size: each is planned as it comes */
  int64_t channels;        /**< of answers by place */
  int by_class;            /**< these are labels */
  int64_t widest, scratch; /**< floats of the largest sample on the way, and of the largest
                              scratch */
};
/** Frees what a step owns. */
void ct__transform_clear(ct__transform_t *s);

/** Local.  Plans the list for samples of shape *x (float32), of which \a info says how they are
 * stored: *first is the map of the conversion, *out the rest, NULL if that is all, *x becomes the
 * shape behind the list.  o NULL: nothing is done.  CT_ERR_USAGE with file:line and the
 * transform. */
int ct__transforms_open(const ct_transforms_opts_t *o, const char *where,
                        const ct_reader_info_t *info, ct_shape_t *x, ct_affine_t *first,
                        ct_transforms_t **out);
/** Local.  A list for evaluation that gives samples of the shape of training: that of training,
 * planned as \a trained, with the middle of the image in place of a random part.  Appended as YAML
 * on one line. */
int ct__transforms_usual(const ct_yaml_t *list, const ct_transforms_t *trained, ct_str_t *out);
/** NULL is fine. */
void ct__transforms_close(ct_transforms_t *t);

/** Local.  Of samples that differ in size: *out is what one of shape *in becomes, and there will be
 * room for it on the way.  NULL, or the name of the transform that it is too small for, or that
 * would make it too large. */
const char *ct__transforms_fit(ct_transforms_t *t, const ct_shape_t *in, ct_shape_t *out);
/** Floats of work space for one thread. */
int64_t ct__transforms_room(const ct_transforms_t *t);
/** Where the float32 sample is to be put that ct__transforms_run() brings to \a x. */
float *ct__transforms_start(const ct_transforms_t *t, float *work, float *x);
/** Hot.  Applies the list to one sample, allocates nothing.  \a in: its shape, if samples
 * differ. */
void ct__transforms_run(const ct_transforms_t *t, const ct_shape_t *in, uint64_t seed,
                        int64_t epoch, int64_t id, float *work, float *x);

/** Local.  From now on the list is also applied to answers by place, of so many channels; \a
 * by_class: they are labels.  NULL is fine. */
void ct__transforms_answers(ct_transforms_t *t, int64_t channels, int by_class);
/** Hot.  What the list does to the places of sample \a id, done to its answer; memory as of
 * ct__transforms_run(), whose room is for as many channels as the sample has, or the answer. */
void ct__transforms_run_answer(const ct_transforms_t *t, uint64_t seed, int64_t epoch, int64_t id,
                               float *work, float *y);

/** Which steps make the head, found while the list is read. */
typedef struct ct__head_probe {
  int open, resized, mirrored;
  int steps, length;   /**< that belong to it; up to the last that makes all alike */
  ct_shape_t small[3]; /**< what becomes of the least, flattest and tallest image */
} ct__head_probe_t;
void ct__head_probe_begin(ct__head_probe_t *p, const ct_reader_info_t *info);
/** 1 if the planned step, the next of the list, belongs to the head. */
int ct__head_probe(ct__head_probe_t *p, const ct__transform_t *s);

/** The beginning of a list that can be done while an image is decoded: transforms that choose and
 * resize pixels, up to the last that makes all samples alike. */
typedef struct ct__head ct__head_t;
/** Takes the head of *t, if info->encoded and there is one, out of it: *out, else NULL.  info->x
 * becomes the shape behind it; *t becomes NULL if nothing is left.  CT_ERR_NOMEM */
int ct__head_take(ct_transforms_t **t, ct_reader_info_t *info, ct__head_t **out);
/** NULL is fine. */
void ct__head_close(ct__head_t *h);
/** Hot.  The view of an image of h x w.  NULL, or the name of the transform that it is too small
 * for. */
const char *ct__head_look(const ct__head_t *head, int64_t h, int64_t w, uint64_t seed,
                          int64_t epoch, int64_t id, ct__view_t *out);

/** What is mixed into a sample. */
typedef struct ct__transform_mix {
  int64_t partner;     /**< sample number; -1: nothing is mixed in */
  float share;         /**< of the sample itself, in its label too */
  ct__image_box_t box; /**< cutmix: this box is the partner's; w == 0: mixup */
} ct__transform_mix_t;
/** 1 if there is a mixup or cutmix in the list; \a t may be NULL. */
int ct__transforms_mixes(const ct_transforms_t *t);
/** The draws of one of the two, for ct__transform_mix_draw(). */
ct__transform_mix_t ct__transform_mix_draw_kind(const ct__transform_t *s, ct__draws_t *d,
                                                int64_t samples);
/** Hot.  Draws what to mix into sample \a id of a data set of so many samples. */
ct__transform_mix_t ct__transform_mix_draw(const ct_transforms_t *t, uint64_t seed, int64_t epoch,
                                           int64_t id, int64_t samples);
/** Hot.  Mixes the partner's finished sample into \a x. */
void ct__transform_mix_apply(const ct_transforms_t *t, const ct__transform_mix_t *m,
                             const float *partner, float *x);

#endif
