/* tiktoken's files: lines of a token in base64 and its rank.  Ranks are ids and the order of
 * merges: two neighbours merge if both together are a token.  Special tokens and the pattern are
 * not in the file; they are known for the published files by their numbers of ranks. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "token/token.h"

typedef struct published {
  int64_t ranks; /* highest one + 1 */
  ct__pattern_t pattern;
  int eot; /* id */
} published_t;

static const published_t published[] = {
    {50256, CT__GPT2, 50256}, /* gpt2, r50k_base */
    {50281, CT__GPT2, 50256}, /* p50k_base, without a rank 50256 */
    {100256, CT__CL100K, 100257}, {128000, CT__LLAMA3, 128001}, {199998, CT__O200K, 199999},
};

/* Parses "BASE64 RANK". */
static int tiktoken_line(ct_tokenizer_t *t, const char *p, int64_t bytes, const char **why)
{
  int rc = CT_OK;
  char word[4 * CT__TOKEN_MOST / 3 + 8];
  int64_t id = 0;
  size_t n;
  const char *space = memchr(p, ' ', (size_t)bytes), *end = p + bytes;
  *why = "expected a token in base64, a space and its rank";
  if (!space || end - space < 2 || end - space > 9 || (space[1] == '0' && end - space > 2))
    goto out;
  for (const char *c = space + 1; c < end; c++) {
    if (*c < '0' || *c > '9') goto out;
    id = 10 * id + (*c - '0');
  }
  *why = "the token has more than 1024 bytes";
  if (space - p >= (int64_t)sizeof word) goto out;
  memcpy(word, p, (size_t)(space - p));
  word[space - p] = 0;
  *why = "the token is not base64";
  if (ct_text_unbase64(word, &n) != CT_OK) goto out;
  CT_TRY(ct__vocab_add(&t->vocab, id, word, (int64_t)n, why));
out:
  return rc;
}

static int64_t tiktoken_lines(const char *p, int64_t bytes)
{
  int64_t n = 0;
  const char *end = p + bytes;
  for (; p && p < end; n++) {
    p = memchr(p, '\n', (size_t)(end - p));
    if (p) p++;
  }
  return n;
}

static int tiktoken_read(ct_tokenizer_t *t)
{
  int rc = CT_OK;
  const ct__source_t *s = &t->source[0];
  const char *end = s->data + s->bytes, *why = NULL;
  int64_t line = 1;
  CT_TRY(ct__vocab_init(&t->vocab, tiktoken_lines(s->data, s->bytes), 1024));
  for (const char *p = s->data, *stop; p < end; p = stop + 1, line++) {
    stop = memchr(p, '\n', (size_t)(end - p));
    if (!stop) stop = end;
    CT_TRY(tiktoken_line(t, p, stop - p - (stop > p && stop[-1] == '\r'), &why));
    if (why) CT_FAIL(CT_ERR_FORMAT, "%s:%lld: %s", s->name, (long long)line, why);
  }
out:
  return rc;
}

static const published_t *published_as(int64_t ranks)
{
  for (size_t i = 0; i < sizeof published / sizeof *published; i++)
    if (published[i].ranks == ranks) return &published[i];
  return NULL;
}

static int tiktoken_pattern(ct_tokenizer_t *t)
{
  int rc = CT_OK;
  const published_t *as = published_as(t->vocab.n);
  if (t->pattern != CT__PATTERNS) goto out;
  if (!as)
    CT_FAIL(CT_ERR_USAGE,
            "%s: %" PRId64 " ranks are none of the published tiktoken files; name the pattern: "
            "gpt2:FILE, cl100k:FILE, llama3:FILE or o200k:FILE",
            t->source[0].name, t->vocab.n);
  t->pattern = as->pattern;
out:
  return rc;
}

/* Adds all merges: each token, cut in two tokens at each place where that is possible. */
static int tiktoken_merges(ct_tokenizer_t *t)
{
  int rc = CT_OK, added;
  const ct__vocab_t *v = &t->vocab;
  for (int64_t i = 0; i < v->n; i++) {
    const char *text = v->text + v->token[i].at;
    for (int32_t cut = 1; cut < v->token[i].bytes; cut++) {
      int32_t left = ct__vocab_find(v, text, cut);
      if (left < 0) continue;
      int32_t right = ct__vocab_find(v, text + cut, v->token[i].bytes - cut);
      if (right >= 0)
        CT_TRY(ct__pairs_add(&t->merges, left, right, (uint32_t)i, (int32_t)i, &added));
    }
  }
out:
  return rc;
}

/* ---- special tokens ---- */

static int special_token(ct_tokenizer_t *t, int64_t id, const char *name)
{
  int rc = CT_OK;
  const char *why;
  CT_TRY(ct__vocab_add(&t->vocab, id, name, (int64_t)strlen(name), &why));
  if (why)
    CT_FAIL(CT_ERR_FORMAT, "%s: special token %s with id %" PRId64 ": %s", t->source[0].name, name,
            id, why);
  CT_TRY(ct__special_add(t, (int32_t)id));
out:
  return rc;
}

/* The 256 special tokens of Llama 3, named as in Llama 3.1. */
static int special_llama3(ct_tokenizer_t *t, int64_t base)
{
  static const char *const names[] = {"begin_of_text",
                                      "end_of_text",
                                      "reserved_special_token_0",
                                      "reserved_special_token_1",
                                      "finetune_right_pad_id",
                                      "reserved_special_token_2",
                                      "start_header_id",
                                      "end_header_id",
                                      "eom_id",
                                      "eot_id",
                                      "python_tag"};
  int rc = CT_OK, known = sizeof names / sizeof *names;
  for (int i = 0; i < 256; i++) {
    char name[64];
    if (i < known)
      CT_TRY(ct_text_format(name, sizeof name, "<|%s|>", names[i]));
    else
      CT_TRY(ct_text_format(name, sizeof name, "<|reserved_special_token_%d|>", i - known + 3));
    CT_TRY(special_token(t, base + i, name));
  }
out:
  return rc;
}

static int special_all(ct_tokenizer_t *t)
{
  int rc = CT_OK;
  int64_t base = t->vocab.n, eot = base;
  if (published_as(base)) eot = published_as(base)->eot;
  if (t->pattern == CT__LLAMA3) return special_llama3(t, base);
  CT_TRY(special_token(t, eot, "<|endoftext|>"));
  if (base == 100256) {
    CT_TRY(special_token(t, 100258, "<|fim_prefix|>"));
    CT_TRY(special_token(t, 100259, "<|fim_middle|>"));
    CT_TRY(special_token(t, 100260, "<|fim_suffix|>"));
    CT_TRY(special_token(t, 100276, "<|endofprompt|>"));
  }
  if (base == 199998) CT_TRY(special_token(t, 200018, "<|endofprompt|>"));
out:
  return rc;
}

static int tiktoken_build(ct_tokenizer_t *t)
{
  int rc = CT_OK;
  CT_TRY(tiktoken_read(t));
  CT_TRY(tiktoken_pattern(t));
  CT_TRY(tiktoken_merges(t));
  CT_TRY(ct__bpe_ready(t, 1));
  CT_TRY(special_all(t));
  CT_TRY(ct_text_format(t->name, sizeof t->name, "tiktoken (%s)", ct__pattern_names[t->pattern]));
out:
  return rc;
}

const ct__kind_t ct__kind_tiktoken = {"tiktoken", {"ranks"}, tiktoken_build, ct__bpe_encode};
