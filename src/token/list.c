/* Lists of tokens: the longest token that matches is taken, from left to right.  For residues,
 * codons, k-mers and single characters. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "token/token.h"

/* ---- the trie ---- */

static int is_blank(char c)
{
  return c == ' ' || (c >= '\t' && c <= '\r');
}

/* A node is a number in t->at_node; 0 is the root. */
static int trie_add(ct_tokenizer_t *t, const char *text, int64_t bytes, int32_t id)
{
  int rc = CT_OK, added;
  int32_t node = 0;
  for (int64_t i = 0; i < bytes; i++) {
    const ct__pair_t *next = ct__pairs_find(&t->merges, node, (unsigned char)text[i]);
    if (is_blank(text[i])) t->has_blanks = 1;
    if (!next) {
      CT_TRY(ct_mem_grow((void **)&t->at_node, &t->nodes_cap, t->nodes + 1, sizeof *t->at_node));
      CT_TRY(ct__pairs_add(&t->merges, node, (unsigned char)text[i], 0, (int32_t)t->nodes, &added));
      t->at_node[t->nodes] = -1;
      node = (int32_t)t->nodes++;
    } else {
      node = next->id_one - 1;
    }
  }
  t->at_node[node] = id;
out:
  return rc;
}

static int is_named(const char *text, int64_t bytes)
{
  return bytes > 2 &&
         ((text[0] == '<' && text[bytes - 1] == '>') || (text[0] == '[' && text[bytes - 1] == ']'));
}

static int list_add(ct_tokenizer_t *t, int64_t id, const char *text, int64_t bytes,
                    const char **why)
{
  int rc = CT_OK;
  CT_TRY(ct__vocab_add(&t->vocab, id, text, bytes, why));
  if (*why) goto out;
  if (is_named(text, bytes))
    CT_TRY(ct__special_add(t, (int32_t)id));
  else
    CT_TRY(trie_add(t, text, bytes, (int32_t)id));
out:
  return rc;
}

static int list_begin(ct_tokenizer_t *t, int64_t tokens)
{
  int rc = CT_OK;
  CT_TRY(ct__vocab_init(&t->vocab, tokens, 0));
  CT_TRY(ct_mem_grow((void **)&t->at_node, &t->nodes_cap, 1, sizeof *t->at_node));
  t->at_node[0] = -1;
  t->nodes = 1;
out:
  return rc;
}

static int list_end(ct_tokenizer_t *t)
{
  int rc = CT_OK;
  static const char *const names[] = {"<unk>", "[UNK]", NULL};
  if (t->vocab.count == 0)
    CT_FAIL(CT_ERR_FORMAT, "%s: no token; expected one per line", t->source[0].name);
  for (int i = 0; names[i] && t->unknown < 0; i++)
    t->unknown = ct__vocab_find(&t->vocab, names[i], (int64_t)strlen(names[i]));
out:
  return rc;
}

/* ---- sources ---- */

static int64_t count_lines(const ct__source_t *s)
{
  int64_t n = 1;
  for (int64_t i = 0; i < s->bytes; i++)
    n += s->data[i] == '\n';
  return n;
}

static int list_build(ct_tokenizer_t *t)
{
  int rc = CT_OK;
  const ct__source_t *s = &t->source[0];
  const char *end = s->data + s->bytes, *why = NULL;
  int64_t line = 0;
  CT_TRY(list_begin(t, count_lines(s)));
  for (const char *p = s->data, *stop; p < end; p = stop + 1, line++) {
    stop = memchr(p, '\n', (size_t)(end - p));
    if (!stop) stop = end;
    CT_TRY(list_add(t, line, p, stop - p - (stop > p && stop[-1] == '\r'), &why));
    if (why) CT_FAIL(CT_ERR_FORMAT, "%s:%" PRId64 ": the token: %s", s->name, line + 1, why);
  }
  CT_TRY(list_end(t));
out:
  return rc;
}

/* Tokens with their lengths, "3 abc\n"; "0 \n" is an id without a token. */
static int tokens_build(ct_tokenizer_t *t)
{
  int rc = CT_OK;
  const ct__source_t *s = &t->source[0];
  const char *end = s->data + s->bytes, *why = NULL;
  int64_t id = 0;
  CT_TRY(list_begin(t, count_lines(s)));
  for (const char *p = s->data; p < end; id++) {
    int64_t n = 0;
    const char *c = p;
    for (; c < end && *c >= '0' && *c <= '9' && n <= CT__TOKEN_MOST; c++)
      n = 10 * n + (*c - '0');
    if (c == p || c - p > 4 || (*p == '0' && c - p > 1) || end - c < n + 2 || *c != ' ' ||
        c[1 + n] != '\n')
      CT_FAIL(CT_ERR_FORMAT, "%s: the token with id %" PRId64 " has no length, or another one",
              s->name, id);
    if (n > 0) CT_TRY(list_add(t, id, c + 1, n, &why));
    if (why) CT_FAIL(CT_ERR_FORMAT, "%s: the token with id %" PRId64 ": %s", s->name, id, why);
    p = c + n + 2;
  }
  CT_TRY(list_end(t));
out:
  return rc;
}

