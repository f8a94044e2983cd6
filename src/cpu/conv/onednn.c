/* oneDNN's convolutions: the direct algorithm in float32 and in bf16.
 *
 * For some channel counts and layouts oneDNN uses its reference code, hundreds of times slower than
 * with another layout.  So costs are estimated from the padded work and the name of the
 * implementation. */
#include "cpu/conv/conv.h"
#include "cpu/gemm/primitive.h"
#include "base/ct_int.h"
#include "base/ct_err.h"
#include <string.h>

/* Returns the number of multiply-adds, including padding.  In NHWC the channels that the pass
 * writes are padded to whole vectors. */
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

/* Returns 1 if a bf16 vector would hold channels of several pixels, or pixels of a plain y: with
 * these layouts both oneDNN without AMX and the ops that follow are slow. */
static int is_ragged(const cpu__job_t *job)
{
  const ct_op_desc_t *d = job->desc;
  if (d->x.dtype != CT_BF16) return 0;
  return job->at.y == CT_PLAIN || (job->at.x == CT_NHWC && d->x.dim[1] % 16) ||
         (job->at.y == CT_NHWC && d->y.dim[1] % 16);
}

/* Returns the measured speed of an implementation relative to the fastest one.  The value depends
 * mainly on layouts, so that all versions of oneDNN lead to the same choice.  For a plain y, oneDNN
 * 2 uses GEMM implementations; oneDNN 3 uses other implementations, which are not faster. */
static double efficiency(const cpu__job_t *job, const char *name)
{
  double ragged = is_ragged(job) ? 0.1 : 1;
  if (strstr(name, "ref")) return 0.002;
  if (strstr(name, "gemm") || job->at.y == CT_PLAIN)
    return ragged * (job->desc->u.conv.groups > 1 ? 0.05 : job->pass == CT_BWD_PARAM ? 0.15 : 0.35);
  if (strstr(name, "amx")) /* amx_gradient.c is faster, if there are no groups */
    return (ragged < 1 ? 0.5 : 1) * (job->pass == CT_BWD_PARAM ? 0.4 : 1);
  if (ragged < 1) return ragged;
  if (job->desc->x.dtype == CT_BF16 && cpu__dnnl_has_amx()) return 0.125;
  if (job->at.x == CT_NHWC) return 0.7;
  if (job->at.y == CT_C8 && job->dev->isa == CPU__AVX512) return 0.8;
  return 1;
}

/* ---- cases that oneDNN computes wrong -------------------------------------------------------- */

/* Returns the extent of a window in dim 2 + i, with dilation. */
static int64_t window_of(const ct_op_desc_t *d, int i)
{
  return (int64_t)d->u.conv.dilate[i] * (d->u.conv.kernel[i] - 1) + 1;
}

/* Returns 1 in cases where oneDNN's weight gradient may be wrong.  For AVX-512, oneDNN computes a
 * weight gradient in loops over depth and height (compute_od_loop and compute_oh_loop of
 * jit_avx512_common_conv_kernel.cpp and its bf16 version; the same in 2.6 and 3.7).  The loops step
 * from window to window and correct the number of taps (kernel elements) inside the input where
 * windows leave the front padding and where windows enter the back padding. The corrections
 * conflict if one window does both, or if the first window after the front padding reaches the end
 * of the input: the loops then count taps twice, or run past the ends of the input and of the
 * gradient.  Observed: wrong gradients, heap corruption, an endless loop.
 *
 * With a stride, the first window after the padding begins at 0 to stride - 1, so inputs shorter
 * than window + stride - 1 are at risk; inputs up to one element longer are refused.  With stride 1
 * only inputs with fewer outputs than padding fail; inputs that the first window covers are
 * refused. The forward pass and the data gradient are correct: they count the taps of each
 * row. */
