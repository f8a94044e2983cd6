/* `pack --tokens`: shards of tokens from text or from ids of other programs. */
#include <inttypes.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "commands/pack.h"
#include "comm/ct_agree.h"
#include "pack/ct_pack_tokens.h"

static const char *const token_flags[] = {"tokenizer", "format", "text-key",  "eot",
                                          "eot-id",    "vocab",  "token-bits"};
enum { TOKEN_FLAGS = sizeof token_flags / sizeof *token_flags };

int ct__pack_no_tokens(const ct_args_t *a)
{
  int rc = CT_OK;
  for (int i = 0; i < TOKEN_FLAGS; i++)
    if (ct_args_get(a, token_flags[i]))
      CT_FAIL(CT_ERR_USAGE, "pack: --%s is for --tokens", token_flags[i]);
  if (a->rests)
    CT_FAIL(CT_ERR_USAGE, "pack: '%s' belongs to no option: only --tokens takes several sources",
            a->rest[0]);
out:
  return rc;
}

/* Refuses options of samples. */
static int only_tokens(const ct_args_t *a)
{
  static const char *const with[] = {"tokens", "split", "rest",  "rest-shards",
                                     "output", "force", "shards"};
  int rc = CT_OK;
  for (int i = 0; a->cmd->flags[i].name; i++) {
    const char *name = a->cmd->flags[i].name;
    int known = 0;
    for (size_t k = 0; k < sizeof with / sizeof *with; k++)
      known |= strcmp(with[k], name) == 0;
    for (int k = 0; k < TOKEN_FLAGS; k++)
      known |= strcmp(token_flags[k], name) == 0;
    if (!known && ct_args_get(a, name))
      CT_FAIL(CT_ERR_USAGE, "pack: --%s is not for --tokens", name);
  }
out:
  return rc;
}

/* Reads an option that is one of some words; *out: its index, or 0. */
static int read_word(const ct_args_t *a, const char *option, const char *const *word, int words,
                     int *out)
{
  int rc = CT_OK, i = 0;
  const char *text = ct_args_get(a, option);
  *out = 0;
  if (!text) return CT_OK;
  while (i < words && strcmp(text, word[i]) != 0)
    i++;
  if (i == words)
    CT_FAIL(CT_ERR_USAGE, "pack: --%s: expected %s, %s, %s%s%s, not '%s'", option, word[0], word[1],
            word[2], words > 4 ? ", text or " : " or ", word[words - 1], text);
  *out = i;
out:
  return rc;
}

static int read_options(const ct_args_t *a, ct_pack_tokens_t *o)
{
  static const char *const kinds[] = {"auto", "text", "jsonl", "fasta", "bin"};
  static const char *const places[] = {"auto", "before", "after", "none"};
  int rc = CT_OK, kind, eot;
  int64_t bits;
  const char *key = ct_args_get(a, "text-key");
  *o = (ct_pack_tokens_t){.tokenizer = ct_args_get(a, "tokenizer"), .text_key = key ? key : "text"};
  CT_TRY(only_tokens(a));
  CT_TRY(read_word(a, "format", kinds, 5, &kind));
  CT_TRY(read_word(a, "eot", places, 4, &eot));
  CT_TRY(ct_args_int(a, "token-bits", 0, 16, 32, &bits));
  CT_TRY(ct_args_int(a, "vocab", 0, 1, INT32_MAX, &o->vocab));
  CT_TRY(ct_args_int(a, "eot-id", -1, 0, INT32_MAX, &o->eot_id));
  if (bits && bits != 16 && bits != 32)
    CT_FAIL(CT_ERR_USAGE, "pack: --token-bits must be 16 or 32, not %" PRId64, bits);
  o->kind = (ct_tokens_kind_t)kind;
  o->eot = (ct_tokens_eot_t)eot;
  o->bits = (int)bits;
out:
  return rc;
}

static int tell_tokens(const ct_tokens_result_t *r, const ct_pack_job_t *job)
{
  int rc = CT_OK;
  ct_str_t text = {0};
  CT_TRY(ct_str_add(
      &text, "%" PRId64 " token%s (uint%d, vocabulary of %" PRId64 "%s%s) in %d file%s: %s\n",
      r->tokens, r->tokens == 1 ? "" : "s", r->bits, r->vocab, *r->tokenizer ? ", " : "",
      r->tokenizer, job->shards, job->shards == 1 ? "" : "s", job->output));
  if (job->split > 0)
    CT_TRY(ct_str_add(&text, "%" PRId64 " token%s in %d file%s: %s\n", r->rest,
                      r->rest == 1 ? "" : "s", job->rest_shards, job->rest_shards == 1 ? "" : "s",
                      job->rest));
  CT_TRY(ct_app_print(text.data));
out:
  ct_str_clear(&text);
  return rc;
}

int ct__pack_tokens(const ct_args_t *a, const ct_topo_t *topo)
{
  int rc = CT_OK;
  ct_pack_job_t job;
  ct_pack_tokens_t o = {0};
  ct_tokens_result_t result;
  const char **source = ct_mem_array(a->rests + 1, sizeof *source, "sources");
  CT_TRY_ALL(topo, source ? CT_OK : CT_ERR_NOMEM);
  CT_TRY_ALL(topo, read_options(a, &o));
  CT_TRY_ALL(topo, ct__pack_job_options(a, &job));
  source[0] = ct_args_get(a, "tokens");
  for (int i = 0; i < a->rests; i++)
    source[i + 1] = a->rest[i];
  o.source = source;
  o.sources = a->rests + 1;
  CT_TRY(ct_pack_tokens_run(topo, &o, &job, &result));
  CT_TRY_ALL(topo, topo->rank ? CT_OK : tell_tokens(&result, &job));
out:
  ct_mem_free(source);
  return rc;
}
