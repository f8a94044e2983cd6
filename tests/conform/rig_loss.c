/* Additional inputs of losses: labels, targets and weights. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/ct_mem.h"
#include "base/ct_rng.h"
#include "tests/conform/rig.h"

static void *host(int64_t n, size_t size)
{
  void *p = ct_mem_array(n, size, "test data");
  if (p) return p;
  printf("Bail out! no memory for test data\n");
  exit(1);
}

static float *between(int64_t n, uint64_t seed, uint32_t stream, float lo, float hi)
{
  float *v = host(n, sizeof *v);
  for (int64_t i = 0; i < n; i++)
    v[i] = lo + (hi - lo) * ct_rng_uniform(seed, CT_RNG_TEST, stream, (uint64_t)i);
  return v;
}

/* Random weights, some of them 0. */
static float *weights(int64_t n, uint64_t seed, uint32_t stream, float lo, float hi)
{
  float *v = between(n, seed, stream, lo, hi);
  for (int64_t i = 2; i < n; i += 4)
    v[i] = 0;
  return v;
}

static int32_t *make_labels(const ct_op_desc_t *d, uint64_t seed, uint32_t stream)
{
  int64_t n = d->x.dim[0] * ct_op_pixels(d), outputs = ct_shape_sample(&d->x) / ct_op_pixels(d);
  int32_t *label = host(n, sizeof *label);
  for (int64_t i = 0; i < n; i++) {
    uint64_t random = ct_rng_u64(seed, CT_RNG_TEST, stream, (uint64_t)i);
    label[i] = (int32_t)(random % (uint64_t)outputs);
    if (d->u.loss.has_ignored && (random >> 40) % 4 == 0) label[i] = d->u.loss.ignored;
  }
  return label;
}

/* Targets in the range that the loss has. */
static float *make_targets(const ct_op_desc_t *d, uint64_t seed)
{
  const ct_loss_spec_t *o = &d->u.loss;
  int64_t count = ct_shape_count(&d->x), classes = d->x.ndim > 1 ? d->x.dim[1] : 1;
  int margin = o->kind == CT_LOSS_SOFT_MARGIN || o->kind == CT_LOSS_HINGE_EMBEDDING;
  int rate = o->kind == CT_LOSS_POISSON, kl = o->kind == CT_LOSS_KL;
  int share = ct_loss_by_class(o->kind) || o->kind == CT_LOSS_BCE || (kl && !o->logs);
  float *v = between(count, seed, 9, share || rate ? 0 : -2, share ? 1 : kl ? 0 : 2);
  for (int64_t i = 0; i < count; i++) {
    if (margin) v[i] = v[i] < 0 ? -1 : 1;
    if (o->kind == CT_LOSS_SOFT_CROSS_ENTROPY) v[i] *= 2 / (float)classes;
    if (o->skips_nan && i % 3 == 1) v[i] = NAN;
  }
  return v;
}

void loss_inputs_open(inputs_t *in, const ct_op_desc_t *of, uint64_t seed)
{
  const ct_op_desc_t loss = ct_op_loss_of(of), *d = &loss;
  int64_t n = d->x.dim[0];

  in->labels = make_labels(d, seed, 8);
  in->targets = make_targets(d, seed);
  in->place_weight = weights(ct_op_places(d), seed, 14, 0.5f, 2);
  in->class_weight = weights(ct_shape_sample(&d->x), seed, 10, 0.25f, 2);
  in->sample_weight = weights(n, seed, 13, 0.5f, 3);
  if (n % 3 || ct_op_pixels(d) > 1) return;
  in->labels2 = make_labels(d, seed, 11);
  in->mix = between(n, seed, 12, 0, 1);
  for (int64_t i = 0; i < n; i += 5)
    in->mix[i] = 1;
}

void loss_inputs_close(inputs_t *in)
{
  ct_mem_free(in->labels);
  ct_mem_free(in->labels2);
  ct_mem_free(in->mix);
  ct_mem_free(in->targets);
  ct_mem_free(in->class_weight);
  ct_mem_free(in->sample_weight);
  ct_mem_free(in->place_weight);
}

static const void *put(rig_t *r, int i, const void *data, int64_t count)
{
  size_t bytes = (size_t)count * 4;
  if (!data) return NULL;
  if (!r->loss_in[i].mem) block_open(&r->loss_in[i], r->side, bytes);
  block_put(&r->loss_in[i], data, bytes);
  return r->loss_in[i].mem;
}

void loss_inputs_put(rig_t *r, const inputs_t *in)
{
  const ct_op_desc_t d = ct_op_loss_of(&r->desc);
  const ct_shape_t *x = &d.x;
  ct_op_args_t *a = &r->args;

  a->labels = put(r, 0, in->labels, x->dim[0] * ct_op_pixels(&d));
  a->labels2 = put(r, 1, in->labels2, x->dim[0]);
  a->mix = put(r, 2, in->mix, x->dim[0]);
  a->targets = put(r, 3, in->targets, ct_shape_count(x));
  a->class_weight = put(r, 4, in->class_weight, ct_shape_sample(x));
  a->sample_weight = put(r, 5, in->sample_weight, x->dim[0]);
  a->place_weight = put(r, 6, in->place_weight, ct_op_places(&d));
}
