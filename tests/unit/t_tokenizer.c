/* Tokenizers: stored ids of tiktoken and Hugging Face's tokenizers (tests/golden/tokenizer, written
 * by tests/python/check_tokenizer.py), special tokens of published files, long words, refusals. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "tests/harness/ct_test.h"
#include "token/ct_tokenizer.h"

static const char *golden(const char *name)
{
  static char path[CT_PATH_MAX];
  const char *colon = strchr(name, ':');
  int n = colon ? (int)(colon + 1 - name) : 0;
  snprintf(path, sizeof path, "%.*s%s/tests/golden/tokenizer/%s", n, name, getenv("CT_SRC"),
           name + n);
  return path;
}

static ct_tokenizer_t *opened(const char *spec)
{
  ct_tokenizer_t *t = NULL;
  CT_ASSERT_OK(ct_tokenizer_open(spec, &t));
  return t;
}

/* Asserts the ids of a text, written as numbers with blanks between them. */
static void has_ids(const ct_tokenizer_t *t, const char *text, int64_t n, int flags,
                    const char *want)
{
  ct_tokens_t ids = {0};
  ct_str_t got = {0};
  CT_ASSERT_OK(ct_tokenizer_encode(t, text, n, flags, NULL, &ids));
  CT_ASSERT_OK(ct_str_add(&got, "%s", ""));
  for (int64_t i = 0; i < ids.n; i++)
    CT_ASSERT_OK(ct_str_add(&got, i ? " %d" : "%d", (int)ids.id[i]));
  CT_ASSERT_TEXT(got.data, want);
  ct_str_clear(&got);
  ct_tokens_clear(&ids);
}

static void gives(const ct_tokenizer_t *t, const char *text, int flags, const char *want)
{
  has_ids(t, text, (int64_t)strlen(text), flags, want);
}

/* ---- ids of others ---- */

static int64_t from_hex(char *text)
{
  int64_t n = 0;
  unsigned byte;
  for (const char *p = text; sscanf(p, "%2x", &byte) == 1; p += 2)
    text[n++] = (char)byte;
  return n;
}

static void ids_are_those_of_others(void)
{
  char *all, *line, *rest, last[100] = "";
  size_t bytes;
  int lines = 0;
  ct_tokenizer_t *t = NULL;
  CT_ASSERT_OK(ct_file_read(golden("ids.gold"), &all, &bytes));
  for (rest = all; (line = strtok_r(rest, "\n", &rest)) != NULL; lines++) {
    char *text = strchr(line, ' ');
    *text++ = 0;
    char *ids = strchr(text, ' ');
    if (ids) *ids++ = 0;
    if (strcmp(last, line) != 0) {
      ct_tokenizer_close(t);
      t = opened(golden(line));
      snprintf(last, sizeof last, "%s", line);
    }
    has_ids(t, text, from_hex(text), 0, ids ? ids : "");
  }
  CU_ASSERT(lines > 500);
  ct_tokenizer_close(t);
  ct_mem_free(all);
}

/* A file of `ranks` tokens: the bytes, and texts of three of them. */
static void put_ranks(const char *path, int ranks, int hole)
{
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  FILE *f = fopen(path, "w");
  for (int i = 0; i < ranks; i++) {
    if (i == hole) continue;
    if (i < 256)
      fprintf(f, "%c%c== %d\n", digits[i >> 2], digits[(i & 3) << 4], i);
    else
      fprintf(f, "%c%c%c%c %d\n", digits[i >> 18 & 63], digits[i >> 12 & 63], digits[i >> 6 & 63],
              digits[i & 63], i);
  }
  CT_ASSERT_INT(fclose(f), 0);
}

