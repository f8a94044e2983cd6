/* The directory with copies on a node's disk.  Jobs are killed at any moment: nothing is taken for
 * whole that has no checksum on record. */
#include "data/local/stage.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/ct_heartbeat.h"
#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_hash.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "data/local/node_dir.h"

enum { FORMAT = 1 }; /* of copies and records: versions that have another have directories apart */

struct ct_stage {
  ct__node_dir_t at;
  int64_t copied;
};

/* ---- names ---- */

int ct_stage_look(ct_stage_file_t *f)
{
  int rc = CT_OK;
  struct stat st;
  if (stat(f->path, &st) != 0) CT_FAIL(CT_ERR_IO, "%s: cannot open: %s", f->path, strerror(errno));
  f->bytes = st.st_size;
  f->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
out:
  return rc;
}

/* Other files, changed files and other users' have a directory of their own. */
static int name_dir(const char *dir, const ct_stage_file_t *files, int n, char *out, size_t cap)
{
  uint64_t h = ct_hash_int((int64_t)geteuid(), FORMAT);
  for (int i = 0; i < n; i++)
    h = ct_hash_int(files[i].mtime_ns, ct_hash_int(files[i].bytes, ct_hash_text(files[i].path, h)));
  return ct_text_format(out, cap, "%s/ctrain-stage-%016" PRIx64, dir, h);
}

/* Files of different directories may have the same name. */
int ct_stage_path(const char *stage_dir, const char *path, char *out, size_t cap)
{
  const char *slash = strrchr(path, '/');
  return ct_text_format(out, cap, "%s/%016" PRIx64 "-%s", stage_dir, ct_hash_text(path, 0),
                        slash ? slash + 1 : path);
}

const char *ct_stage_dir(const ct_stage_t *s)
{
  return s->at.dir;
}

int64_t ct_stage_copied(const ct_stage_t *s)
{
  return s->copied;
}

/* ---- one at a time ---- */

/* Waits for another run of the same files, which shows in its lock file that it moves. */
static int wait_to_copy(const ct_stage_t *s, int *copying)
{
  static const struct timespec while_it_copies = {.tv_nsec = 20000000};
  int rc = CT_OK, held = 0;
  int64_t seen = -1, now = 0;
  CT_TRY(ct__node_open_lock(s->at.dir, "copying", "data.stage", copying));
  for (int waits = 0; s->at.locks && !held; waits++) {
    held = ct__node_lock(*copying, LOCK_EX | LOCK_NB) == 0;
    if (!held && errno != EWOULDBLOCK) break;
    if (waits == 100)
      ct_log(CT_LOG_INFO, "data.stage: waits for another run, which copies the same files to %s",
             s->at.dir);
    if (pread(*copying, &now, sizeof now, 0) == sizeof now && now != seen) ct_beat_progress();
    seen = now;
    if (!held) nanosleep(&while_it_copies, NULL);
  }
  if (held) ct__node_empty(s->at.dir, CT__STAGE_PART); /* of runs that were killed */
out:
  return rc;
}

/* ---- room ---- */

static int check_room(const char *dir, int64_t bytes)
{
  enum { MARGIN = 16 << 20 };
  int rc = CT_OK;
  char need[32], free_text[32];
  struct statvfs fs;
  if (bytes == 0) return CT_OK;
  if (statvfs(dir, &fs) != 0)
    CT_FAIL(CT_ERR_IO, "%s: cannot be asked for its room: %s", dir, strerror(errno));
  double want = (double)bytes * 1.01 + MARGIN, room = (double)fs.f_bavail * (double)fs.f_frsize;
  if (room < want)
    CT_FAIL(CT_ERR_IO, "%s: the copies need %s there, and %s are free; " CT__STAGE_CURE, dir,
            ct_text_bytes(want, need, sizeof need),
            ct_text_bytes(room, free_text, sizeof free_text));
out:
  return rc;
}

/* ---- all files ---- */

/* A copy that is there and whole is taken over; one that is not is made again. */
static int bring(ct_stage_t *s, const ct_stage_file_t *f, ct__stage_pace_t *pace)
{
  int rc = CT_OK;
  char copy[CT_PATH_MAX];
  CT_TRY(ct_stage_path(s->at.dir, f->path, copy, sizeof copy));
  if (ct__stage_has(f, copy)) {
    if (ct__stage_check(f, copy, pace) == CT_OK) return CT_OK;
    ct_log_all(CT_LOG_WARN, "%s: is copied again", ct_err_last()->text);
    ct_file_remove(copy);
  }
  CT_TRY(ct__stage_copy(f, copy, pace));
  s->copied += f->bytes;
out:
  return rc;
}

static int bring_all(ct_stage_t *s, const ct_stage_file_t *files, int n)
{
  int rc = CT_OK;
  int64_t missing = 0;
  char copy[CT_PATH_MAX];
  ct__stage_pace_t pace = {.copying = -1, .told_s = ct_clock()};
  CT_TRY(wait_to_copy(s, &pace.copying));
  for (int i = 0; i < n; i++) {
    CT_TRY(ct_stage_path(s->at.dir, files[i].path, copy, sizeof copy));
    pace.all += 2 * files[i].bytes;
    if (!ct__stage_has(&files[i], copy)) missing += files[i].bytes;
  }
  CT_TRY(check_room(s->at.dir, missing));
  for (int i = 0; i < n; i++)
    CT_TRY(bring(s, &files[i], &pace));
out:
  if (pace.copying >= 0) close(pace.copying);
  return rc;
}

int ct_stage_open(const char *dir, const ct_stage_file_t *files, int n, ct_stage_t **out)
{
  int rc = CT_OK;
  ct_stage_t *s = ct_mem_alloc(sizeof *s, "the stage");
  *out = NULL;
  if (!s) return CT_ERR_NOMEM;
  s->at.users = -1;
  CT_TRY(ct_file_mkdirs(dir));
  CT_TRY(name_dir(dir, files, n, s->at.dir, sizeof s->at.dir));
  CT_TRY(ct__node_join(&s->at, "data.stage"));
  CT_TRY(bring_all(s, files, n));
  *out = s;
  s = NULL;
out:
  ct_stage_close(s, 0);
  return rc;
}

void ct_stage_close(ct_stage_t *s, int keep)
{
  if (!s) return;
  ct__node_leave(&s->at, keep);
  ct_mem_free(s);
}

/* ---- the directory's name ---- */

int ct_stage_expand(const char *text, char *out, size_t cap)
{
  int rc = CT_OK;
  CT_TRY(ct_path_expand(text, out, cap));
  if (out[0] != '/')
    CT_FAIL(CT_ERR_USAGE, "'%s': expected an absolute path, such as $TMPDIR", text);
out:
  return rc;
}
