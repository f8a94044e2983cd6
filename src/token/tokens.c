/* Lists of ids, and the workspace that they carry. */
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "token/token.h"

int ct__tokens_add(ct_tokens_t *out, int32_t id)
{
  int rc = CT_OK;
  if (out->n == out->cap)
    CT_TRY(ct_mem_grow((void **)&out->id, &out->cap, out->n + 1, sizeof *out->id));
  out->id[out->n++] = id;
out:
  return rc;
}

void ct_tokens_clear(ct_tokens_t *t)
{
  ct__work_t *w = t->work;
  ct_mem_free(t->id);
  if (w) {
    ct_mem_free(w->symbol);
    ct_mem_free(w->heap);
    ct_mem_free(w);
  }
  *t = (ct_tokens_t){0};
}