/* The numbers are those of tiktoken_ext/openai_public.py and of Llama 3's tokenizer.py. */
static void published_files_have_their_special_tokens(void)
{
  static const struct {
    int ranks, hole, vocab, eot;
    const char *name, *more;
    int id;
  } of[] = {
      {50256, -1, 50257, 50256, "tiktoken (gpt2)", NULL, 0},
      {50281, 50256, 50281, 50256, "tiktoken (gpt2)", NULL, 0},
      {100256, -1, 100277, 100257, "tiktoken (cl100k)", "<|fim_suffix|>", 100260},
      {100256, -1, 100277, 100257, "tiktoken (cl100k)", "<|endofprompt|>", 100276},
      {128000, -1, 128256, 128001, "tiktoken (llama3)", "<|begin_of_text|>", 128000},
      {128000, -1, 128256, 128001, "tiktoken (llama3)", "<|eot_id|>", 128009},
      {128000, -1, 128256, 128001, "tiktoken (llama3)", "<|reserved_special_token_247|>", 128255},
      {199998, -1, 200019, 199999, "tiktoken (o200k)", "<|endofprompt|>", 200018},
  };
  char path[CT_PATH_MAX];
  snprintf(path, sizeof path, "%s/any.tiktoken", ct_test_dir());
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    put_ranks(path, of[i].ranks, of[i].hole);
    ct_tokenizer_t *t = opened(path);
    if (!t) continue;
    CT_ASSERT_INT(ct_tokenizer_vocab(t), of[i].vocab);
    CT_ASSERT_INT(ct_tokenizer_eot(t), of[i].eot);
    CT_ASSERT_TEXT(ct_tokenizer_name(t), of[i].name);
    CT_ASSERT_INT(ct_tokenizer_is_special(t, of[i].eot), 1);
    CT_ASSERT_INT(ct_tokenizer_is_special(t, 255), 0);
    if (of[i].more)
      CT_ASSERT_INT(ct_tokenizer_find(t, of[i].more, (int64_t)strlen(of[i].more)), of[i].id);
    ct_tokenizer_close(t);
  }
}

/* "abc" is a token of the merge a, bc; but a, b merge first.  tiktoken finds the whole piece before
 * it merges; GPT-2's files have no such rule, and in tokenizer.json ignore_merges says so. */
static void merges_decide_without_a_rule_for_whole_pieces(void)
{
  const char *dir = ct_test_dir();
  char path[CT_PATH_MAX];
  ct_str_t vocab = {0};
  CT_ASSERT_OK(ct_str_add(&vocab, "{"));
  for (int b = 0, next = 256; b < 256; b++) {
    int plain = (b >= '!' && b <= '~') || (b >= 0xA1 && b != 0xAD);
    CT_ASSERT_OK(ct_str_add(&vocab, "\"\\u%04x\":%d,", plain ? b : next++, b));
  }
  CT_ASSERT_OK(ct_str_add(&vocab, "\"ab\":256,\"bc\":257,\"abc\":258,\"<|endoftext|>\":259}"));
  ct_test_put(dir, "vocab.json", vocab.data);
  ct_test_put(dir, "merges.txt", "#version: 0.2\na b\nb c\na bc\n");
  snprintf(path, sizeof path, "%s/vocab.json", dir);
  ct_tokenizer_t *t = opened(path);
  gives(t, "abc", 0, "256 99");
  CT_ASSERT_INT(ct_tokenizer_is_special(t, 258), 0);
  CT_ASSERT_INT(ct_tokenizer_is_special(t, 259), 1);
  ct_tokenizer_close(t);
  ct_str_clear(&vocab);
}

/* ---- long words ---- */

static void a_long_word_takes_no_square_of_its_length(void)
{
  enum { LONG = 1 << 20 };
  ct_tokenizer_t *t = opened(golden("gpt2:small.tiktoken"));
  char *text = ct_mem_alloc(LONG, "text");
  ct_tokens_t ids = {0};
  ct_token_text_t back = {0};
  for (int i = 0; i < LONG; i++)
    text[i] = i < LONG / 2 ? 'e' : "the"[i % 3];
  CT_ASSERT_OK(ct_tokenizer_encode(t, text, LONG, 0, NULL, &ids));
  CT_ASSERT_OK(ct_tokenizer_decode(t, ids.id, ids.n, &back));
  CU_ASSERT(ids.n < LONG && back.n == LONG && memcmp(back.data, text, LONG) == 0);
  ct_token_text_clear(&back);
  ct_tokens_clear(&ids);
  ct_mem_free(text);
  ct_tokenizer_close(t);
}

