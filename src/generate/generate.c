/* Batches of sequences: known tokens, then one token of each sequence at a time.  A sequence that
 * has ended stays in its batch until all have. */
#include "generate/ct_generate.h"

#include "base/ct_err.h"
#include "base/ct_mem.h"

typedef struct generating {
  ct_decoder_t *d;
  int n;
  const ct_generate_opts_t *o;
  ct_sequence_t *row; /* [n] */
  float *logits;      /* [n * vocab] */
  ct_candidate_t *candidate;
  ct_generate_take_t take;
  void *ctx;
} generating_t;

const char *ct_text_end_name(ct_text_end_t r)
{
  static const char *const names[] = {"none", "eot", "length", "context"};
  return names[r];
}

static int check_prompt(const generating_t *g, const ct_generated_t *s)
{
  int rc = CT_OK;
  int64_t vocab = ct_decoder_vocab(g->d);
  for (int64_t i = 0; i < s->prompt; i++)
    if (s->id[i] < 0 || s->id[i] >= vocab)
      CT_FAIL(CT_ERR_DATA,
              "prompt %lld: its token %lld is %d, but the model has the tokens 0 to %lld",
              (long long)s->number + 1, (long long)i + 1, (int)s->id[i], (long long)vocab - 1);
  if (s->prompt < 1) CT_FAIL(CT_ERR_DATA, "prompt %lld has no token", (long long)s->number + 1);
  if (s->prompt > g->o->context)
    CT_FAIL(CT_ERR_DATA, "prompt %lld has %lld tokens, but the model's context is %lld",
            (long long)s->number + 1, (long long)s->prompt, (long long)g->o->context);
out:
  return rc;
}

/* Sets the reason why a sequence gets no more tokens. */
static void set_stop(const generating_t *g, ct_generated_t *s)
{
  if (s->length > s->prompt && s->id[s->length - 1] == g->o->eot)
    s->stop = CT_END_EOT;
  else if (s->length - s->prompt >= g->o->tokens)
    s->stop = CT_END_LENGTH;
  else if (s->length >= g->o->context)
    s->stop = CT_END_CONTEXT;
}

/* Adds the next token to each of `count` sequences that have not ended; returns in *left how many
 * of them have not ended now. */
static int next_tokens(const generating_t *g, ct_generated_t *s, int count, int *left)
{
  int rc = CT_OK;
  int64_t vocab = ct_decoder_vocab(g->d);
  CT_TRY(ct_decoder_next(g->d, g->row, g->logits));
  *left = 0;
  for (int i = 0; i < count; i++) {
    if (s[i].stop) continue;
    s[i].id[s[i].length] = (int32_t)ct_sample(&g->o->sample, g->logits + i * vocab, vocab,
                                              s[i].number, s[i].length, g->candidate);
    g->row[i].length = ++s[i].length;
    set_stop(g, &s[i]);
    if (g->take) CT_TRY(g->take(g->ctx, &s[i]));
    *left += !s[i].stop;
  }
out:
  return rc;
}

static int generate_batch(const generating_t *g, ct_generated_t *s, int count)
{
  int rc = CT_OK, left = 0;
  for (int i = 0; i < g->n; i++)
    g->row[i] = (ct_sequence_t){0};
  for (int i = 0; i < count; i++) {
    CT_TRY(check_prompt(g, &s[i]));
    s[i].length = s[i].prompt;
    s[i].stop = CT_END_NONE;
    set_stop(g, &s[i]);
    left += !s[i].stop;
    g->row[i] = (ct_sequence_t){s[i].id, s[i].length};
  }
  if (left) CT_TRY(ct_decoder_begin(g->d, g->row));
  while (left)
    CT_TRY(next_tokens(g, s, count, &left));
out:
  return rc;
}

int ct_generate(ct_decoder_t *d, int n, const ct_generate_opts_t *o, ct_generated_t *s,
                int64_t count, ct_generate_take_t take, void *ctx)
{
  int rc = CT_OK;
  int64_t vocab = ct_decoder_vocab(d);
  generating_t g = {.d = d, .n = n, .o = o, .take = take, .ctx = ctx};
  g.row = ct_mem_array(n, sizeof *g.row, "sequences");
  g.logits = ct_mem_array(n * vocab, sizeof *g.logits, "logits");
  g.candidate = ct_mem_array(vocab, sizeof *g.candidate, "logits");
  CT_TRY(g.row && g.logits && g.candidate ? CT_OK : CT_ERR_NOMEM);
  for (int64_t at = 0; at < count; at += n)
    CT_TRY(generate_batch(&g, s + at, (int)(count - at < n ? count - at : n)));
out:
  ct_mem_free(g.row);
  ct_mem_free(g.logits);
  ct_mem_free(g.candidate);
  return rc;
}
