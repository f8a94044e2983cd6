/* Checks the disk space for a checkpoint, and adds advice to write errors, so that users need not
 * look up what EDQUOT means. */
#include "ckpt/disk_space.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { PER_ITEM = 256 }; /* container overhead: name, shape, checksum */

int64_t ct__space_needed(const ct_ckpt_item_t *item, int items, const ct_ckpt_text_t *text,
                         int texts)
{
  int64_t bytes = (int64_t)PER_ITEM * (items + texts);
  for (int i = 0; i < items; i++)
    bytes += (int64_t)ct_shape_bytes(&item[i].shape);
  for (int i = 0; i < texts; i++)
    bytes += (int64_t)strlen(text[i].text);
  return bytes;
}

/* HDF5 reports the operating system's errors only as text, so the text is searched. */
const char *ct__space_cure(const char *error)
{
  static const struct {
    int code;
    const char *cure;
  } cures[] = {
      {ENOSPC, "free space there, choose another run.dir, or keep fewer (checkpoint.keep)"},
      {EDQUOT, "remove files, ask for a larger quota, choose another run.dir, or keep fewer "
               "(checkpoint.keep)"},
      {EFBIG, "raise the limit of file sizes (ulimit -f), or choose another run.dir"},
      {EROFS, "the file system is read-only: choose another run.dir"},
      {EACCES, "make the directory writable, or choose another run.dir"},
      {EPERM, "make the directory writable, or choose another run.dir"},
      {ESTALE, "the file server has lost the directory: start again when it is back, or choose "
               "another run.dir"},
      {ENOENT, "the directory was removed: keep cleaners away from it, or choose another run.dir"},
      {EIO, "the disk or its server fails: choose another run.dir"},
  };
  for (size_t i = 0; i < sizeof cures / sizeof *cures; i++)
    if (strstr(error, strerror(cures[i].code))) return cures[i].cure;
  return "";
}

const char *ct__space_explain(const char *error, int64_t needed, int64_t free, char *buf,
                              size_t cap)
{
  char need[32], left[32], space[64] = "";
  const char *cure = ct__space_cure(error), *but = "";
  ct_text_bytes((double)needed, need, sizeof need);
  if (free >= 0)
    snprintf(space, sizeof space, ", %s are free", ct_text_bytes((double)free, left, sizeof left));
  if (free >= needed && strstr(error, strerror(ENOSPC)))
    but = ", but the file system reserves some of it, or has no free inodes (df -i)";
  snprintf(buf, cap, "%s; the checkpoint needs %s%s%s%s%s", error, need, space, but,
           *cure ? "; " : "", cure);
  return buf;
}
