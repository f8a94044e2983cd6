/* The tokenizer without a file: ids are bytes, and 256 ends a text. */
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "token/token.h"

static int bytes_build(ct_tokenizer_t *t)
{
  int rc = CT_OK;
  const char *why = NULL;
  CT_TRY(ct__vocab_init(&t->vocab, 256, 1));
  for (int i = 0; i < 256; i++) {
    char byte = (char)i;
    CT_TRY(ct__vocab_add(&t->vocab, i, &byte, 1, &why));
  }
  CT_TRY(ct__vocab_add(&t->vocab, 256, "<|endoftext|>", 13, &why));
  CT_TRY(ct__special_add(t, 256));
out:
  return rc;
}

static int bytes_encode(const ct_tokenizer_t *t, const char *text, int64_t bytes, int more,
                        int64_t *used, ct_tokens_t *out)
{
  int rc = CT_OK;
  (void)t, (void)more;
  CT_TRY(ct_mem_grow((void **)&out->id, &out->cap, out->n + bytes, sizeof *out->id));
  for (int64_t i = 0; i < bytes; i++)
    out->id[out->n + i] = (unsigned char)text[i];
  out->n += bytes;
  *used = bytes;
out:
  return rc;
}

const ct__kind_t ct__kind_bytes = {"bytes", {NULL}, bytes_build, bytes_encode};
