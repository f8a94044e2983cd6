/* LRU cache of decoded blocks of samples.
 *
 * In random order the samples of a chunk are needed at different times of the epoch, so that
 * without a cache a chunk of 100 samples would be decompressed 100 times. */
#include "hdf5io/read/h5_cache.h"

#include <pthread.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"

enum { NONE = -1 };

/* Memory for one block. Slots that no thread holds are in the LRU list. */
typedef struct slot {
  int64_t key; /* NONE: empty */
  int holders;
  int loading;
  int chain; /* next slot with the same hash, or NONE */
  int older; /* next older block in the LRU list, or NONE */
  int newer; /* next newer block in the LRU list, or NONE */
} slot_t;

struct ct__h5_cache {
  pthread_mutex_t lock;
  pthread_cond_t changed; /* signals that a block was loaded, failed to load, or was released */
  size_t block_bytes;
  char *memory;
  slot_t *slots;
  int *heads; /* [nheads] first slot per hash */
  int nheads; /* a power of two */
  int oldest, newest;
};

int ct__h5_cache_open(size_t block_bytes, int64_t slots, ct__h5_cache_t **out)
{
  int rc = CT_OK;
  if (slots > INT32_MAX / 4) slots = INT32_MAX / 4;
  ct__h5_cache_t *c = ct_mem_alloc(sizeof *c, "the cache of samples");
  *out = NULL;
  if (!c) return CT_ERR_NOMEM;
  pthread_mutex_init(&c->lock, NULL);
  pthread_cond_init(&c->changed, NULL);
  c->block_bytes = (block_bytes + 63) / 64 * 64;
  for (c->nheads = 16; c->nheads < slots; c->nheads *= 2)
    continue;
  c->memory = ct_mem_array(slots, c->block_bytes, "decoded samples (data.cache_mb)");
  c->slots = ct_mem_array(slots, sizeof *c->slots, "the cache of samples");
  c->heads = ct_mem_array(c->nheads, sizeof *c->heads, "the cache of samples");
  if (!c->memory || !c->slots || !c->heads) CT_TRY(CT_ERR_NOMEM);
  for (int i = 0; i < c->nheads; i++)
    c->heads[i] = NONE;
  for (int i = 0; i < slots; i++)
    c->slots[i] = (slot_t){.key = NONE, .chain = NONE, .older = i - 1, .newer = i + 1};
  c->slots[slots - 1].newer = NONE;
  c->newest = (int)slots - 1;
  *out = c;
  c = NULL;
out:
  ct__h5_cache_close(c);
  return rc;
}

void ct__h5_cache_close(ct__h5_cache_t *c)
{
  if (!c) return;
  ct_mem_free(c->memory);
  ct_mem_free(c->slots);
  ct_mem_free(c->heads);
  pthread_cond_destroy(&c->changed);
  pthread_mutex_destroy(&c->lock);
  ct_mem_free(c);
}

/* ---- LRU list and hash table ---- */

static void list_remove(ct__h5_cache_t *c, int i)
{
  slot_t *s = &c->slots[i];
  *(s->older == NONE ? &c->oldest : &c->slots[s->older].newer) = s->newer;
  *(s->newer == NONE ? &c->newest : &c->slots[s->newer].older) = s->older;
}

static void list_add_newest(ct__h5_cache_t *c, int i)
{
  c->slots[i].older = c->newest;
  c->slots[i].newer = NONE;
  *(c->newest == NONE ? &c->oldest : &c->slots[c->newest].newer) = i;
  c->newest = i;
}

static void list_add_oldest(ct__h5_cache_t *c, int i)
{
  c->slots[i].older = NONE;
  c->slots[i].newer = c->oldest;
  *(c->oldest == NONE ? &c->newest : &c->slots[c->oldest].older) = i;
  c->oldest = i;
}

static int *head_of(ct__h5_cache_t *c, int64_t key)
{
  return &c->heads[((uint64_t)key * 0x9E3779B97F4A7C15u >> 32) & (uint64_t)(c->nheads - 1)];
}

static int cache_find(ct__h5_cache_t *c, int64_t key)
{
  int i = *head_of(c, key);
  while (i != NONE && c->slots[i].key != key)
    i = c->slots[i].chain;
  return i;
}

static void cache_forget(ct__h5_cache_t *c, int i)
{
  slot_t *s = &c->slots[i];
  if (s->key == NONE) return;
  int *link = head_of(c, s->key);
  while (*link != i)
    link = &c->slots[*link].chain;
  *link = s->chain;
  s->key = NONE;
}

/* ---- use ---- */

/* Evicts the oldest slot and assigns it to the key; the caller holds it and must load it. */
static int take_oldest(ct__h5_cache_t *c, int64_t key)
{
  int i = c->oldest, *head = head_of(c, key);
  list_remove(c, i);
  cache_forget(c, i);
  c->slots[i].key = key;
  c->slots[i].chain = *head;
  c->slots[i].holders = 1;
  c->slots[i].loading = 1;
  *head = i;
  return i;
}

ct__h5_block_t ct__h5_cache_hold(ct__h5_cache_t *c, int64_t key)
{
  int i, load = 0;
  pthread_mutex_lock(&c->lock);
  for (;;) {
    i = cache_find(c, key);
    if (i != NONE && !c->slots[i].loading) {
      if (c->slots[i].holders++ == 0) list_remove(c, i);
      break;
    }
    if (i == NONE && c->oldest != NONE) {
      i = take_oldest(c, key);
      load = 1;
      break;
    }
    pthread_cond_wait(&c->changed, &c->lock);
  }
  pthread_mutex_unlock(&c->lock);
  return (ct__h5_block_t){c->memory + (size_t)i * c->block_bytes, i, load};
}

void ct__h5_cache_loaded(ct__h5_cache_t *c, const ct__h5_block_t *b, int ok)
{
  pthread_mutex_lock(&c->lock);
  slot_t *s = &c->slots[b->slot];
  s->loading = 0;
  if (!ok) {
    cache_forget(c, b->slot);
    s->holders = 0;
    list_add_oldest(c, b->slot);
  }
  pthread_cond_broadcast(&c->changed);
  pthread_mutex_unlock(&c->lock);
}

void ct__h5_cache_release(ct__h5_cache_t *c, const ct__h5_block_t *b)
{
  pthread_mutex_lock(&c->lock);
  if (--c->slots[b->slot].holders == 0) {
    list_add_newest(c, b->slot);
    pthread_cond_broadcast(&c->changed);
  }
  pthread_mutex_unlock(&c->lock);
}
