/* Convolution, on oneDNN or, with few channels, by hand: which layouts, and which implementation.
 *
 * oneDNN's own choice is not good enough here: for some channel counts it falls back to its reference
 * code, hundreds of times slower than what another layout gets, and it takes Winograd's algorithm for
 * shapes that lose by it and leaves it for shapes that gain.  So each pass is looked up for a few
 * pairs of layouts, the costs are estimated from the padded work and the name of the implementation,
 * and the cheapest are taken, reorders between the graph's layouts and the pass's own included.  What
 * is done by hand (conv/few_channels.h) is one more candidate.
 *
 * A convolution of bfloat16 is one of oneDNN's own, or, where the processor is slow at those or
 * Winograd's algorithm is fast, one of float32 between casts: again what is estimated to cost less.
 *
 * Nothing is timed: the choice, and with it every bit of the result, is a function of the descriptor,
 * the instruction set and oneDNN's version. */
#include "cpu/conv/conv.h"
#include "cpu/onednn/product.h"
#include "cpu/conv/few_channels.h"
#include "base/ct_err.h"
#include <math.h>
#include <string.h>

typedef struct layouts {
  ct_layout_t x, y;
} layouts_t;

/* In order of preference.  A plain x is for the few channels of a first layer. */
static const layouts_t candidates[] = {
    {CT_C16, CT_C16},  {CT_C8, CT_C8},     {CT_PLAIN, CT_C16},
    {CT_PLAIN, CT_C8}, {CT_NHWC, CT_NHWC}, {CT_PLAIN, CT_PLAIN},
};
enum { CANDIDATES = sizeof candidates / sizeof candidates[0], BY_HAND = CANDIDATES, PASSES = 3 };
static const ct_layout_t all_layouts[] = {CT_C16, CT_C8, CT_NHWC, CT_PLAIN};

typedef struct conv {
  cpu__product_op_t product;
  cpu__few_channels_t few; /* of the passes that are run by hand */
} conv_t;

/* Estimated cost in multiply-adds of each pass with each pair of layouts; INFINITY: cannot be. */
typedef struct search {
  ct_dev_t *dev;
  ct_op_desc_t d; /* of a batch of at least 1 */
  int by_hand;    /* may be considered */
  double cost[PASSES][CANDIDATES];
  int winograd[PASSES][CANDIDATES];
} search_t;

static int is_wanted(const ct_op_desc_t *d, int i)
{
  return i == 0 || d->passes & 1 << i; /* the forward pass decides the layout of the weights */
}

/* ---- estimates ------------------------------------------------------------------------------- */

static int64_t round_up(int64_t n, int64_t to)
{
  return (n + to - 1) / to * to;
}

static int64_t lanes_of(ct_layout_t layout)
{
  return layout == CT_C16 ? 16 : layout == CT_C8 ? 8 : 1;
}

/* Multiply-adds with the padding that a pass computes along.  In NHWC it is that of a vector of the
 * channels that the pass writes. */
static double padded_work(const ct_dev_t *dev, const ct_op_desc_t *d, int i, layouts_t l)
{
  int64_t in = d->x.dim[1], out = d->y.dim[1], groups = d->u.conv.groups;
  int64_t vector = lanes_of(cpu__blocked(dev));
  double window = 1, pixels = (double)d->y.dim[0];
  for (int k = 0; k < d->x.ndim - 2; k++) {
    window *= d->u.conv.kernel[k];
    pixels *= (double)d->y.dim[2 + k];
  }
  int depthwise = groups > 1 && groups == in;
  if (groups == 1 || depthwise) {
    in = round_up(in, l.x == CT_NHWC && i == 1 ? vector : lanes_of(l.x));
    out = round_up(out, l.y == CT_NHWC && i != 1 ? vector : lanes_of(l.y));
  }
  return pixels * window * (double)out * (depthwise ? 1 : (double)in / (double)groups);
}

/* The best speed that there is for the types of a convolution, against float32. */
static double rate_of(const search_t *s)
{
  return s->d.x.dtype == CT_BF16 ? s->dev->bf16_rate : 1;
}

/* Speed of an implementation against the best, as measured. */
static double efficiency(const search_t *s, int i, const char *name, layouts_t l)
{
  if (strstr(name, "ref")) return 0.002;
  if (strstr(name, "gemm")) return s->d.u.conv.groups > 1 ? 0.05 : i == 2 ? 0.15 : 0.35;
  if (l.x == CT_NHWC) return 0.7;
  if (l.y == CT_C8 && s->dev->isa == CPU__AVX512) return 0.8;
  return 1;
}

/* How much faster Winograd's F(4x4, 3x3) is than the direct algorithm; 1 or less: do not use it.  It
 * multiplies 36 instead of 144 numbers per full tile of 4x4 outputs; transforming a tile takes the
 * more of the time the fewer channels share it; transforming the weights takes as much as `extra`
 * tiles, some 32.  The numbers are fitted to oneDNN 2.6 on Zen 4. */
