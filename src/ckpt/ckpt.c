/* The checkpoint service of one rank: a background writer thread, and the files in a run's
 * checkpoint directory.
 *
 * A valid checkpoint is never removed before a newer one is complete: a crash, a full disk, or a
 * directory removed by somebody costs at most the checkpoint being written. */
#include "ckpt/ct_ckpt.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ct_heartbeat.h"
#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_fault.h"
#include "base/ct_file.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "base/ct_owner.h"
#include "host/ct_thread.h"
#include "ckpt/disk_space.h"

enum { NAME_CAP = sizeof((ct_ckpt_done_t *)0)->name };

struct ct_ckpt {
  char dir[CT_PATH_MAX];
  const ct_store_ops_t *ops;
  int64_t keep;
  int64_t best;  /**< step of the checkpoint that `best` names; -1: none */
  int mark_best; /**< 1: the next checkpoint is the best */

  /* the current write: set by save, used by the thread until it is joined */
  ct_ckpt_item_t *item; /**< owned list; the caller owns the data */
  ct_ckpt_text_t *text;
  int64_t item_cap, text_cap;
  int items, texts;
  int passed;        /**< 1: the items were put one by one, and are in the store */
  ct_store_t *store; /**< owned; the file that items are put into; NULL: none, or it failed */
  double begun;      /**< ct_clock() */
  ct_ckpt_done_t done;
  pthread_t thread;
  int started;         /**< 1: the thread must be joined */
  atomic_int finished; /**< 1: the thread has finished */
  int rc;              /**< its result ... */
  ct_err_info_t err;   /**< ... and error record */
};

/* ---- file names ---- */

static void make_name(char name[NAME_CAP], const ct_store_ops_t *ops, int64_t step)
{
  snprintf(name, NAME_CAP, "step-%08" PRId64 "%s", step, ops->format.suffixes[0]);
}

/* Returns the step of a name made by make_name(), followed by the suffix \a behind; -1 for any
 * other name. */
static int64_t step_of(const char *name, const ct_store_ops_t *ops, const char *behind)
{
  char again[NAME_CAP];
  int64_t step;
  if (sscanf(name, "step-%" SCNd64, &step) != 1 || step < 0) return -1;
  make_name(again, ops, step);
  size_t n = strlen(again);
  return strncmp(name, again, n) == 0 && strcmp(name + n, behind) == 0 ? step : -1;
}

static int descending(const void *a, const void *b)
{
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x < y) - (x > y);
}

/* Steps of all checkpoints in dir, newest first; free with ct_mem_free(). If dir is missing:
 * none. */
static int list_steps(const char *dir, const ct_store_ops_t *ops, int64_t **step, int *n)
{
  int rc = CT_OK;
  int64_t cap = 0;
  *step = NULL;
  *n = 0;
  DIR *d = opendir(dir);
  if (!d && errno == ENOENT) goto out;
  if (!d) CT_FAIL(CT_ERR_IO, "%s: the directory cannot be read: %s", dir, strerror(errno));
  for (struct dirent *e; (e = readdir(d));) {
    int64_t s = step_of(e->d_name, ops, "");
    if (s < 0) continue;
    CT_TRY(ct_mem_grow((void **)step, &cap, *n + 1, sizeof **step));
    (*step)[(*n)++] = s;
  }
  if (*n > 0) qsort(*step, (size_t)*n, sizeof **step, descending);
out:
  if (d) closedir(d);
  if (rc != CT_OK) {
    ct_mem_free(*step);
    *step = NULL;
  }
  return rc;
}

static int path_of(char *path, size_t cap, const char *dir, const ct_store_ops_t *ops, int64_t step)
{
  char name[NAME_CAP];
  make_name(name, ops, step);
  return ct_path_join(path, cap, dir, name);
}

/* Reads the first line of a small file. Returns 0 if the file cannot be read or is too large. */
static int ckpt_read_line(const char *path, char line[NAME_CAP])
{
  char *text = NULL;
  size_t bytes;
  struct stat st;
  if (stat(path, &st) != 0 || st.st_size >= NAME_CAP) return 0;
  if (ct_file_read(path, &text, &bytes) != CT_OK) return 0;
  text[strcspn(text, "\n")] = '\0';
  snprintf(line, NAME_CAP, "%s", text);
  ct_mem_free(text);
  return 1;
}

/* Returns the step of the checkpoint that `best` names; -1: none. */
static int64_t read_best(const char *dir, const ct_store_ops_t *ops)
{
  char path[CT_PATH_MAX], name[NAME_CAP];
  if (ct_path_join(path, sizeof path, dir, "best") != CT_OK || !ckpt_read_line(path, name))
    return -1;
  return step_of(name, ops, "");
}

