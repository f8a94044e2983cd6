/* Fuzz target: any bytes as the files of a tokenizer, and as text for it.
 *
 * The first byte chooses the kind of file, or a serialized tokenizer.  In byte-pair encodings, the
 * 256 tokens of bytes precede the input, so that small inputs can be accepted.  Either they are
 * refused with a message that names them, or: each token is found by its bytes; the serialized form
 * makes the same tokenizer; encoding in parts gives the ids of the whole; and decoding gives the
 * text, but for lists.  Nothing stays allocated. */
#include <inttypes.h>

#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "tests/fuzz/fuzz.h"
#include "token/ct_tokenizer.h"

enum { BLOB, FILES, JSON, TIKTOKEN, LIST, TOKENS, KINDS };

static const char *const patterns[] = {"gpt2", "cl100k", "llama3", "o200k"};

/* ---- files ---- */

/* Appends the 256 tokens of bytes as JSON members, with a comma after the last. */
static void add_json_bytes(ct_str_t *s)
{
  for (int b = 0, next = 256; b < 256; b++) {
    int plain = (b >= '!' && b <= '~') || (b >= 0xA1 && b != 0xAD);
    must(ct_str_add(s, "\"\\u%04x\":%d,", plain ? b : next, b) == CT_OK, "memory");
    next += !plain;
  }
}

static void add_bytes(ct_str_t *s, const uint8_t *data, size_t bytes)
{
  must(ct_str_add(s, "%*s", (int)bytes, "") == CT_OK, "memory");
  if (bytes) memcpy(s->data + s->len - bytes, data, bytes);
}

static void add_tiktoken_bytes(ct_str_t *s)
{
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (int b = 0; b < 256; b++)
    must(ct_str_add(s, "%c%c== %d\n", digits[b >> 2], digits[(b & 3) << 4], b) == CT_OK, "memory");
}

/* Returns the text that precedes the input in a kind of file; made once. */
static const char *head_of(int kind)
{
  static char *made[KINDS];
  ct_str_t s = {0};
  if (made[kind]) return made[kind];
  must(ct_str_add(&s, "%s",
                  kind == FILES ? "{"
                  : kind == JSON
                      ? "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":"
                        "false},\"model\":{\"type\":\"BPE\",\"vocab\":{"
                      : "") == CT_OK,
       "memory");
  if (kind == FILES || kind == JSON) add_json_bytes(&s);
  if (kind == TIKTOKEN) add_tiktoken_bytes(&s);
  made[kind] = strdup(s.data);
  ct_str_clear(&s);
  return made[kind];
}

/* Makes a serialized tokenizer of the input. */
static void make_blob(int kind, const char *pattern, const uint8_t *data, size_t n, ct_str_t *blob)
{
  static const char *const names[] = {"", "gpt2", "json", "tiktoken", "list", "tokens"};
  ct_str_t file[2] = {{0}, {0}};
  const uint8_t *split = memchr(data, 0, n);
  size_t first = kind == FILES && split ? (size_t)(split - data) : n;
  const char *head = head_of(kind);
  add_bytes(&file[0], (const uint8_t *)head, strlen(head));
  add_bytes(&file[0], data, first);
  if (first < n) add_bytes(&file[1], split + 1, n - first - 1);
  must(ct_str_add(blob, "ctrain-hpc tokenizer 1\n%s %s %zu", names[kind], pattern, file[0].len) ==
           CT_OK,
       "memory");
  if (kind == FILES) must(ct_str_add(blob, " %zu", file[1].len) == CT_OK, "memory");
  must(ct_str_add(blob, "\n") == CT_OK, "memory");
  for (int i = 0; i < 2; i++) {
    if (file[i].len) add_bytes(blob, (const uint8_t *)file[i].data, file[i].len);
    ct_str_clear(&file[i]);
  }
}

/* ---- properties ---- */

static void check_tokens(const ct_tokenizer_t *t)
{
  int64_t n;
  for (int32_t i = 0; i < ct_tokenizer_vocab(t); i++) {
    const void *text = ct_tokenizer_token(t, i, &n);
    must(!text || (n > 0 && ct_tokenizer_find(t, text, n) == i), "a token is found");
  }
  must(ct_tokenizer_eot(t) < ct_tokenizer_vocab(t), "the end of a text is a token");
}

static void check_same(const ct_tokens_t *a, const ct_tokens_t *b)
{
  must(a->n == b->n, "as many ids");
  must(a->n == 0 || memcmp(a->id, b->id, (size_t)a->n * sizeof *a->id) == 0, "the same ids");
}

static void check_parts(const ct_tokenizer_t *t, const char *text, int64_t n, int flags,
                        const ct_tokens_t *whole)
{
  ct_tokens_t parts = {0};
  int64_t at = 0, used;
  for (int64_t have = 1; have < n; have += 1 + have / 2) {
    int rc = ct_tokenizer_encode(t, text + at, have - at, flags | CT_TOKEN_MORE, &used, &parts);
    must(rc == CT_OK && used >= 0 && used <= have - at, "a part is encoded");
    at += used;
  }
  must(ct_tokenizer_encode(t, text + at, n - at, flags, &used, &parts) == CT_OK, "the last part");
  must(used == n - at, "all is encoded");
  check_same(whole, &parts);
  ct_tokens_clear(&parts);
}

static void check_text(const ct_tokenizer_t *t, const char *text, int64_t n, int flags, int exact)
{
  ct_tokens_t ids = {0};
  ct_token_text_t back = {0};
  if (ct_tokenizer_encode(t, text, n, flags, NULL, &ids) == CT_OK) {
    must(ct_tokenizer_decode(t, ids.id, ids.n, &back) == CT_OK, "ids are decoded");
    must(!exact || (back.n == n && (n == 0 || memcmp(back.data, text, (size_t)n) == 0)),
         "the text comes back");
    must(ct_token_text_ready(&back) >= back.n - 3, "a character has 4 bytes");
    check_parts(t, text, n, flags, &ids);
  }
  ct_tokens_clear(&ids);
  ct_token_text_clear(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
  int64_t live = ct_mem_live(), n;
  int kind = bytes ? data[0] % KINDS : BLOB, pattern = bytes ? data[0] / KINDS % 4 : 0;
  ct_str_t blob = {0};
  ct_tokenizer_t *t;
  char *copy;
  if (bytes) data++, bytes--;
  if (kind == BLOB)
    add_bytes(&blob, data, bytes);
  else
    make_blob(kind, patterns[kind == TIKTOKEN ? pattern : 0], data, bytes, &blob);
  int rc = ct_tokenizer_open_blob(blob.data, (int64_t)blob.len, "in", &t);
  if (rc == CT_OK) {
    int list = !strcmp(ct_tokenizer_name(t), "list") || !strcmp(ct_tokenizer_name(t), "tokens");
    check_tokens(t);
    must(ct_tokenizer_blob(t, &copy, &n) == CT_OK, "it is serialized");
    must(n == (int64_t)blob.len && memcmp(copy, blob.data, blob.len) == 0, "in one form");
    ct_mem_free(copy);
    check_text(t, (const char *)data, (int64_t)bytes, 0, !list);
    check_text(t, (const char *)data, (int64_t)bytes, CT_TOKEN_SPECIAL, !list);
    ct_tokenizer_close(t);
  } else {
    must(strncmp(ct_err_last()->text, "in: ", 4) == 0, "a refusal names the file");
    must(rc == CT_ERR_FORMAT || rc == CT_ERR_UNSUP, "a refusal is about the format");
  }
  ct_str_clear(&blob);
  must(ct_mem_live() == live, "nothing stays allocated");
  return 0;
}
