/* A backend whose ops sleep for their simulated time.  Sleeps end late, and a short sleep is not
 * worth a system call.  So each op has an absolute end time, computed from the end time of the op
 * before it, and a sleep that is too long shortens the next sleep. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "backend/ct_host.h"
#include "backend/ct_update.h"
#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_hash.h"
#include "base/ct_mem.h"
#include "base/ct_rng.h"
#include "sim/ct_sim.h"
#include "sim/sim.h"

struct ct_dev {
  ct__sim_times_t *times; /* NULL: all ops use the rates */
  double flop_rate, byte_rate, noise, slow;
  uint64_t seed, draws;
  double due; /* end of the work so far; ct_clock() */
  char describe[160];
};

/* Combinations of passes with separate times, as in ct_op_pass_text(). */
enum { FORWARD, SUMS, BACKWARD, DATA, WEIGHTS, GROUPS };
static const int passes_of[GROUPS] = {CT_FWD, CT_FWD_STATS, CT_BWD_DATA | CT_BWD_PARAM, CT_BWD_DATA,
                                      CT_BWD_PARAM};

struct ct_op {
  ct_dev_t *dev;
  ct_op_desc_t desc;
  size_t param_bytes[CT_OP_PARAMS];
  double seconds[GROUPS];
};

/* ---- device ---- */

static int backend_probe(char why[128])
{
  why[0] = 0;
  return 1;
}

static void close_device(ct_dev_t *dev)
{
  if (!dev) return;
  ct__sim_times_free(dev->times);
  ct_mem_free(dev);
}

static int open_device(const ct_dev_opts_t *o, ct_dev_t **out)
{
  int rc = CT_OK;
  const ct_dev_sim_t *s = &o->sim;
  *out = NULL;
  ct_dev_t *dev = ct_mem_alloc(sizeof *dev, "simulated device");
  if (!dev) return CT_ERR_NOMEM;
  if (s->times && *s->times) CT_TRY(ct__sim_times_read(s->times, &dev->times));
  dev->flop_rate = 100e9;
  dev->byte_rate = 10e9;
  ct__sim_times_rates(dev->times, &dev->flop_rate, &dev->byte_rate);
  if (s->flop_rate > 0) dev->flop_rate = s->flop_rate;
  if (s->byte_rate > 0) dev->byte_rate = s->byte_rate;
  dev->noise = s->noise;
  dev->slow = s->slow > 0 ? s->slow : 1;
  dev->seed = s->seed;
  snprintf(dev->describe, sizeof dev->describe,
           "simulated: %d recorded ops, others by %.4g GFLOP/s and %.4g GB/s",
           ct__sim_times_count(dev->times), dev->flop_rate / 1e9, dev->byte_rate / 1e9);
  prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL); /* in ns; the default is 50 us */
  *out = dev;
  dev = NULL;
out:
  close_device(dev);
  return rc;
}

static const char *describe(ct_dev_t *dev)
{
  return dev->describe;
}

/* ---- time ---- */

static double rule_seconds(const ct_dev_t *dev, const ct_op_desc_t *d, int pass)
{
  double elements = (double)ct_shape_count(&d->x) + (double)ct_shape_count(&d->y);
  return ct_op_flops(d, pass) / dev->flop_rate +
         (double)ct_dtype_size(d->x.dtype) * elements / dev->byte_rate;
}

static double seconds_of(const ct_dev_t *dev, const ct_op_desc_t *d, int pass)
{
  double recorded = ct__sim_times_of(dev->times, d, pass);
  return recorded >= 0 ? recorded : rule_seconds(dev, d, pass);
}

/* Optimizer ops read and write the weight, gradient and states of each element. */
static double flat_seconds(const ct_op_t *op, int64_t count)
{
  int arrays = op->desc.kind == CT_OP_UPDATE ? 5 : op->desc.kind == CT_OP_MEASURE ? 3 : 1;
  return 4.0 * arrays * (double)count / op->dev->byte_rate;
}

static int group_of(int pass)
{
  if (pass & CT_FWD) return FORWARD;
  if (pass & (CT_FWD_STATS | CT_BWD_STATS)) return SUMS;
  return (pass & CT_BWD_DATA) == 0 ? WEIGHTS : (pass & CT_BWD_PARAM) == 0 ? DATA : BACKWARD;
}

/* Log-normal noise with mean 1: positive, with a tail to the right. */
static double noise_factor(ct_dev_t *dev)
{
  if (dev->noise <= 0) return 1;
  double z = ct_rng_normal(dev->seed, CT_RNG_SIM, 0, dev->draws++);
  return exp(dev->noise * z - dev->noise * dev->noise / 2);
}

