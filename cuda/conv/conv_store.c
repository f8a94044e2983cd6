/* Plans of convolution passes, in a table, so that layers with equal descriptions share them. */
#include <stdio.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "cuda/choices.h"
#include "cuda/conv/conv_plan.h"
#include "cuda/gpu.h"

enum { KEY_CAP = 512 };

typedef struct entry {
  char key[KEY_CAP];
  gpu__conv_algo_t algo;
} entry_t;

struct gpu__conv_plans {
  entry_t **entry; /* individually allocated, since convolutions keep pointers to them */
  int64_t count, cap;
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

/* Writes the key of a plan: a text with everything that the plan depends on besides the device. */
static void store_key_of(const ct_dev_t *dev, const gpu__conv_pass_t *p, char key[KEY_CAP])
{
  char text[256];
  ct_op_desc_t d = *p->d;
  if (p->pass != CT_FWD) d.u.conv.bias = d.u.conv.relu = 0;
  snprintf(key, KEY_CAP, "%s, %s%s, workspace %zu", ct_op_text(&d, text, sizeof text),
           gpu__conv_pass_name(p->pass), d.x.dtype == CT_F32 && p->tf32 ? ", tf32" : "",
           dev->workspace);
}

/* ---- selection ---- */

static int store_keep(ct_dev_t *dev, const char *key, const gpu__conv_algo_t *algo, int timed)
{
  int rc = CT_OK;
  ct_str_t text = {0};
  if (!dev->choices) return CT_OK;
  CT_TRY(gpu__conv_text(algo, &text));
  CT_TRY(gpu__choices_add(dev->choices, key, text.data, timed));
out:
  ct_str_clear(&text);
  return rc;
}

static int store_choose(ct_dev_t *dev, const gpu__conv_pass_t *p, const char *key,
                        gpu__conv_algo_t *out)
{
  int rc = CT_OK;
  gpu__conv_algo_t algo = {.fused = 0};
  gpu__dnn_target_t t = gpu__conv_target(dev);
  const char *kept = gpu__choices_find(dev->choices, key);
  if (!dev->autotune) return gpu__conv_first_algo(&t, p, out);
  if (kept && gpu__conv_parse(&t, kept, out)) return CT_OK;
  int timed = gpu__conv_tune(dev, p, &algo) == CT_OK;
  if (!timed) CT_TRY(gpu__conv_first_algo(&t, p, &algo));
  CT_TRY(store_keep(dev, key, &algo, timed));
  *out = algo;
  algo.plan = (gpu__dnn_plan_t){.plan = NULL};
out:
  gpu__dnn_plan_clear(&algo.plan);
  return rc;
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
  gpu__conv_plans_t *plans = dev->libraries->conv_plans;
  if (!plans) plans = dev->libraries->conv_plans = ct_mem_alloc(sizeof *plans, "convolutions");
  if (!plans) return CT_ERR_NOMEM;
  store_key_of(dev, p, key);
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