static double winograd_gain(const ct_op_desc_t *d, int i, double extra)
{
  double in = (double)d->x.dim[1], out = (double)d->y.dim[1];
  double n = (double)d->y.dim[0], h = (double)d->y.dim[2], w = (double)d->y.dim[3];
  double tiles = n * ceil(h / 4) * ceil(w / 4);
  if (d->x.ndim != 4 || d->u.conv.groups != 1 || fmin(in, out) < 32) return 0;
  double gain = n * h * w / (4 * (tiles + extra)) / (1.28 + 10 / in + 10 / out);
  return (i == 2 ? 1.25 : 1) * gain / 1.15;
}

static double reorder_cost(const ct_shape_t *s)
{
  return 45.0 * (double)ct_shape_count(s);
}

/* ---- search ---------------------------------------------------------------------------------- */

/* The primitive of pass i with the k-th pair of layouts, or NULL. */
static int find(const ct_dev_t *dev, const ct_op_desc_t *d, int i, int k, int winograd,
                const cpu__prim_t *forward, cpu__prim_t **out)
{
  int rc = CT_OK, groups = d->u.conv.groups, ndim = d->x.ndim;
  const int *kernel = d->u.conv.kernel;
  const int64_t w[6] = {groups,   d->y.dim[1] / groups, d->x.dim[1] / groups, kernel[0], kernel[1],
                        kernel[2]};
  cpu__md_t *x = NULL, *y = NULL, *any = NULL;
  *out = NULL;
  ct_dtype_t dtype = d->x.dtype, weights = 1 << i == CT_BWD_PARAM ? CT_F32 : dtype;
  CT_TRY(cpu__md_typed(dtype, ndim, d->x.dim, (int)candidates[k].x, &x));
  CT_TRY(cpu__md_typed(dtype, ndim, d->y.dim, (int)candidates[k].y, &y));
  CT_TRY(cpu__md_typed(weights, ndim + (groups > 1), groups > 1 ? w : w + 1, CPU__ANY, &any));
  cpu__product_t p = {.pass = 1 << i,
                      .desc = d,
                      .winograd = winograd,
                      .x = x,
                      .w = any,
                      .y = y,
                      .forward = forward};
  CT_TRY(cpu__prim_product(dev->dnnl, &p, out));
out:
  cpu__md_free(x);
  cpu__md_free(y);
  cpu__md_free(any);
  return rc;
}

/* All costs are in proportion to the batch size, so that layouts do not depend on it: ranks may have
 * batches of different sizes, but must agree on the layout of the weights.  Whether Winograd is run
 * does depend on it; the weights lie the same for both. */
static int estimate(search_t *s, int i, int k, const cpu__prim_t *forward, const cpu__prim_t *prim)
{
  int rc = CT_OK;
  cpu__prim_t *winograd = NULL;
  layouts_t l = candidates[k];
  double gain = winograd_gain(&s->d, i, 0);
  s->cost[i][k] =
      padded_work(s->dev, &s->d, i, l) / (rate_of(s) * efficiency(s, i, cpu__prim_name(prim), l));
  if (s->d.x.dtype == CT_BF16 || gain <= 1 || s->dev->conv_direct || l.x != CT_C16) goto out;
  CT_TRY(find(s->dev, &s->d, i, k, 1, forward, &winograd));
  if (!winograd) goto out;
  s->cost[i][k] /= gain;
  s->winograd[i][k] = winograd_gain(&s->d, i, 32) > 1;
out:
  cpu__prim_free(winograd);
  return rc;
}

/* Fills one column of the table; *perfect: no layout can do better. */
static int look_up(search_t *s, int k, int *perfect)
{
  int rc = CT_OK;
  cpu__prim_t *prim[PASSES] = {NULL, NULL, NULL};
  double work = padded_work(s->dev, &s->d, 0, (layouts_t){CT_PLAIN, CT_PLAIN});
  *perfect = 1;
  for (int i = 0; i < PASSES; i++) {
    if (!is_wanted(&s->d, i)) continue;
    CT_TRY(find(s->dev, &s->d, i, k, 0, prim[0], &prim[i]));
    if (prim[i]) CT_TRY(estimate(s, i, k, prim[0], prim[i]));
    *perfect &= s->cost[i][k] * rate_of(s) <= work;
  }
out:
  for (int i = 0; i < PASSES; i++)
    cpu__prim_free(prim[i]);
  return rc;
}

