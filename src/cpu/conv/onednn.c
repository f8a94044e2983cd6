/* Convolutions of oneDNN: the direct algorithm in float32 and in bfloat16, and Winograd's.
 *
 * oneDNN's own choice is not good enough here: for some channel counts it falls back to its
 * reference code, hundreds of times slower than what another layout gets, and it takes Winograd's
 * algorithm for shapes that lose by it and leaves it for shapes that gain.  So costs are estimated,
 * from the padded work and the name of the implementation. */
#include "cpu/conv/conv.h"
#include "cpu/product/primitive.h"
#include "base/ct_err.h"
#include <math.h>
#include <string.h>

static int64_t round_up(int64_t n, int64_t to)
{
  return (n + to - 1) / to * to;
}

/* Multiply-adds with the padding that a pass computes along.  In NHWC it is that of a vector of the
 * channels that the pass writes. */
static double padded_work(const cpu__job_t *job)
{
  const ct_op_desc_t *d = job->desc;
  cpu__layouts_t l = job->at;

  int64_t in = d->x.dim[1], out = d->y.dim[1], groups = d->u.conv.groups;
  int64_t vector = cpu__lanes(cpu__blocked(job->dev));
  double window = 1, pixels = (double)d->y.dim[0];
  for (int k = 0; k < d->x.ndim - 2; k++) {
    window *= d->u.conv.kernel[k];
    pixels *= (double)d->y.dim[2 + k];
  }
  int depthwise = groups > 1 && groups == in;
  if (groups == 1 || depthwise) {
    in = round_up(in, l.x == CT_NHWC && job->pass == CT_BWD_DATA ? vector : cpu__lanes(l.x));
    out = round_up(out, l.y == CT_NHWC && job->pass != CT_BWD_DATA ? vector : cpu__lanes(l.y));
  }
  return pixels * window * (double)out * (depthwise ? 1 : (double)in / (double)groups);
}

/* 1 if a vector of bfloat16 would hold channels of several pixels, or pixels of y: neither oneDNN
 * nor what follows the convolution is fast at that. */
static int is_ragged(const cpu__job_t *job)
{
  const ct_op_desc_t *d = job->desc;
  if (d->x.dtype != CT_BF16) return 0;
  return job->at.y == CT_PLAIN || (job->at.x == CT_NHWC && d->x.dim[1] % 16) ||
         (job->at.y == CT_NHWC && d->y.dim[1] % 16);
}

/* Speed of an implementation against the best, as measured.  It is a function of the layouts as far
 * as can be, so that all versions of oneDNN lead to the same choice: a plain y is for products of
 * matrices, and where version 3 has more than these for it, that is no faster. */
static double efficiency(const cpu__job_t *job, const char *name)
{
  double ragged = is_ragged(job) ? 0.1 : 1;
  if (strstr(name, "ref")) return 0.002;
  if (strstr(name, "gemm") || job->at.y == CT_PLAIN)
    return ragged * (job->desc->u.conv.groups > 1 ? 0.05 : job->pass == CT_BWD_PARAM ? 0.15 : 0.35);
  if (ragged < 1) return ragged;
  if (job->at.x == CT_NHWC) return 0.7;
  if (job->at.y == CT_C8 && job->dev->isa == CPU__AVX512) return 0.8;
  return 1;
}

/* How much faster Winograd's F(4x4, 3x3) is than the direct algorithm; 0: not for it.  It
 * multiplies 36 instead of 144 numbers per full tile of 4x4 outputs; transforming a tile takes the
 * more of the time the fewer channels share it; transforming the weights takes as much as `extra`
 * tiles, some 32.  The numbers are fitted to oneDNN 2.6 on Zen 4. */
static double winograd_gain(const cpu__job_t *job, double extra)
{
  const ct_op_desc_t *d = job->desc;
  double in = (double)d->x.dim[1], out = (double)d->y.dim[1];
  double n = (double)d->y.dim[0], h = (double)d->y.dim[2], w = (double)d->y.dim[3];
  double tiles = n * ceil(h / 4) * ceil(w / 4);
  if (d->x.ndim != 4 || d->u.conv.groups != 1 || fmin(in, out) < 32) return 0;
  double gain = n * h * w / (4 * (tiles + extra)) / (1.28 + 10 / in + 10 / out);
  return (job->pass == CT_BWD_PARAM ? 1.25 : 1) * gain / 1.15;
}

/* ---- the rows -------------------------------------------------------------------------------- */

