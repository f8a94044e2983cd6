/* Encodes records of the standard input: a length (uint32) and bytes each.  Writes the number of
 * ids and the ids (int32).  Checks what must hold for every text: encoding in parts gives the same
 * ids, and so does a text that is cut; with the second argument "exact", decoding gives the text.
 * A third argument "special" encodes special tokens too.  A second one "list" prints the tokens,
 * one per line, to the standard error stream. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "token/ct_tokenizer.h"

static void must(int holds, const char *what, const char *text, int64_t n)
{
  if (holds) return;
  fprintf(stderr, "%s (%s):", what, ct_err_last()->text);
  for (int64_t i = 0; i < n && i < 200; i++)
    fprintf(stderr, " %02x", (unsigned char)text[i]);
  fprintf(stderr, "\n");
  exit(1);
}

/* Encodes a text that arrives in parts of growing length. */
static int in_parts(const ct_tokenizer_t *t, const char *text, int64_t n, int flags, ct_tokens_t *o)
{
  int64_t at = 0, used;
  for (int64_t have = 1; have < n; have += 1 + have / 3) {
    if (ct_tokenizer_encode(t, text + at, have - at, flags | CT_TOKEN_MORE, &used, o)) return 1;
    at += used;
  }
  return ct_tokenizer_encode(t, text + at, n - at, flags, &used, o) || used != n - at;
}

static int same(const ct_tokens_t *a, const ct_tokens_t *b)
{
  return a->n == b->n && (!a->n || !memcmp(a->id, b->id, (size_t)a->n * sizeof *a->id));
}

static void check(const ct_tokenizer_t *t, const char *text, int64_t n, int flags, int exact,
                  const ct_tokens_t *whole)
{
  ct_tokens_t parts = {0};
  ct_token_text_t back = {0};
  must(!in_parts(t, text, n, flags, &parts) && same(&parts, whole), "parts differ", text, n);
  for (int64_t cut = 0; !flags && (cut = ct_tokenizer_cut(t, text, n, cut + 1)) < n;) {
    parts.n = 0;
    must(!ct_tokenizer_encode(t, text, cut, 0, NULL, &parts) &&
             !ct_tokenizer_encode(t, text + cut, n - cut, 0, NULL, &parts) && same(&parts, whole),
         "a cut text differs", text, n);
  }
  must(!ct_tokenizer_decode(t, whole->id, whole->n, &back), "decode", text, n);
  must(!exact || (back.n == n && !memcmp(back.data, text, (size_t)n)), "not the text", text, n);
  ct_tokens_clear(&parts);
  ct_token_text_clear(&back);
}

static void list(const ct_tokenizer_t *t)
{
  int64_t n;
  for (int32_t i = 0; i < ct_tokenizer_vocab(t); i++) {
    const char *text = ct_tokenizer_token(t, i, &n);
    fprintf(stderr, "%.*s\n", text ? (int)n : 0, text ? text : "");
  }
}

int main(int argc, char **argv)
{
  ct_tokenizer_t *t;
  ct_tokens_t ids = {0};
  uint32_t n;
  char *text = NULL;
  int exact = argc > 2 && !strcmp(argv[2], "exact");
  int flags = argc > 3 && !strcmp(argv[3], "special") ? CT_TOKEN_SPECIAL : 0;
  must(argc > 1 && !ct_tokenizer_open(argv[1], &t), "cannot open", "", 0);
  if (argc > 2 && !strcmp(argv[2], "list")) list(t);
  while (fread(&n, sizeof n, 1, stdin) == 1) {
    text = realloc(text, n + 1U);
    must(text && fread(text, 1, n, stdin) == n, "input", "", 0);
    ids.n = 0;
    must(!ct_tokenizer_encode(t, text, n, flags, NULL, &ids), "encode", text, n);
    check(t, text, n, flags, exact, &ids);
    n = (uint32_t)ids.n;
    fwrite(&n, sizeof n, 1, stdout);
    if (n) fwrite(ids.id, sizeof *ids.id, n, stdout);
  }
  free(text);
  ct_tokens_clear(&ids);
  ct_tokenizer_close(t);
  must(ct_mem_live() == 0, "memory is still allocated", "", 0);
  return 0;
}
