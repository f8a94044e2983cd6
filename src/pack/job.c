/* Packing on all ranks.  In each round every rank writes one shard, then all agree on success, so
 * an error ends the job within the time of one shard. */
#include "pack/job.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/ct_heartbeat.h"
#include "base/ct_clock.h"
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
  ct__pack_shard_t *shard; /**< [n]: shards of the output, then of the rest */
  int n;
  int *todo; /**< [todos] shards that are not complete yet */
  int todos;
  ct__pack_lock_t lock[2]; /**< locks of the output and of the rest, held by rank 0 */
  ct__pack_bad_t bad;
  int64_t *index; /**< samples of the shard that this rank is writing */
  int64_t count;
  int64_t position;      /**< position of its first sample */
  int64_t *bad_position; /**< its bad samples, as positions in index, and their number */
  int64_t bad_cap, bads;
  int64_t at; /**< samples of the shard that were read */
  /* samples of this rank, for the progress bar */
  int64_t done, total;
  double begun_s, shown_s, told_s;
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

/* Divides \a samples from \a first on into so many shards of a pattern. */
static void deal(job_t *j, const char *pattern, int shards, int64_t first, int64_t samples)
{
  for (int i = 0; i < shards; i++) {
    ct__pack_shard_t *s = &j->shard[j->n++];
    *s = (ct__pack_shard_t){.pattern = pattern, .number = i, .of = shards, .bad = -1};
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
  int n = o->shards + (part < all ? o->rest_shards : 0);
  j->shard = ct_mem_array(n, sizeof *j->shard, "shards");
  j->todo = ct_mem_array(n, sizeof *j->todo, "shards");
  if (!j->shard || !j->todo) return CT_ERR_NOMEM;
  deal(j, o->output, o->shards, 0, part);
  if (part < all) deal(j, o->rest, o->rest_shards, part, all - part);
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
  CT_TRY(ct__pack_names_check(j->src, j->shard, j->n));
out:
  return rc;
}

static int lock_outputs(job_t *j)
{
  int rc = CT_OK;
  CT_TRY(ct__pack_lock(&j->shard[0], &j->lock[0]));
  if (j->n > j->o->shards) CT_TRY(ct__pack_lock(&j->shard[j->o->shards], &j->lock[1]));
  CT_TRY(ct__pack_names_free(j->shard, j->n, j->o->force));
out:
  return rc;
}

/* Collective.  Rank 0 looks for the files, so that all ranks see the same ones. */
static int find_done(job_t *j, int *kept)
{
  int rc = CT_OK;
  int found = 0;
  CT_TRY_ALL(j->topo, j->topo->rank ? CT_OK : ct__pack_find_done(j->shard, j->n, 1, &found));
  if (j->topo->size > 1)
    ct_mpi_bcast(j->topo, j->topo->world, j->shard, (size_t)j->n * sizeof *j->shard, 0);
  for (int i = 0; i < j->n; i++) { /* pointers of rank 0 are not valid here */
    j->shard[i].pattern = i < j->o->shards ? j->o->output : j->o->rest;
    if (j->shard[i].bad < 0) j->todo[j->todos++] = i;
  }
  *kept = j->n - j->todos;
  if (*kept)
    ct_log(CT_LOG_INFO, "%d of %d files are there, from a run that was interrupted", *kept, j->n);
out:
  return rc;
}

/* ---- one shard ---- */

static void job_show(job_t *j, double now)
{
  char text[160], bar[31], left[32];
  double speed = (double)j->done / (now - j->begun_s);
  int full = (int)(30 * j->done / (j->total > 0 ? j->total : 1));
  memset(bar, '.', 30);
  memset(bar, '#', (size_t)full);
  bar[30] = 0;
  snprintf(text, sizeof text, "pack [%s] %.0f %%  %.0f samples/s  %s left", bar,
           100 * (double)j->done / (double)j->total, speed * j->topo->size,
           ct_text_seconds((double)(j->total - j->done) / speed, left, sizeof left));
  if (now - j->told_s >= 60) { /* for logs without a terminal: a line a minute */
    ct_log(CT_LOG_INFO, "%s", text);
    j->told_s = now;
  }
  ct_log_progress(text);
  j->shown_s = now;
}

static int job_progress(void *of)
{
  job_t *j = of;
  double now = ct_clock();
  j->at++;
  j->done++;
  ct_heartbeat_progress();
  if (j->topo->rank == 0 && now - j->shown_s >= 0.1 && j->done <= j->total) job_show(j, now);
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
                       .chunk = j->order.samples / j->n > 0 ? j->order.samples / j->n : 1,
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
static int write_shard(job_t *j, ct__pack_shard_t *s)
{
  int rc = CT_OK;
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
  int rc = CT_OK;
  int size = j->topo->size, rank = j->topo->rank;
  if (j->n < size)
    ct_log(CT_LOG_WARN, "%d ranks write %d file%s: the others have nothing to do (--shards)", size,
           j->n, j->n == 1 ? "" : "s");
  for (int i = rank; i < j->todos; i += size)
    j->total += j->shard[j->todo[i]].samples;
  j->begun_s = j->told_s = ct_clock();
  for (int i = 0; i < j->todos; i += size) {
    ct_heartbeat_at("writing a shard", i + rank);
    CT_TRY_ALL(j->topo, i + rank < j->todos ? write_shard(j, &j->shard[j->todo[i + rank]]) : CT_OK);
  }
out:
  ct_log_progress(NULL);
  return rc;
}

/* Collective.  Sends to rank 0 the numbers of samples left out of each shard. */
static void share_bad(job_t *j)
{
  int64_t left_out;
  for (int i = 0; i < j->todos; i++) {
    ct__pack_shard_t *s = &j->shard[j->todo[i]];
    left_out = i % j->topo->size == j->topo->rank && s->bad > 0 ? s->bad : 0;
    ct_agree_sum(j->topo, &left_out, 1);
    s->bad = left_out;
  }
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
  share_bad(j);
  out->shards = j->n;
  out->classes = j->classes;
  for (int i = 0; i < j->n; i++) {
    *(i < j->o->shards ? &out->samples : &out->rest) += j->shard[i].samples - j->shard[i].bad;
    out->bad += j->shard[i].bad;
  }
  if (out->samples < 1) CT_FAIL(CT_ERR_DATA, "no sample can be read: nothing is written");
  CT_TRY_ALL(j->topo, j->topo->rank ? CT_OK : ct__pack_rename(j->shard, j->n));
out:
  return rc;
}

/* Collective.  Removes the completed shards: each rank its own, since no other rank knows them. */
static void clean_up(job_t *j)
{
  ct_err_info_t why = *ct_err_last();
  int rank = j->topo->rank;
  for (int i = 0; i < j->n; i++) {
    int mine = !rank;
    for (int k = rank; k < j->todos && !mine; k += j->topo->size)
      mine = j->todo[k] == i;
    if (mine) ct__pack_remove(&j->shard[i], 1);
  }
  if (j->topo->size > 1) ct_mpi_barrier(j->topo, j->topo->world); /* no rank begins before */
  ct_err_put(&why);
}

int ct_pack_run(const ct_topo_t *t, const ct_pack_source_t *src, const ct_pack_job_t *job,
                ct_pack_result_t *out)
{
  int rc = CT_OK, started = 0;
  job_t j = {.topo = t, .src = src, .o = job};
  *out = (ct_pack_result_t){0};
  CT_TRY_ALL(t, plan(&j));
  CT_TRY(ct_agree_same(t, "what is packed", j.shard[0].hash));
  CT_TRY_ALL(t, t->rank ? CT_OK : lock_outputs(&j));
  CT_TRY(find_done(&j, &out->kept));
  started = 1;
  rc = write_all(&j);
  if (rc == CT_ERR_SHAPE) tell_bad_so_far(&j);
  CT_TRY(rc);
  CT_TRY(job_finish(&j, out));
out:
  if (rc != CT_OK && started) clean_up(&j);
  for (int i = 0; i < 2; i++)
    ct__pack_unlock(&j.lock[i]);
  ct__pack_order_close(&j.order);
  ct_str_clear(&j.bad.text);
  ct_mem_free(j.bad_position);
  ct_mem_free(j.shard);
  ct_mem_free(j.todo);
  return rc;
}
