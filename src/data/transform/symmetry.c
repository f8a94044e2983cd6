/* symmetry and roll: exact rearrangements of images, fields and volumes. */
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "data/transform/transforms.h"

enum { SPACE = 3 }; /* dims after the channels, at most */

/* Reads dims as in PyTorch: of a sample of C x H x W, 1 is H and -1 is W.  Marks them, counted from
 * the first one after the channels. */
static int read_dims(const ct__transform_t *s, const ct__transform_location_t *at,
                     const char *option, const ct_opt_doubles_t *v, int marked[SPACE])
{
  int rc = CT_OK, dims = s->in.ndim - 1;
  int64_t dim[SPACE];
  memset(marked, 0, SPACE * sizeof *marked);
  if (v->n > dims - 1)
    return ct__transform_refuse(at,
                                "%s has %d numbers, but a sample has %d dims after the channels",
                                option, v->n, dims - 1);
  CT_TRY(ct__transform_whole(at, option, v, dim));
  for (int i = 0; i < v->n; i++) {
    int64_t k = (dim[i] < 0 ? dim[i] + dims : dim[i]) - 1;
    if (k < 0 || k >= dims - 1)
      return ct__transform_refuse(at,
                                  "%s: %lld is not a dim after the channels: there are 1 to %d, or "
                                  "%d to -1",
                                  option, (long long)dim[i], dims - 1, 1 - dims);
    if (marked[k])
      return ct__transform_refuse(at, "%s: %lld names a dim twice", option, (long long)dim[i]);
    marked[k] = 1;
  }
out:
  return rc;
}

/* Copies n pixels that are `step` pixels apart. */
static void copy_pixels(const char *from, int64_t step, int64_t n, size_t bytes, char *to)
{
  if (step == 1) {
    memcpy(to, from, (size_t)n * bytes);
  } else if (bytes == sizeof(float)) {
    for (int64_t i = 0; i < n; i++)
      memcpy(to + i * 4, from + i * step * 4, 4);
  } else {
    for (int64_t i = 0; i < n; i++)
      memcpy(to + (size_t)i * bytes, from + i * step * (int64_t)bytes, bytes);
  }
}

/* ---- symmetry ---- */

typedef struct symmetry {
  ct_opt_texts_t flip, exchange;
  ct_opt_doubles_t vectors, target_vectors;
  int rotations;
  int flips[SPACE];               /* 1: the dim may be mirrored */
  int exchanges[SPACE];           /* 1: the dim may be exchanged with others of its size */
  int by_size;                    /* 1: exchange: equal */
  int64_t *of_sample, *of_target; /* owned: channels of the vectors' components */
} symmetry_t;
static const ct_opt_t symmetry_rows[] = {
    CT_OPT_TEXTS(
        symmetry_t, flip, "all",
        "dims that may be mirrored: all, none or a list; of a sample of C x H x W, 1 or -2 "
        "is H and 2 or -1 is W"),
    CT_OPT_TEXTS(symmetry_t, exchange, "equal",
                 "dims that may be exchanged: equal (those of equal size), none, or a list of dims "
                 "of equal size"),
    CT_OPT_BOOL(symmetry_t, rotations, "false",
                "only rotations (4 of a square, 24 of a cube), no mirror images"),
    CT_OPT_DOUBLES(
        symmetry_t, vectors, "",
        "channels of vector components, which turn with the field: for each vector the "
        "channel of its component along each dim, in the order of the dims ([v, u] for a "
        "velocity u along W and v along H); other channels are scalars"),
    CT_OPT_DOUBLES(symmetry_t, target_vectors, "", "the same of data.target"),
    CT_OPT_END};

