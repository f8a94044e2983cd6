/* Data files on node-local disks: data.stage copies them before the first step, data.cache_dir
 * keeps data as it is read.  Every rank opens the cache of its node. */
#include <stdio.h>

#include "setup/ct_setup.h"
#include "base/ct_heartbeat.h"
#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "comm/ct_agree.h"

/* The files of all data sets; identical on all ranks. */
typedef struct sources {
  ct_cache_source_t *v;
  int n;
  int64_t cap;
} sources_t;

static int is_staged(const ct_setup_t *s)
{
  return *s->cfg.data.stage != '\0';
}

/* Returns data set i: training, validation, then eval.sets; NULL after the last. */
static ct_dataset_t *data_set(ct_setup_t *s, int i)
{
  if (i < 2) return i == 0 ? &s->data : &s->val;
  return s->set && i - 2 < s->cfg.eval.sets.n ? &s->set[i - 2] : NULL;
}

static int list_files(ct_setup_t *s, sources_t *f)
{
  int rc = CT_OK;
  const ct_dataset_t *d;
  const char *path;
  for (int k = 0; (d = data_set(s, k)); k++)
    for (int i = 0;
         d->ops && (is_staged(s) || d->ops->keep_in) && (path = d->ops->file(d->reader, i)); i++) {
      CT_TRY(ct_mem_grow((void **)&f->v, &f->cap, f->n + 1, sizeof *f->v));
      f->v[f->n++] = (ct_cache_source_t){.path = path};
    }
out:
  return rc;
}

/* Only rank 0 asks the file server for sizes and times; it broadcasts them. */
static int agree_on_files(const ct_topo_t *topo, sources_t *f)
{
  int rc = CT_OK;
  void *sent = f->v;
  size_t bytes = (size_t)f->n * sizeof *f->v;
  for (int i = 0; i < f->n && topo->rank == 0 && rc == CT_OK; i++)
    rc = ct_cache_stat(&f->v[i]);
  CT_TRY(ct_agree_bytes(topo, rc, &sent, &bytes));
  for (int i = 0; i < f->n && topo->rank != 0; i++) {
    const ct_cache_source_t *of_zero = (const ct_cache_source_t *)sent + i;
    f->v[i].bytes = of_zero->bytes;
    f->v[i].mtime_ns = of_zero->mtime_ns;
  }
out:
  if (sent != f->v) ct_mem_free(sent);
  return rc;
}

static int prefix(const ct_setup_t *s, int rc)
{
  return rc == CT_OK ? rc
                     : ct_err_prefix(rc, "%s: ", is_staged(s) ? "data.stage" : "data.cache_dir");
}

/* Expands the directory with the environment of the node's first rank. */
static int find_dir(const ct_setup_t *s, char *dir, size_t cap)
{
  int rc = CT_OK;
  const char *text = is_staged(s) ? s->cfg.data.stage : s->cfg.data.cache_dir;
  if (s->topo->local_rank != 0) return CT_OK;
  CT_TRY(ct_path_expand(text, dir, cap));
  if (dir[0] != '/')
    CT_FAIL(CT_ERR_USAGE, "'%s': expected an absolute path, such as $TMPDIR", text);
out:
  return rc == CT_OK ? rc : prefix(s, ct_err_prefix(rc, "on %s: ", s->topo->host));
}

/* On staging, the first rank of a node checks for enough disk space before any rank copies. */
static int open_cache(ct_setup_t *s, const sources_t *f, const char *dir)
{
  int rc = CT_OK, staged = is_staged(s);
  int keep = staged ? s->cfg.data.stage_keep : s->cfg.data.cache_keep;
  CT_TRY(ct_cache_open(dir, staged, f->v, f->n, keep, &s->cache));
  if (staged && s->topo->local_rank == 0) CT_TRY(ct_cache_check_space(s->cache, f->v, f->n));
out:
  return prefix(s, rc);
}

/* ---- data.stage ---- */

static int read_copies(ct_setup_t *s, const sources_t *f)
{
  int rc = CT_OK, n = 0;
  char copy[CT_PATH_MAX];
  const ct_dataset_t *d;
  for (int k = 0; (d = data_set(s, k)); k++)
    for (int i = 0; d->ops && d->ops->file(d->reader, i); i++) {
      CT_TRY(ct_cache_copy(s->cache, &f->v[n++], copy, sizeof copy));
      CT_TRY(d->ops->move(d->reader, i, copy));
    }
out:
  return rc;
}

