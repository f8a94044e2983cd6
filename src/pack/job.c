/* Packing on all ranks.  In each round every rank writes one shard, then all agree on success, so
 * an error ends the job within the time of one shard. */
#include "pack/job.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_fault.h"
#include "base/ct_file.h"
#include "base/ct_hash.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "comm/ct_agree.h"
#include "comm/ct_mpi.h"
#include "data/ct_label_count.h"

enum { VERSION = 1 }; /* version of the written bytes; part of a shard's hash */

typedef struct job {
  const ct_topo_t *topo;
  const ct_pack_source_t *src;
  const ct_pack_job_t *o;
  int64_t classes;
  ct__pack_order_t order;
  ct__pack_files_t f;
  ct__pack_bad_t bad;
  int64_t *index; /**< samples of the shard that this rank is writing */
  int64_t count;
  int64_t position;      /**< position of its first sample */
  int64_t *bad_position; /**< its bad samples, as positions in index, and their number */
  int64_t bad_cap, bads;
  int64_t at; /**< samples of the shard that were read */
  ct__pack_progress_t progress;
} job_t;

/* ---- planning the shards ---- */

static uint64_t shard_hash(const job_t *j, const ct__pack_shard_t *s)
{
  uint64_t hash = ct__pack_order_hash(j->src, j->o);
  const int64_t rest[] = {VERSION,         s->first,       s->samples,
                          j->o->deflate,   j->classes,     j->src->encoded,
                          j->src->targets, j->src->x.ndim, j->src->x.dtype};
  hash = ct_hash(rest, sizeof rest, hash);
  /* an existing file is from this job only if no file existed when the job began */
  if (j->o->force) hash = ct_hash_int(1, hash);
  return ct_hash(j->src->x.dim, sizeof j->src->x.dim, hash);
}

/* Divides \a samples from \a first on into so many shards, which begin with shard \a at. */
static void deal(job_t *j, int at, int shards, int64_t first, int64_t samples)
{
  for (int i = 0; i < shards; i++) {
    ct__pack_shard_t *s = &j->f.shard[at + i];
    s->samples = ct_sampler_cut(samples, i, shards, &s->first);
    s->first += first;
    s->hash = shard_hash(j, s);
  }
}

static int check_shards(int64_t shards, int64_t samples)
{
  int rc = CT_OK;
  if (shards < 1 || shards > samples)
    CT_FAIL(CT_ERR_USAGE, "%" PRId64 " shards for %" PRId64 " samples: expected 1 to %" PRId64,
            shards, samples, samples);
out:
  return rc;
}

static int make_shards(job_t *j)
{
  int rc = CT_OK;
  const ct_pack_job_t *o = j->o;
  int64_t all = j->order.samples, part = all;
  if (o->split > 0) part = (int64_t)((double)all * o->split + 0.5);
  if (o->split > 0 && (part < 1 || part >= all))
    CT_FAIL(CT_ERR_USAGE, "pack: --split %g of %" PRId64 " samples leaves one part empty", o->split,
            all);
  CT_TRY(check_shards(o->shards, part));
  if (part < all) CT_TRY(check_shards(o->rest_shards, all - part));
  int rests = part < all ? o->rest_shards : 0;
  CT_TRY(ct__pack_files_new(&j->f, j->topo, o, rests));
  deal(j, 0, o->shards, 0, part);
  deal(j, o->shards, rests, part, all - part);
out:
  return rc;
}

/* Renumbers labels from the first class of --only. */
static int count_classes(job_t *j)
{
  int rc = CT_OK;
  int64_t have = j->src->classes;
  if (j->o->only_last > 0)
    have = (have < j->o->only_last ? have : j->o->only_last) - j->o->only_first;
  if (j->o->classes && j->o->classes < have)
    CT_FAIL(CT_ERR_USAGE, "pack: --classes is %" PRId64 ", but the highest label is %" PRId64,
            j->o->classes, have - 1);
  j->classes = j->o->classes ? j->o->classes : have;
out:
  return rc;
}

/* Warns of suspicious class numbers.  Class names have no gaps, and a part of a data set may have
 * them intentionally. */
static int look_at_labels(const job_t *j)
{
  int rc = CT_OK;
  ct_label_count_t count = {0};
  const ct_pack_source_t *src = j->src;
  int is_part = j->o->only_last > 0 || j->o->first > 0 || j->o->last < src->samples;
  if (!src->label || src->class_names || j->o->classes || is_part) return CT_OK;
  for (int64_t i = 0; i < src->samples; i++) {
    int32_t label = src->label(src->state, i);
    if (label >= 0) CT_TRY(ct_label_count_add(&count, label));
  }
  ct_label_count_warn(&count, src->inputs[0]);
out:
  ct_label_count_clear(&count);
  return rc;
}

static int plan(job_t *j)
{
  int rc = CT_OK;
  if (j->src->samples < 1) CT_FAIL(CT_ERR_ARG, "no samples to write");
  if (j->o->deflate < 0 || j->o->deflate > 9)
    CT_FAIL(CT_ERR_USAGE, "deflate level %d: expected 0 (none) to 9", j->o->deflate);
  CT_TRY(ct__pack_order_open(j->src, j->o, &j->order));
  CT_TRY(count_classes(j));
  CT_TRY(look_at_labels(j));
  CT_TRY(make_shards(j));
  CT_TRY(ct__pack_names_check(j->src->inputs, j->f.shard, j->f.n));
out:
  return rc;
}

/* ---- one shard ---- */

