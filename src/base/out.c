/* Files are written under a temporary name and renamed when they are complete. */
#include "base/ct_out.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/ct_heartbeat.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_temporary.h"

int ct_out_begin(ct_out_t *o, const char *path)
{
  int rc = CT_OK;
  *o = (ct_out_t){.fd = -1};
  CT_TRY(ct_text_format(o->path, sizeof o->path, "%s", path));
  CT_TRY(ct_text_format(o->temporary, sizeof o->temporary, "%s.tmp", path));
  ct_temporary_begin(o->temporary);
  ct_heartbeat_file(o->temporary);
  o->fd = ct_file_new(o->temporary, 0666);
  if (o->fd < 0) CT_FAIL(CT_ERR_IO, "%s: cannot create: %s", o->temporary, strerror(errno));
out:
  ct_heartbeat_file(NULL);
  return o->rc = rc;
}

int ct_out_put_at(ct_out_t *o, int64_t at, const void *from, int64_t bytes)
{
  if (o->rc == CT_OK) o->rc = ct_file_write_at(o->fd, o->temporary, at, from, (size_t)bytes);
  ct_heartbeat_progress();
  return o->rc;
}

int ct_out_put(ct_out_t *o, const void *from, int64_t bytes)
{
  int rc = ct_out_put_at(o, o->at, from, bytes);
  if (rc == CT_OK) o->at += bytes;
  return rc;
}

/* Network file systems report a full disk when the file is closed. */
static int out_close_file(ct_out_t *o)
{
  int failed = o->fd >= 0 && close(o->fd) != 0;
  o->fd = -1;
  if (!failed) return CT_OK;
  return ct_err_set(CT_ERR_IO, __FILE__, __LINE__, "%s: cannot write: %s", o->temporary,
                    strerror(errno));
}

int ct_out_commit(ct_out_t *o)
{
  int rc = o->rc;
  if (rc != CT_OK || !o->temporary[0]) goto out;
  ct_heartbeat_file(o->temporary);
  rc = out_close_file(o);
  ct_heartbeat_file(NULL);
  if (rc == CT_OK) rc = ct_file_commit(o->temporary, o->path);
  o->rc = rc;
  if (rc == CT_OK) o->temporary[0] = '\0';
out:
  ct_out_drop(o);
  return rc;
}

void ct_out_drop(ct_out_t *o)
{
  if (!o->temporary[0]) return;
  if (o->fd >= 0) close(o->fd);
  ct_file_remove(o->temporary);
  ct_temporary_end(o->temporary);
  o->fd = -1;
  o->temporary[0] = '\0';
}

int ct_file_write(const char *path, const void *data, size_t bytes)
{
  ct_out_t o;
  if (ct_out_begin(&o, path) == CT_OK) ct_out_put(&o, data, (int64_t)bytes);
  return ct_out_commit(&o);
}