static int search(ct_dev_t *dev, const ct_op_desc_t *d, search_t *s)
{
  int rc = CT_OK, perfect = 0;
  *s = (search_t){.dev = dev, .d = *d};
  if (d->x.dim[0] == 0) s->d.x.dim[0] = s->d.y.dim[0] = 1;
  for (int i = 0; i < PASSES; i++)
    for (int k = 0; k < CANDIDATES; k++)
      s->cost[i][k] = INFINITY;
  for (int k = 0; k < CANDIDATES && !perfect; k++)
    if (candidates[k].y != CT_C16 || dev->isa == CPU__AVX512) CT_TRY(look_up(s, k, &perfect));
  s->by_hand = !perfect && d->x.ndim == 4 && d->x.dtype == CT_F32;
out:
  return rc;
}

/* The best column for pass i when the graph has x and y in these layouts, and its cost. */
static int best(const search_t *s, int i, layouts_t outer, int by_hand, double *cost)
{
  int at = BY_HAND;
  *cost = INFINITY;
  if (by_hand && outer.y == cpu__few_channels_y_layout(s->dev, &s->d))
    *cost = cpu__few_channels_cost(s->dev, &s->d, 1 << i, outer.x);
  for (int k = 0; k < CANDIDATES; k++) {
    double c = s->cost[i][k];
    if (candidates[k].x != outer.x) c += reorder_cost(&s->d.x);
    if (candidates[k].y != outer.y) c += reorder_cost(&s->d.y);
    if (c >= *cost) continue;
    *cost = c;
    at = k;
  }
  return at;
}

static double total(const search_t *s, layouts_t outer)
{
  double sum = 0, cost;
  for (int i = 0; i < PASSES; i++) {
    if (!is_wanted(&s->d, i)) continue;
    best(s, i, outer, s->by_hand, &cost);
    sum += cost;
  }
  return sum;
}

/* ---- the op ---------------------------------------------------------------------------------- */

/* The y layout that is best with this x, and what that costs. */
static layouts_t best_layouts(const search_t *s, ct_layout_t x, double *least)
{
  layouts_t chosen = {x, x};
  *least = INFINITY;
  for (int k = 0; k < 4; k++) {
    layouts_t outer = {x, all_layouts[k]};
    double cost = total(s, outer);
    if (cost >= *least) continue;
    *least = cost;
    chosen = outer;
  }
  return chosen;
}

/* A cast reads and writes both its sides; each of three passes casts two activations. */
static double cast_cost(const ct_op_desc_t *d)
{
  return 35.0 * 3 * (double)(ct_shape_count(&d->x) + ct_shape_count(&d->y));
}

/* Cost of a training step in the best layouts there are. */
static int least_cost(ct_dev_t *dev, const ct_op_desc_t *d, double *out)
{
  int rc = CT_OK;
  search_t s;
  double cost;
  *out = INFINITY;
  CT_TRY(search(dev, d, &s));
  for (int k = 0; k < 4; k++) {
    best_layouts(&s, all_layouts[k], &cost);
    if (cost < *out) *out = cost;
  }
out:
  return rc;
}

/* In which type an op of bfloat16 costs less, casts included.  Float32 has to be clearly better: it takes
 * more memory, and where both are near each other its estimates are rather too low (measured on Zen 4).
 * The answer is of the layer alone, whatever the batch, the passes and the layout that is offered: all its
 * ops share one layout of the parameters. */
static int conv_stores(ct_dev_t *dev, const ct_op_desc_t *d)
{
  enum { USUAL_BATCH = 16 };
  ct_op_desc_t low = *d, wide;
  double low_cost, wide_cost;
  low.passes = CT_FWD | CT_BWD_DATA | CT_BWD_PARAM;
  low.x.dim[0] = low.y.dim[0] = USUAL_BATCH;
  wide = low;
  wide.x.dtype = wide.y.dtype = CT_F32;
  if (dev->bf16_rate == 0 || least_cost(dev, &low, &low_cost) != CT_OK) return 1;
  if (least_cost(dev, &wide, &wide_cost) != CT_OK) return 1; /* prepare will say why */
  return wide_cost + cast_cost(&wide) < 0.9 * low_cost;
}

static ct_layout_t conv_wants(ct_dev_t *dev, const ct_op_desc_t *d)
{
  search_t s;
  ct_layout_t wanted = d->x.layout;
  double least = INFINITY, cost;
  if (search(dev, d, &s) != CT_OK) return wanted; /* prepare will say why */
  for (int k = 0; k < 4; k++) {
    best_layouts(&s, all_layouts[k], &cost);
    if (all_layouts[k] != d->x.layout)
      cost += reorder_cost(&d->x) * (d->passes & CT_BWD_DATA ? 2 : 1);
    if (cost >= least) continue;
    least = cost;
    wanted = all_layouts[k];
  }
  return wanted;
}

/* How the weights lie in the arena: as the forward pass takes them; in bfloat16, which works on a copy
 * of them, as their gradient comes. */