/* ---- writing ---- */

static int remove_temporaries(const char *dir, const ct_store_ops_t *ops)
{
  int rc = CT_OK;
  char path[CT_PATH_MAX];
  DIR *d = opendir(dir);
  if (!d) CT_FAIL(CT_ERR_IO, "%s: the directory cannot be read: %s", dir, strerror(errno));
  for (struct dirent *e; (e = readdir(d));) {
    if (step_of(e->d_name, ops, ".tmp") < 0 && strcmp(e->d_name, "latest.tmp") != 0 &&
        strcmp(e->d_name, "best.tmp") != 0)
      continue;
    CT_TRY(ct_path_join(path, sizeof path, dir, e->d_name));
    int why = ct_file_remove(path);
    if (why) CT_FAIL(CT_ERR_IO, "%s: cannot be removed: %s", path, strerror(why));
  }
out:
  if (d) closedir(d);
  return rc;
}

int ct_ckpt_open(const char *dir, const ct_store_ops_t *ops, int64_t keep, ct_ckpt_t **out)
{
  int rc = CT_OK;
  *out = NULL;
  ct_ckpt_t *c = ct_mem_alloc(sizeof *c, "checkpoint writer");
  if (!c) return CT_ERR_NOMEM;
  c->ops = ops;
  c->keep = keep;
  CT_TRY(ct_text_format(c->dir, sizeof c->dir, "%s", dir));
  CT_TRY(ct_file_mkdirs(dir));
  CT_TRY(ct_dir_check_own(dir));
  CT_TRY(remove_temporaries(dir, ops));
  c->best = read_best(dir, ops);
  *out = c;
  c = NULL;
out:
  ct_mem_free(c);
  return rc;
}

/* Creates the directory if it was removed; fails if the file would not fit on the disk. */
static int prepare_dir(const ct_ckpt_t *c, const char *path)
{
  int rc = CT_OK;
  if (!ct_file_exists(c->dir)) {
    CT_TRY(ct_file_mkdirs(c->dir));
    ct_log(CT_LOG_WARN, "%s was removed during the run; it was created again", c->dir);
  }
  int64_t space = ct_file_free(c->dir);
  if (space >= 0 && space < ct__space_needed(c->item, c->items, c->text, c->texts))
    CT_FAIL(CT_ERR_IO, "%s: cannot be written: %s", path, strerror(ENOSPC));
out:
  return rc;
}

static int create_store(ct_ckpt_t *c, const char *path)
{
  int rc = CT_OK;
  CT_TRY(prepare_dir(c, path));
  CT_TRY(c->ops->create(path, &c->store));
out:
  return rc;
}

static int put_item(const ct_ckpt_t *c, const ct_ckpt_item_t *item)
{
  int rc = CT_OK;
  CT_TRY(ct_fault("ckpt.write"));
  ct_heartbeat_progress(); /* a run that waits for this write does not count as hanging */
  CT_TRY(c->ops->put(c->store, item->name, &item->shape, item->data));
out:
  return rc;
}

static int write_store(ct_ckpt_t *c, const char *path)
{
  int rc = CT_OK;
  ct_store_t *s = NULL;
  if (!c->passed) CT_TRY(create_store(c, path));
  for (int i = 0; i < c->items && !c->passed; i++)
    CT_TRY(put_item(c, &c->item[i]));
  s = c->store;
  c->store = NULL;
  for (int i = 0; i < c->texts; i++)
    CT_TRY(c->ops->put_text(s, c->text[i].name, c->text[i].text));
  ct_store_t *whole = s;
  s = NULL; /* commit frees it even on failure */
  CT_TRY(c->ops->commit(whole));
out:
  c->ops->discard(s);
  c->ops->discard(c->store);
  c->store = NULL;
  return rc;
}

/* Removes old checkpoints. Those of later steps are not part of this run's history and are not
 * counted; the best one stays. A failure to remove one is harmless. */
static int remove_old(const ct_ckpt_t *c)
{
  int rc = CT_OK, n;
  int64_t *step, kept = 0;
  char path[CT_PATH_MAX];
  CT_TRY(list_steps(c->dir, c->ops, &step, &n));
  for (int i = 0; c->keep > 0 && i < n; i++) {
    if (step[i] > c->done.step || ++kept <= c->keep || step[i] == c->best) continue;
    CT_TRY(path_of(path, sizeof path, c->dir, c->ops, step[i]));
    int why = ct_file_remove(path);
    if (why) ct_log(CT_LOG_WARN, "%s: cannot be removed: %s", path, strerror(why));
  }
out:
  ct_mem_free(step);
  return rc;
}

