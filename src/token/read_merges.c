/* GPT-2's files: vocab.json (token to id) and merges.txt (pairs of tokens in order of rank).  Their
 * texts hold bytes as 256 printable characters.  tokenizer.json has the same two tables. */
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "token/read_merges.h"

/* Returns the byte of a character: printable Latin-1 is itself, the others follow from U+0100 on;
 * -1: another character. */
static int byte_of(uint32_t code)
{
  if (code < 256) {
    int plain = (code >= '!' && code <= '~') || (code >= 0xA1 && code != 0xAD);
    return plain ? (int)code : -1;
  }
  code -= 256;
  if (code <= ' ') return (int)code;              /* 0 to 32 */
  if (code <= 66) return (int)(code - 33 + 0x7F); /* 127 to 160 */
  return code == 67 ? 0xAD : -1;
}

int ct__merges_bytes(const char *text, int64_t bytes, char *to)
{
  int n = 0;
  uint32_t code;
  for (int64_t at = 0; at < bytes;) {
    int more = ct__utf8((const unsigned char *)text + at, bytes - at, &code);
    int byte = more > 0 ? byte_of(code) : -1;
    if (byte < 0 || n == CT__TOKEN_MOST) return -1;
    to[n++] = (char)byte;
    at += more;
  }
  return n;
}

int ct__merges_token(ct_tokenizer_t *t, const char *name, const char *text, int64_t bytes,
                     const json_t *id)
{
  int rc = CT_OK;
  char raw[CT__TOKEN_MOST];
  const char *why;
  int n = ct__merges_bytes(text, bytes, raw);
  if (!json_is_integer(id)) CT_FAIL(CT_ERR_FORMAT, "%s: the id of a token is not a number", name);
  /* other characters: a special token, which is its own text */
  CT_TRY(ct__vocab_add(&t->vocab, json_integer_value(id), n >= 0 ? raw : text, n >= 0 ? n : bytes,
                       &why));
  if (why)
    CT_FAIL(CT_ERR_FORMAT, "%s: token with id %lld: %s", name, (long long)json_integer_value(id),
            why);
out:
  return rc;
}

int ct__merges_vocab(ct_tokenizer_t *t, const char *name, const json_t *vocab, int64_t specials)
{
  int rc = CT_OK;
  const char *key;
  size_t bytes;
  json_t *id;
  if (!json_is_object(vocab) || json_object_size(vocab) == 0)
    CT_FAIL(CT_ERR_FORMAT, "%s: the vocabulary is not an object of tokens and ids", name);
  CT_TRY(ct__vocab_init(&t->vocab, (int64_t)json_object_size(vocab), specials));
  json_object_keylen_foreach((json_t *)vocab, key, bytes, id)
      CT_TRY(ct__merges_token(t, name, key, (int64_t)bytes, id));
out:
  return rc;
}

int ct__merges_pair(ct_tokenizer_t *t, const char *left, int64_t n_left, const char *right,
                    int64_t n_right, int64_t rank, const char **why)
{
  char both[2 * CT__TOKEN_MOST];
  int rc = CT_OK, added, a = ct__merges_bytes(left, n_left, both), b = -1;
  if (a > 0) b = ct__merges_bytes(right, n_right, both + a);
  *why = "expected two tokens of the characters that stand for bytes";
  if (a < 1 || b < 1) goto out;
  int32_t l = ct__vocab_find(&t->vocab, both, a), r = ct__vocab_find(&t->vocab, both + a, b);
  int32_t id = ct__vocab_find(&t->vocab, both, a + b);
  *why = "a token of the pair is not in the vocabulary";
  if (l < 0 || r < 0) goto out;
  *why = "the merged token is not in the vocabulary";
  if (id < 0) goto out;
  CT_TRY(ct__pairs_add(&t->merges, l, r, (uint32_t)rank, id, &added));
  *why = added ? NULL : "the merge occurs twice";
  t->vocab.token[id].merged = 1;
out:
  return rc;
}

int ct__merges_json(const ct__source_t *s, json_t **out)
{
  int rc = CT_OK;
  json_error_t bad;
  *out = json_loadb(s->data, (size_t)s->bytes, JSON_REJECT_DUPLICATES, &bad);
  if (!*out) CT_FAIL(CT_ERR_FORMAT, "%s:%d: not JSON: %s", s->name, bad.line, bad.text);
out:
  return rc;
}

static int files_merges(ct_tokenizer_t *t, const ct__source_t *s)
{
  int rc = CT_OK;
  int64_t line = 1, rank = 0;
  const char *end = s->data + s->bytes, *why = NULL;
  for (const char *p = s->data, *stop; p < end; p = stop + 1, line++) {
    stop = memchr(p, '\n', (size_t)(end - p));
    if (!stop) stop = end;
    int64_t bytes = stop - p - (stop > p && stop[-1] == '\r');
    if (bytes == 0 && stop + 1 >= end) break;
    if (line == 1 && bytes >= 8 && memcmp(p, "#version", 8) == 0) continue;
    const char *space = memchr(p, ' ', (size_t)bytes);
    if (!space)
      CT_FAIL(CT_ERR_FORMAT, "%s:%lld: expected two tokens and a space between them", s->name,
              (long long)line);
    CT_TRY(ct__merges_pair(t, p, space - p, space + 1, p + bytes - space - 1, rank++, &why));
    if (why) CT_FAIL(CT_ERR_FORMAT, "%s:%lld: %s", s->name, (long long)line, why);
  }
out:
  return rc;
}

static int files_build(ct_tokenizer_t *t)
{
  int rc = CT_OK;
  json_t *vocab = NULL;
  CT_TRY(ct__merges_json(&t->source[0], &vocab));
  CT_TRY(ct__merges_vocab(t, t->source[0].name, vocab, 0));
  CT_TRY(files_merges(t, &t->source[1]));
  /* text gives bytes and merges; tokens that are neither are special */
  for (int64_t i = 0; i < t->vocab.n; i++)
    if (t->vocab.token[i].bytes > 1 && !t->vocab.token[i].merged)
      CT_TRY(ct__special_add(t, (int32_t)i));
  CT_TRY(ct__bpe_ready(t, 0));
out:
  json_decref(vocab);
  return rc;
}

const ct__kind_t ct__kind_files = {
    "gpt2", {"vocab.json", "merges.txt"}, files_build, ct__bpe_encode};
