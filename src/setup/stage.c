/* Copies of the data on the nodes' own disks: one rank of a node makes them, all of it read them.
 */
#include <stdio.h>

#include "setup/ct_setup.h"
#include "base/ct_heartbeat.h"
#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "comm/ct_agree.h"

/* The files of both data sets; on every rank the same list. */
typedef struct files {
  ct_stage_file_t *v;
  int n;
} files_t;

static int list_files(const ct_dataset_t *d, files_t *f, int64_t *cap)
{
  int rc = CT_OK;
  const char *path;
  for (int i = 0; d->ops && (path = d->ops->file(d->reader, i)); i++) {
    CT_TRY(ct_mem_grow((void **)&f->v, cap, f->n + 1, sizeof *f->v));
    f->v[f->n++] = (ct_stage_file_t){.path = path};
  }
out:
  return rc;
}

static int list_all(const ct_setup_t *s, files_t *f)
{
  int rc = CT_OK;
  int64_t cap = 0;
  CT_TRY(list_files(&s->data, f, &cap));
  CT_TRY(list_files(&s->val, f, &cap));
  for (int i = 0; s->set && i < s->cfg.eval.sets.n; i++)
    CT_TRY(list_files(&s->set[i], f, &cap));
out:
  return rc;
}

/* Rank 0 looks at the files. */
static int agree_on_files(const ct_topo_t *topo, files_t *f)
{
  int rc = CT_OK;
  void *sent = f->v;
  size_t bytes = (size_t)f->n * sizeof *f->v;
  for (int i = 0; i < f->n && topo->rank == 0 && rc == CT_OK; i++)
    rc = ct_stage_look(&f->v[i]);
  CT_TRY(ct_agree_bytes(topo, rc, &sent, &bytes));
  for (int i = 0; i < f->n && topo->rank != 0; i++) {
    const ct_stage_file_t *of_zero = (const ct_stage_file_t *)sent + i;
    f->v[i].bytes = of_zero->bytes;
    f->v[i].mtime_ns = of_zero->mtime_ns;
  }
out:
  if (sent != f->v) ct_mem_free(sent);
  return rc;
}

/* The first rank of a node, whose environment counts. */
static int copy_files(ct_setup_t *s, const files_t *f, char *stage_dir, size_t cap)
{
  int rc = CT_OK;
  char dir[CT_PATH_MAX];
  if (s->topo->local_rank != 0) return CT_OK;
  ct_beat_at("copying the data", -1);
  rc = ct_stage_expand(s->cfg.data.stage, dir, sizeof dir);
  if (rc != CT_OK) CT_TRY(ct_err_prefix(rc, "on %s: ", s->topo->host));
  CT_TRY(ct_stage_open(dir, f->v, f->n, &s->stage));
  CT_TRY(ct_text_format(stage_dir, cap, "%s", ct_stage_dir(s->stage)));
out:
  return rc == CT_OK ? rc : ct_err_prefix(rc, "data.stage: ");
}

static int read_copies(ct_dataset_t *d, const char *stage_dir)
{
  int rc = CT_OK;
  char copy[CT_PATH_MAX];
  const char *path;
  for (int i = 0; d->ops && (path = d->ops->file(d->reader, i)); i++) {
    CT_TRY(ct_stage_path(stage_dir, path, copy, sizeof copy));
    CT_TRY(d->ops->move(d->reader, i, copy));
  }
out:
  return rc;
}

/* "12 GiB copied (1.1 GiB/s on a node)" */
static const char *speed(double copied, double seconds, int nodes, char *buf, size_t cap)
{
  char size[32], rate[32];
  if (seconds < 1e-3) seconds = 1e-3;
  snprintf(buf, cap, "%s copied (%s/s on a node)", ct_text_bytes(copied, size, sizeof size),
           ct_text_bytes(copied / nodes / seconds, rate, sizeof rate));
  if (copied == 0) snprintf(buf, cap, "all were there");
  return buf;
}

/* Collective. */
static int report(const ct_setup_t *s, const files_t *f, const char *stage_dir, double seconds)
{
  int rc = CT_OK;
  char size[32], told[100], time[32];
  double all = 0, copied = s->stage ? (double)ct_stage_copied(s->stage) : 0;
  int nodes = s->topo->nodes;
  for (int i = 0; i < f->n; i++)
    all += (double)f->v[i].bytes;
  CT_TRY(ct_agree_doubles(s->topo, &copied, 1, 0));
  CT_TRY(ct_agree_doubles(s->topo, &seconds, 1, 1));
  ct_log(CT_LOG_INFO, "data.stage: %d file%s of %s on %d node%s, in %s: %s, and checked, in %s",
         f->n, f->n == 1 ? "" : "s", ct_text_bytes(all, size, sizeof size), nodes,
         nodes == 1 ? "" : "s", stage_dir, speed(copied, seconds, nodes, told, sizeof told),
         ct_text_seconds(seconds, time, sizeof time));
out:
  return rc;
}

static int stage(ct_setup_t *s, files_t *f)
{
  int rc = CT_OK;
  double begin = ct_clock();
  char stage_dir[CT_PATH_MAX] = "";
  CT_TRY_ALL(s->topo, list_all(s, f));
  CT_TRY(agree_on_files(s->topo, f));
  if (f->n == 0) {
    ct_log(CT_LOG_INFO, "data.stage: there is nothing to copy, the data are made up");
    goto out;
  }
  ct_log(CT_LOG_INFO, "data.stage: %d file%s to %s on %d node%s", f->n, f->n == 1 ? "" : "s",
         s->cfg.data.stage, s->topo->nodes, s->topo->nodes == 1 ? "" : "s");
  CT_TRY_ALL(s->topo, copy_files(s, f, stage_dir, sizeof stage_dir));
  CT_TRY(report(s, f, stage_dir, ct_clock() - begin));
  ct_agree_node(s->topo, stage_dir, sizeof stage_dir);
  CT_TRY_ALL(s->topo, read_copies(&s->data, stage_dir));
  CT_TRY_ALL(s->topo, read_copies(&s->val, stage_dir));
  for (int i = 0; s->set && i < s->cfg.eval.sets.n; i++)
    CT_TRY_ALL(s->topo, read_copies(&s->set[i], stage_dir));
  s->data_s += ct_clock() - begin;
out:
  return rc;
}

int ct_setup_stage(ct_setup_t *s)
{
  files_t f = {0};
  int rc = *s->cfg.data.stage ? stage(s, &f) : CT_OK;
  ct_mem_free(f.v);
  return rc;
}
