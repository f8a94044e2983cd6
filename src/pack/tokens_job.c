/* Packing tokens on all ranks.  Rank 0 lists the inputs and opens the tokenizer, and sends both to
 * the other ranks.  All ranks search for the cuts between shards; then each shard is written by one
 * rank. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_hash.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "comm/ct_agree.h"
#include "pack/list.h"
#include "pack/tokens.h"

enum { VERSION = 1 }; /* version of the written bytes; part of a shard's hash */

typedef struct tokens_job {
  const ct_topo_t *topo;
  const ct_pack_tokens_t *o;
  const ct_pack_job_t *job;
  ct__tokens_input_t in;
  uint64_t tokenizer_hash;
  ct__pack_files_t f;
  ct__pack_progress_t progress;
} tokens_job_t;

/* ---- the inputs ---- */

/* Opens the tokenizer on rank 0: the given one, that of meta.pkl, or bytes; NULL for ids without
 * one. */
static int open_tokenizer(const ct_pack_tokens_t *o, ct__tokens_input_t *in)
{
  int is_ids = in->file[0].kind == CT_TOKENS_BIN;
  if (o->tokenizer) return ct_tokenizer_open(o->tokenizer, &in->tokenizer);
  if (!is_ids) return ct_tokenizer_open("bytes", &in->tokenizer);
  if (in->llmc || o->vocab > 0) return CT_OK;
  return ct__tokens_meta(ct__tokens_path(in, &in->file[0]), &in->tokenizer);
}

/* Decides on the vocabulary, the end-of-text token and its place. */
static int settle(const ct_pack_tokens_t *o, ct__tokens_input_t *in)
{
  int rc = CT_OK;
  const char *path = ct__tokens_path(in, &in->file[0]);
  if (in->unit == 1 && (o->vocab > 0 || o->bits))
    CT_FAIL(CT_ERR_USAGE, "pack: --vocab and --token-bits are for files of ids, not for %s", path);
  if (in->tokenizer) {
    in->vocab = ct_tokenizer_vocab(in->tokenizer);
    in->eot_id = ct_tokenizer_eot(in->tokenizer);
  }
  if (o->vocab > 0) in->vocab = o->vocab;
  if (o->eot_id >= 0) in->eot_id = o->eot_id;
  if (in->vocab < 1)
    CT_FAIL(CT_ERR_USAGE,
            "%s: how many tokens has its vocabulary? There is no header of llm.c and no meta.pkl "
            "beside it: give --vocab N or --tokenizer T",
            path);
  if (in->eot_id >= in->vocab)
    CT_FAIL(CT_ERR_USAGE,
            "pack: the end of a text is token %" PRId64
            ", expected one below the vocabulary of %" PRId64,
            in->eot_id, in->vocab);
  in->eot = o->eot;
  if (in->eot_id < 0 && (o->eot == CT_EOT_BEFORE || o->eot == CT_EOT_AFTER))
    CT_FAIL(CT_ERR_USAGE,
            "pack: --eot %s needs an end-of-text token, and the tokenizer has none: give --eot-id "
            "N, or --eot none",
            o->eot == CT_EOT_BEFORE ? "before" : "after");
  if (in->eot == CT_EOT_AUTO) in->eot = in->llmc ? CT_EOT_BEFORE : CT_EOT_AFTER;
  if (in->eot_id < 0) in->eot = CT_EOT_NONE;
out:
  return rc;
}

/* Local, on rank 0. */
static int list_inputs(tokens_job_t *j, char **blob, int64_t *bytes)
{
  int rc = CT_OK;
  CT_TRY(ct__tokens_list(j->o, &j->in));
  CT_TRY(open_tokenizer(j->o, &j->in));
  CT_TRY(settle(j->o, &j->in));
  if (j->in.tokenizer) CT_TRY(ct_tokenizer_blob(j->in.tokenizer, blob, bytes));
out:
  return rc;
}

