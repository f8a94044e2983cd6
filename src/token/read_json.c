/* Hugging Face's tokenizer.json, if it is a byte-level byte-pair encoding whose pieces are known.
 * All else is refused by name: ignoring a setting would give other ids without a message. */
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "token/read_merges.h"

#define CASELESS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define UPPER    "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define BLANKS   "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const struct regex {
  const char *text;
  ct__pattern_t pattern;
} regexes[] = {
    {"'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", CT__GPT2},
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
     CT__GPT2},
    {CASELESS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" BLANKS,
     CT__LLAMA3},
    {"[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" CASELESS "?|[^\\r\\n\\p{L}\\p{N}]?" UPPER
     "+" LOWER "*" CASELESS "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" BLANKS,
     CT__O200K},
};

/* ---- settings that must have one value ---- */

static const char *text_of(const json_t *o, const char *key)
{
  const char *text = json_string_value(json_object_get(o, key));
  return text ? text : "";
}

/* Returns 1 if a key is missing, null, false, 0, or an empty text. */
static int is_off(const json_t *o, const char *key)
{
  const json_t *v = json_object_get(o, key);
  return !v || json_is_null(v) || json_is_false(v) ||
         (json_is_number(v) && json_number_value(v) == 0) ||
         (json_is_string(v) && json_string_length(v) == 0);
}

static int json_model(const ct__source_t *s, const json_t *model)
{
  static const char *const off[] = {"dropout", "continuing_subword_prefix", "end_of_word_suffix",
                                    "byte_fallback", NULL};
  int rc = CT_OK;
  /* files of 2019 to 2021, such as GPT-2's, do not name the type */
  int untyped = !json_object_get(model, "type") && json_object_get(model, "merges");
  if (!untyped && strcmp(text_of(model, "type"), "BPE") != 0)
    CT_FAIL(
        CT_ERR_UNSUP,
        "%s: its model is '%s'; only byte-level BPE, a tiktoken file or a list of tokens can be "
        "read (tokenize with another program, and pack the ids)",
        s->name, text_of(model, "type"));
  for (int i = 0; off[i]; i++)
    if (!is_off(model, off[i]))
      CT_FAIL(CT_ERR_UNSUP, "%s: model.%s is set; only plain byte-level BPE can be read", s->name,
              off[i]);
out:
  return rc;
}

static int json_regex(const ct__source_t *s, const json_t *split, ct__pattern_t *pattern)
{
  int rc = CT_OK;
  const char *text = text_of(json_object_get(split, "pattern"), "Regex");
  int alone = strcmp(text_of(split, "behavior"), "Isolated") == 0 && is_off(split, "invert");
  for (size_t i = 0; alone && i < sizeof regexes / sizeof *regexes; i++)
    if (strcmp(regexes[i].text, text) == 0) {
      *pattern = regexes[i].pattern;
      return CT_OK;
    }
  CT_FAIL(CT_ERR_UNSUP,
          "%s: pre_tokenizer splits by '%s', which is not the pattern of GPT-2, Llama 3 or "
          "GPT-4o",
          s->name, text);
out:
  return rc;
}

/* ByteLevel with GPT-2's pattern, or a split by a known pattern and then ByteLevel. */
static int json_pieces(ct_tokenizer_t *t, const ct__source_t *s, const json_t *pre)
{
  int rc = CT_OK, split = strcmp(text_of(pre, "type"), "Sequence") == 0;
  const json_t *list = json_object_get(pre, "pretokenizers");
  const json_t *level = split ? json_array_get(list, 1) : pre;
  const json_t *regex = json_object_get(level, "use_regex");
  if (strcmp(text_of(level, "type"), "ByteLevel") != 0 || (split && json_array_size(list) != 2) ||
      (split && strcmp(text_of(json_array_get(list, 0), "type"), "Split") != 0))
    CT_FAIL(CT_ERR_UNSUP, "%s: pre_tokenizer is not ByteLevel, or Split and ByteLevel", s->name);
  if (!is_off(level, "add_prefix_space") || !json_object_get(level, "add_prefix_space"))
    CT_FAIL(CT_ERR_UNSUP, "%s: pre_tokenizer has add_prefix_space, which is not supported",
            s->name);
  if (json_is_false(regex) != split)
    CT_FAIL(CT_ERR_UNSUP, "%s: pre_tokenizer has use_regex: %s, which is not supported here",
            s->name, split ? "true" : "false");
  t->pattern = CT__GPT2;
  if (split) CT_TRY(json_regex(s, json_array_get(list, 0), &t->pattern));
out:
  return rc;
}

