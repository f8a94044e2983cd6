/* Tokenizers: their life, what is known of them, encoding around special tokens, and decoding. */
#include "token/ct_tokenizer.h"

#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "token/token.h"

const ct__kind_t *const ct__kinds[] = {&ct__kind_bytes,
                                       &ct__kind_files,
                                       &ct__kind_json,
                                       &ct__kind_tiktoken,
                                       &ct__kind_list,
                                       &ct__kind_tokens,
                                       NULL};

/* ---- life ---- */

int ct__tokenizer_build(ct_tokenizer_t *t, ct_tokenizer_t **out)
{
  int rc = CT_OK;
  static const char *const ends[] = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>",
                                     "[SEP]",         "[EOS]",           NULL};
  *out = NULL;
  t->eot = t->unknown = -1;
  CT_TRY(t->kind->build(t));
  if (t->kind != &ct__kind_tiktoken && t->kind != &ct__kind_json) t->pattern = CT__GPT2;
  for (int i = 0; ends[i] && t->eot < 0; i++)
    t->eot = ct__vocab_find(&t->vocab, ends[i], (int64_t)strlen(ends[i]));
  if (!t->name[0]) CT_TRY(ct_text_format(t->name, sizeof t->name, "%s", t->kind->name));
  *out = t;
out:
  if (rc != CT_OK) ct_tokenizer_close(t);
  return rc;
}

void ct_tokenizer_close(ct_tokenizer_t *t)
{
  if (!t) return;
  for (int i = 0; i < CT__FILES; i++)
    ct_mem_free(t->source[i].data);
  ct__vocab_clear(&t->vocab);
  ct__pairs_clear(&t->merges);
  ct_mem_free(t->special);
  ct_mem_free(t->at_node);
  ct_mem_free(t);
}

/* ---- what is known ---- */

int32_t ct_tokenizer_vocab(const ct_tokenizer_t *t)
{
  return (int32_t)t->vocab.n;
}

int32_t ct_tokenizer_eot(const ct_tokenizer_t *t)
{
  return t->eot;
}

int32_t ct_tokenizer_find(const ct_tokenizer_t *t, const void *text, int64_t bytes)
{
  return ct__vocab_find(&t->vocab, text, bytes);
}

const char *ct_tokenizer_name(const ct_tokenizer_t *t)
{
  return t->name;
}

const void *ct_tokenizer_token(const ct_tokenizer_t *t, int32_t id, int64_t *bytes)
{
  *bytes = 0;
  if (id < 0 || id >= t->vocab.n || t->vocab.token[id].bytes < 0) return NULL;
  *bytes = t->vocab.token[id].bytes;
  return t->vocab.text + t->vocab.token[id].at;
}

int ct_tokenizer_is_special(const ct_tokenizer_t *t, int32_t id)
{
  return id >= 0 && id < t->vocab.n && t->vocab.token[id].special;
}

/* ---- encoding ---- */

/* Returns the special token at the beginning of a text, the longest one; -1: none. */
static int32_t special_at(const ct_tokenizer_t *t, const char *text, int64_t bytes)
{
  for (int64_t i = 0; i < t->specials; i++) {
    const ct__token_t *k = &t->vocab.token[t->special[i]];
    const char *name = t->vocab.text + k->at;
    if (name[0] == text[0] && k->bytes <= bytes && memcmp(name, text, (size_t)k->bytes) == 0)
      return t->special[i];
  }
  return -1;
}

/* Returns the offset of the first special token from \a at on, or \a bytes. */
static int64_t special_next(const ct_tokenizer_t *t, const char *text, int64_t bytes, int64_t at,
                            int32_t *id)
{
  char first[256] = {0};
  for (int64_t i = 0; i < t->specials; i++)
    first[(unsigned char)t->vocab.text[t->vocab.token[t->special[i]].at]] = 1;
  for (; at < bytes; at++)
    if (first[(unsigned char)text[at]] && (*id = special_at(t, text + at, bytes - at)) >= 0) break;
  return at;
}