/* Collective.  Sends what rank 0 has found to the other ranks. */
static int share_inputs(tokens_job_t *j, char **blob, int64_t *blob_bytes)
{
  int rc = CT_OK;
  ct__tokens_input_t head = j->in, *copy = &head;
  const ct_topo_t *t = j->topo;
  int64_t *bytes = blob_bytes;
  if (t->size == 1) return CT_OK;
  if (t->rank) copy = NULL, bytes = NULL;
  CT_TRY(ct__pack_share(t, CT_OK, (void **)&copy, 1, sizeof head));
  CT_TRY(ct__pack_share(t, CT_OK, (void **)&bytes, 1, sizeof *bytes));
  if (t->rank) {
    j->in = *copy;
    *blob_bytes = *bytes;
    ct_mem_free(copy);
    ct_mem_free(bytes);
    j->in.file = NULL;
    j->in.text = NULL;
    j->in.tokenizer = NULL;
  }
  CT_TRY(ct__pack_share(t, CT_OK, (void **)&j->in.file, j->in.n, sizeof *j->in.file));
  CT_TRY(ct__pack_share(t, CT_OK, (void **)&j->in.text, j->in.text_bytes, 1));
  if (*blob_bytes) CT_TRY(ct__pack_share(t, CT_OK, (void **)blob, *blob_bytes, 1));
out:
  return rc;
}

/* Ids with a tokenizer: how many bytes of text each of them is. */
static int measure_tokens(ct__tokens_input_t *in)
{
  int64_t bytes;
  if (in->unit == 1 || !in->tokenizer) return CT_OK;
  in->id_bytes = ct_mem_array(in->vocab, sizeof *in->id_bytes, "tokens");
  if (!in->id_bytes) return CT_ERR_NOMEM;
  for (int64_t i = 0; i < in->vocab; i++) {
    ct_tokenizer_token(in->tokenizer, (int32_t)i, &bytes);
    in->id_bytes[i] = ct_tokenizer_is_special(in->tokenizer, (int32_t)i) ? 0 : (int32_t)bytes;
  }
  return CT_OK;
}

/* Collective. */
static int open_inputs(tokens_job_t *j)
{
  int rc = CT_OK;
  char *blob = NULL;
  int64_t bytes = 0;
  CT_TRY_ALL(j->topo, j->topo->rank ? CT_OK : list_inputs(j, &blob, &bytes));
  CT_TRY(share_inputs(j, &blob, &bytes));
  j->in.text_key = j->o->text_key;
  if (bytes) j->tokenizer_hash = ct_hash(blob, (size_t)bytes, 0);
  if (bytes && j->topo->rank)
    rc = ct_tokenizer_open_blob(blob, bytes, "the tokenizer of rank 0", &j->in.tokenizer);
  CT_TRY_ALL(j->topo, rc == CT_OK ? measure_tokens(&j->in) : rc);
out:
  ct_mem_free(blob);
  return rc;
}

/* ---- the shards ---- */

static uint64_t token_hash(const tokens_job_t *j, const ct__pack_shard_t *s)
{
  const ct__tokens_input_t *in = &j->in;
  const int64_t numbers[] = {VERSION,   s->first,   s->samples, in->bytes,    in->unit,
                             in->vocab, in->eot_id, in->eot,    j->job->force};
  uint64_t hash = ct_hash(numbers, sizeof numbers, j->tokenizer_hash);
  hash = ct_hash(in->file, (size_t)in->n * sizeof *in->file, hash);
  return ct_hash_text(in->text_key, hash);
}

/* Writes the positions where shards begin by their shares; the last one is the end. */
static void share_out(const tokens_job_t *j, int64_t position[])
{
  int64_t unit = j->in.unit, all = j->in.bytes / unit, part = all;
  const ct_pack_job_t *o = j->job;
  if (o->split > 0) part = (int64_t)floor((double)all * o->split);
  for (int i = 0; i < j->f.n; i++) {
    int is_rest = i >= o->shards;
    ct_sampler_cut(is_rest ? all - part : part, is_rest ? i - o->shards : i,
                   is_rest ? o->rest_shards : o->shards, &position[i]);
    position[i] = (position[i] + (is_rest ? part : 0)) * unit;
  }
  position[j->f.n] = j->in.bytes;
}

/* Local.  Moves the positions of this rank to where documents begin, and sets the others to 0. */
static int move_cuts(const tokens_job_t *j, const int64_t share[], int64_t cut[])
{
  int rc = CT_OK;
  memset(cut, 0, (size_t)j->f.n * sizeof *cut);
  for (int i = j->topo->rank; i < j->f.n; i += j->topo->size)
    CT_TRY(ct__tokens_cut(&j->in, share[i], share[i + 1] - share[i], &cut[i]));
  cut[j->f.n] = j->in.bytes;
out:
  return rc;
}

static int set_shards(tokens_job_t *j, const int64_t cut[])
{
  int rc = CT_OK;
  for (int i = 0; i < j->f.n; i++) {
    ct__pack_shard_t *s = &j->f.shard[i];
    s->first = cut[i];
    s->samples = cut[i + 1] - cut[i];
    if (s->samples < 1)
      CT_FAIL(CT_ERR_USAGE,
              "pack: shard %d of '%s' would be empty: there are not enough documents, and lines of "
              "JSON, compressed files and short documents are not cut: give fewer --shards",
              s->number, s->pattern);
    s->hash = token_hash(j, s);
  }
out:
  return rc;
}

