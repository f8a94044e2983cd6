/* SyncBN: batchnorm with the statistics of several ranks, simulated by parts of a batch; and its
 * options. */
#include "tests/conform/check.h"

#include <math.h>
#include <string.h>

#include "base/ct_err.h"
#include "tests/harness/ct_test.h"

enum {
  PARTS = 4,
  ALL = CT_FWD | CT_BWD_DATA | CT_BWD_PARAM,
  SYNC = ALL | CT_FWD_STATS | CT_BWD_STATS,
  CHANNELS = 64
};

/* One simulated rank. */
typedef struct part {
  op_case_t c;
  rig_t rig;
  inputs_t in;
  outputs_t out;
  int64_t first; /* its first element in the whole tensor */
} part_t;

static void part_open(part_t *p, const op_case_t *whole, const inputs_t *in, int64_t first,
                      int64_t n, ct_layout_t offered)
{
  trial_t how = {"sync", SYNC, RIG_STATS, offered};

  memset(p, 0, sizeof *p);
  p->c = *whole;
  p->c.desc.x.dim[0] = p->c.desc.y.dim[0] = n;
  p->c.desc.u.bnorm.sync = 1;
  p->first = first * ct_shape_sample(&whole->desc.x);
  p->in = *in;
  p->in.x += p->first;
  p->in.dy += p->first;
  p->in.dy2 += p->first;
  if (p->in.x2) p->in.x2 += p->first;
  outputs_open(&p->out, &p->c.desc);
  CT_ASSERT_OK(rig_open(&p->rig, &tested, &p->c.desc, &how));
}

/* Adds up the sums of all ranks and gives them to all. */
static void exchange(part_t part[PARTS], int channels)
{
  double sums[2 * CHANNELS + 1] = {0}, mine[2 * CHANNELS + 1];

  for (int i = 0; i < PARTS; i++) {
    rig_stats(&part[i].rig, mine);
    for (int k = 0; k <= 2 * channels; k++)
      sums[k] += mine[k];
  }
  for (int i = 0; i < PARTS; i++)
    CT_ASSERT_OK(rig_finish(&part[i].rig, sums));
}

static void go(part_t part[PARTS])
{
  int channels = (int)part[0].c.desc.x.dim[1];
  char text[160];

  for (int i = 0; i < PARTS; i++)
    CT_ASSERT_OK(rig_forward(&part[i].rig, &part[i].in));
  exchange(part, channels);
  for (int i = 0; i < PARTS; i++)
    CT_ASSERT_OK(rig_backward(&part[i].rig, &part[i].in));
  exchange(part, channels);
  for (int i = 0; i < PARTS; i++) {
    const char *wrong = rig_take(&part[i].rig, &part[i].out);
    check(!wrong, "%s: %s", ct_op_text(&part[i].c.desc, text, sizeof text), wrong);
  }
}

/* Combines the results of all ranks; running statistics must be identical on all. */
static void gather(const part_t part[PARTS], outputs_t *all)
{
  int64_t channels = part[0].c.desc.x.dim[1];
  size_t params = (size_t)channels * sizeof(float);

  for (int i = 0; i < PARTS; i++) {
    const outputs_t *o = &part[i].out;
    size_t bytes = (size_t)ct_shape_count(&part[i].c.desc.x) * sizeof(float);
    memcpy(all->y + part[i].first, o->y, bytes);
    memcpy(all->dx + part[i].first, o->dx, bytes);
    memcpy(all->dx2 + part[i].first, o->dx2, bytes);
    for (int k = 0; k < 2; k++) {
      for (int64_t c = 0; c < channels; c++)
        all->dw[k][c] += o->dw[k][c];
      memcpy(all->running[k], o->running[k], params);
      CU_ASSERT(memcmp(o->running[k], part[0].out.running[k], params) == 0);
    }
  }
}

static int whole_batch(const op_case_t *c, const trial_t *how, int keep_running, const inputs_t *in,
                       outputs_t *out)
{
  rig_t r;
  char text[160];
  const char *wrong = NULL;

  int rc = rig_open(&r, &tested, &c->desc, how);
  r.args.keep_running = keep_running;
  if (rc || rig_forward(&r, in) || rig_backward(&r, in)) wrong = ct_err_last()->text;
  if (!wrong) wrong = rig_take(&r, out);
  rig_close(&r);
  return check(!wrong, "%s: %s", ct_op_text(&c->desc, text, sizeof text), wrong);
}

/* Parameter gradients are sums of the ranks' float32 sums, which may cancel out: errors are
 * relative to 0.1 of the size of their terms, as in parity.c. */
