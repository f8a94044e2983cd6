/* Checks who owns a directory, and opens lock files that other users cannot read. */
#include "base/ct_owner.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"

const char *ct_owner_name(unsigned uid, char *buf, unsigned long cap)
{
  const struct passwd *user = getpwuid(uid);
  if (user)
    snprintf(buf, cap, "user %s", user->pw_name);
  else
    snprintf(buf, cap, "user %u", uid);
  return buf;
}

static int is_member(gid_t group)
{
  int found = group == getegid(), n = getgroups(0, NULL);
  gid_t *list = n > 0 ? ct_mem_array(n, sizeof *list, "groups") : NULL;
  n = list ? getgroups(n, list) : 0;
  for (int i = 0; i < n && !found; i++)
    found = list[i] == group;
  ct_mem_free(list);
  return found;
}

/* If an ordinary user can write, the user is a member of the group or has an entry in the access
 * control list, whose mask the group bits show. */
static int is_shared(const struct stat *st)
{
  return (st->st_mode & (S_IWGRP | S_IWOTH)) == S_IWGRP &&
         (geteuid() != 0 || is_member(st->st_gid));
}

/* A file server may assign all files to one user, as NFS does for root: then a new file has that
 * owner, too. */
static int gives_alike(int dir, uid_t owner)
{
  char name[40];
  struct stat st = {.st_uid = (uid_t)-1};
  snprintf(name, sizeof name, ".owner.%ld", (long)getpid());
  int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return 0;
  int known = fstat(fd, &st) == 0;
  close(fd);
  unlinkat(dir, name, 0);
  return known && st.st_uid == owner;
}

/* 1: the name is a link that another user made, to a directory that is not that user's. */
static int is_strange_link(const char *dir, const struct stat *to)
{
  char name[CT_PATH_MAX];
  struct stat st;
  size_t len = strlen(dir);
  while (len > 1 && dir[len - 1] == '/')
    len--; /* with a slash lstat() would follow the link */
  if (len >= sizeof name) return 0;
  memcpy(name, dir, len);
  name[len] = '\0';
  return lstat(name, &st) == 0 && S_ISLNK(st.st_mode) && st.st_uid != geteuid() && st.st_uid != 0 &&
         st.st_uid != to->st_uid;
}

int ct_dir_open_own(const char *dir, int *fd)
{
  int rc = CT_OK;
  struct stat st;
  char owner[300];
  *fd = ct_file_open(dir, O_RDONLY | O_DIRECTORY, 0);
  if (*fd < 0 || fstat(*fd, &st) != 0)
    CT_FAIL(CT_ERR_IO, "%s: cannot be opened: %s", dir, strerror(errno));
  if (is_strange_link(dir, &st))
    CT_FAIL(CT_ERR_IO,
            "%s: is a symbolic link that another user made, to a directory that is not that "
            "user's: choose another directory, or name the one it leads to",
            dir);
  if (st.st_uid == geteuid() || st.st_uid == 0 || is_shared(&st) || gives_alike(*fd, st.st_uid))
    goto out;
  CT_FAIL(CT_ERR_IO,
          "%s: belongs to %s, who may have made links to your files in it: choose another "
          "directory, or share this one: a group that you are both in may write, others not (chmod "
          "g+ws,o-w)",
          dir, ct_owner_name(st.st_uid, owner, sizeof owner));
out:
  if (rc != CT_OK && *fd >= 0) {
    close(*fd);
    *fd = -1;
  }
  return rc;
}

int ct_dir_check_own(const char *dir)
{
  int fd, rc = ct_dir_open_own(dir, &fd);
  if (fd >= 0) close(fd);
  return rc;
}

/* Sets the permissions of the file, even if it exists with wider permissions. */
static void set_rights(int dir, int fd)
{
  struct stat at, st;
  if (fstat(dir, &at) != 0 || fstat(fd, &st) != 0 || st.st_uid != geteuid()) return;
  mode_t mode = at.st_mode & S_IWGRP ? 0660 : 0600;
  if (mode == 0660 && st.st_gid != at.st_gid && fchown(fd, (uid_t)-1, at.st_gid) != 0) mode = 0600;
  if ((st.st_mode & 0777) != mode) (void)fchmod(fd, mode);
}

int ct_owner_lock_file(int dir, const char *name)
{
  enum { TRIES = 4 }; /* attempts after ESTALE */
  int fd = -1;
  for (int i = 0; fd < 0 && i < TRIES && (i == 0 || errno == ESTALE); i++)
    fd = openat(dir, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd >= 0) set_rights(dir, fd);
  return fd;
}