/* Reads flip or exchange; *is_all: 1 if it is the word \a all. */
static int read_choice(const ct__transform_t *s, const ct__transform_location_t *at,
                       const char *option, const char *all, const ct_opt_texts_t *texts,
                       int marked[SPACE], int *is_all)
{
  double v[SPACE];
  *is_all = texts->n == 1 && strcmp(texts->v[0], all) == 0;
  for (int i = 0; i < SPACE; i++)
    marked[i] = *is_all && i < s->in.ndim - 2;
  if (*is_all || (texts->n == 1 && strcmp(texts->v[0], "none") == 0)) return CT_OK;
  for (int i = 0; i < texts->n; i++)
    if (i >= SPACE || ct_text_double(texts->v[i], &v[i]) != CT_OK)
      return ct__transform_refuse(at, "%s: expected %s, none or a list of up to %d dims, not %.80s",
                                  option, all, s->in.ndim - 2, texts->v[i]);
  ct_opt_doubles_t list = {v, texts->n};
  return read_dims(s, at, option, &list, marked);
}

/* Reads the channels of vectors; \a channels 0: any. */
static int read_vectors(const ct__transform_t *s, const ct__transform_location_t *at,
                        const char *option, const ct_opt_doubles_t *v, int64_t channels,
                        int64_t **out)
{
  int rc = CT_OK, space = s->in.ndim - 2;
  if (v->n % space != 0)
    return ct__transform_refuse(at, "%s has %d channels, expected %d for each vector", option, v->n,
                                space);
  *out = ct_mem_array(v->n + 1, sizeof **out, "the channels of vectors");
  if (!*out) return CT_ERR_NOMEM;
  CT_TRY(ct__transform_whole(at, option, v, *out));
  for (int i = 0; i < v->n; i++) {
    int64_t channel = (*out)[i];
    if (channel < 0 || channel >= channels)
      return ct__transform_refuse(at, "%s: channel %lld is not in 0 to %lld", option,
                                  (long long)channel, (long long)channels - 1);
    for (int k = 0; k < i; k++)
      if ((*out)[k] == channel)
        return ct__transform_refuse(at, "%s: channel %lld is listed twice", option,
                                    (long long)channel);
  }
out:
  return rc;
}

/* Returns 0 if dims that are exchanged, as listed, differ in size. */
static int fit_symmetry(ct__transform_t *s)
{
  const symmetry_t *o = s->o;
  for (int i = 0; i < s->in.ndim - 2 && !o->by_size; i++)
    for (int k = 0; k < i; k++)
      if (o->exchanges[i] && o->exchanges[k] && s->in.dim[2 + i] != s->in.dim[2 + k]) return 0;
  return 1;
}

/* With dims that are exchanged, a mirror image in one is a mirror image in the others. */
static int check_group(const ct__transform_t *s, const ct__transform_location_t *at)
{
  const symmetry_t *o = s->o;
  for (int i = 0; i < s->in.ndim - 2; i++)
    for (int k = 0; k < i; k++) {
      int may = o->exchanges[i] && o->exchanges[k] && s->in.dim[2 + i] == s->in.dim[2 + k];
      if (may && o->flips[i] != o->flips[k])
        return ct__transform_refuse(at,
                                    "flip: dims %d and %d are exchanged, so both must be mirrored "
                                    "or neither; set exchange",
                                    k + 1, i + 1);
    }
  return CT_OK;
}

static const ct__transform_kind_t symmetry_of_vectors;

static int plan_symmetry(ct__transform_t *s, const ct__transform_location_t *at)
{
  int rc = CT_OK, word;
  symmetry_t *o = s->o;
  CT_TRY(read_choice(s, at, "flip", "all", &o->flip, o->flips, &word));
  CT_TRY(read_choice(s, at, "exchange", "equal", &o->exchange, o->exchanges, &o->by_size));
  if (!fit_symmetry(s)) {
    char shape[64];
    ct_shape_text(&s->in, shape, sizeof shape);
    return ct__transform_refuse(at, "exchange: the dims differ in size: samples are %s",
                                strchr(shape, 'x') + 1);
  }
  CT_TRY(check_group(s, at));
  if (o->rotations && !o->flips[0] && !o->flips[1] && !o->flips[2])
    return ct__transform_refuse(at, "rotations: needs a dim that may be mirrored (flip)");
  if (o->target_vectors.n && !at->target_channels)
    return ct__transform_refuse(at, "target_vectors: data.target has no values of pixels");
  CT_TRY(read_vectors(s, at, "vectors", &o->vectors, s->in.dim[1], &o->of_sample));
  CT_TRY(read_vectors(s, at, "target_vectors", &o->target_vectors, at->target_channels,
                      &o->of_target));
  /* components change their sign, so they are converted first */
  if (o->vectors.n + o->target_vectors.n > 0) s->kind = &symmetry_of_vectors;
out:
  return rc;
}

