/* What is read of the data files is kept on the nodes' own disks: each rank opens the cache of its
 * node. */
#include "setup/ct_setup.h"
#include "base/ct_err.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "comm/ct_agree.h"

typedef struct paths {
  const char **v;
  int n;
} paths_t;

static int list_paths(const ct_dataset_t *d, paths_t *p, int64_t *cap)
{
  int rc = CT_OK;
  const char *path;
  for (int i = 0; d->ops && d->ops->keep_in && (path = d->ops->file(d->reader, i)); i++) {
    CT_TRY(ct_mem_grow((void **)&p->v, cap, p->n + 1, sizeof *p->v));
    p->v[p->n++] = path;
  }
out:
  return rc;
}

/* The environment of a node's first rank counts. */
static int find_dir(const ct_setup_t *s, char *dir, size_t cap)
{
  if (s->topo->local_rank != 0) return CT_OK;
  int rc = ct_stage_expand(s->cfg.data.cache_dir, dir, cap);
  return rc == CT_OK ? rc : ct_err_prefix(rc, "data.cache_dir: on %s: ", s->topo->host);
}

static int open_cache(ct_setup_t *s, const paths_t *p, const char *dir)
{
  int rc = ct_cache_open(dir, p->n, p->v, s->cfg.data.cache_keep, &s->cache);
  return rc == CT_OK ? rc : ct_err_prefix(rc, "data.cache_dir: ");
}

static void use(const ct_dataset_t *d, ct_cache_t *cache)
{
  if (d->ops && d->ops->keep_in) d->ops->keep_in(d->reader, cache);
}

int ct_setup_cache(ct_setup_t *s)
{
  int rc = CT_OK;
  int64_t cap = 0;
  paths_t p = {0};
  char dir[CT_PATH_MAX] = "";
  if (!*s->cfg.data.cache_dir) goto out;
  rc = list_paths(&s->data, &p, &cap);
  if (rc == CT_OK) rc = list_paths(&s->val, &p, &cap);
  for (int i = 0; s->set && rc == CT_OK && i < s->cfg.eval.sets.n; i++)
    rc = list_paths(&s->set[i], &p, &cap);
  CT_TRY_ALL(s->topo, rc);
  if (p.n == 0) {
    ct_log(CT_LOG_WARN, "data.cache_dir: there is nothing to keep, the data are not in HDF5");
    goto out;
  }
  CT_TRY_ALL(s->topo, find_dir(s, dir, sizeof dir));
  ct_agree_node(s->topo, dir, sizeof dir);
  CT_TRY_ALL(s->topo, open_cache(s, &p, dir));
  use(&s->data, s->cache);
  use(&s->val, s->cache);
  for (int i = 0; s->set && i < s->cfg.eval.sets.n; i++)
    use(&s->set[i], s->cache);
  ct_log(CT_LOG_INFO, "data.cache_dir: what is read of %d file%s is kept in %s", p.n,
         p.n == 1 ? "" : "s", ct_cache_dir(s->cache));
out:
  ct_mem_free(p.v);
  return rc;
}

void ct_setup_cache_close(ct_setup_t *s)
{
  int64_t missed, found;
  char taken[32], kept[32];
  if (!s->cache) return;
  ct_cache_counts(s->cache, &missed, &found);
  ct_log(CT_LOG_INFO, "data.cache_dir: this rank read %s of the files and %s of the cache",
         ct_text_bytes((double)missed, taken, sizeof taken),
         ct_text_bytes((double)found, kept, sizeof kept));
  ct_cache_close(s->cache);
  s->cache = NULL;
}