/* ---- encoding ---- */

/* Returns the longest token at the beginning of a text, or -1; *open is set to 1 if more text could
 * give a longer one. */
static int32_t list_match(const ct_tokenizer_t *t, const char *text, int64_t bytes, int64_t *end,
                          int *open)
{
  int32_t node = 0, id = -1;
  for (int64_t i = 0; i < bytes; i++) {
    const ct__pair_t *next = ct__pairs_find(&t->merges, node, (unsigned char)text[i]);
    if (!next) return id;
    node = next->id_one - 1;
    if (t->at_node[node] >= 0) {
      id = t->at_node[node];
      *end = i + 1;
    }
  }
  *open = 1;
  return id;
}

/* Returns the end of the characters that no token matches, up to white space. */
static int64_t list_unknown(const ct_tokenizer_t *t, const char *text, int64_t bytes, int64_t at,
                            int *open)
{
  int64_t end;
  uint32_t code;
  while (at < bytes && !is_blank(text[at]) &&
         list_match(t, text + at, bytes - at, &end, open) < 0) {
    int n = ct__utf8((const unsigned char *)text + at, bytes - at, &code);
    at += n > 0 ? n : 1;
  }
  if (at == bytes) *open = 1;
  return at;
}

static int list_no_token(const ct_tokenizer_t *t, const char *text, int64_t at)
{
  unsigned char c = (unsigned char)text[at];
  char shown[8];
  snprintf(shown, sizeof shown, c > ' ' && c < 0x7F ? "'%c'" : "0x%02x", c);
  return ct_err_set(CT_ERR_DATA, __FILE__, __LINE__,
                    "no token of %s matches the text at byte %" PRId64 " (%s), and it has no <unk>",
                    t->source[0].name, at, shown);
}

static int list_encode(const ct_tokenizer_t *t, const char *text, int64_t bytes, int more,
                       int64_t *used, ct_tokens_t *out)
{
  int rc = CT_OK;
  int64_t at = 0;
  while (at < bytes) {
    int open = 0;
    int64_t end = 0;
    int32_t id = list_match(t, text + at, bytes - at, &end, &open);
    end += at;
    if (id < 0 && is_blank(text[at])) {
      if (open && more) break;
      at++;
      continue;
    }
    if (id < 0) end = list_unknown(t, text, bytes, at, &open), id = t->unknown;
    if (open && more) break;
    if (id < 0) {
      rc = list_no_token(t, text, at);
      goto out;
    }
    CT_TRY(ct__tokens_add(out, id));
    at = end;
  }
out:
  *used = at;
  return rc;
}

const ct__kind_t ct__kind_list = {"list", {"list"}, list_build, list_encode};
const ct__kind_t ct__kind_tokens = {"tokens", {"tokens"}, tokens_build, list_encode};

/* ---- built-in lists ---- */

static int list_kmers(int k, ct_str_t *text)
{
  static const char bases[] = "ATCG";
  int rc = CT_OK;
  CT_TRY(ct_str_add(text, "<unk>\n<pad>\n<mask>\n<cls>\n<eos>\n<bos>\n"));
  for (int i = 0; k > 1 && i < 1 << 2 * k; i++) {
    char word[16] = "";
    for (int j = 0; j < k; j++)
      word[j] = bases[i >> 2 * (k - 1 - j) & 3];
    CT_TRY(ct_str_add(text, "%s\n", word));
  }
  CT_TRY(ct_str_add(text, "A\nT\nC\nG\nN\n"));
out:
  return rc;
}

int ct__list_text(const char *name, ct_str_t *text)
{
  int rc = CT_OK;
  if (strcmp(name, "codons") == 0) name = "kmers:3";
  if (strcmp(name, "residues") == 0)
    CT_TRY(ct_str_add(text, "<cls>\n<pad>\n<eos>\n<unk>\nL\nA\nG\nV\nS\nE\nR\nT\nI\nD\nP\nK\nQ\nN\n"
                            "F\nY\nM\nH\nW\nC\nX\nB\nU\nZ\nO\n.\n-\n<null_1>\n<mask>\n"));
  else if (strncmp(name, "kmers:", 6) == 0 && name[6] >= '1' && name[6] <= '8' && !name[7])
    CT_TRY(list_kmers(name[6] - '0', text));
  else
    CT_FAIL(CT_ERR_USAGE,
            "'%s' is not a built-in list of tokens; expected residues, codons or "
            "kmers:K with K from 1 to 8",
            name);
out:
  return rc;
}
