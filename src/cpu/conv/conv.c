/* Convolution: the table of its algorithms, and the preferred layout of its input. */
#include "cpu/conv/conv.h"
#include "cpu/gemm/passes.h"
#include "base/ct_err.h"

/* The algorithms, and the pairs of layouts (x, y).  A plain x is for the few channels of a first
 * layer.  oneDNN does not support the last two pairs. */
const cpu__algos_t cpu__conv_algos = {
    .algo = {&cpu__conv_depthwise, &cpu__conv_by_hand, &cpu__conv_winograd, &cpu__conv_direct,
             &cpu__conv_amx_gradient, &cpu__conv_bf16, &cpu__conv_lowered},
    .layouts = {{CT_C16, CT_C16},
                {CT_C8, CT_C8},
                {CT_PLAIN, CT_C16},
                {CT_PLAIN, CT_C8},
                {CT_NHWC, CT_NHWC},
                {CT_PLAIN, CT_PLAIN},
                {CT_C16, CT_C8},
                {CT_C8, CT_C16}},
    .nlayouts = 8,
};

/* Returns the descriptor for cost estimates, with a batch of at least 1. */
static ct_op_desc_t with_samples(const ct_op_desc_t *d)
{
  ct_op_desc_t some = *d;
  if (d->x.dim[0] == 0) some.x.dim[0] = some.y.dim[0] = 1;
  return some;
}

/* Returns the cost of conversions between bf16 and float32: each of three passes converts two
 * activations, and a conversion reads one tensor and writes another. */
static double cast_cost(const ct_op_desc_t *d)
{
  return 35.0 * 3 * (double)(ct_shape_count(&d->x) + ct_shape_count(&d->y));
}

/* Computes the cost of a training step with the best layouts. */
static int least_cost(ct_dev_t *dev, const ct_op_desc_t *d, double *out)
{
  cpu__costs_t costs;
  int rc = cpu__ask(&cpu__conv_algos, dev, d, &costs);
  *out = rc == CT_OK ? cpu__least_cost(&costs) : 0;
  return rc;
}

/* Returns 1 if a bf16 op is cheaper in float32, conversions included: if the processor's bf16 is
 * slow or Winograd is fast.  Float32 must be clearly cheaper, since it takes more memory, and since
 * its estimated cost is somewhat too low when the two costs are similar (measured on Zen 4).  The
 * result depends on the layer alone, not on batch, passes or the layout of the input, because all
 * ops of a layer share one parameter layout. */
static int conv_stores(ct_dev_t *dev, const ct_op_desc_t *d)
{
  enum { USUAL_BATCH = 16 };
  ct_op_desc_t narrow = *d, wide;
  double narrow_cost, wide_cost;
  narrow.passes = CT_FWD | CT_BWD_DATA | CT_BWD_PARAM;
  narrow.x.dim[0] = narrow.y.dim[0] = USUAL_BATCH;
  wide = narrow;
  wide.x.dtype = wide.y.dtype = CT_F32;
  if (dev->bf16_rate == 0 || least_cost(dev, &narrow, &narrow_cost) != CT_OK) return 1;
  if (least_cost(dev, &wide, &wide_cost) != CT_OK) return 1; /* prepare will report the reason */
  return wide_cost + cast_cost(&wide) < 0.9 * narrow_cost;
}

static ct_layout_t conv_wants(ct_dev_t *dev, const ct_op_desc_t *d)
{
  ct_op_desc_t some = with_samples(d);
  cpu__costs_t costs;
  if (cpu__ask(&cpu__conv_algos, dev, &some, &costs) != CT_OK)
    return d->x.layout; /* prepare will report the reason */
  return cpu__best_x(&costs, d->x.layout);
}

static int conv_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  ct_op_desc_t some = with_samples(&op->desc);
  return cpu__passes_prepare(op, &cpu__conv_algos, &some, like, info);
}

const cpu__op_kind_t cpu__conv = {
    .size = sizeof(cpu__passes_op_t),
    .bf16 = 1,
    .stores = conv_stores,
    .wants = conv_wants,
    .prepare = conv_prepare,
    .run = cpu__passes_run,
    .clear = cpu__passes_clear,
    .pack = cpu__passes_pack,
    .unpack = cpu__passes_unpack,
};