/* ---- bytes and lists ---- */

static void bytes_are_ids(void)
{
  ct_tokenizer_t *t = opened("bytes");
  CT_ASSERT_INT(ct_tokenizer_vocab(t), 257);
  CT_ASSERT_INT(ct_tokenizer_eot(t), 256);
  has_ids(t, "A\0\xff", 3, 0, "65 0 255");
  gives(t, "a<|endoftext|>", 0, "97 60 124 101 110 100 111 102 116 101 120 116 124 62");
  gives(t, "a<|endoftext|>b<|endoftext", CT_TOKEN_SPECIAL,
        "97 256 98 60 124 101 110 100 111 102 116 101 120 116");
  ct_tokenizer_close(t);
}

static void lists_match_the_longest_token(void)
{
  ct_tokenizer_t *t = opened("residues");
  CT_ASSERT_INT(ct_tokenizer_vocab(t), 33);
  gives(t, "MKV\nLJJ<mask>", 0, "20 15 7 4 3");
  gives(t, "M<mask>", CT_TOKEN_SPECIAL, "20 32");
  CT_ASSERT_INT(ct_tokenizer_eot(t), 2);
  ct_tokenizer_close(t);
  t = opened("kmers:6");
  CT_ASSERT_INT(ct_tokenizer_vocab(t), 4107);
  gives(t, "AAAAATAAN", 0, "7 4102 4102 4106");
  ct_tokenizer_close(t);
  t = opened("codons");
  gives(t, "ATCGGAATG", 0, "12 66 13");
  ct_tokenizer_close(t);
}

static void lists_without_unknown_token_fail_there(void)
{
  const char *dir = ct_test_dir();
  char path[CT_PATH_MAX];
  ct_tokens_t ids = {0};
  ct_test_put(dir, "list.txt", "A\r\nAB\r\nABCD\r\n");
  snprintf(path, sizeof path, "%s/list.txt", dir);
  ct_tokenizer_t *t = opened(path);
  gives(t, "ABA ABCDAB", 0, "1 0 2 1");
  CT_ASSERT_FAILS(ct_tokenizer_encode(t, "ABA\nABC", 7, 0, NULL, &ids), CT_ERR_DATA,
                  "at byte 6 ('C'), and it has no <unk>");
  ct_tokens_clear(&ids);
  ct_tokenizer_close(t);
}

static void lists_in_memory_may_have_line_ends(void)
{
  static const char *const token[] = {"\n", " ", NULL, "a", "ab"};
  static const int64_t bytes[] = {1, 1, 0, 1, 2};
  ct_tokenizer_t *t, *again;
  char *blob;
  int64_t n;
  CT_ASSERT_OK(ct_tokenizer_open_list(token, bytes, 5, &t));
  CT_ASSERT_OK(ct_tokenizer_blob(t, &blob, &n));
  CT_ASSERT_OK(ct_tokenizer_open_blob(blob, n, "blob", &again));
  gives(again, "ab a\na", 0, "4 1 3 0 3");
  CU_ASSERT(ct_tokenizer_token(again, 2, &n) == NULL);
  CT_ASSERT_INT(ct_tokenizer_eot(again), -1);
  ct_tokenizer_close(t);
  ct_tokenizer_close(again);
  ct_mem_free(blob);
}

/* ---- decoding ---- */