static void backend_take(ct_dev_t *dev, double seconds)
{
  static const double idle = 200e-6, shortest = 20e-6;
  double now = ct_clock();
  if (dev->due < now - idle) dev->due = now; /* the device was idle */
  dev->due += seconds * dev->slow * noise_factor(dev);
  if (dev->due - now < shortest) return;
  double whole = floor(dev->due);
  struct timespec t = {(time_t)whole, (long)(1e9 * (dev->due - whole))};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {
  }
}

/* ---- ops ---- */

static int backend_supports(ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  if (!ct_op_check(d, why)) return 0;
  if (!ct_op_adds_second(d) || ct__sim_times_of(dev->times, d, CT_FWD) >= 0) return 1;
  snprintf(why, 128, "the recorded device adds no second input in a GEMM");
  return 0;
}

static ct_layout_t backend_wants(ct_dev_t *dev, const ct_op_desc_t *d)
{
  (void)dev;
  return d->kind == CT_OP_REORDER ? d->x.layout : CT_PLAIN;
}

static int backend_prepare(ct_dev_t *dev, const ct_op_desc_t *d, const ct_op_t *like, ct_op_t **out,
                           ct_op_info_t *info)
{
  char why[128], text[160];
  (void)like; /* all ops have one layout */
  *out = NULL;
  if (!ct_op_check(d, why))
    return ct_err_set(CT_ERR_UNSUP, __FILE__, __LINE__, "%s: %s", ct_op_text(d, text, sizeof text),
                      why);
  ct_op_t *op = ct_mem_alloc(sizeof *op, "simulated op");
  if (!op) return CT_ERR_NOMEM;
  op->dev = dev;
  memcpy(&op->desc, d, sizeof *d);
  *info = ct_op_info_of(d, "simulated");
  info->param_layout = ct_hash_text("plain", 0);
  memcpy(op->param_bytes, info->param_bytes, sizeof op->param_bytes);
  for (int g = 0; g < GROUPS; g++)
    op->seconds[g] = seconds_of(dev, d, passes_of[g]);
  *out = op;
  return CT_OK;
}

static void release(ct_op_t *op)
{
  ct_mem_free(op);
}

/* Sets the results that the host reads. */
static void leave_numbers(const ct_op_t *op, const ct_op_args_t *a)
{
  const ct_op_desc_t loss = ct_op_loss_of(&op->desc);
  double n = (double)op->desc.x.dim[0] * (double)ct_op_pixels(&loss);
  if (ct_op_is_loss(op->desc.kind) && a->loss)
    *a->loss = (ct_loss_t){.sum = n, .weight = n, .samples = (int64_t)n};
  for (int i = 0; op->desc.kind == CT_OP_MEASURE && a->norms && i < ct_segments_of(a); i++) {
    ct_op_args_t one = ct_segment_args(a, i);
    one.norms[0] = one.norms[1] = 1;
  }
}

static int backend_run(ct_queue_t *q, ct_op_t *op, const ct_op_args_t *args)
{
  (void)q;
  int rc = ct_op_check_pass(&op->desc, args->pass);
  if (rc != CT_OK) return rc;
  int flat = ct_op_is(op->desc.kind, CT_KIND_FLAT);
  backend_take(op->dev, flat ? flat_seconds(op, args->count) : op->seconds[group_of(args->pass)]);
  leave_numbers(op, args);
  return CT_OK;
}

/* The own layout is the plain one. */
static int backend_pack(ct_queue_t *q, ct_op_t *op, int param, const float *plain, void *own)
{
  return ct_host_mem.copy(q, own, plain, op->param_bytes[param]);
}

static int backend_unpack(ct_queue_t *q, ct_op_t *op, int param, const void *own, float *plain)
{
  return ct_host_mem.copy(q, plain, own, op->param_bytes[param]);
}

static const ct_op_ops_t op_ops = {.supports = backend_supports,
                                   .wants = backend_wants,
                                   .prepare = backend_prepare,
                                   .run = backend_run,
                                   .release = release,
                                   .pack = backend_pack,
                                   .unpack = backend_unpack,
                                   .tunes = ct_host_tunes,
                                   .choices = ct_host_choices,
                                   .adopt = ct_host_adopt};

const ct_backend_t ct_backend_sim = {
    .size = sizeof(ct_backend_t),
    .name = "sim",
    .host_memory = 1,
    .in_place = 1,
    .naps = 1,
    .probe = backend_probe,
    .open = open_device,
    .close = close_device,
    .describe = describe,
    .identify = ct_host_identify,
    .joules = ct_host_joules,
    .mem = &ct_host_mem,
    .queue = &ct_host_inline,
    .op = &op_ops,
};