/* Encodes from *at to the next special token, and this token; *at is where it stopped. */
static int encode_segment(const ct_tokenizer_t *t, const char *text, int64_t bytes, int more,
                          int64_t *at, int *stop, ct_tokens_t *out)
{
  int rc = CT_OK;
  int32_t id = -1;
  int64_t used, end = special_next(t, text, bytes, *at, &id), sure = end;
  /* the beginning of a special token may stand at the end of the text; a longer one may follow a
   * shorter one */
  if (more && sure > bytes - t->special_most) sure = bytes - t->special_most;
  if (sure < end || (more && id < 0)) {
    *stop = 1;
    if (sure <= *at) goto out;
    CT_TRY(t->kind->encode(t, text + *at, sure - *at, 1, &used, out));
    *at += used;
    goto out;
  }
  CT_TRY(t->kind->encode(t, text + *at, end - *at, 0, &used, out));
  *at = end;
  if (id < 0) goto out;
  CT_TRY(ct__tokens_add(out, id));
  *at += t->vocab.token[id].bytes;
out:
  return rc;
}

int ct_tokenizer_encode(const ct_tokenizer_t *t, const void *text, int64_t bytes, int flags,
                        int64_t *used, ct_tokens_t *out)
{
  int rc = CT_OK, more = flags & CT_TOKEN_MORE, stop = 0;
  int64_t at = 0;
  if (flags & CT_TOKEN_SPECIAL) {
    while (at < bytes && !stop)
      CT_TRY(encode_segment(t, text, bytes, more, &at, &stop, out));
  } else {
    CT_TRY(t->kind->encode(t, text, bytes, more, &at, out));
  }
out:
  if (used) *used = at;
  return rc;
}

static int is_letter(char c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static int is_printed(char c)
{
  return c > ' ' && c < 0x7F;
}

int64_t ct_tokenizer_cut(const ct_tokenizer_t *t, const void *text, int64_t bytes, int64_t at)
{
  const char *p = text;
  if (t->kind == &ct__kind_bytes) return at;
  if (t->at_node && t->has_blanks) return bytes;
  /* In all patterns a piece ends between a single line end and a letter, and between a letter and a
   * space with a letter.  No token of a list is matched across white space, if none contains it. */
  for (at = at < 1 ? 1 : at; at < bytes; at++) {
    if (!is_letter(p[at]) && p[at] != ' ') continue;
    if (p[at - 1] == '\n' && is_letter(p[at]) && (at < 2 || is_printed(p[at - 2]))) return at;
    if (p[at] == ' ' && is_letter(p[at - 1]) && at + 1 < bytes && is_letter(p[at + 1])) return at;
  }
  return bytes;
}

/* ---- decoding ---- */

int ct_tokenizer_decode(const ct_tokenizer_t *t, const int32_t *id, int64_t n, ct_token_text_t *out)
{
  int rc = CT_OK;
  for (int64_t i = 0; i < n; i++) {
    int64_t bytes;
    const char *text = ct_tokenizer_token(t, id[i], &bytes);
    if (!text) CT_FAIL(CT_ERR_DATA, "no token of %s has the id %d", t->name, (int)id[i]);
    CT_TRY(ct_mem_grow((void **)&out->data, &out->cap, out->n + bytes, 1));
    memcpy(out->data + out->n, text, (size_t)bytes);
    out->n += bytes;
  }
out:
  return rc;
}

int64_t ct_token_text_ready(const ct_token_text_t *t)
{
  uint32_t code;
  int64_t from = t->n > 3 ? t->n - 3 : 0; /* a character has up to 4 bytes */
  for (int64_t at = from; at < t->n; at++)
    if (ct__utf8((const unsigned char *)t->data + at, t->n - at, &code) < 0) return at;
  return t->n;
}

void ct_token_text_drop(ct_token_text_t *t, int64_t n)
{
  t->n -= n;
  if (t->n > 0) memmove(t->data, t->data + n, (size_t)t->n);
}

void ct_token_text_clear(ct_token_text_t *t)
{
  ct_mem_free(t->data);
  *t = (ct_token_text_t){0};
}