static void characters_are_printed_when_they_are_complete(void)
{
  static const int32_t id[] = {'x', 0xF0, 0x9F, 0x99, 0x82, 0xF0, 0xFF, 0xED, 0xA0, 0xC3};
  static const int64_t ready[] = {1, 1, 1, 1, 5, 5, 7, 7, 9, 9};
  ct_tokenizer_t *t = opened("bytes");
  ct_token_text_t text = {0};
  for (int i = 0; i < 10; i++) {
    CT_ASSERT_OK(ct_tokenizer_decode(t, id + i, 1, &text));
    CT_ASSERT_INT(ct_token_text_ready(&text), ready[i]);
  }
  ct_token_text_drop(&text, 7);
  CT_ASSERT_INT(text.n, 3);
  CU_ASSERT(memcmp(text.data, "\xed\xa0\xc3", 3) == 0);
  CT_ASSERT_FAILS(ct_tokenizer_decode(t, (const int32_t[]){257}, 1, &text), CT_ERR_DATA,
                  "no token of bytes has the id 257");
  CT_ASSERT_FAILS(ct_tokenizer_decode(t, (const int32_t[]){-1}, 1, &text), CT_ERR_DATA, "id -1");
  ct_token_text_clear(&text);
  ct_tokenizer_close(t);
}

/* ---- serialized ---- */

static void blobs_are_the_tokenizer(void)
{
  static const char *const specs[] = {"o200k:small.tiktoken", "vocab.json", "tokenizer.json"};
  for (int i = 0; i < 3; i++) {
    ct_tokenizer_t *a = opened(golden(specs[i])), *b;
    char *blob, *again, path[CT_PATH_MAX];
    int64_t n, m;
    CT_ASSERT_OK(ct_tokenizer_blob(a, &blob, &n));
    snprintf(path, sizeof path, "%s/tokenizer.blob", ct_test_dir());
    CT_ASSERT_OK(ct_file_write(path, blob, (size_t)n));
    *strrchr(path, '/') = 0;
    b = opened(path); /* the directory */
    CT_ASSERT_OK(ct_tokenizer_blob(b, &again, &m));
    CU_ASSERT(n == m && memcmp(blob, again, (size_t)n) == 0);
    CT_ASSERT_TEXT(ct_tokenizer_name(a), ct_tokenizer_name(b));
    CT_ASSERT_INT(ct_tokenizer_vocab(a), ct_tokenizer_vocab(b));
    ct_tokenizer_close(a);
    CT_ASSERT_FAILS(ct_tokenizer_open_blob(blob, n - 1, "run/tokenizer.blob", &a), CT_ERR_FORMAT,
                    "run/tokenizer.blob: ");
    ct_tokenizer_close(b);
    ct_mem_free(blob);
    ct_mem_free(again);
  }
}

/* ---- refusals ---- */

#define PLAIN "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
#define SPLIT(regex)                                                                             \
  "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":" \
  "{\"Regex\":\"" regex "\"},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":"             \
  "\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]},"