/* Local.  Checks the names; of very many inputs only the first ones are compared. */
static int check_names(const tokens_job_t *j)
{
  int rc = CT_OK;
  const ct__tokens_input_t *in = &j->in;
  const char **path = ct_mem_array(in->n + 1, sizeof *path, "names");
  if (!path) return CT_ERR_NOMEM;
  enum { MOST = 1000 };
  for (int64_t i = 0; i < in->n && i < MOST; i++)
    path[i] = ct__tokens_path(in, &in->file[i]);
  CT_TRY(ct__pack_names_check(path, j->f.shard, j->f.n));
out:
  ct_mem_free(path);
  return rc;
}

/* Collective. */
static int plan_shards(tokens_job_t *j)
{
  int rc = CT_OK;
  int64_t *share = NULL, *cut = NULL;
  CT_TRY_ALL(j->topo, ct__pack_files_new(&j->f, j->topo, j->job,
                                         j->job->split > 0 ? j->job->rest_shards : 0));
  share = ct_mem_array(j->f.n + 1, sizeof *share, "shards");
  cut = ct_mem_array(j->f.n + 1, sizeof *cut, "shards");
  CT_TRY_ALL(j->topo, share && cut ? CT_OK : CT_ERR_NOMEM);
  share_out(j, share);
  CT_TRY_ALL(j->topo, move_cuts(j, share, cut));
  ct_agree_sum(j->topo, cut, j->f.n);
  CT_TRY_ALL(j->topo, set_shards(j, cut));
  CT_TRY_ALL(j->topo, j->topo->rank ? CT_OK : check_names(j));
out:
  ct_mem_free(share);
  ct_mem_free(cut);
  return rc;
}

static void token_progress(void *of, int64_t bytes)
{
  tokens_job_t *j = of;
  ct__pack_progress(&j->progress, j->topo, bytes);
}

static int write_tokens(void *of, ct__pack_shard_t *s)
{
  int rc = CT_OK;
  tokens_job_t *j = of;
  char path[CT_PATH_MAX], done[CT_PATH_MAX];
  CT_TRY(ct__pack_name_tmp(s, path, sizeof path));
  CT_TRY(ct__tokens_write(&j->in, s, path, token_progress, j, &s->bad));
  CT_TRY(ct__pack_name_done(s, done, sizeof done));
  CT_TRY(ct_file_commit(path, done));
out:
  if (rc != CT_OK) s->bad = -1;
  return rc;
}

/* Collective. */
static int finish_tokens(tokens_job_t *j, ct_tokens_result_t *out)
{
  int rc = CT_OK;
  ct__pack_files_share(&j->f);
  out->vocab = j->in.vocab;
  out->bits = ct__tokens_bits(j->in.vocab);
  snprintf(out->tokenizer, sizeof out->tokenizer, "%s",
           j->in.tokenizer ? ct_tokenizer_name(j->in.tokenizer) : "");
  for (int i = 0; i < j->f.n; i++)
    *(i < j->f.outputs ? &out->tokens : &out->rest) += j->f.shard[i].bad;
  CT_TRY_ALL(j->topo, j->topo->rank ? CT_OK : ct__pack_rename(j->f.shard, j->f.n));
out:
  return rc;
}

int ct_pack_tokens_run(const ct_topo_t *t, const ct_pack_tokens_t *o, const ct_pack_job_t *job,
                       ct_tokens_result_t *out)
{
  int rc = CT_OK, started = 0;
  tokens_job_t j = {.topo = t, .o = o, .job = job};
  *out = (ct_tokens_result_t){0};
  CT_TRY(open_inputs(&j));
  CT_TRY(plan_shards(&j));
  CT_TRY(ct_agree_same(t, "what is packed", j.f.shard[0].hash));
  CT_TRY(ct__pack_files_begin(&j.f, job->force, &out->kept));
  started = 1;
  ct__pack_progress_begin(&j.progress, &j.f, 1);
  CT_TRY(ct__pack_files_write(&j.f, write_tokens, &j));
  CT_TRY(finish_tokens(&j, out));
out:
  if (rc != CT_OK && started) ct__pack_files_abort(&j.f);
  ct__pack_files_close(&j.f);
  ct_tokenizer_close(j.in.tokenizer);
  ct__tokens_input_clear(&j.in);
  return rc;
}