/* Result dim i is dim from[i] of the sample, mirrored or not. */
typedef struct turn {
  int from[SPACE], flip[SPACE];
} turn_t;

/* Draws a permutation of the dims of each size. */
static void draw_permutation(const ct__transform_t *s, ct__draws_t *d, turn_t *t)
{
  const symmetry_t *o = s->o;
  int space = s->in.ndim - 2;
  for (int i = space - 1; i > 0; i--) { /* as Fisher and Yates, among the dims that fit */
    int choice[SPACE], n = 0;
    for (int k = 0; k <= i && o->exchanges[i]; k++)
      if (k == i || (o->exchanges[k] && s->in.dim[2 + k] == s->in.dim[2 + i])) choice[n++] = k;
    if (n < 2) continue;
    int k = choice[ct__draw_below(d, n)], kept = t->from[i];
    t->from[i] = t->from[k];
    t->from[k] = kept;
  }
}

static int is_odd(const turn_t *t, int space)
{
  int odd = 0;
  for (int i = 0; i < space; i++) {
    odd ^= t->flip[i];
    for (int k = 0; k < i; k++)
      odd ^= t->from[k] > t->from[i];
  }
  return odd;
}

static turn_t draw_turn(const ct__transform_t *s, ct__draws_t *d)
{
  const symmetry_t *o = s->o;
  turn_t t = {.from = {0, 1, 2}};
  int space = s->in.ndim - 2, last = -1;
  draw_permutation(s, d, &t);
  for (int i = 0; i < space; i++) {
    t.flip[i] = o->flips[i] && ct__draw(d) < 0.5;
    if (o->flips[i]) last = i;
  }
  /* Composed with one fixed mirror image, the others are the rotations, each as often. */
  if (o->rotations && last >= 0 && is_odd(&t, space)) t.flip[last] ^= 1;
  return t;
}

/* Rearranges the pixels of a plane. */
static void turn_plane(const turn_t *t, const ct_shape_t *in, size_t bytes, const char *x, char *y)
{
  int space = in->ndim - 2;
  int64_t n[SPACE] = {1, 1, 1}, step[SPACE] = {0}, stride[SPACE], at = 1;
  for (int i = space - 1; i >= 0; i--) {
    stride[i] = at;
    at *= in->dim[2 + i];
  }
  for (int i = 0; i < space; i++) { /* aligned to the last dim */
    int to = i + SPACE - space, from = t->from[i];
    n[to] = in->dim[2 + from];
    step[to] = t->flip[i] ? -stride[from] : stride[from];
    if (t->flip[i]) x += (n[to] - 1) * stride[from] * (int64_t)bytes;
  }
  for (int64_t i = 0; i < n[0]; i++)
    for (int64_t k = 0; k < n[1]; k++, y += (size_t)n[2] * bytes)
      copy_pixels(x + (i * step[0] + k * step[1]) * (int64_t)bytes, step[2], n[2], bytes, y);
}

static void symmetry(const ct__transform_t *s, ct__draws_t *d, ct__pixels_t p, const void *in,
                     void *out)
{
  turn_t t = draw_turn(s, d);
  size_t plane = (size_t)(ct_shape_sample(&s->in) / s->in.dim[1]) * p.bytes;
  for (int64_t c = 0; c < p.planes; c++)
    turn_plane(&t, &s->in, p.bytes, (const char *)in + (size_t)c * plane,
               (char *)out + (size_t)c * plane);
}

/* Returns the channel that becomes channel c; *negative: 1 if its sign changes. */
static int64_t component(const turn_t *t, const int64_t *vectors, int n, int space, int64_t c,
                         int *negative)
{
  *negative = 0;
  for (int i = 0; i < n; i++) {
    if (vectors[i] != c) continue;
    *negative = t->flip[i % space];
    return vectors[i - i % space + t->from[i % space]];
  }
  return c;
}

