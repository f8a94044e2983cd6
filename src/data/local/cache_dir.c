/* The directory of a cache: creating it, removing unused ones, and the state that all cached files
 * share. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_hash.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "data/local/cache.h"

#define PREFIX "ctrain-cache-"

void ct__cache_warn(ct_cache_t *c, const char *path, const char *why)
{
  if (atomic_exchange(&c->logged, 1)) return;
  ct_log_all(CT_LOG_WARN, "%s: %s: %s; missing samples are read from the data files", c->key, path,
             why);
}

ct__piece_t *ct__cache_take(ct_cache_t *c)
{
  pthread_mutex_lock(&c->lock);
  ct__piece_t *p = c->free;
  if (p) c->free = p->next;
  pthread_mutex_unlock(&c->lock);
  return p ? p : ct_mem_alloc(sizeof *p, "a piece of a file"); /* allocated once for each thread */
}

void ct__cache_give(ct_cache_t *c, ct__piece_t *p)
{
  if (!p) return;
  pthread_mutex_lock(&c->lock);
  p->next = c->free;
  c->free = p;
  pthread_mutex_unlock(&c->lock);
}

/* ---- removing caches of killed runs ---- */

/* Removes a cache that no process uses and that is not to be kept. */
static void remove_unused(const char *dir)
{
  struct stat st;
  char users[CT_PATH_MAX], kept[CT_PATH_MAX];
  if (ct_text_format(users, sizeof users, "%s/users", dir) != CT_OK ||
      ct_text_format(kept, sizeof kept, "%s/kept", dir) != CT_OK || lstat(dir, &st) != 0 ||
      !S_ISDIR(st.st_mode) || st.st_uid != geteuid() || ct_file_exists(kept))
    return;
  int fd = ct_file_open(users, O_RDWR, 0);
  if (fd < 0) return;
  if (ct__node_lock(fd, LOCK_EX | LOCK_NB) == 0 && !ct_file_exists(kept)) ct__node_remove(dir, fd);
  close(fd);
}

static void remove_others(const char *dir, const char *ours)
{
  DIR *all = opendir(dir);
  const struct dirent *e;
  char path[CT_PATH_MAX];
  while (all && (e = readdir(all)))
    if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) == 0 &&
        ct_text_format(path, sizeof path, "%s/%s", dir, e->d_name) == CT_OK &&
        strcmp(path, ours) != 0)
      remove_unused(path);
  if (all) closedir(all);
}

/* ---- opening ---- */

static int name_dir(const char *dir, const ct_cache_source_t *files, int n, char *out, size_t cap)
{
  uint64_t h = ct_hash_int((int64_t)geteuid(), 0);
  for (int i = 0; i < n; i++)
    h = ct_hash_int(files[i].mtime_ns, ct_hash_int(files[i].bytes, ct_hash_text(files[i].path, h)));
  return ct_text_format(out, cap, "%s/" PREFIX "%016" PRIx64, dir, h);
}

/* Marks the cache so that other runs do not remove it, even if this one is killed. */
static int mark_kept(const ct_cache_t *c)
{
  int rc = CT_OK, fd;
  if (!c->keep) return CT_OK;
  CT_TRY(ct__node_open_lock(c->at.dir, "kept", c->key, &fd));
  if (fd >= 0) close(fd);
out:
  return rc;
}

int ct_cache_open(const char *dir, int staged, const ct_cache_source_t *files, int n, int keep,
                  ct_cache_t **out)
{
  int rc = CT_OK;
  ct_cache_t *c = ct_mem_alloc(sizeof *c, "the cache of files");
  *out = NULL;
  if (!c) return CT_ERR_NOMEM;
  pthread_mutex_init(&c->lock, NULL);
  c->at.users = -1;
  c->keep = keep;
  c->staged = staged;
  c->key = staged ? "data.stage" : "data.cache_dir";
  c->spare = staged ? 16 << 20 : 64 << 20;
  CT_TRY(ct_file_mkdirs(dir));
  CT_TRY(name_dir(dir, files, n, c->at.dir, sizeof c->at.dir));
  remove_others(dir, c->at.dir);
  CT_TRY(ct__node_join(&c->at, c->key));
  CT_TRY(mark_kept(c));
  *out = c;
  c = NULL;
out:
  ct_cache_close(c);
  return rc;
}

const char *ct_cache_dir(const ct_cache_t *c)
{
  return c->at.dir;
}

void ct_cache_counts(const ct_cache_t *c, int64_t *missed, int64_t *found)
{
  *missed = atomic_load(&c->missed);
  *found = atomic_load(&c->found);
}

void ct_cache_close(ct_cache_t *c)
{
  if (!c) return;
  ct__node_leave(&c->at, c->keep);
  for (ct__piece_t *next, *p = c->free; p; p = next) {
    next = p->next;
    ct_mem_free(p);
  }
  pthread_mutex_destroy(&c->lock);
  ct_mem_free(c);
}