static int job_progress(void *of)
{
  job_t *j = of;
  j->at++;
  ct__pack_progress(&j->progress, j->topo, 1);
  return ct_fault("pack.sample");
}

static int take_bad(void *of, int64_t index)
{
  int rc = CT_OK;
  job_t *j = of;
  char place[CT_PATH_MAX];
  j->src->place(j->src->state, index, place, sizeof place);
  CT_TRY(ct__pack_bad_add(&j->bad, j->position + j->at, place));
  CT_TRY(ct_mem_grow((void **)&j->bad_position, &j->bad_cap, j->bads + 1, sizeof(int64_t)));
  j->bad_position[j->bads++] = j->at;
out:
  return rc;
}

static void leave_out_bad(job_t *j)
{
  int64_t kept = 0;
  for (int64_t i = 0, b = 0; i < j->count; i++) {
    if (b < j->bads && j->bad_position[b] == i)
      b++;
    else
      j->index[kept++] = j->index[i];
  }
  j->count = kept;
}

static int write_once(job_t *j, const char *path, int64_t *bad)
{
  ct_pack_shard_t w = {.path = path,
                       .index = j->index,
                       .samples = j->count,
                       .chunk = j->order.samples / j->f.n > 0 ? j->order.samples / j->f.n : 1,
                       .deflate = j->o->deflate,
                       .classes = j->classes,
                       .first_class = (int32_t)j->o->only_first,
                       .progress = job_progress,
                       .bad = take_bad,
                       .of = j};
  j->at = 0;
  return ct_pack_write_shard(j->src, &w, bad);
}

/* Writes a file with bad samples again, without them, unless bad samples are an error. */
static int write_shard(void *of, ct__pack_shard_t *s)
{
  int rc = CT_OK;
  job_t *j = of;
  int64_t bad, again;
  char path[CT_PATH_MAX], done[CT_PATH_MAX];
  CT_TRY(ct__pack_name_tmp(s, path, sizeof path));
  j->index = ct_mem_array(s->samples, sizeof *j->index, "numbers of samples");
  if (!j->index) CT_TRY(CT_ERR_NOMEM);
  j->count = s->samples;
  j->position = s->first;
  j->bads = 0;
  ct__pack_order_fill(&j->order, s->first, s->samples, j->index);
  CT_TRY(write_once(j, path, &bad));
  if (bad && !j->o->skip_bad) goto out;
  if (bad) {
    leave_out_bad(j);
    CT_TRY(write_once(j, path, &again));
    if (again)
      CT_FAIL(CT_ERR_DATA, "%s: its samples change while they are packed: %s", path,
              j->bad.text.data);
  }
  s->bad = bad;
  CT_TRY(ct__pack_name_done(s, done, sizeof done));
  CT_TRY(ct_file_commit(path, done));
out:
  ct_mem_free(j->index);
  j->index = NULL;
  return rc;
}

/* ---- all ---- */

static int write_all(job_t *j)
{
  ct__pack_progress_begin(&j->progress, &j->f, 0);
  return ct__pack_files_write(&j->f, write_shard, j);
}

/* Collective.  Lists the bad samples found before an image of another size, which ends the job. */
static void tell_bad_so_far(job_t *j)
{
  ct_err_info_t why = *ct_err_last();
  int64_t bad;
  ct__pack_bad_tell(j->topo, &j->bad, 1, &bad);
  ct_err_put(&why);
}

static int job_finish(job_t *j, ct_pack_result_t *out)
{
  int rc = CT_OK;
  int64_t bad;
  CT_TRY(ct__pack_bad_tell(j->topo, &j->bad, !j->o->skip_bad, &bad));
  if (bad && !j->o->skip_bad)
    CT_FAIL(CT_ERR_DATA,
            "%" PRId64 " of %" PRId64 " samples cannot be read (see above): nothing is written; "
            "--skip-bad leaves them out",
            bad, j->order.samples);
  ct__pack_files_share(&j->f);
  out->shards = j->f.n;
  out->classes = j->classes;
  for (int i = 0; i < j->f.n; i++) {
    *(i < j->o->shards ? &out->samples : &out->rest) += j->f.shard[i].samples - j->f.shard[i].bad;
    out->bad += j->f.shard[i].bad;
  }
  if (out->samples < 1) CT_FAIL(CT_ERR_DATA, "no sample can be read: nothing is written");
  CT_TRY_ALL(j->topo, j->topo->rank ? CT_OK : ct__pack_rename(j->f.shard, j->f.n));
out:
  return rc;
}

int ct_pack_run(const ct_topo_t *t, const ct_pack_source_t *src, const ct_pack_job_t *job,
                ct_pack_result_t *out)
{
  int rc = CT_OK, started = 0;
  job_t j = {.topo = t, .src = src, .o = job};
  *out = (ct_pack_result_t){0};
  CT_TRY_ALL(t, plan(&j));
  CT_TRY(ct_agree_same(t, "what is packed", j.f.shard[0].hash));
  CT_TRY(ct__pack_files_begin(&j.f, job->force, &out->kept));
  started = 1;
  rc = write_all(&j);
  if (rc == CT_ERR_SHAPE) tell_bad_so_far(&j);
  CT_TRY(rc);
  CT_TRY(job_finish(&j, out));
out:
  if (rc != CT_OK && started) ct__pack_files_abort(&j.f);
  ct__pack_files_close(&j.f);
  ct__pack_order_close(&j.order);
  ct_str_clear(&j.bad.text);
  ct_mem_free(j.bad_position);
  return rc;
}