static void turn_vectors(const ct__transform_t *s, ct__draws_t *d, const float *in, float *out,
                         float *scratch)
{
  const symmetry_t *o = s->o;
  int is_target = s->along && s->along->is_target, n = s->along ? 0 : o->vectors.n, negative;
  const int64_t *vectors = is_target ? o->of_target : o->of_sample;
  int64_t plane = ct_shape_sample(&s->in) / s->in.dim[1];
  turn_t t = draw_turn(s, d);
  (void)scratch;
  if (is_target) n = o->target_vectors.n;
  for (int64_t c = 0; c < s->in.dim[1]; c++, out += plane) {
    int64_t from = component(&t, vectors, n, s->in.ndim - 2, c, &negative);
    turn_plane(&t, &s->in, sizeof *out, (const char *)(in + from * plane), (char *)out);
    for (int64_t i = 0; negative && i < plane; i++)
      out[i] = -out[i];
  }
}

static void clear_symmetry(void *options)
{
  symmetry_t *o = options;
  ct_mem_free(o->of_sample);
  ct_mem_free(o->of_target);
}

#define SYMMETRY                                                                                \
  .name = "symmetry",                                                                           \
  .help = "one of the symmetries of the square or cube (8, 48): mirrors and exchanges dims of " \
          "images and volumes",                                                                 \
  .flags = CT__TRANSFORM_RANDOM | CT__TRANSFORM_VOLUMES, .size = sizeof(symmetry_t),            \
  .rows = symmetry_rows, .plan = plan_symmetry, .fit = fit_symmetry, .clear = clear_symmetry
const ct__transform_kind_t ct__transform_symmetry = {SYMMETRY, .move = symmetry};
static const ct__transform_kind_t symmetry_of_vectors = {SYMMETRY, .apply = turn_vectors};

/* ---- roll ---- */

typedef struct roll {
  ct_opt_doubles_t dims;
  int rolls[SPACE];
} roll_t;
static const ct_opt_t roll_rows[] = {
    CT_OPT_DOUBLES(roll_t, dims, NULL,
                   "periodic dims: of a sample of C x H x W, 1 or -2 is H and 2 or -1 is W"),
    CT_OPT_END};

static int plan_roll(ct__transform_t *s, const ct__transform_location_t *at)
{
  roll_t *o = s->o;
  if (o->dims.n == 0) return ct__transform_refuse(at, "dims: expected at least one");
  return read_dims(s, at, "dims", &o->dims, o->rolls);
}

static void roll(const ct__transform_t *s, ct__draws_t *d, ct__pixels_t p, const void *in,
                 void *out)
{
  const roll_t *o = s->o;
  int space = s->in.ndim - 2;
  int64_t n[SPACE] = {1, 1, 1}, shift[SPACE] = {0};
  for (int i = 0; i < space; i++) {
    n[i + SPACE - space] = s->in.dim[2 + i];
    if (o->rolls[i]) shift[i + SPACE - space] = ct__draw_below(d, s->in.dim[2 + i]);
  }
  size_t row = (size_t)n[2] * p.bytes, head = (size_t)shift[2] * p.bytes;
  char *y = out;
  for (int64_t i = 0; i < p.planes * n[0] * n[1]; i++, y += row) {
    int64_t c = i / (n[0] * n[1]), z = i / n[1] % n[0], r = i % n[1];
    z = (z + n[0] - shift[0]) % n[0];
    r = (r + n[1] - shift[1]) % n[1];
    const char *x = (const char *)in + (size_t)((c * n[0] + z) * n[1] + r) * row;
    memcpy(y + head, x, row - head);
    memcpy(y, x + row - head, head);
  }
}

const ct__transform_kind_t ct__transform_roll = {
    .name = "roll",
    .help = "shifts images and volumes along periodic dims by any number of pixels",
    .flags = CT__TRANSFORM_RANDOM | CT__TRANSFORM_VOLUMES,
    .size = sizeof(roll_t),
    .rows = roll_rows,
    .plan = plan_roll,
    .move = roll};