/* Makes `latest` or `best` name the checkpoint of a step. */
static int write_pointer(const char *dir, const char *pointer, const ct_store_ops_t *ops,
                         int64_t step)
{
  int rc = CT_OK;
  char path[CT_PATH_MAX], name[NAME_CAP], line[NAME_CAP + 2];
  make_name(name, ops, step);
  int bytes = snprintf(line, sizeof line, "%s\n", name);
  CT_TRY(ct_path_join(path, sizeof path, dir, pointer));
  CT_TRY(ct_file_write(path, line, (size_t)bytes));
out:
  return rc;
}

/* Checks that the durable file still exists, before older ones are removed. */
static int ckpt_look(ct_ckpt_t *c, const char *path)
{
  int rc = CT_OK;
  struct stat st;
  if (stat(path, &st) != 0) CT_FAIL(CT_ERR_IO, "%s: is gone: %s", path, strerror(errno));
  c->done.bytes = st.st_size;
  c->done.write_s = ct_clock() - c->begun;
out:
  return rc;
}

static int write_files(ct_ckpt_t *c, const char *path)
{
  int rc = CT_OK;
  CT_TRY(write_store(c, path));
  CT_TRY(ckpt_look(c, path));
  CT_TRY(ct_fault("ckpt.latest"));
  if (c->done.best) {
    CT_TRY(write_pointer(c->dir, "best", c->ops, c->done.step));
    c->best = c->done.step;
  }
  CT_TRY(write_pointer(c->dir, "latest", c->ops, c->done.step));
out:
  return rc;
}

static int write_all(ct_ckpt_t *c)
{
  int rc = CT_OK;
  char path[CT_PATH_MAX];
  CT_TRY(ct_path_join(path, sizeof path, c->dir, c->done.name));
  rc = write_files(c, path);
  if (rc != CT_OK && !c->passed && !ct_file_exists(c->dir))
    rc = write_files(c, path); /* the directory was removed meanwhile: retry */
  CT_TRY(rc);
  CT_TRY(remove_old(c));
out:
  return rc;
}

static int explained(const ct_ckpt_t *c, int rc)
{
  char text[CT_ERR_TEXT];
  if (rc != CT_ERR_IO) return rc;
  ct_err_info_t e = *ct_err_last();
  ct__space_explain(e.text, ct__space_needed(c->item, c->items, c->text, c->texts),
                    ct_file_free(c->dir), text, sizeof text);
  return ct_err_set(rc, e.file, e.line, "%s", text);
}

static void *writer(void *arg)
{
  ct_ckpt_t *c = arg;
  if (c->rc == CT_OK) c->rc = explained(c, write_all(c));
  if (c->rc != CT_OK && ct_err_last()->code == c->rc)
    c->err = *ct_err_last(); /* errors are recorded per thread */
  atomic_store(&c->finished, 1);
  return NULL;
}

/* Notes what is to be written. */
static int describe(ct_ckpt_t *c, int64_t step, const ct_ckpt_item_t *item, int items,
                    const ct_ckpt_text_t *text, int texts)
{
  int rc = CT_OK;
  if (c->started) CT_FAIL(CT_ERR_ARG, "a checkpoint was begun before the last one was waited for");
  CT_TRY(ct_mem_grow((void **)&c->item, &c->item_cap, items, sizeof *item));
  CT_TRY(ct_mem_grow((void **)&c->text, &c->text_cap, texts, sizeof *text));
  if (items > 0) memcpy(c->item, item, (size_t)items * sizeof *item);
  if (texts > 0) memcpy(c->text, text, (size_t)texts * sizeof *text);
  c->items = items;
  c->texts = texts;
  c->begun = ct_clock();
  c->done = (ct_ckpt_done_t){.step = step, .best = c->mark_best};
  c->mark_best = 0;
  make_name(c->done.name, c->ops, step);
  c->rc = CT_OK;
  c->passed = 0;
out:
  return rc;
}

int ct_ckpt_end(ct_ckpt_t *c)
{
  int rc = CT_OK;
  atomic_store(&c->finished, 0);
  CT_TRY(ct_thread_start(&c->thread, 0, writer, c, "to write a checkpoint"));
  c->started = 1;
out:
  return rc;
}

int ct_ckpt_save(ct_ckpt_t *c, int64_t step, const ct_ckpt_item_t *item, int items,
                 const ct_ckpt_text_t *text, int texts)
{
  int rc = CT_OK;
  CT_TRY(describe(c, step, item, items, text, texts));
  CT_TRY(ct_ckpt_end(c));
out:
  return rc;
}