static int own_weights(const search_t *s, int k, const cpu__prim_t *forward, cpu__md_t **out)
{
  int rc = CT_OK;
  cpu__prim_t *gradient = NULL;
  const cpu__prim_t *from = forward;
  if (s->d.x.dtype == CT_BF16) {
    CT_TRY(find(s->dev, &s->d, 2, k, 0, forward, &gradient));
    if (!gradient) CT_FAIL(CT_ERR_UNSUP, "oneDNN has no gradient of this convolution's weights");
    from = gradient;
  }
  CT_TRY(cpu__md_copy(cpu__prim_md(from, CPU__W), out));
out:
  cpu__prim_free(gradient);
  return rc;
}

static int add_primitive(cpu__product_op_t *op, const search_t *s, int i, int k, ct_op_info_t *info)
{
  int rc = CT_OK;
  cpu__prim_t *main = NULL, *hint = NULL, *forward = op->pass[0].main;
  if (i > 0 && !forward) {
    CT_TRY(find(s->dev, &s->d, 0, k, 0, NULL, &hint));
    forward = hint;
  }
  CT_TRY(find(s->dev, &s->d, i, k, s->winograd[i][k], forward, &main));
  if (!main) CT_FAIL(CT_ERR_UNSUP, "oneDNN has no implementation of this convolution");
  if (!op->md[CPU__W]) CT_TRY(own_weights(s, k, main, &op->md[CPU__W]));
  rc = cpu__product_add(op, 1 << i, main, info);
  main = NULL;
out:
  cpu__prim_free(main);
  cpu__prim_free(hint);
  return rc;
}

static const char *algorithm(const search_t *s, int k)
{
  return s->d.x.dtype == CT_BF16 ? "bf16" : s->winograd[0][k] ? "winograd" : "direct";
}

/* Decides how each pass is done; the first pass, forward, decides on the weights' layout. */
static int add_passes(conv_t *op, const search_t *s, layouts_t outer, ct_op_info_t *info)
{
  int rc = CT_OK, by_hand = 0, possible = s->by_hand;
  cpu__product_op_t *product = &op->product;
  cpu__md_t *weights = NULL;
  if (possible) CT_TRY(cpu__few_channels_weights(s->dev, &s->d, &weights));
  for (int i = 0; i < PASSES; i++) {
    double cost;
    if (!is_wanted(&s->d, i)) continue;
    cpu__md_t **own = &product->md[CPU__W];
    int k = best(s, i, outer, possible && (!*own || cpu__md_same(*own, weights)), &cost);
    if (i == 0 && k != BY_HAND) info->algorithm = algorithm(s, k);
    if (k != BY_HAND) {
      CT_TRY(add_primitive(product, s, i, k, info));
      continue;
    }
    if (!*own) CT_TRY(cpu__md_copy(weights, own));
    by_hand |= 1 << i;
  }
  size_t scratch =
      by_hand ? cpu__few_channels_init(&op->few, s->dev, &product->head.desc, by_hand) : 0;
  if (scratch > info->scratch) info->scratch = scratch;
out:
  cpu__md_free(weights);
  return rc;
}

static int conv_prepare(ct_op_t *head, const ct_op_t *like, ct_op_info_t *info)
{
  int rc = CT_OK;
  conv_t *op = (conv_t *)head;
  cpu__product_op_t *product = &op->product;
  const ct_op_desc_t *d = &head->desc;
  search_t s;
  double cost;
  CT_TRY(search(head->dev, d, &s));
  layouts_t outer = best_layouts(&s, d->x.layout, &cost);
  CT_TRY(cpu__md_typed(d->x.dtype, d->x.ndim, s.d.x.dim, (int)outer.x, &product->md[CPU__X]));
  CT_TRY(cpu__md_typed(d->x.dtype, d->x.ndim, s.d.y.dim, (int)outer.y, &product->md[CPU__Y]));
  if (like)
    CT_TRY(cpu__md_copy(((const cpu__product_op_t *)like)->md[CPU__W], &product->md[CPU__W]));
  CT_TRY(add_passes(op, &s, outer, info));
  cpu__product_info(product, info);
  info->y_layout = outer.y;
out:
  return rc;
}

static int conv_run(ct_op_t *head, const ct_op_args_t *a)
{
  conv_t *op = (conv_t *)head;
  ct_op_args_t rest = *a;
  cpu__few_channels_run(&op->few, a);
  rest.pass &= ~op->few.passes;
  return cpu__product_run(head, &rest);
}

const cpu__op_kind_t cpu__conv = {
    .size = sizeof(conv_t),
    .bf16 = 1,
    .stores = conv_stores,
    .wants = conv_wants,
    .prepare = conv_prepare,
    .run = conv_run,
    .clear = cpu__product_clear,
    .pack = cpu__product_pack,
    .unpack = cpu__product_unpack,
};
