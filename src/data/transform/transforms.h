/** \file transforms.h  The kinds of transforms, and lists of them.  Internal to data.
 *
 * Each kind is one row of the table in transforms.c: its name, its options, the shape it produces,
 * and how it changes a sample.  The semantics are those of torchvision.transforms.v2 on float
 * tensors.
 *
 * Every draw is a pure function of (seed, epoch, sample, position in the list, number of the draw):
 * it does not depend on the number of ranks or threads or on the batch size. */
#ifndef CT_DATA_TRANSFORMS_H
#define CT_DATA_TRANSFORMS_H
#include "data/ct_dataset.h"

/* ---- draws (random_draws.c) ---- */

/** The random numbers of one transform for one sample, in the order in which it draws them. */
typedef struct ct__draws {
  uint64_t key, id;
  uint32_t next;
} ct__draws_t;

ct__draws_t ct__draws(uint64_t seed, int64_t epoch, int position, int64_t id);
/** Draws a number uniformly from [0, 1), with 53 bits. */
double ct__draw(ct__draws_t *d);
/** Draws a number uniformly from [lo, hi). */
double ct__draw_in(ct__draws_t *d, double lo, double hi);
/** Draws an integer uniformly from 0 … n-1. */
int64_t ct__draw_below(ct__draws_t *d, int64_t n);
/** Draws from the standard normal distribution. */
double ct__draw_normal(ct__draws_t *d);
/** Draws from Beta(alpha, alpha), exactly, by two gamma variates. */
double ct__draw_beta(ct__draws_t *d, double alpha);

/* ---- kinds ---- */

/** The size of an image, C x H x W. */
typedef struct ct__image_size {
  int64_t c, h, w;
} ct__image_size_t;

/** How the pixels of an image lie in memory: planes x h x w pixels of so many bytes.  float32
 * images have a plane for each channel; bytes that are stored channels last have one plane. */
typedef struct ct__pixels {
  int64_t planes;
  size_t bytes;
} ct__pixels_t;

/** A rectangle of an image; top and left may lie outside the image where documented. */
typedef struct ct__image_box {
  int64_t top, left, h, w;
} ct__image_box_t;

/** The result of the decode-time transforms of an image: a box of the image is resized, and a
 * window of that is taken and perhaps mirrored. */
typedef struct ct__view {
  ct__image_box_t box; /**< of the image */
  /* Size of the resized box.  If it is equal to the size of `box`, the box is not resized. */
  int64_t h, w;
  ct__image_box_t window; /**< final crop within the resized box */
  int flip;
} ct__view_t;

/** The position of a transform in the configuration, for messages, and properties of its input
 * samples. */
typedef struct ct__transform_location {
  const char *where;       /**< configuration file, such as "train.yaml" */
  const char *key;         /**< key of the list, such as "transforms" */
  const char *name;        /**< name of the transform, such as "random_crop" */
  int line;                /**< 0: from the command line */
  double full;             /**< the divisor of to_tensor */
  int unscaled;            /**< 1: stored integers to which no map has been applied yet */
  int64_t target_channels; /**< channels of the dense target; 0: the data has none */
  int64_t vocab;           /**< number of ids of tokens; 0: unknown; -1: samples are not tokens */
  int64_t pad;             /**< id of padding; -1: none */
} ct__transform_location_t;