/* Records the first failure of a checkpoint that is passed item by item. */
static void ckpt_note(ct_ckpt_t *c, int rc)
{
  if (rc == CT_OK || c->rc != CT_OK) return;
  c->rc = explained(c, rc);
  c->err = *ct_err_last();
  c->ops->discard(c->store);
  c->store = NULL;
}

int ct_ckpt_begin(ct_ckpt_t *c, int64_t step, const ct_ckpt_item_t *item, int items,
                  const ct_ckpt_text_t *text, int texts)
{
  int rc = CT_OK;
  char path[CT_PATH_MAX];
  CT_TRY(describe(c, step, item, items, text, texts));
  CT_TRY(ct_path_join(path, sizeof path, c->dir, c->done.name));
  c->passed = 1;
  ckpt_note(c, create_store(c, path));
out:
  return rc;
}

void ct_ckpt_put(ct_ckpt_t *c, const ct_ckpt_item_t *item)
{
  if (c->rc == CT_OK) ckpt_note(c, put_item(c, item));
}

void ct_ckpt_cancel(ct_ckpt_t *c)
{
  c->ops->discard(c->store);
  c->store = NULL;
}

void ct_ckpt_mark_best(ct_ckpt_t *c)
{
  c->mark_best = 1;
}

int ct_ckpt_wait(ct_ckpt_t *c, const ct_ckpt_done_t **done)
{
  if (done) *done = NULL;
  if (!c->started) return CT_OK;
  pthread_join(c->thread, NULL);
  c->started = 0;
  if (c->rc != CT_OK)
    ct_err_put(&c->err);
  else if (done)
    *done = &c->done;
  return c->rc;
}

int ct_ckpt_busy(const ct_ckpt_t *c)
{
  return c->started && !atomic_load(&c->finished);
}

void ct_ckpt_close(ct_ckpt_t *c)
{
  if (!c) return;
  ct_ckpt_wait(c, NULL);
  ct_ckpt_cancel(c);
  ct_mem_free(c->item);
  ct_mem_free(c->text);
  ct_mem_free(c);
}

/* ---- finding ---- */

int ct_ckpt_newest(const char *dir, const ct_store_ops_t *ops, ct_store_t **out, char *path,
                   size_t cap)
{
  int rc = CT_OK, n;
  int64_t *step;
  *out = NULL;
  CT_TRY(list_steps(dir, ops, &step, &n));
  for (int i = 0; i < n; i++) {
    CT_TRY(path_of(path, cap, dir, ops, step[i]));
    rc = ops->open(path, out);
    /* to resume from an older one would discard training done by the newer version */
    if (rc == CT_OK || rc == CT_ERR_NOMEM || rc == CT_ERR_NEWER) goto out;
    ct_log(CT_LOG_WARN, "skipped a checkpoint: %s", ct_err_last()->text);
  }
  if (n > 0)
    CT_FAIL(CT_ERR_FORMAT, "%s: none of the %d checkpoints is intact; '--resume never' starts over",
            dir, n);
out:
  ct_mem_free(step);
  return rc;
}

/* Resolves a file `best` or `latest`. */
static int follow_pointer(const char *file, char *path, size_t cap)
{
  int rc = CT_OK;
  char dir[CT_PATH_MAX], name[NAME_CAP];
  const char *slash = strrchr(file, '/'), *base = slash ? slash + 1 : file;
  int is_pointer = strcmp(base, "best") == 0 || strcmp(base, "latest") == 0;
  if (!is_pointer || !ckpt_read_line(file, name) || strncmp(name, "step-", 5) != 0 ||
      strchr(name, '/'))
    return ct_text_format(path, cap, "%s", file);
  CT_TRY(ct_path_dir(dir, sizeof dir, file));
  CT_TRY(ct_path_join(path, cap, dir, name));
out:
  return rc;
}

int ct_ckpt_follow(const char *file, char *path, size_t cap)
{
  int rc = CT_OK;
  if (ct_file_is_dir(file))
    CT_FAIL(CT_ERR_USAGE, "%s: is a directory, expected a file or a run's directory", file);
  CT_TRY(follow_pointer(file, path, cap));
out:
  return rc;
}

/* Writes the path of the file that checkpoints/best names, if it exists; else "". */
static int best_of(const char *dir, char *path, size_t cap)
{
  int rc = CT_OK;
  char pointer[CT_PATH_MAX];
  CT_TRY(ct_path_join(pointer, sizeof pointer, dir, "best"));
  CT_TRY(follow_pointer(pointer, path, cap));
  if (strcmp(path, pointer) == 0 || !ct_file_exists(path)) *path = '\0';
out:
  return rc;
}