static void compare(const ct_op_desc_t *d, const char *layout, const outputs_t *got,
                    const outputs_t *want)
{
  int64_t x = ct_shape_count(&d->x), channels = d->x.dim[1];
  double floor = 0.01 * sqrt((double)x), floor_of_sums = 10 * floor;
  char text[160], why[80];
  const struct {
    const char *name;
    const float *got, *want;
    int64_t n;
    double floor;
  } rows[] = {{"y", got->y, want->y, x, floor},
              {"dx", got->dx, want->dx, x, floor},
              {"dx2", got->dx2, want->dx2, d->u.bnorm.add ? x : 0, floor},
              {"dw[0]", got->dw[0], want->dw[0], channels, floor_of_sums},
              {"dw[1]", got->dw[1], want->dw[1], channels, floor_of_sums},
              {"running_mean", got->running[0], want->running[0], channels, floor},
              {"running_var", got->running[1], want->running[1], channels, floor}};

  ct_op_text(d, text, sizeof text);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    check(is_close(rows[i].got, rows[i].want, rows[i].n, rows[i].floor, 1e-5, why),
          "%s, %s: %s: %s", text, layout, rows[i].name, why);
}

/* Ranks with most of the batch, a little, nothing, and the rest. */
static void check_parts(const op_case_t *c, const inputs_t *in, const outputs_t *want,
                        ct_layout_t offered)
{
  int64_t n = c->desc.x.dim[0];
  const int64_t first[PARTS + 1] = {0, n / 2, n - (n > 2), n - (n > 2), n};
  part_t part[PARTS];
  outputs_t got;

  outputs_open(&got, &c->desc);
  for (int i = 0; i < PARTS; i++)
    part_open(&part[i], c, in, first[i], first[i + 1] - first[i], offered);
  go(part);
  gather(part, &got);
  compare(&c->desc, ct_layout_name(offered), &got, want);
  for (int i = 0; i < PARTS; i++) {
    rig_close(&part[i].rig);
    outputs_close(&part[i].out);
  }
  outputs_close(&got);
}

void check_sync_bnorm(const op_case_t *c)
{
  static const ct_layout_t layouts[] = {CT_PLAIN, CT_C16, CT_C8, CT_NHWC};
  int n_layouts = c->desc.x.ndim == 4 ? 4 : 1;
  trial_t how = {"whole", ALL, 0, CT_PLAIN};
  inputs_t in;
  outputs_t want;

  if (!c->desc.training || c->big) return;
  inputs_open(&in, &c->desc, 11, c->data);
  /* channel means far from the running means and from 0, compared with the standard deviation */
  for (int64_t i = 0; i < ct_shape_count(&c->desc.x); i++)
    in.x[i] += (float)(i / 7 % 3);
  outputs_open(&want, &c->desc);
  if (whole_batch(c, &how, 0, &in, &want))
    for (int l = 0; l < n_layouts; l++)
      check_parts(c, &in, &want, layouts[l]);
  outputs_close(&want);
  inputs_close(&in);
}

/* ---- options ---- */

static void check_running(const op_case_t *c, const inputs_t *in, const outputs_t *want)
{
  size_t x = (size_t)ct_shape_count(&c->desc.x) * sizeof(float);
  trial_t how = {"keep running", ALL, 0, CT_C16};
  outputs_t got;

  outputs_open(&got, &c->desc);
  if (whole_batch(c, &how, 1, in, &got)) {
    for (int k = 0; k < 2; k++)
      CU_ASSERT(memcmp(got.running[k], in->w[2 + k], (size_t)c->desc.x.dim[1] * 4) == 0);
    CU_ASSERT(memcmp(got.y, want->y, x) == 0);
    CU_ASSERT(memcmp(got.dx, want->dx, x) == 0);
  }
  outputs_close(&got);
}

static void check_one_gradient(const op_case_t *c, const inputs_t *in, const outputs_t *want)
{
  size_t x = (size_t)ct_shape_count(&c->desc.x) * sizeof(float);
  trial_t only_dx = {"only dx", ALL, RIG_NO_DX2, CT_C16},
          only_dx2 = {"only dx2", ALL, RIG_NO_DX, CT_C16};
  outputs_t got;

  outputs_open(&got, &c->desc);
  if (whole_batch(c, &only_dx, 0, in, &got)) CU_ASSERT(memcmp(got.dx, want->dx, x) == 0);
  if (whole_batch(c, &only_dx2, 0, in, &got)) CU_ASSERT(memcmp(got.dx2, want->dx2, x) == 0);
  outputs_close(&got);
}

void check_bnorm_options(const op_case_t *c)
{
  trial_t how = {"all", ALL, 0, CT_C16};
  inputs_t in;
  outputs_t want;

  if (c->big) return;
  inputs_open(&in, &c->desc, 12, c->data);
  outputs_open(&want, &c->desc);
  if (whole_batch(c, &how, 0, &in, &want)) {
    check_running(c, &in, &want);
    if (c->desc.u.bnorm.add) check_one_gradient(c, &in, &want);
  }
  outputs_close(&want);
  inputs_close(&in);
}
