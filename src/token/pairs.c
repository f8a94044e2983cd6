/* A hash table of pairs of ids, with open addressing: the merges of byte-pair encodings, and the
 * trie of a list of tokens. */
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "token/token.h"

static ct__pair_t *pairs_slot(const ct__pairs_t *p, uint64_t key)
{
  uint64_t h = key * 0x9E3779B97F4A7C15U;
  int64_t at = (int64_t)((h ^ h >> 32) & (uint64_t)(p->slots - 1));
  while (p->pair[at].id_one && p->pair[at].key != key)
    at = (at + 1) & (p->slots - 1);
  return &p->pair[at];
}

static uint64_t pairs_key(int32_t left, int32_t right)
{
  return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static int pairs_grow(ct__pairs_t *p)
{
  ct__pairs_t more = {.slots = p->slots ? 2 * p->slots : 1024, .n = p->n};
  more.pair = ct_mem_array(more.slots, sizeof *more.pair, "the table of merges");
  if (!more.pair) return CT_ERR_NOMEM;
  for (int64_t i = 0; i < p->slots; i++)
    if (p->pair[i].id_one) *pairs_slot(&more, p->pair[i].key) = p->pair[i];
  ct_mem_free(p->pair);
  *p = more;
  return CT_OK;
}

int ct__pairs_add(ct__pairs_t *p, int32_t left, int32_t right, uint32_t rank, int32_t id,
                  int *added)
{
  int rc = CT_OK;
  if (2 * p->n >= p->slots) CT_TRY(pairs_grow(p));
  ct__pair_t *slot = pairs_slot(p, pairs_key(left, right));
  *added = !slot->id_one;
  if (!*added) goto out;
  *slot = (ct__pair_t){.key = pairs_key(left, right), .rank = rank, .id_one = id + 1};
  p->n++;
out:
  return rc;
}

const ct__pair_t *ct__pairs_find(const ct__pairs_t *p, int32_t left, int32_t right)
{
  if (!p->n) return NULL;
  const ct__pair_t *slot = pairs_slot(p, pairs_key(left, right));
  return slot->id_one ? slot : NULL;
}

void ct__pairs_clear(ct__pairs_t *p)
{
  ct_mem_free(p->pair);
  *p = (ct__pairs_t){0};
}
