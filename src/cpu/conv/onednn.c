/* Convolutions of oneDNN: the direct algorithm in float32 and in bfloat16.
 *
 * For some channel counts and layouts it falls back to its reference code, hundreds of times slower
 * than what another layout gets.  So costs are estimated, from the padded work and the name of the
 * implementation. */
#include "cpu/conv/conv.h"
#include "cpu/gemm/primitive.h"
#include "base/ct_int.h"
#include "base/ct_err.h"
#include <string.h>

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
    in = ct_round_up(in, l.x == CT_NHWC && job->pass == CT_BWD_DATA ? vector : cpu__lanes(l.x));
    out = ct_round_up(out, l.y == CT_NHWC && job->pass != CT_BWD_DATA ? vector : cpu__lanes(l.y));
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

/* ---- what oneDNN is not given ---------------------------------------------------------------- */

/* Elements of x from the first to the last one that a window sees, in dim 2 + i. */
static int64_t window_of(const ct_op_desc_t *d, int i)
{
  return (int64_t)d->u.conv.dilate[i] * (d->u.conv.kernel[i] - 1) + 1;
}

/* For AVX-512, oneDNN computes a weights' gradient in loops over depth and height (compute_od_loop
 * and compute_oh_loop of jit_avx512_common_conv_kernel.cpp and of that for bfloat16; the same in
 * versions 2.6 and 3.7).  They step from one window to the next, and correct the number of taps
 * inside the input where windows leave the padding at the front and where they enter that at the
 * back.  If one window does both, or if the first one behind the front padding reaches the end, the
 * corrections contradict each other: taps are counted twice or without end, beyond the input and
 * the gradient.  Seen: wrong gradients, an overwritten heap, a run that does not end.
 *
 * With a stride, the first window behind the padding begins at 0 to stride - 1, so inputs shorter
 * than window + stride - 1 are at risk; one more is refused.  With stride 1 it goes wrong only if
 * there are fewer outputs than the padding; what the first window covers is refused.  The forward
 * pass and the data gradient have no such loops: they count the taps of every row afresh. */
int cpu__conv_overreaches(const ct_op_desc_t *d)
{
  for (int i = 0; i < d->x.ndim - 2; i++) {
    int64_t in = d->x.dim[2 + i], pad = d->u.conv.pad[i], stride = d->u.conv.stride[i];
    int64_t window = window_of(d, i);
    if (pad == 0) continue;
    if (pad >= window) return 1; /* it sees nothing but padding */
    if (stride == 1 ? window > in + pad : window + stride > in) return 1;
  }
  return 0;
}

static int is_dilated(const ct_op_desc_t *d)
{
  int dilated = 0;
  for (int i = 0; i < d->x.ndim - 2; i++)
    dilated |= d->u.conv.dilate[i] > 1;
  return dilated;
}

/* oneDNN's 1x1 convolution of channels last brings strided positions side by side first, in whole
 * vectors of channels, of which it fills those that there are: what stood in its scratch memory
 * behind them gets into the padding of the weights' gradient (seen with AVX2). */
static int leaves_padding(const cpu__job_t *job)
{
  const ct_op_desc_t *d = job->desc;
  int one = 1, strided = 0;
  for (int i = 0; i < d->x.ndim - 2; i++) {
    one &= d->u.conv.kernel[i] == 1;
    strided |= d->u.conv.stride[i] > 1;
  }
  return job->at.x == CT_NHWC && one && strided && (d->x.dim[1] % 16 || d->y.dim[1] % 16);
}

/* In bfloat16, where the groups have no whole vectors of channels in channels last, the weights'
 * gradient of images of more than 28 columns steps twice over the rows that dilation leaves out,
 * and on from the end of its input (compute_oh_step_common of jit_avx512_core_bf16_conv_kernel.cpp
 * in 2.6 and 3.7).  Some fewer are refused, and dilation in any dim. */
static int skips_rows(const cpu__job_t *job)
{
  enum { SURELY_RIGHT = 24 };
  const ct_op_desc_t *d = job->desc;
  return job->at.x == CT_NHWC && is_dilated(d) && d->x.dim[1] / d->u.conv.groups % 16 &&
         d->y.dim[d->y.ndim - 1] > SURELY_RIGHT;
}

/* In bfloat16 positions are multiplied in pairs.  For a first layer, whose x is not copied, a
 * stride that leads out of the row defeats the mask of the second one: it is read behind the row,
 * and behind x, and multiplied by zero (compute_ic_block_step_interleave, there).  What is not a
 * number there makes the weights' gradient NaN.  oneDNN 3 takes first layers so in channels last,
 * too: NaN was seen with one and two channels in a group, 3.7. */