/** Returns CT_ERR_USAGE; the message is "file:line: transforms.random_crop: " and the text. */
int ct__transform_refuse(const ct__transform_location_t *at, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/** Converts the numbers of an option to integers.  CT_ERR_USAGE, which names \a option: one is not
 * whole. */
int ct__transform_whole(const ct__transform_location_t *at, const char *option,
                        const ct_opt_doubles_t *v, int64_t out[]);
/** Reads a range [lo, hi] with lo <= hi.  CT_ERR_USAGE names \a option. */
int ct__transform_range(const ct__transform_location_t *at, const char *option,
                        const ct_opt_doubles_t *v, double out[2]);

/** The affine map composed so far, in double precision; rounded once at the end. */
typedef struct ct__transform_map {
  int channels; /**< of a sample */
  int used;     /**< 1: it is not empty */
  int varies;   /**< 1: channels have different maps */
  double a[CT_AFFINE_MAX], b[CT_AFFINE_MAX];
} ct__transform_map_t;

enum {
  CT__TRANSFORM_RANDOM = 1,    /**< used in training only */
  CT__TRANSFORM_IN_PLACE = 2,  /**< apply() gets in == out and keeps the shape */
  CT__TRANSFORM_ANY_SHAPE = 4, /**< accepts any shape, not only C x H x W */
  CT__TRANSFORM_MIX = 8,       /**< mixes two samples; applied after the list, not in it */
  CT__TRANSFORM_COLOUR = 16,   /**< changes values only, so dense targets are unchanged */
  CT__TRANSFORM_RESIZES = 32,  /**< with view(): resizes, at most once in a view */
  CT__TRANSFORM_MIRRORS = 64,  /**< with view(): mirrors, only as the last of a view */
  CT__TRANSFORM_VOLUMES = 128, /**< accepts C x D x H x W too */
  CT__TRANSFORM_TOKENS = 256   /**< random, but used in evaluation too */
};

/** An array whose pixels move along with those of the samples: a dense target, or another target or
 * input with the same pixels. */
typedef struct ct__along {
  int64_t channels;
  int by_class;  /**< 1: labels, which cannot be averaged */
  int is_target; /**< 1: the dense target, of which `target_vectors` speaks */
} ct__along_t;

typedef struct ct__transform ct__transform_t;

typedef struct ct__transform_kind {
  const char *name, *help;
  int flags;
  size_t size;          /**< size of its struct, which begins with the options */
  const ct_opt_t *rows; /**< NULL: no options */
  /** The only function of affine kinds: composes the map with its own. */
  int (*map)(const void *o, const ct__transform_location_t *at, ct__transform_map_t *m);
  /** Checks the options and sets s->out (initially s->in) and s->scratch (initially 0).  NULL:
   * fit() sets them. */
  int (*plan)(ct__transform_t *s, const ct__transform_location_t *at);
  /** For kinds that change the shape: sets s->out and s->scratch from s->in.  Called in planning,
   * and where samples differ in size also for each sample (hot).  Returns 0 if the sample is too
   * small. */
  int (*fit)(ct__transform_t *s);
  /** Hot.  Transforms one sample; \a scratch holds s->scratch floats. */
  void (*apply)(const ct__transform_t *s, ct__draws_t *d, const float *in, float *out,
                float *scratch);
  /** Hot.  In place of apply(), for kinds that only move pixels, whatever their type. */
  void (*move)(const ct__transform_t *s, ct__draws_t *d, ct__pixels_t p, const void *in, void *out);
  /** Hot.  Transforms dense labels, which cannot be averaged, with the same draws.  NULL: apply()
   * is used. */
  void (*apply_labels)(const ct__transform_t *s, ct__draws_t *d, const float *in, float *out,
                       float *scratch);
  /** Hot.  For kinds that only select and resize pixels: adds the effect of apply() to the view of
   * an image that is not decoded yet. s->in is the size of the view so far.  NULL: this kind can
   * only transform decoded images. */
  void (*view)(const ct__transform_t *s, ct__draws_t *d, ct__view_t *v);
  /** 1 if its result lies within s->in, 0 if it is padded; NULL: always within. */
  int (*within)(const ct__transform_t *s);
  /** Frees the memory that plan() allocated, except the options; NULL: none. */
  void (*clear)(void *o);
} ct__transform_kind_t;

/** A transform in a list. */
struct ct__transform {
  const ct__transform_kind_t *kind;
  void *o;      /**< owned: the kind's struct */
  int position; /**< in the list, from 0 */
  int varies;   /**< 1: samples differ in size, and `in` is the largest shape */
  /** The map of the conversion if move() may as well precede it; then float32 pixels outside the
   * image are its result for 0.  NULL: they are 0. */
  const ct_affine_t *map;
  const ct__along_t *along; /**< the array that is transformed; NULL: the sample itself */
  ct_shape_t in, out;
  int64_t scratch;
};

extern const ct__transform_kind_t ct__transform_to_tensor, ct__transform_normalize,
    ct__transform_random_crop, ct__transform_center_crop, ct__transform_random_flip,
    ct__transform_resize, ct__transform_random_resized_crop, ct__transform_color_jitter,
    ct__transform_random_erasing, ct__transform_mixup, ct__transform_cutmix,
    ct__transform_random_vertical_flip, ct__transform_random_rotation, ct__transform_random_affine,
    ct__transform_random_perspective, ct__transform_elastic_transform, ct__transform_gaussian_blur,
    ct__transform_gaussian_noise, ct__transform_grayscale, ct__transform_random_grayscale,
    ct__transform_trivial_augment_wide, ct__transform_rand_augment, ct__transform_symmetry,
    ct__transform_roll, ct__transform_mask_tokens;
/** to_tensor and normalize, folded into one map, after another transform; not in the table. */
extern const ct__transform_kind_t ct__transform_affine;

ct__image_size_t ct__image_size(const ct_shape_t *s);
/** Sets the identity map for so many channels. */
void ct__transform_map_begin(ct__transform_map_t *m, int channels);
/** Rounds the map to float and empties it. */
void ct__transform_map_end(ct__transform_map_t *m, ct_affine_t *out);

/* ---- operations of the kinds, with given parameters ---- */

/** Copies the window of x with corner (top, left) and the size of y.  Outside x: zeros, or with
 * \a map, for float32 pixels, its result for 0. */
void ct__image_crop(ct__pixels_t p, const void *x, ct__image_size_t in, int64_t top, int64_t left,
                    void *y, ct__image_size_t out, const ct_affine_t *map);
/** Computes the corner of center_crop's window; negative if the window is larger than the image. */
void ct__image_center(ct__image_size_t in, ct__image_size_t out, int64_t *top, int64_t *left);
void ct__image_flip(ct__pixels_t p, void *x, ct__image_size_t s);
void ct__image_flip_vertical(ct__pixels_t p, void *x, ct__image_size_t s);
void ct__image_brightness(float *x, ct__image_size_t s, float factor);
void ct__image_contrast(float *x, ct__image_size_t s, float factor);
void ct__image_saturation(float *x, ct__image_size_t s, float factor);
/** Rotates the hue by factor (-0.5 to 0.5) of the colour circle. */
void ct__image_hue(float *x, ct__image_size_t s, float factor);
/** Fills a box; value: one number for each channel. */
void ct__image_erase(float *x, ct__image_size_t s, ct__image_box_t b, const float *value);
/** Computes y = share * y + (1 - share) * other. */
void ct__image_blend(float *y, const float *other, int64_t n, float share);
/** Copies a box of another image. */
void ct__image_paste(float *y, const float *other, ct__image_size_t s, ct__image_box_t b);
/** Returns CutMix' box of area (1 - lambda) of the image around (y, x), cut off at the borders. */
ct__image_box_t ct__image_cutmix_box(ct__image_size_t s, double lambda, int64_t y, int64_t x);

/** Filter taps (the weights of the inputs) of one direction of a resize: output i is the weighted
 * sum of n[i] inputs from first[i] on. */
typedef struct ct__image_taps {
  int64_t outputs; /**< number of outputs */
  int64_t span;    /**< number of weights allocated for each output */
  int32_t *first, *n;
  float *weight;
} ct__image_taps_t;
/** Returns the floats needed for the taps from up to \a in inputs to \a out outputs. */
int64_t ct__image_taps_workspace(int64_t in, int64_t out);
/** Computes bilinear weights with antialiasing in \a workspace. */
void ct__image_taps(int64_t in, int64_t out, float *workspace, ct__image_taps_t *t);
/** An interval of inputs and outputs: outputs \a from to \a from + \a n - 1 of \a out.  The inputs
 * begin at \a start and are \a length long; those from \a lo to \a hi - 1 exist. first[] uses the
 * same numbers.  Needs ct__image_taps_workspace(length rounded up, out) floats. */
typedef struct ct__image_span {
  double start, length;
  int64_t lo, hi, out, from, n;
} ct__image_span_t;
void ct__image_taps_of(const ct__image_span_t *s, float *workspace, ct__image_taps_t *t);
enum { CT__IMAGE_RESIZE_ROWS = 8 }; /**< rows that are resized horizontally together */
/** Resizes a box with nearest-neighbour interpolation, as torchvision resizes masks. */
void ct__image_nearest(const float *x, ct__image_size_t in, ct__image_box_t b, float *y,
                       ct__image_size_t out);
/** Returns the floats of scratch memory for boxes of up to \a w columns. */
int64_t ct__image_resize_workspace(int64_t w);
/** Resizes a box of x to y, which has t[0].outputs rows (t[0]: vertical, t[1]: horizontal). */
void ct__image_resize(const float *x, ct__image_size_t in, ct__image_box_t b,
                      const ct__image_taps_t t[2], float *scratch, float *y);

/** Where a pixel of the result is read: v, a 3 x 3 matrix, makes x * z, y * z and z of a place in
 * the image of the column, the row and 1. */
typedef struct ct__image_map {
  double v[9];
} ct__image_map_t;
/** The parameters of torchvision's affine(); an image is turned clockwise. */
typedef struct ct__image_affine {
  double degrees, translate[2], scale, shear[2]; /**< x, y; shear in degrees */
  const double *centre;                          /**< x, y; NULL: the middle */
} ct__image_affine_t;
ct__image_map_t ct__image_affine(ct__image_size_t s, const ct__image_affine_t *a);
/** Makes the map of torchvision's perspective(): the corners of the image, clockwise from the upper
 * left, move to to[][x, y].  Returns 0 if there is none. */
int ct__image_perspective(ct__image_size_t s, const int64_t to[4][2], ct__image_map_t *out);
/** Draws the corners of random_perspective. */
void ct__image_corners(ct__image_size_t s, double distortion_scale, ct__draws_t *d,
                       int64_t to[4][2]);
/** How an image is read between its pixels and outside. */
typedef struct ct__image_sampling {
  int bilinear;              /**< 0: the nearest pixel */
  int fills;                 /**< numbers in fill, for all channels or for each; 0: outside is 0 */
  float fill[CT_AFFINE_MAX]; /**< value outside */
} ct__image_sampling_t;
/** Reads an option `fill`. */
int ct__image_sampling(const ct__transform_location_t *at, const ct_opt_doubles_t *fill,
                       int64_t channels, ct__image_sampling_t *out);
/** Reads each pixel where the map says, moved by shift[2][h][w] (x, y) pixels; NULL: not moved. */
void ct__image_warp(const float *x, ct__image_size_t s, const ct__image_map_t *map,
                    const float *shift, const ct__image_sampling_t *how, float *y);
/** Returns the floats of scratch memory for ct__image_blur(). */
int64_t ct__image_blur_workspace(ct__image_size_t s, const int64_t kernel[2]);
/** Blurs in place, mirroring at the borders; kernel: width and height, odd. */
void ct__image_blur(float *x, ct__image_size_t s, const int64_t kernel[2], double sigma,
                    float *scratch);
/** Makes an image gray, with so many equal channels; y may be x. */
void ct__image_gray(const float *x, ct__image_size_t s, float *y, int64_t channels);

/** The operations of trivial_augment_wide and rand_augment. */
typedef enum {
  CT__AUGMENT_IDENTITY,
  CT__AUGMENT_SHEAR_X,
  CT__AUGMENT_SHEAR_Y,
  CT__AUGMENT_TRANSLATE_X,
  CT__AUGMENT_TRANSLATE_Y,
  CT__AUGMENT_ROTATE,
  CT__AUGMENT_BRIGHTNESS,
  CT__AUGMENT_COLOUR,
  CT__AUGMENT_CONTRAST,
  CT__AUGMENT_SHARPNESS,
  CT__AUGMENT_POSTERIZE,
  CT__AUGMENT_SOLARIZE,
  CT__AUGMENT_AUTOCONTRAST,
  CT__AUGMENT_EQUALIZE,
  CT__AUGMENTS
} ct__augment_t;
/** Returns the magnitude of an operation in bin \a bin of \a bins; wide: of
 * trivial_augment_wide. */
double ct__augment_magnitude(ct__augment_t op, int wide, ct__image_size_t s, int64_t bin,
                             int64_t bins);
/** Applies an operation as torchvision does to uint8: x holds integers of 0 to 255.  \a scratch has
 * the size of x. */
void ct__augment(ct__augment_t op, double magnitude, float *x, ct__image_size_t s,
                 const ct__image_sampling_t *how, float *scratch);

/** Returns the floats of scratch memory for ct__image_resample() of \a w columns. */
int64_t ct__image_resample_workspace(int64_t w, int channels);
/** Resizes uint8 x[][w][channels] to y[t[0].outputs][t[1].outputs][channels], rounded. */
void ct__image_resample(const uint8_t *x, int64_t w, int channels, const ct__image_taps_t t[2],
                        float *scratch, uint8_t *y);

/* ---- reading and running a list ---- */

enum { CT__TRANSFORM_MIXES = 2 }; /**< mixup and cutmix */

struct ct_transforms {
  ct__transform_t *step; /**< the transforms of a single sample, after its conversion */
  int steps;             /**< number of transforms in `step` */
  int moves;             /**< number of these that do not work in place */
  int along_moves;       /**< number of these that are applied to arrays that move along */
  ct_affine_t map;       /**< copy of the map of the conversion */
  int decode_time;       /**< number of decode-time steps, until they are taken out */
  ct__transform_t mix[CT__TRANSFORM_MIXES];
  int mixes;
  int varies;      /**< 1: samples differ in size, so each is planned when it is read */
  int64_t widest;  /**< floats of the largest intermediate sample */
  int64_t scratch; /**< floats of the largest scratch memory of a step */
};
/** Frees what a step owns. */
void ct__transform_clear(ct__transform_t *s);

/** Local.  Plans the list for float32 samples of shape *x, stored as described by \a info.  *first
 * is the affine map of the conversion, *out the remaining transforms, or NULL if none remain; *x
 * becomes the shape after the list. o NULL: no transforms.  CT_ERR_USAGE names file:line and the
 * transform. */
int ct__transforms_open(const ct_transforms_opts_t *o, const char *where,
                        const ct_reader_info_t *info, ct_shape_t *x, ct_affine_t *first,
                        ct_transforms_t **out);
/** Local.  Proposes a list for evaluation that yields samples of the training shape: the training
 * list, planned as \a trained, with center crops instead of random ones.  Appended as YAML on one
 * line. */
int ct__transforms_usual(const ct_yaml_t *list, const ct_transforms_t *trained, ct_str_t *out);
/** Frees \a t, which may be NULL. */
void ct__transforms_close(ct_transforms_t *t);

/** Local.  Computes the result shape *out of a sample of shape *in, if samples differ in size, and
 * makes sure that the workspace suffices for it.  Returns NULL, or the name of the transform for
 * which the sample is too small or that would make it too large. */
const char *ct__transforms_fit(ct_transforms_t *t, const ct_shape_t *in, ct_shape_t *out);
/** Returns the floats of workspace for one thread. */
int64_t ct__transforms_workspace(const ct_transforms_t *t);
/** Returns the address to which the float32 sample has to be written before ct__transforms_run()
 * produces \a x. */
float *ct__transforms_start(const ct_transforms_t *t, float *work, float *x);
/** Hot.  Applies the list to one sample; allocates nothing.  \a in: its shape, if samples differ in
 * size. */
void ct__transforms_run(const ct_transforms_t *t, const ct_shape_t *in, uint64_t seed,
                        int64_t epoch, int64_t id, float *work, float *x);

/** Returns 1 if the list only moves pixels, in such a way that it may be applied to stored bytes
 * before their conversion; \a t may be NULL. */
int ct__transforms_keeps_bytes(const ct_transforms_t *t);
/** Hot.  Applies such a list to one stored sample, in the order \a p of its pixels.  \a work holds
 * at least ct__transforms_workspace() bytes. */
void ct__transforms_run_bytes(const ct_transforms_t *t, ct__pixels_t p, uint64_t seed,
                              int64_t epoch, int64_t id, const uint8_t *stored, uint8_t *work,
                              uint8_t *x);

/** Reserves workspace for an intermediate sample of so many floats, and for the scratch memory of a
 * step. */
void ct__transforms_grow(ct_transforms_t *t, int64_t sample, int64_t scratch);
/** Returns the name of the first random transform of the list that moves pixels; NULL: none does.
 * \a t may be NULL. */
const char *ct__transforms_moves(const ct_transforms_t *t);
/** Local.  Makes sure that the workspace suffices for arrays with so many channels that move along
 * with the samples.  \a t may be NULL. */
void ct__transforms_make_room_along(ct_transforms_t *t, int64_t channels);
/** Returns the address to which an array has to be written before ct__transforms_run_along()
 * produces \a y. */
float *ct__transforms_start_along(const ct_transforms_t *t, float *work, float *y);
/** Hot.  Applies the geometric transforms of sample \a id to an array that moves along with it,
 * with the same draws.  \a work is the workspace of ct__transforms_run(). */
void ct__transforms_run_along(const ct_transforms_t *t, const ct__along_t *along, uint64_t seed,
                              int64_t epoch, int64_t id, float *work, float *y);

/** Finds the decode-time steps while the list is read. */
typedef struct ct__decode_time_probe {
  int open, resized, mirrored;
  int steps;  /**< number of decode-time steps found so far */
  int length; /**< number of steps up to the last one that makes all samples equal in size */
  ct_shape_t small[3]; /**< result shapes of the smallest, flattest and tallest image */
} ct__decode_time_probe_t;
void ct__decode_time_probe_begin(ct__decode_time_probe_t *p, const ct_reader_info_t *info);
/** Returns 1 if the planned step, the next of the list, is a decode-time transform. */
int ct__decode_time_probe(ct__decode_time_probe_t *p, const ct__transform_t *s);

/** The decode-time transforms: the beginning of a list that can be applied while an image is
 * decoded.  They select and resize pixels, up to the last one that makes all samples equal in
 * size. */
typedef struct ct__decode_time ct__decode_time_t;
/** Moves the decode-time transforms of *t to *out.  *out is NULL if info->encoded is 0 or *t has no
 * such transforms.  info->x becomes the shape after them; *t becomes NULL if no transform remains.
 * CT_ERR_NOMEM */
int ct__decode_time_take(ct_transforms_t **t, ct_reader_info_t *info, ct__decode_time_t **out);
/** Frees \a h, which may be NULL. */
void ct__decode_time_close(ct__decode_time_t *h);
/** Hot.  Computes the view of an image of h x w.  Returns NULL, or the name of the transform for
 * which the image is too small. */
const char *ct__decode_time_view(const ct__decode_time_t *decode_time, int64_t h, int64_t w,
                                 uint64_t seed, int64_t epoch, int64_t id, ct__view_t *out);

/** The parameters of mixing another sample into a sample. */
typedef struct ct__transform_mix {
  int64_t partner;     /**< number of the other sample; -1: none */
  float share;         /**< weight of the sample itself and of its label */
  ct__image_box_t box; /**< cutmix: the box copied from the partner; w == 0: mixup */
} ct__transform_mix_t;
/** Returns 1 if the list contains mixup or cutmix; \a t may be NULL. */
int ct__transforms_mixes(const ct_transforms_t *t);
/** Returns 1 if a list has mask_tokens; \a list may be NULL. */
int ct__transforms_mask(const ct_yaml_t *list);
/** Hot.  With mask_tokens, ignores the labels of the n tokens of sample \a id that it does not
 * select; \a labels are the tokens themselves. */
void ct__transforms_mask_labels(const ct_transforms_t *t, uint64_t seed, int64_t epoch, int64_t id,
                                int64_t n, int32_t ignored, int32_t *labels);
/** Draws the parameters of one of the two kinds, for ct__transform_mix_draw(). */
ct__transform_mix_t ct__transform_mix_draw_kind(const ct__transform_t *s, ct__draws_t *d,
                                                int64_t samples);
/** Hot.  Draws the partner and parameters for sample \a id of a data set of so many samples. */
ct__transform_mix_t ct__transform_mix_draw(const ct_transforms_t *t, uint64_t seed, int64_t epoch,
                                           int64_t id, int64_t samples);
/** Hot.  Mixes the partner's transformed sample into \a x. */
void ct__transform_mix_apply(const ct_transforms_t *t, const ct__transform_mix_t *m,
                             const float *partner, float *x);

#endif
