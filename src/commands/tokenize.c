/* `tokenize`: prints the token ids of a text, or with --decode the text of ids. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "commands/ct_commands.h"
#include "token/ct_tokenizer.h"

static int print_ids(const ct_tokenizer_t *t, const char *text, int64_t bytes, int flags)
{
  int rc = CT_OK;
  ct_tokens_t ids = {0};
  ct_str_t out = {0};
  CT_TRY(ct_tokenizer_encode(t, text, bytes, flags, NULL, &ids));
  for (int64_t i = 0; i < ids.n; i++)
    CT_TRY(ct_str_add(&out, i ? " %d" : "%d", (int)ids.id[i]));
  CT_TRY(ct_str_add(&out, "\n"));
  CT_TRY(ct_app_write(out.data, out.len));
out:
  ct_tokens_clear(&ids);
  ct_str_clear(&out);
  return rc;
}

static int print_text(const ct_tokenizer_t *t, const char *ids, size_t bytes)
{
  static const char between[] = " \t\r\n,";
  int rc = CT_OK;
  ct_token_text_t out = {0};
  char *end;
  for (const char *p = ids + strspn(ids, between); p < ids + bytes;
       p = end + strspn(end, between)) {
    errno = 0;
    long long id = strtoll(p, &end, 10);
    if (*p < '0' || *p > '9' || !strchr(between, *end) || errno || id > INT32_MAX)
      CT_FAIL(CT_ERR_FORMAT, "byte %td: expected token ids, with blanks or commas between them",
              p - ids);
    CT_TRY(ct_tokenizer_decode(t, (const int32_t[]){(int32_t)id}, 1, &out));
  }
  if (out.n) CT_TRY(ct_app_write(out.data, (size_t)out.n));
out:
  ct_token_text_clear(&out);
  return rc;
}

int ct_cmd_tokenize(const ct_args_t *a, const ct_topo_t *topo, int *status)
{
  int rc = CT_OK;
  const char *spec = ct_args_get(a, "tokenizer"), *file = a->rest[0];
  ct_tokenizer_t *t = NULL;
  char *data = NULL;
  size_t bytes;
  (void)topo;
  (void)status;
  CT_TRY(ct_tokenizer_open(spec ? spec : "bytes", &t));
  CT_TRY(ct_file_read(strcmp(file, "-") == 0 ? "/dev/stdin" : file, &data, &bytes));
  rc = ct_args_get(a, "decode")
           ? print_text(t, data, bytes)
           : print_ids(t, data, (int64_t)bytes, ct_args_get(a, "special") ? CT_TOKEN_SPECIAL : 0);
  if (rc != CT_OK && rc != CT_ERR_IO) ct_err_prefix(rc, "%s: ", file);
out:
  ct_mem_free(data);
  ct_tokenizer_close(t);
  return rc;
}