/* Collective.  Logs how much was copied, and how fast. */
static int report(const ct_setup_t *s, const sources_t *f, double copied, double seconds)
{
  int rc = CT_OK;
  char size[32], rate[32], time[32], speed[100] = "all were there";
  double all = 0;
  int nodes = s->topo->nodes;
  for (int i = 0; i < f->n; i++)
    all += (double)f->v[i].bytes;
  CT_TRY(ct_agree_doubles(s->topo, &copied, 1, 0));
  CT_TRY(ct_agree_doubles(s->topo, &seconds, 1, 1));
  if (copied > 0)
    snprintf(speed, sizeof speed, "%s copied (%s/s on a node)",
             ct_text_bytes(copied, size, sizeof size),
             ct_text_bytes(copied / nodes / (seconds > 1e-3 ? seconds : 1e-3), rate, sizeof rate));
  ct_log(CT_LOG_INFO, "data.stage: %d file%s of %s on %d node%s, in %s: %s, and checked, in %s",
         f->n, f->n == 1 ? "" : "s", ct_text_bytes(all, size, sizeof size), nodes,
         nodes == 1 ? "" : "s", ct_cache_dir(s->cache), speed,
         ct_text_seconds(seconds, time, sizeof time));
out:
  return rc;
}

static int stage(ct_setup_t *s, const sources_t *f, double begin)
{
  int rc = CT_OK;
  int64_t copied = 0;
  ct_log(CT_LOG_INFO, "data.stage: %d file%s to %s on %d node%s", f->n, f->n == 1 ? "" : "s",
         s->cfg.data.stage, s->topo->nodes, s->topo->nodes == 1 ? "" : "s");
  ct_heartbeat_at("copying the data", -1);
  rc = ct_cache_fill(s->cache, f->v, f->n, s->topo->local_rank, s->topo->local_size, &copied);
  CT_TRY_ALL(s->topo, prefix(s, rc));
  CT_TRY(report(s, f, (double)copied, ct_clock() - begin));
  CT_TRY_ALL(s->topo, read_copies(s, f));
  s->data_s += ct_clock() - begin;
out:
  return rc;
}

/* ---- data.cache_dir ---- */

static void keep_what_is_read(ct_setup_t *s, const sources_t *f)
{
  const ct_dataset_t *d;
  for (int k = 0; (d = data_set(s, k)); k++)
    if (d->ops && d->ops->keep_in) d->ops->keep_in(d->reader, s->cache);
  ct_log(CT_LOG_INFO, "data.cache_dir: data read from %d file%s is kept in %s", f->n,
         f->n == 1 ? "" : "s", ct_cache_dir(s->cache));
}

int ct_setup_cache(ct_setup_t *s)
{
  int rc = CT_OK, staged = is_staged(s);
  double begin = ct_clock();
  sources_t f = {0};
  char dir[CT_PATH_MAX] = "";
  if (!staged && !*s->cfg.data.cache_dir) goto out;
  CT_TRY_ALL(s->topo, list_files(s, &f));
  if (staged && f.n == 0)
    ct_log(CT_LOG_INFO, "data.stage: there is nothing to copy, the data are synthetic");
  else if (f.n == 0)
    ct_log(CT_LOG_WARN, "data.cache_dir: there is nothing to keep, the data are not in HDF5");
  if (f.n == 0) goto out;
  if (staged) CT_TRY(agree_on_files(s->topo, &f));
  CT_TRY_ALL(s->topo, find_dir(s, dir, sizeof dir));
  ct_agree_node(s->topo, dir, sizeof dir);
  CT_TRY_ALL(s->topo, open_cache(s, &f, dir));
  if (staged)
    CT_TRY(stage(s, &f, begin));
  else
    keep_what_is_read(s, &f);
out:
  ct_mem_free(f.v);
  return rc;
}

void ct_setup_cache_close(ct_setup_t *s)
{
  int64_t missed, found;
  char taken[32], kept[32];
  if (!s->cache) return;
  ct_cache_counts(s->cache, &missed, &found);
  if (!is_staged(s))
    ct_log(CT_LOG_INFO, "data.cache_dir: this rank read %s from the files and %s from the cache",
           ct_text_bytes((double)missed, taken, sizeof taken),
           ct_text_bytes((double)found, kept, sizeof kept));
  ct_cache_close(s->cache);
  s->cache = NULL;
}
