/* Reports before a run which memory resides where, from the parallel strategy and the sizes that
 * the trainer uses. */
#include "train/trainer.h"

size_t ct_memory_total(const ct_memory_t *m)
{
  size_t sum = 0;
  for (int k = 0; k < CT_MEMORY_COUNT; k++)
    sum += m->bytes[k];
  return sum;
}

static unsigned type(ct_dtype_t t)
{
  return 1u << t;
}

static ct_residency_t residency(const char *what, unsigned types, ct_spread_t spread, int on_device)
{
  return (ct_residency_t){.what = what, .types = types, .spread = spread, .on_device = on_device};
}

int ct_trainer_residency(const ct_trainer_env_t *e, const ct_memory_t *m, ct_residency_t *out)
{
  int n = 0;
  const ct_step_opts_t *how = &e->step_opts;
  int dealt = how->strategy && how->strategy->rank0_deals;
  unsigned f32 = type(CT_F32);
  ct_spread_t states = dealt ? CT_SPREAD_ROOT : how->zero ? CT_SPREAD_SLICES : CT_SPREAD_SAME;
  int sliced = how->zero && !how->qat && m->bytes[CT_MEMORY_REDUCED_WEIGHTS];
  ct_spread_t weights = sliced ? CT_SPREAD_SLICES : CT_SPREAD_SAME;
  out[n++] = residency("parameters", f32, weights, 1);
  if (m->bytes[CT_MEMORY_REDUCED_WEIGHTS])
    out[n++] = residency("copy of them", type(how->compute), CT_SPREAD_SAME, 1);
  if (m->bytes[CT_MEMORY_AVERAGES]) out[n++] = residency("averages", f32, weights, 1);
  out[n++] = residency("gradients", f32, CT_SPREAD_SUMMED, 1);
  if (m->on_host) out[n++] = residency("optimizer states", f32, states, 0);
  if (m->bytes[CT_MEMORY_STATES]) out[n++] = residency("optimizer states", f32, states, 1);
  out[n++] = residency("activations", m->activation_types, CT_SPREAD_SAMPLES, 1);
  out[n++] = residency("input", type(e->bytes_of[1] ? CT_U8 : CT_F32),
                       dealt ? CT_SPREAD_ROOT : CT_SPREAD_SAMPLES, !e->be->in_place);
  return n;
}
