/* The files of a packing job.  In each round every rank writes one shard, then all agree on
 * success, so an error ends the job within the time of one shard. */
#include <stdio.h>
#include <string.h>

#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_heartbeat.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "comm/ct_agree.h"
#include "comm/ct_mpi.h"
#include "pack/job.h"

int ct__pack_files_new(ct__pack_files_t *f, const ct_topo_t *t, const ct_pack_job_t *o, int rests)
{
  *f = (ct__pack_files_t){.topo = t, .n = o->shards + rests, .outputs = o->shards};
  f->shard = ct_mem_array(f->n, sizeof *f->shard, "shards");
  f->todo = ct_mem_array(f->n, sizeof *f->todo, "shards");
  if (!f->shard || !f->todo) return CT_ERR_NOMEM;
  for (int i = 0; i < f->n; i++) {
    int is_rest = i >= o->shards;
    f->shard[i] = (ct__pack_shard_t){.pattern = is_rest ? o->rest : o->output,
                                     .number = is_rest ? i - o->shards : i,
                                     .of = is_rest ? rests : o->shards,
                                     .bad = -1};
  }
  return CT_OK;
}

static int lock_outputs(ct__pack_files_t *f, int force)
{
  int rc = CT_OK;
  CT_TRY(ct__pack_lock(&f->shard[0], &f->lock[0]));
  if (f->n > f->outputs) CT_TRY(ct__pack_lock(&f->shard[f->outputs], &f->lock[1]));
  CT_TRY(ct__pack_names_free(f->shard, f->n, force));
out:
  return rc;
}

int ct__pack_files_begin(ct__pack_files_t *f, int force, int *kept)
{
  int rc = CT_OK;
  int found = 0;
  const ct_topo_t *t = f->topo;
  const char *output = f->shard[0].pattern, *rest = f->shard[f->n - 1].pattern;
  CT_TRY_ALL(t, t->rank ? CT_OK : lock_outputs(f, force));
  /* rank 0 looks for the files, so that all ranks see the same ones */
  CT_TRY_ALL(t, t->rank ? CT_OK : ct__pack_find_done(f->shard, f->n, 1, &found));
  if (t->size > 1) ct_mpi_bcast(t, t->world, f->shard, (size_t)f->n * sizeof *f->shard, 0);
  for (int i = 0; i < f->n; i++) { /* pointers of rank 0 are not valid here */
    f->shard[i].pattern = i < f->outputs ? output : rest;
    if (f->shard[i].bad < 0) f->todo[f->todos++] = i;
  }
  *kept = f->n - f->todos;
  if (*kept)
    ct_log(CT_LOG_INFO, "%d of %d files are there, from a run that was interrupted", *kept, f->n);
out:
  return rc;
}

int ct__pack_files_write(ct__pack_files_t *f, int (*write)(void *of, ct__pack_shard_t *s), void *of)
{
  int rc = CT_OK;
  int size = f->topo->size, rank = f->topo->rank;
  if (f->n < size)
    ct_log(CT_LOG_WARN, "%d ranks write %d file%s: the others have nothing to do (--shards)", size,
           f->n, f->n == 1 ? "" : "s");
  for (int i = 0; i < f->todos; i += size) {
    ct_heartbeat_at("writing a shard", i + rank);
    CT_TRY_ALL(f->topo, i + rank < f->todos ? write(of, &f->shard[f->todo[i + rank]]) : CT_OK);
  }
out:
  ct_log_progress(NULL);
  return rc;
}

void ct__pack_files_share(const ct__pack_files_t *f)
{
  for (int i = 0; i < f->todos; i++) {
    ct__pack_shard_t *s = &f->shard[f->todo[i]];
    int64_t number = i % f->topo->size == f->topo->rank && s->bad > 0 ? s->bad : 0;
    ct_agree_sum(f->topo, &number, 1);
    s->bad = number;
  }
}

void ct__pack_files_abort(const ct__pack_files_t *f)
{
  ct_err_info_t why = *ct_err_last();
  int rank = f->topo->rank;
  for (int i = 0; i < f->n; i++) {
    int mine = !rank;
    for (int k = rank; k < f->todos && !mine; k += f->topo->size)
      mine = f->todo[k] == i;
    if (mine) ct__pack_remove(&f->shard[i], 1);
  }
  if (f->topo->size > 1) ct_mpi_barrier(f->topo, f->topo->world); /* no rank begins before */
  ct_err_put(&why);
}

void ct__pack_files_close(ct__pack_files_t *f)
{
  for (int i = 0; i < 2; i++)
    ct__pack_unlock(&f->lock[i]);
  ct_mem_free(f->shard);
  ct_mem_free(f->todo);
  *f = (ct__pack_files_t){0};
}

/* ---- progress ---- */

void ct__pack_progress_begin(ct__pack_progress_t *p, const ct__pack_files_t *f, int bytes)
{
  *p = (ct__pack_progress_t){.bytes = bytes, .begun_s = ct_clock()};
  p->told_s = p->begun_s;
  for (int i = f->topo->rank; i < f->todos; i += f->topo->size)
    p->total += f->shard[f->todo[i]].samples;
}

static void show(ct__pack_progress_t *p, const ct_topo_t *t, double now)
{
  char text[160], bar[31], rate[40], left[32];
  double speed = (double)p->done / (now - p->begun_s), part = (double)p->done / (double)p->total;
  memset(bar, '.', 30);
  memset(bar, '#', (size_t)(30 * part));
  bar[30] = 0;
  if (p->bytes)
    ct_text_bytes(speed * t->size, rate, sizeof rate);
  else
    snprintf(rate, sizeof rate, "%.0f samples", speed * t->size);
  snprintf(text, sizeof text, "pack [%s] %.0f %%  %s/s  %s left", bar, 100 * part, rate,
           ct_text_seconds((double)(p->total - p->done) / speed, left, sizeof left));
  if (now - p->told_s >= 60) { /* for logs without a terminal: a line a minute */
    ct_log(CT_LOG_INFO, "%s", text);
    p->told_s = now;
  }
  ct_log_progress(text);
  p->shown_s = now;
}

void ct__pack_progress(ct__pack_progress_t *p, const ct_topo_t *t, int64_t more)
{
  double now = ct_clock();
  p->done += more;
  ct_heartbeat_progress();
  if (t->rank == 0 && now - p->shown_s >= 0.1 && p->done > 0 && p->done <= p->total)
    show(p, t, now);
}
