/* Chosen plans of convolution passes: in a table, so that layers with equal descriptions share
 * them, and in files, so that later processes need no benchmarks. */
#include <stdio.h>

#include "base/ct_err.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "cuda/conv/conv_plan.h"
#include "cuda/gpu.h"

enum { KEY_CAP = 768 };

typedef struct entry {
  char key[KEY_CAP];
  gpu__conv_algo_t algo;
} entry_t;

struct gpu__conv_plans {
  char device[320];
  entry_t **entry; /* individually allocated, since convolutions keep pointers to them */
  int64_t count, cap;
  int warned; /* 1: already warned that files cannot be written */
};

void gpu__conv_plans_free(gpu__conv_plans_t *p)
{
  if (!p) return;
  for (int64_t i = 0; i < p->count; i++) {
    gpu__dnn_plan_clear(&p->entry[i]->algo.plan);
    ct_mem_free(p->entry[i]);
  }
  ct_mem_free(p->entry);
  ct_mem_free(p);
}

/* Makes an empty table. Its device name includes the number of multiprocessors, which distinguishes
 * parts of a GPU (MIG) from the whole. */
static int plans_new(const ct_dev_t *dev, gpu__conv_plans_t **out)
{
  int rc = CT_OK;
  struct cudaDeviceProp prop;
  gpu__conv_plans_t *p = ct_mem_alloc(sizeof *p, "plans of convolutions");
  if (!p) return CT_ERR_NOMEM;
  GPU_TRY(cudaGetDeviceProperties(&prop, dev->index));
  snprintf(p->device, sizeof p->device, "%s, sm_%d%d, %d multiprocessors, cuDNN %d", prop.name,
           prop.major, prop.minor, dev->sms, (int)cudnnGetVersion());
  *out = p;
  p = NULL;
out:
  gpu__conv_plans_free(p);
  return rc;
}

/* Writes the key of a plan: a text with everything that the plan depends on. */
static void store_key_of(const gpu__conv_plans_t *plans, const gpu__conv_pass_t *p,
                         char key[KEY_CAP])
{
  char text[256];
  ct_op_desc_t d = *p->d;
  if (p->pass != CT_FWD) d.u.conv.bias = d.u.conv.relu = 0;
  snprintf(key, KEY_CAP, "%s, tf32 %d, %s, %s", plans->device, d.x.dtype == CT_F32 && p->tf32,
           gpu__conv_pass_name(p->pass), ct_op_text(&d, text, sizeof text));
}

/* ---- selection ---- */

static int store_choose(ct_dev_t *dev, const gpu__conv_pass_t *p, const char *key,
                        gpu__conv_algo_t *out)
{
  gpu__dnn_target_t t = {.handle = dev->libraries->dnn};
  int keep = dev->plan_cache && *dev->plan_cache, *warned = &dev->libraries->conv_plans->warned;
  if (!dev->autotune) return gpu__conv_first_algo(&t, p, out);
  if (keep && gpu__conv_read(&t, dev->plan_cache, key, out)) return CT_OK;
  if (gpu__conv_tune(dev, p, out) != CT_OK) return gpu__conv_first_algo(&t, p, out);
  if (keep && gpu__conv_write(dev->plan_cache, key, out) != CT_OK && !*warned) {
    ct_log(CT_LOG_WARN, "results of autotuning convolutions are not stored: %s",
           ct_err_last()->text);
    *warned = 1;
  }
  return CT_OK;
}

static int store_add(ct_dev_t *dev, gpu__conv_plans_t *plans, const gpu__conv_pass_t *p,
                     const char *key)
{
  int rc = CT_OK;
  entry_t *e = ct_mem_alloc(sizeof *e, "plan of a convolution");
  if (!e) return CT_ERR_NOMEM;
  CT_TRY(ct_mem_grow((void **)&plans->entry, &plans->cap, plans->count + 1, sizeof(entry_t *)));
  memcpy(e->key, key, KEY_CAP);
  CT_TRY(store_choose(dev, p, key, &e->algo));
  plans->entry[plans->count++] = e;
  e = NULL;
out:
  ct_mem_free(e);
  return rc;
}

int gpu__conv_algo(ct_dev_t *dev, const gpu__conv_pass_t *p, const gpu__conv_algo_t **out)
{
  int rc = CT_OK;
  char key[KEY_CAP] = "";
  if (!dev->libraries->conv_plans) CT_TRY(plans_new(dev, &dev->libraries->conv_plans));
  gpu__conv_plans_t *plans = dev->libraries->conv_plans;
  store_key_of(plans, p, key);
  for (int64_t i = 0; i < plans->count; i++) {
    if (strcmp(plans->entry[i]->key, key)) continue;
    *out = &plans->entry[i]->algo;
    return CT_OK;
  }
  CT_TRY(store_add(dev, plans, p, key));
  *out = &plans->entry[plans->count - 1]->algo;
out:
  return rc;
}