static void other_files_are_refused_by_name(void)
{
  static const struct {
    const char *file, *text, *why;
    int code;
  } of[] = {
      {"tokenizer.json", "{\"model\":{\"type\":\"Unigram\"}}", "its model is 'Unigram'",
       CT_ERR_UNSUP},
      {"tokenizer.json", "{" PLAIN "\"model\":{\"type\":\"BPE\",\"byte_fallback\":true}}",
       "model.byte_fallback is set", CT_ERR_UNSUP},
      {"tokenizer.json", "{\"normalizer\":{\"type\":\"NFC\"},\"model\":{\"type\":\"BPE\"}}",
       "a normalizer ('NFC')", CT_ERR_UNSUP},
      {"tokenizer.json", "{" SPLIT("a+") "\"model\":{\"type\":\"BPE\"}}", "splits by 'a+'",
       CT_ERR_UNSUP},
      {"tokenizer.json",
       "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true},\"model\":"
       "{\"type\":\"BPE\"}}",
       "add_prefix_space", CT_ERR_UNSUP},
      {"tokenizer.json",
       "{\"pre_tokenizer\":{\"type\":\"Whitespace\"},\"model\":{\"type\":\"BPE\"}}",
       "pre_tokenizer is not ByteLevel", CT_ERR_UNSUP},
      {"tokenizer.json",
       "{" PLAIN "\"model\": {\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}",
       "no token for the byte 0x00", CT_ERR_FORMAT},
      {"tokenizer.model", "\n\x0e\n\x05<unk>\x15\x01\x01\x01\x01\x18\x02", "a SentencePiece model",
       CT_ERR_UNSUP},
      {"x.tiktoken", "IQ== 0\nIg== 1\n", "2 ranks are none of the published", CT_ERR_USAGE},
      {"x.tiktoken", "IQ== 0\nIg==\n", ":2: expected a token in base64", CT_ERR_FORMAT},
      {"vocab.json", "{\"a\": 0}", "merges.txt", CT_ERR_IO},
      {"list.txt", "A\nB\nA\n", ":3: the token: it occurs twice", CT_ERR_FORMAT},
      {"list.txt", "A\n\nB\n", ":2: the token: it is empty", CT_ERR_FORMAT},
      {"list.txt", "", "the file is empty", CT_ERR_FORMAT},
  };
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    const char *dir = ct_test_dir();
    char path[CT_PATH_MAX];
    ct_tokenizer_t *t;
    ct_test_put(dir, of[i].file, of[i].text);
    snprintf(path, sizeof path, "%s/%s", dir, of[i].file);
    CT_ASSERT_FAILS(ct_tokenizer_open(path, &t), of[i].code, of[i].why);
    CT_ASSERT_HAS(ct_err_last()->text, dir);
    CU_ASSERT(t == NULL);
  }
  ct_tokenizer_t *t;
  CT_ASSERT_FAILS(ct_tokenizer_open("kmers:9", &t), CT_ERR_USAGE, "K from 1 to 8");
  CT_ASSERT_FAILS(ct_tokenizer_open("residue", &t), CT_ERR_IO, "expected bytes, residues, codons");
  CT_ASSERT_FAILS(ct_tokenizer_open(ct_test_dir(), &t), CT_ERR_IO,
                  "no tokenizer in this directory");
}

static void no_memory_is_an_error(void)
{
  static const char *const specs[] = {"bytes", "residues", "llama3:small.tiktoken", "vocab.json",
                                      "tokenizer.json"};
  for (int i = 0; i < 5; i++) {
    const char *spec = i < 2 ? specs[i] : golden(specs[i]);
    int64_t live = ct_mem_live();
    int rc = CT_ERR_NOMEM;
    for (int64_t at = 1; rc == CT_ERR_NOMEM && at < 1000; at++) {
      ct_tokens_t ids = {0};
      ct_tokenizer_t *t;
      ct_mem_fail_at(at);
      rc = ct_tokenizer_open(spec, &t);
      if (rc == CT_OK) rc = ct_tokenizer_encode(t, "MKVabcde fg", 11, 0, NULL, &ids);
      ct_mem_fail_at(0);
      ct_tokens_clear(&ids);
      ct_tokenizer_close(t);
      CT_ASSERT_INT(ct_mem_live(), live);
    }
    CT_ASSERT_INT(rc, CT_OK);
  }
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(ids_are_those_of_others),
                                    CT_TEST(published_files_have_their_special_tokens),
                                    CT_TEST(a_long_word_takes_no_square_of_its_length),
                                    CT_TEST(merges_decide_without_a_rule_for_whole_pieces),
                                    CT_TEST(bytes_are_ids),
                                    CT_TEST(lists_match_the_longest_token),
                                    CT_TEST(lists_without_unknown_token_fail_there),
                                    CT_TEST(lists_in_memory_may_have_line_ends),
                                    CT_TEST(characters_are_printed_when_they_are_complete),
                                    CT_TEST(blobs_are_the_tokenizer),
                                    CT_TEST(other_files_are_refused_by_name),
                                    CT_TEST(no_memory_is_an_error),
                                    CT_TEST_END};
  return ct_test_main("tokenizer", tests, argc, argv);
}
