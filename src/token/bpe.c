/* Byte-pair encoding of pieces: merge the neighbours of lowest rank, the first of equals, until no
 * neighbours have a merge.  A heap of (rank, position) makes it O(n log n); an entry whose
 * neighbours have changed since then is skipped. */
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "token/token.h"

enum { MOST_PIECE = 1 << 30 }; /* bytes: positions are 32-bit numbers */
#define NO_RANK UINT32_MAX

static void heap_add(ct__work_t *w, uint64_t entry)
{
  int64_t at = w->n++;
  for (; at > 0 && w->heap[(at - 1) / 2] > entry; at = (at - 1) / 2)
    w->heap[at] = w->heap[(at - 1) / 2];
  w->heap[at] = entry;
}

static uint64_t heap_take(ct__work_t *w)
{
  uint64_t least = w->heap[0], last = w->heap[--w->n];
  int64_t at = 0;
  for (int64_t child; (child = 2 * at + 1) < w->n; at = child) {
    if (child + 1 < w->n && w->heap[child + 1] < w->heap[child]) child++;
    if (w->heap[child] >= last) break;
    w->heap[at] = w->heap[child];
  }
  w->heap[at] = last;
  return least;
}

/* Looks up the merge of a symbol with the next one. */
static void look_up(const ct_tokenizer_t *t, ct__work_t *w, int32_t at)
{
  ct__symbol_t *s = &w->symbol[at];
  const ct__pair_t *pair =
      s->next < 0 ? NULL : ct__pairs_find(&t->merges, s->id, w->symbol[s->next].id);
  s->rank = pair ? pair->rank : NO_RANK;
  if (!pair) return;
  s->merged = pair->id_one - 1;
  heap_add(w, (uint64_t)s->rank << 32 | (uint32_t)at);
}

static void merge(const ct_tokenizer_t *t, ct__work_t *w, int32_t at)
{
  ct__symbol_t *s = &w->symbol[at], *gone = &w->symbol[s->next];
  s->id = s->merged;
  s->next = gone->next;
  if (gone->next >= 0) w->symbol[gone->next].previous = at;
  gone->rank = NO_RANK;
  look_up(t, w, at);
  if (s->previous >= 0) look_up(t, w, s->previous);
}

static int work_ready(ct_tokens_t *out, int64_t bytes, ct__work_t **work)
{
  int rc = CT_OK;
  if (!out->work) out->work = ct_mem_alloc(sizeof(ct__work_t), "the tokenizer's workspace");
  ct__work_t *w = *work = out->work;
  if (!w) return CT_ERR_NOMEM;
  if (bytes > MOST_PIECE)
    CT_FAIL(CT_ERR_DATA, "a word of the text has %lld bytes; the most is %d", (long long)bytes,
            MOST_PIECE);
  CT_TRY(ct_mem_grow((void **)&w->symbol, &w->symbols_cap, bytes, sizeof *w->symbol));
  /* a merge takes an entry and adds up to two, and there are fewer merges than bytes */
  CT_TRY(ct_mem_grow((void **)&w->heap, &w->heap_cap, 2 * bytes, sizeof *w->heap));
  w->n = 0;
out:
  return rc;
}

static int bpe_merge(const ct_tokenizer_t *t, const char *piece, int64_t bytes, ct_tokens_t *out)
{
  int rc = CT_OK;
  ct__work_t *w;
  CT_TRY(work_ready(out, bytes, &w));
  for (int32_t i = 0; i < bytes; i++)
    w->symbol[i] = (ct__symbol_t){.id = t->byte[(unsigned char)piece[i]],
                                  .previous = i - 1,
                                  .next = i + 1 < bytes ? i + 1 : -1};
  for (int32_t i = 0; i < bytes; i++)
    look_up(t, w, i);
  while (w->n > 0) {
    uint64_t entry = heap_take(w);
    int32_t at = (int32_t)(uint32_t)entry;
    if (w->symbol[at].rank == entry >> 32) merge(t, w, at);
  }
  for (int32_t i = 0; i >= 0; i = w->symbol[i].next)
    CT_TRY(ct__tokens_add(out, w->symbol[i].id));
out:
  return rc;
}

static int bpe_piece(const ct_tokenizer_t *t, const char *piece, int64_t bytes, ct_tokens_t *out)
{
  int32_t id = ct__vocab_find(&t->vocab, piece, bytes);
  if (id >= 0 && t->vocab.token[id].whole) return ct__tokens_add(out, id);
  return bpe_merge(t, piece, bytes, out);
}

int ct__bpe_encode(const ct_tokenizer_t *t, const char *text, int64_t bytes, int more,
                   int64_t *used, ct_tokens_t *out)
{
  int rc = CT_OK, open = 0;
  int64_t at = 0;
  while (at < bytes) {
    int64_t end = ct__piece_end(t->pattern, text, bytes, at, &open);
    if (open && more) break;
    CT_TRY(bpe_piece(t, text + at, end - at, out));
    at = end;
  }
out:
  *used = at;
  return rc;
}

int ct__bpe_ready(ct_tokenizer_t *t, int whole)
{
  int rc = CT_OK;
  ct_tokens_t ids = {0};
  ct__vocab_t *v = &t->vocab;
  for (int i = 0; i < 256; i++) {
    char byte = (char)i;
    if ((t->byte[i] = ct__vocab_find(v, &byte, 1)) < 0)
      CT_FAIL(CT_ERR_FORMAT, "%s: no token for the byte 0x%02x; expected all 256",
              t->source[0].name, i);
  }
  for (int64_t i = 0; i < v->n; i++) {
    ct__token_t *k = &v->token[i];
    if (k->bytes < 0 || k->special) continue;
    ids.n = 0;
    if (!whole) CT_TRY(bpe_merge(t, v->text + k->at, k->bytes, &ids));
    k->whole = (char)(whole || (ids.n == 1 && ids.id[0] == i));
  }
out:
  ct_tokens_clear(&ids);
  return rc;
}