static int reads_behind(const cpu__job_t *job)
{
  const ct_op_desc_t *d = job->desc;
  int last = d->x.ndim - 1, first = job->at.x == CT_PLAIN || d->x.dim[1] == 1;
  if (first && d->u.conv.stride[last - 2] > d->x.dim[last]) return 1;
  return cpu__dnnl_major() > 2 && job->at.x == CT_NHWC && d->x.dim[1] / d->u.conv.groups < 4;
}

/* In bfloat16 and channels last, with an odd number of channels to sum over, the 1x1 convolution
 * keeps the last channel of y's gradient in a register that holds the weights if it works on 30
 * pixels at a time, as where the height is a multiple of 30 (zmm_tmp2 and vreg_load of
 * jit_avx512_core_bf16_1x1_conv_kernel.cpp in 2.6 and 3.7).  How many pixels it takes follows from
 * sizes, threads and the batch, so all are refused. */
static int mixes_registers(const cpu__job_t *job, const char *name)
{
  const ct_op_desc_t *d = job->desc;
  int64_t summed = job->pass == CT_FWD ? d->x.dim[1] : d->y.dim[1];
  return job->pass != CT_BWD_PARAM && job->at.x == CT_NHWC && summed % 2 &&
         strstr(name, "bf16_1x1");
}

/* The forward convolution brg_conv_fwd of oneDNN 3 was seen (3.7, AVX-512) to multiply what stands
 * behind x by zero where a group has one channel: y is NaN where that is; and to crash where a
 * window sees nothing but padding. */
static int reads_elsewhere(const cpu__job_t *job, const char *name)
{
  const ct_op_desc_t *d = job->desc;
  int outside = d->x.dim[1] == d->u.conv.groups;
  if (job->pass == CT_BWD_PARAM || !strstr(name, "brg_conv")) return 0;
  for (int i = 0; i < d->x.ndim - 2; i++)
    outside |= d->u.conv.pad[i] >= window_of(d, i);
  return outside;
}

/* NULL, or why oneDNN's weights' gradient is not taken. */
static const char *gradient_fault(const cpu__job_t *job)
{
  if (cpu__conv_overreaches(job->desc))
    return "oneDNN gets the weights' gradient of such windows wrong";
  if (leaves_padding(job)) return "oneDNN leaves the padding of such a gradient undefined";
  if (job->desc->x.dtype != CT_BF16) return NULL;
  if (skips_rows(job)) return "oneDNN gets the weights' gradient of such a dilated one wrong";
  if (reads_behind(job)) return "oneDNN reads behind x for such a gradient";
  return NULL;
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
  const char *fault = job->pass == CT_BWD_PARAM ? gradient_fault(job) : NULL;
  if (fault) return cpu__refuse(why, fault);
  CT_TRY(cpu__primitive_find(job, &prim));
  if (!prim) return cpu__refuse(why, "oneDNN has no implementation");
  rc = 1;
  if (mixes_registers(job, cpu__prim_name(prim)))
    rc = cpu__refuse(why, "oneDNN gets such an odd number of channels wrong");
  if (reads_elsewhere(job, cpu__prim_name(prim)))
    rc = cpu__refuse(why, "oneDNN reads outside of such an x");
  *cost = (cpu__cost_t){padded_work(job) / (rate * efficiency(job, cpu__prim_name(prim))), 0};
  cpu__prim_free(prim);
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
  if (job->dev->bf16_rate == 0) return cpu__refuse(why, "the processor does not multiply bfloat16");
  if (is_dilated(d) && d->u.conv.groups == d->x.dim[1])
    return cpu__refuse(why, "oneDNN gets the weights' gradient of a dilated depthwise one wrong");
  /* a depthwise one is a matter of memory: half the bytes make good for slow products */
  double rate = job->dev->bf16_rate;
  return can_direct(job, CT_BF16, d->u.conv.groups == d->x.dim[1] ? fmax(rate, 1) : rate, cost,
                    why);
}

/* Each pass works on a copy of the weights: they lie as their gradient comes. */
static int bf16_stored(const cpu__job_t *job, cpu__md_t **out)
{
  cpu__job_t gradient = *job;
  gradient.pass = CT_BWD_PARAM;
  return cpu__primitive_format(&gradient, out);
}

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
