/* Device memory of the trainer.
 *
 * All allocations are made here, by purpose, so that they can be compared with the sizes predicted
 * before the run; all are freed here when the trainer is destroyed.
 *
 * On a CPU the ops of the first step touch activations and workspace first, each thread its part.
 * Arrays of parameters are read whole by all threads, and the main thread fills some of them with
 * copies and broadcasts: their pages alternate between the NUMA nodes of a rank that needs several.
 */
#include "train/trainer.h"
#include "base/ct_mem.h"
#include "host/ct_numa.h"

static void arenas_count(ct__arenas_t *a, ct_memory_kind_t kind)
{
  size_t now = 0;
  for (int64_t i = 0; i < a->blocks; i++)
    if (a->block[i].kind == kind) now += a->block[i].bytes;
  if (now > a->most.bytes[kind]) a->most.bytes[kind] = now;
}

int ct__arenas_take(ct_trainer_t *t, ct_memory_kind_t kind, size_t bytes, char **out)
{
  int rc = CT_OK;
  void *p = NULL;
  ct__arenas_t *a = &t->arenas;
  *out = NULL;
  if (!bytes) return CT_OK;
  CT_TRY(ct_mem_grow((void **)&a->block, &a->cap, a->blocks + 1, sizeof *a->block));
  CT_TRY(t->env.be->mem->alloc(t->env.dev, CT_MEM_DEVICE, bytes, &p));
  if (t->env.be->host_memory && kind <= CT_MEMORY_STATES) ct_numa_spread(p, bytes);
  a->block[a->blocks++] = (ct__block_t){.p = p, .bytes = bytes, .kind = kind};
  arenas_count(a, kind);
  *out = p;
out:
  return rc;
}

int ct__arenas_take_all(ct_trainer_t *t, ct_memory_kind_t kind, char **out)
{
  return ct__arenas_take(t, kind, t->need.bytes[kind], out);
}

void ct__arenas_give(ct_trainer_t *t, char **p)
{
  ct__arenas_t *a = &t->arenas;
  for (int64_t i = 0; i < a->blocks && *p; i++) {
    if (a->block[i].p != *p) continue;
    t->env.be->mem->free(t->env.dev, CT_MEM_DEVICE, *p);
    a->block[i] = a->block[--a->blocks];
    *p = NULL;
  }
}

int ct__arenas_make_gradient(ct_trainer_t *t)
{
  void *p = NULL;
  size_t bytes = t->need.bytes[CT_MEMORY_GRADIENTS];
  int rc = t->env.comm_ops->alloc(t->env.comm, bytes ? bytes : 64, &p);
  t->gradient = p;
  t->arenas.most.bytes[CT_MEMORY_GRADIENTS] = bytes;
  return rc;
}

void ct__arenas_free(ct_trainer_t *t)
{
  ct__arenas_t *a = &t->arenas;
  for (int64_t i = 0; i < a->blocks; i++)
    t->env.be->mem->free(t->env.dev, CT_MEM_DEVICE, a->block[i].p);
  ct_mem_free(a->block);
}

const ct_memory_t *ct_trainer_memory(const ct_trainer_t *t)
{
  return &t->arenas.most;
}