/* ---- tables ---- */

static int json_merges(ct_tokenizer_t *t, const ct__source_t *s, const json_t *merges)
{
  int rc = CT_OK;
  size_t i;
  json_t *m;
  const char *why = NULL;
  if (!json_is_array(merges)) CT_FAIL(CT_ERR_FORMAT, "%s: model.merges is not a list", s->name);
  json_array_foreach(merges, i, m)
  {
    const json_t *left = json_array_get(m, 0), *right = json_array_get(m, 1);
    const char *text = json_string_value(m), *space = text ? strchr(text, ' ') : NULL;
    why = "expected two tokens";
    if (space)
      CT_TRY(ct__merges_pair(t, text, space - text, space + 1, (int64_t)strlen(space + 1),
                             (int64_t)i, &why));
    else if (json_array_size(m) == 2 && json_is_string(left) && json_is_string(right))
      CT_TRY(ct__merges_pair(t, json_string_value(left), (int64_t)json_string_length(left),
                             json_string_value(right), (int64_t)json_string_length(right),
                             (int64_t)i, &why));
    if (why) CT_FAIL(CT_ERR_FORMAT, "%s: model.merges[%zu]: %s", s->name, i, why);
  }
out:
  return rc;
}

/* Tokens beside the model's.  Those that are not special would be found in any text before it is
 * cut into pieces, which is not done here. */
static int json_added(ct_tokenizer_t *t, const ct__source_t *s, const json_t *added)
{
  int rc = CT_OK;
  size_t i;
  json_t *a;
  json_array_foreach(added, i, a)
  {
    const json_t *id = json_object_get(a, "id");
    const char *text = text_of(a, "content");
    int64_t bytes = (int64_t)strlen(text);
    if (!json_is_true(json_object_get(a, "special")))
      CT_FAIL(CT_ERR_UNSUP, "%s: added_tokens[%zu] ('%s') is not special, which is not supported",
              s->name, i, text);
    int32_t known = ct__vocab_find(&t->vocab, text, bytes);
    if (known < 0 || known != json_integer_value(id))
      CT_TRY(ct__merges_token(t, s->name, text, bytes, id));
    CT_TRY(ct__special_add(t, ct__vocab_find(&t->vocab, text, bytes)));
  }
out:
  return rc;
}

static int json_build(ct_tokenizer_t *t)
{
  int rc = CT_OK;
  json_t *all = NULL;
  const ct__source_t *s = &t->source[0];
  CT_TRY(ct__merges_json(s, &all));
  const json_t *model = json_object_get(all, "model"),
               *added = json_object_get(all, "added_tokens");
  CT_TRY(json_model(s, model));
  if (!is_off(all, "normalizer"))
    CT_FAIL(CT_ERR_UNSUP, "%s: it has a normalizer ('%s'), which is not supported", s->name,
            text_of(json_object_get(all, "normalizer"), "type"));
  CT_TRY(json_pieces(t, s, json_object_get(all, "pre_tokenizer")));
  CT_TRY(ct__merges_vocab(t, s->name, json_object_get(model, "vocab"),
                          (int64_t)json_array_size(added)));
  CT_TRY(json_merges(t, s, json_object_get(model, "merges")));
  CT_TRY(json_added(t, s, added));
  CT_TRY(ct__bpe_ready(t, json_is_true(json_object_get(model, "ignore_merges"))));
  CT_TRY(ct_text_format(t->name, sizeof t->name, "tokenizer.json (%s)",
                        ct__pattern_names[t->pattern]));
out:
  json_decref(all);
  return rc;
}

const ct__kind_t ct__kind_json = {"json", {"tokenizer.json"}, json_build, ct__bpe_encode};