int ct_ckpt_of_run(const ct_store_ops_t *ops, const char *dir, ct_ckpt_which_t which,
                   int best_is_on, char *path, size_t cap)
{
  int rc = CT_OK;
  ct_store_t *s = NULL;
  *path = '\0';
  if (which == CT_CKPT_BEST || (which == CT_CKPT_USUAL && best_is_on))
    CT_TRY(best_of(dir, path, cap));
  if (which == CT_CKPT_BEST && !*path)
    CT_FAIL(CT_ERR_USAGE, "%s: no best checkpoint was kept: set checkpoint.best to keep one", dir);
  if (*path) goto out;
  CT_TRY(ct_ckpt_newest(dir, ops, &s, path, cap));
  if (!s) *path = '\0';
  if (s) ops->close(s);
out:
  return rc;
}

int ct_ckpt_find(const ct_store_ops_t *const stores[], const char *file, const char *dir,
                 ct_ckpt_found_t *out)
{
  int rc = CT_OK, n = 0, found = 0;
  const ct_format_t *formats[CT_FORMATS];
  *out = (ct_ckpt_found_t){.ops = stores[0]};
  if (!file) return ct_ckpt_newest(dir, out->ops, &out->store, out->path, sizeof out->path);
  for (; stores[n] && n < CT_FORMATS; n++)
    formats[n] = &stores[n]->format;
  CT_TRY(ct_ckpt_follow(file, out->path, sizeof out->path));
  CT_TRY(ct_format_find(formats, n, out->path, &found));
  out->ops = stores[found];
  CT_TRY(out->ops->open(out->path, &out->store));
out:
  return rc;
}

void ct_ckpt_found_close(ct_ckpt_found_t *c)
{
  if (c->store) c->ops->close(c->store);
  c->store = NULL;
}

/* Finds the first of NAME.aside, NAME.aside.2 … that does not exist, so that no checkpoint is
 * overwritten. */
static int aside_of(char *aside, size_t cap, const char *path)
{
  int rc = CT_OK;
  CT_TRY(ct_text_format(aside, cap, "%s.aside", path));
  for (int k = 2; ct_file_exists(aside); k++)
    CT_TRY(ct_text_format(aside, cap, "%s.aside.%d", path, k));
out:
  return rc;
}

static int remove_pointer(const char *dir, const char *pointer)
{
  int rc = CT_OK;
  char path[CT_PATH_MAX];
  CT_TRY(ct_path_join(path, sizeof path, dir, pointer));
  int why = ct_file_remove(path);
  if (why) CT_FAIL(CT_ERR_IO, "%s: cannot be removed: %s", path, strerror(why));
out:
  return rc;
}

/* Resets `best` to the checkpoint of step \a best, the best one up to \a step, if it still
 * exists. */
static int go_back_to_best(const char *dir, const ct_store_ops_t *ops, int64_t step, int64_t best)
{
  int rc = CT_OK;
  char path[CT_PATH_MAX];
  if (read_best(dir, ops) <= step) return CT_OK;
  CT_TRY(path_of(path, sizeof path, dir, ops, best));
  if (best > 0 && ct_file_exists(path)) return write_pointer(dir, "best", ops, best);
  CT_TRY(remove_pointer(dir, "best"));
out:
  return rc;
}

int ct_ckpt_set_aside(const char *dir, const ct_store_ops_t *ops, int64_t step, int64_t best)
{
  int rc = CT_OK, n, i;
  int64_t *all;
  char path[CT_PATH_MAX], aside[CT_PATH_MAX];
  CT_TRY(list_steps(dir, ops, &all, &n));
  CT_TRY(go_back_to_best(dir, ops, step, best));
  for (i = 0; i < n && all[i] > step; i++) {
    CT_TRY(path_of(path, sizeof path, dir, ops, all[i]));
    CT_TRY(aside_of(aside, sizeof aside, path));
    int why = ct_file_rename(path, aside);
    if (why && why != ENOENT) CT_FAIL(CT_ERR_IO, "%s: cannot be renamed: %s", path, strerror(why));
    ct_log(CT_LOG_INFO, "%s was renamed to %s: this run resumes from step %" PRId64, path,
           strrchr(aside, '/') + 1, step);
  }
  if (i == 0) goto out; /* `latest` is already right */
  rc = i < n ? write_pointer(dir, "latest", ops, all[i]) : remove_pointer(dir, "latest");
out:
  ct_mem_free(all);
  return rc;
}