int cpu__conv_overreaches(const ct_op_desc_t *d)
{
  for (int i = 0; i < d->x.ndim - 2; i++) {
    int64_t in = d->x.dim[2 + i], pad = d->u.conv.pad[i], stride = d->u.conv.stride[i];
    int64_t window = window_of(d, i);
    if (pad == 0) continue;
    if (pad >= window) return 1; /* sees only padding */
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

/* Returns 1 in a case where oneDNN leaves the padding of the weight gradient undefined.  Its 1x1
 * convolution in channels last first gathers strided pixels into whole vectors of channels, but
 * sets only the valid channels: old content of the scratch memory gets into the padding of the
 * weight gradient (observed with AVX2). */
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

/* Returns 1 in a case where oneDNN reads past the end of its input: in bf16 and channels last, if
 * groups do not have whole vectors of channels, the weight gradient of images with more than 28
 * columns skips the rows of a dilated kernel twice (compute_oh_step_common of
 * jit_avx512_core_bf16_conv_kernel.cpp in 2.6 and 3.7).  Images with somewhat fewer columns are
 * refused too, and dilation in any dim. */
static int skips_rows(const cpu__job_t *job)
{
  enum { SURELY_RIGHT = 24 };
  const ct_op_desc_t *d = job->desc;
  return job->at.x == CT_NHWC && is_dilated(d) && d->x.dim[1] / d->u.conv.groups % 16 &&
         d->y.dim[d->y.ndim - 1] > SURELY_RIGHT;
}

/* Returns 1 in a case where oneDNN reads memory after x.  In bf16, pixels are multiplied in pairs.
 * In a first layer, whose x is not copied, the stride may lead from the first pixel of a pair to a
 * second one beyond the row, which the mask does not exclude: memory after the row, and after x, is
 * read and multiplied by zero (compute_ic_block_step_interleave, in the same file).  A NaN there
 * makes the weight gradient NaN.  oneDNN 3 also does this for first layers in channels last: NaN
 * was observed with one and two channels per group (3.7). */
static int reads_behind(const cpu__job_t *job)
{
  const ct_op_desc_t *d = job->desc;
  int last = d->x.ndim - 1, first = job->at.x == CT_PLAIN || d->x.dim[1] == 1;
  if (first && d->u.conv.stride[last - 2] > d->x.dim[last]) return 1;
  return cpu__dnnl_major() > 2 && job->at.x == CT_NHWC && d->x.dim[1] / d->u.conv.groups < 4;
}

/* Returns 1 in a case where oneDNN overwrites a register.  In bf16 and channels last, with an odd
 * number of channels to sum over, the 1x1 convolution keeps the last channel of dy in a register
 * that holds weights if it processes 30 pixels at a time, for example if the height is a multiple
 * of 30 (zmm_tmp2 and vreg_load of jit_avx512_core_bf16_1x1_conv_kernel.cpp in 2.6 and 3.7).  The
 * number of pixels depends on sizes, threads and the batch, so all odd numbers of channels are
 * refused. */
static int mixes_registers(const cpu__job_t *job, const char *name)
{
  const ct_op_desc_t *d = job->desc;
  int64_t summed = job->pass == CT_FWD ? d->x.dim[1] : d->y.dim[1];
  return job->pass != CT_BWD_PARAM && job->at.x == CT_NHWC && summed % 2 &&
         strstr(name, "bf16_1x1");
}

/* Returns 1 in cases where the forward convolution brg_conv_fwd of oneDNN 3 fails (observed with
 * 3.7 and AVX-512).  If a group has one channel, it reads memory after x and multiplies it by zero,
 * so that a NaN there makes y NaN; with AMX also if a stride or a window is longer than x.  If a
 * window covers only padding, it crashes. */
static int reads_elsewhere(const cpu__job_t *job, const char *name)
{
  const ct_op_desc_t *d = job->desc;
  int outside = d->x.dim[1] == d->u.conv.groups, amx = strstr(name, "amx") != NULL;
  if (job->pass == CT_BWD_PARAM || !strstr(name, "brg_conv")) return 0;
  for (int i = 0; i < d->x.ndim - 2; i++) {
    int64_t x = d->x.dim[2 + i], window = window_of(d, i);
    outside |= d->u.conv.pad[i] >= window || d->u.conv.stride[i] > x || (amx && window > x);
  }
  return outside;
}

/* Returns 1 in a case where the weight gradient of oneDNN with AMX multiplies undefined padding: if
 * channels are not a multiple of 16 (observed: NaN in dw with 33 channels and dilation). */
static int pads_badly(const cpu__job_t *job, const char *name)
{
  const ct_op_desc_t *d = job->desc;
  return job->pass == CT_BWD_PARAM && strstr(name, "amx") && d->u.conv.groups == 1 &&
         (d->x.dim[1] % 16 || d->y.dim[1] % 16);
}

/* Returns the reason not to use oneDNN's weight gradient; NULL: it can be used. */
static const char *gradient_fault(const cpu__job_t *job)
{
  if (cpu__conv_overreaches(job->desc))
    return "oneDNN's weight gradient is wrong for windows as large as the input";
  if (leaves_padding(job)) return "oneDNN leaves the padding of this weight gradient undefined";
  if (job->desc->x.dtype != CT_BF16) return NULL;
  if (skips_rows(job)) return "oneDNN's weight gradient of this dilated convolution is wrong";
  if (reads_behind(job)) return "oneDNN reads past the end of x in this weight gradient";
  return NULL;
}

/* ---- entries of the algorithm table ---------------------------------------------------------- */

static int takes(const cpu__job_t *job, ct_dtype_t dtype, char why[128])
{
  cpu__layouts_t l = job->at;
  if (job->desc->x.dtype != dtype) return cpu__refuse(why, "another type of activations");
  if (l.y == CT_C16 && job->dev->isa != CPU__AVX512)
    return cpu__refuse(why, "blocks of 16 channels are for AVX-512");
  if (l.x == l.y || (l.x == CT_PLAIN && l.y != CT_NHWC)) return 1;
  return cpu__refuse(why, "x must be plain or in the layout of y");
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
    rc = cpu__refuse(why, "oneDNN's result for this odd number of channels is wrong");
  if (pads_badly(job, cpu__prim_name(prim)))
    rc = cpu__refuse(why, "oneDNN multiplies undefined padding in this weight gradient");
  if (reads_elsewhere(job, cpu__prim_name(prim)))
    rc = cpu__refuse(why, "oneDNN reads outside of x");
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
  if (job->dev->bf16_rate == 0)
    return cpu__refuse(why, "the processor has no bfloat16 dot products");
  if (is_dilated(d) && d->u.conv.groups == d->x.dim[1])
    return cpu__refuse(why, "oneDNN's weight gradient of a dilated depthwise convolution is wrong");
  /* depthwise is limited by memory bandwidth: half the bytes compensate for slow arithmetic */
  double rate = job->dev->bf16_rate;
  return can_direct(job, CT_BF16, d->u.conv.groups == d->x.dim[1] ? fmax(rate, 1) : rate, cost,
                    why);
}

/* Returns the format of the weights in the arena: the format of their gradient.  Each pass converts
 * the weights. */
static int bf16_stored(const cpu__job_t *job, cpu__md_t **out)
{
  cpu__job_t gradient = *job;
  gradient.pass = CT_BWD_PARAM;
  return cpu__primitive_format(&gradient, out);
}

const cpu__algo_t cpu__conv_direct = {.name = "direct",
                                      .can = direct_can,
                                      .stored = cpu__primitive_format,
                                      .prepare = cpu__primitive_prepare,
                                      .run = cpu__primitive_run,
                                      .clear = cpu__primitive_clear};

const cpu__algo_t cpu__conv_bf16 = {.name = "bf16",
                                    .can = bf16_can,
                                    .stored = bf16_stored,
                                    .prepare = cpu__primitive_prepare,
                                    .run = cpu__primitive_run,
                                    .clear = cpu__primitive_clear};