static int takes(const cpu__job_t *job, ct_dtype_t dtype, char why[128])
{
  cpu__layouts_t l = job->at;
  if (job->desc->x.dtype != dtype) return cpu__refuse(why, "another type of activations");
  if (l.y == CT_C16 && job->dev->isa != CPU__AVX512)
    return cpu__refuse(why, "blocks of 16 channels are for AVX-512");
  if (l.x == l.y || (l.x == CT_PLAIN && l.y != CT_NHWC)) return 1;
  return cpu__refuse(why, "x is plain or lies as y does");
}

static int can_direct(const cpu__job_t *job, ct_dtype_t dtype, double rate, cpu__cost_t *cost,
                      char why[128])
{
  int rc = CT_OK;
  cpu__prim_t *prim;
  if (!takes(job, dtype, why)) return 0;
  CT_TRY(cpu__primitive_find(job, 0, &prim));
  if (!prim) return cpu__refuse(why, "oneDNN has no implementation");
  *cost = (cpu__cost_t){padded_work(job) / (rate * efficiency(job, cpu__prim_name(prim))), 0};
  cpu__prim_free(prim);
  rc = 1;
out:
  return rc;
}

static int direct_can(const cpu__job_t *job, cpu__cost_t *cost, char why[128])
{
  return can_direct(job, CT_F32, 1, cost, why);
}

static int bf16_can(const cpu__job_t *job, cpu__cost_t *cost, char why[128])
{
  const ct_op_desc_t *d = job->desc;
  int dilated = 0;
  for (int i = 0; i < d->x.ndim - 2; i++)
    dilated |= d->u.conv.dilate[i] > 1;
  if (job->dev->bf16_rate == 0) return cpu__refuse(why, "the processor does not multiply bfloat16");
  /* oneDNN 2.6 reads what it did not write there, on images of some size: a wrong gradient */
  if (dilated && d->u.conv.groups == d->x.dim[1])
    return cpu__refuse(why, "oneDNN gets the weights' gradient of a dilated depthwise one wrong");
  return can_direct(job, CT_BF16, job->dev->bf16_rate, cost, why);
}

static int winograd_can(const cpu__job_t *job, cpu__cost_t *cost, char why[128])
{
  int rc = CT_OK;
  enum { TILES_OF_WEIGHTS = 32 };
  double gain = winograd_gain(job, 0), now = winograd_gain(job, TILES_OF_WEIGHTS);
  cpu__prim_t *prim;
  if (job->dev->conv_direct) return cpu__refuse(why, "switched off");
  if (job->at.x != CT_C16 || job->at.y != CT_C16)
    return cpu__refuse(why, "for blocks of 16 channels");
  if (!takes(job, CT_F32, why)) return 0;
  if (gain <= 1) return cpu__refuse(why, "the direct algorithm is faster");
  CT_TRY(cpu__primitive_find(job, 1, &prim));
  if (!prim) return cpu__refuse(why, "oneDNN has no implementation");
  cpu__prim_free(prim);
  cost->each = padded_work(job) / gain;
  cost->once = padded_work(job) / now - cost->each;
  rc = 1;
out:
  return rc;
}

static int winograd_prepare(const cpu__job_t *job, cpu__ready_t *out)
{
  int rc = CT_OK;
  cpu__prim_t *prim;
  CT_TRY(cpu__primitive_find(job, 1, &prim));
  if (!prim) CT_FAIL(CT_ERR_UNSUP, "oneDNN has no Winograd convolution for this op");
  CT_TRY(cpu__primitive_build(job, prim, out));
out:
  return rc;
}

/* Each pass works on a copy of the weights: they lie as their gradient comes. */
static int bf16_stored(const cpu__job_t *job, cpu__md_t **out)
{
  cpu__job_t gradient = *job;
  gradient.pass = CT_BWD_PARAM;
  return cpu__primitive_format(&gradient, out);
}

/* The weights lie the same for both algorithms. */
const cpu__way_t cpu__conv_onednn_winograd = {.name = "winograd of oneDNN",
                                              .can = winograd_can,
                                              .stored = cpu__primitive_format,
                                              .prepare = winograd_prepare,
                                              .run = cpu__primitive_run,
                                              .clear = cpu__primitive_clear};

const cpu__way_t cpu__conv_direct = {.name = "direct",
                                     .can = direct_can,
                                     .stored = cpu__primitive_format,
                                     .prepare = cpu__primitive_prepare,
                                     .run = cpu__primitive_run,
                                     .clear = cpu__primitive_clear};

const cpu__way_t cpu__conv_bf16 = {.name = "bf16",
                                   .can = bf16_can,
                                   .stored = bf16_stored,
                                   .prepare = cpu__primitive_prepare,
                                   .run = cpu__primitive_run,
                                   .clear = cpu__primitive_clear};
