/* Finds out what the user's text names, and reads its files. */
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "token/token.h"

int ct_tokenizer_open(const char *spec, ct_tokenizer_t **out)
{
  int rc = CT_OK;
  *out = NULL;
  ct_tokenizer_t *t = ct_mem_alloc(sizeof *t, "a tokenizer");
  if (!t) return CT_ERR_NOMEM;
  t->kind = &ct__kind_bytes;
  if (strcmp(spec, "bytes") != 0)
    CT_FAIL(CT_ERR_USAGE, "'%s' is not a tokenizer; expected 'bytes'", spec);
  return ct__tokenizer_build(t, out);
out:
  ct_tokenizer_close(t);
  return rc;
}
