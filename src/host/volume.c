/* Reads the type and free space of a directory's file system, and tests locks on a new file. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "host/ct_machine.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"

/* File systems on FUSE and unknown ones have the name of their mount ("fuse.beegfs"). */
static void name_type(const char *path, ct_volume_t *v)
{
  struct statfs fs;
  struct stat st;
  char *text;
  size_t bytes;
  if (statfs(path, &fs) != 0) return;
  const char *name = ct__machine_fs((long)fs.f_type);
  snprintf(v->type, sizeof v->type, "%s", name ? name : "");
  if (name && strcmp(name, "fuse") != 0) return;
  if (stat(path, &st) != 0 || ct_file_read("/proc/self/mountinfo", &text, &bytes) != CT_OK) return;
  ct__machine_mount(text, major(st.st_dev), minor(st.st_dev), v->type, sizeof v->type);
  ct_mem_free(text);
}

static void volume_measure(const char *path, ct_volume_t *v)
{
  struct statvfs fs;
  v->total = v->free = v->files = -1;
  if (statvfs(path, &fs) != 0) return;
  v->total = (int64_t)(fs.f_blocks * fs.f_frsize);
  v->free = (int64_t)(fs.f_bavail * fs.f_frsize);
  if (fs.f_files) v->files = (int64_t)fs.f_favail; /* some file systems do not have this number */
}

/* HDF5 locks a file that it writes by flock(), or by fcntl() where it was built without
 * (H5FDsec2.c, H5private.h). */
static void try_locks(int fd, ct_volume_t *v)
{
  struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) v->flock_error = errno;
  flock(fd, LOCK_UN);
  if (fcntl(fd, F_SETLK, &range) != 0) v->fcntl_error = errno;
}

static void try_file(const char *dir, ct_volume_t *v)
{
  char name[CT_PATH_MAX];
  if (ct_path_join(name, sizeof name, dir, ".ctrain-doctor-XXXXXX") != CT_OK) return;
  int fd = mkstemp(name);
  v->writable = fd >= 0;
  if (fd < 0) {
    v->error = errno;
    return;
  }
  ct_file_remove(name);
  try_locks(fd, v);
  close(fd);
}

void ct_volume_read(const char *path, ct_volume_t *v)
{
  static const char *const local[] = {"tmpfs", "ramfs", "overlay", "squashfs"};
  char at[CT_PATH_MAX], up[CT_PATH_MAX];
  memset(v, 0, sizeof *v);
  if (ct_text_format(at, sizeof at, "%s", path) != CT_OK) return;
  v->there = ct_file_exists(at);
  while (!ct_file_exists(at) && ct_path_dir(up, sizeof up, at) == CT_OK && strcmp(at, up) != 0)
    strcpy(at, up);
  name_type(at, v);
  volume_measure(at, v);
  try_file(at, v);
  for (size_t i = 0; i < sizeof local / sizeof *local; i++)
    v->local |= strcmp(v->type, local[i]) == 0;
}
