/* The table of tokens: bytes by id, and ids by bytes. */
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_hash.h"
#include "base/ct_mem.h"
#include "token/token.h"

int ct__vocab_init(ct__vocab_t *v, int64_t most, int64_t specials)
{
  int rc = CT_OK;
  for (v->slots = 16; v->slots < 2 * (most + specials);)
    v->slots *= 2;
  v->slot = ct_mem_array(v->slots, sizeof *v->slot, "the table of tokens");
  if (!v->slot) rc = CT_ERR_NOMEM;
  return rc;
}

static int64_t vocab_slot(const ct__vocab_t *v, const char *text, int64_t bytes)
{
  int64_t at = (int64_t)(ct_hash(text, (size_t)bytes, 0) & (uint64_t)(v->slots - 1));
  for (; v->slot[at]; at = (at + 1) & (v->slots - 1)) {
    const ct__token_t *k = &v->token[v->slot[at] - 1];
    if (k->bytes == bytes && memcmp(v->text + k->at, text, (size_t)bytes) == 0) break;
  }
  return at;
}

int ct__vocab_add(ct__vocab_t *v, int64_t id, const char *text, int64_t bytes, const char **why)
{
  int rc = CT_OK;
  /* files may leave out ids, but only some: the tables must not grow by one large number */
  if (id < 0 || id >= 2 * v->slots + 4096)
    *why = "its id is not near the number of tokens";
  else if (bytes < 1)
    *why = "it is empty";
  else if (bytes > CT__TOKEN_MOST)
    *why = "it has more than 1024 bytes";
  else if (id < v->n && v->token[id].bytes >= 0)
    *why = "another token has the same id";
  else
    *why = NULL;
  if (*why) return CT_OK;
  int64_t slot = vocab_slot(v, text, bytes);
  if (v->slot[slot]) {
    *why = "it occurs twice";
    return CT_OK;
  }
  CT_TRY(ct_mem_grow((void **)&v->token, &v->cap, id + 1, sizeof *v->token));
  CT_TRY(ct_mem_grow((void **)&v->text, &v->text_cap, v->bytes + bytes, 1));
  for (; v->n <= id; v->n++)
    v->token[v->n] = (ct__token_t){.bytes = -1};
  v->token[id] = (ct__token_t){.at = v->bytes, .bytes = (int32_t)bytes};
  memcpy(v->text + v->bytes, text, (size_t)bytes);
  v->bytes += bytes;
  v->slot[slot] = (int32_t)id + 1;
  v->count++;
out:
  return rc;
}

int32_t ct__vocab_find(const ct__vocab_t *v, const char *text, int64_t bytes)
{
  return bytes > 0 && bytes <= CT__TOKEN_MOST ? v->slot[vocab_slot(v, text, bytes)] - 1 : -1;
}

int ct__special_add(ct_tokenizer_t *t, int32_t id)
{
  int rc = CT_OK;
  int64_t i = t->specials, bytes = t->vocab.token[id].bytes;
  if (t->vocab.token[id].special) goto out;
  CT_TRY(ct_mem_grow((void **)&t->special, &t->specials_cap, i + 1, sizeof *t->special));
  for (; i > 0 && t->vocab.token[t->special[i - 1]].bytes < bytes; i--)
    t->special[i] = t->special[i - 1];
  t->special[i] = id;
  t->specials++;
  if (bytes > t->special_most) t->special_most = bytes;
  t->vocab.token[id].special = 1;
out:
  return rc;
}

void ct__vocab_clear(ct__vocab_t *v)
{
  ct_mem_free(v->token);
  ct_mem_free(v->text);
  ct_mem_free(v->slot);
  *v = (ct__vocab_t){0};
}
