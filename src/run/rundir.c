/* The run directory has one writer.  Its lock is checked again before each checkpoint, since a file
 * system cleaner may remove the directory during the run, or a second job may take it over. */
#include "run/ct_rundir.h"

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "host/ct_lock.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"

#define WAIT_S 5.0 /* seconds to wait for the lock of a process that was just killed */

struct ct_rundir {
  char dir[CT_PATH_MAX];
  ct_lock_owner_t me;
  ct_lock_t *lock;
  const char *config; /* borrowed; NULL: not written yet */
  size_t config_bytes;
};

static int rundir_make(ct_rundir_t *r)
{
  int rc = CT_OK;
  char path[CT_PATH_MAX];
  CT_TRY(ct_file_mkdirs(r->dir));
  CT_TRY(ct_path_join(path, sizeof path, r->dir, "lock"));
  CT_TRY(ct_lock_take(path, &r->me, WAIT_S, &r->lock));
out:
  return rc;
}

int ct_rundir_open(const char *dir, const ct_job_t *job, ct_rundir_t **out)
{
  int rc = CT_OK;
  *out = NULL;
  ct_rundir_t *r = ct_mem_alloc(sizeof *r, "the run directory");
  if (!r) return CT_ERR_NOMEM;
  ct_lock_self(job->id, job->requeues, &r->me);
  CT_TRY(ct_text_format(r->dir, sizeof r->dir, "%s", dir));
  CT_TRY(rundir_make(r));
  *out = r;
  r = NULL;
out:
  ct_rundir_close(r);
  return rc;
}

int ct_rundir_config(ct_rundir_t *r, const char *text, size_t bytes)
{
  int rc = CT_OK;
  char path[CT_PATH_MAX];
  r->config = text;
  r->config_bytes = bytes;
  CT_TRY(ct_path_join(path, sizeof path, r->dir, "config.yaml"));
  CT_TRY(ct_file_write(path, text, bytes));
out:
  return rc;
}

static int make_again(ct_rundir_t *r)
{
  int rc = CT_OK;
  ct_lock_release(r->lock);
  r->lock = NULL;
  CT_TRY(rundir_make(r));
  if (r->config) CT_TRY(ct_rundir_config(r, r->config, r->config_bytes));
out:
  return rc;
}

/* Errors are only logged here; the next write to the directory reports them. */
int ct_rundir_check(ct_rundir_t *r)
{
  int rc = CT_OK;
  ct_lock_state_t state = r && r->lock ? ct_lock_peek(r->lock) : CT_LOCK_GONE;
  if (!r || state == CT_LOCK_HELD) return CT_OK;
  if (state == CT_LOCK_TAKEN)
    CT_FAIL(CT_ERR_IO, "%s: another run has taken over this directory; aborting this one", r->dir);
  if (make_again(r) == CT_OK)
    ct_log(CT_LOG_WARN,
           "%s: the directory or its lock was removed or renamed during the run; what is "
           "missing was created again",
           r->dir);
  else
    ct_log(CT_LOG_WARN,
           "%s: the directory or its lock was removed or renamed, and cannot be created again: %s",
           r->dir, ct_err_last()->text);
out:
  return rc;
}

void ct_rundir_close(ct_rundir_t *r)
{
  if (!r) return;
  ct_lock_release(r->lock);
  ct_mem_free(r);
}
