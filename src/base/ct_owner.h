/** \file ct_owner.h  Directories that are written to, and whose they are.  Layer 0.  All functions
 * are local.
 *
 * Who owns a directory chooses what its names mean: a file in it may be a link to one of the user
 * who writes.  So nothing is written through a link (ct_file_open()), and directories of others are
 * refused, unless they are shared on purpose. */
#ifndef CT_OWNER_H
#define CT_OWNER_H

/** Opens a directory to write into; *fd is to be closed.  CT_ERR_IO: it cannot be opened, or it is
 * another user's: not this one's, nor root's, nor of a group that this user is in and that may
 * write, while all others may not; or it is another user's link to a directory that is not that
 * user's.  On file systems that give all files to one user, it is this
 * user's. */
int ct_dir_open_own(const char *dir, int *fd);
/** The same, closed again. */
int ct_dir_check_own(const char *dir);
/** Opens the file of a lock for reading and writing, or makes it; \a dir is an open directory.
 * Others have no rights to it, since who may read may lock: its group has them where the group may
 * write into the directory.  -1: errno. */
int ct_owner_lock_file(int dir, const char *name);
/** "user anna", or "user 1005" where it has no name; in buf (returned). */
const char *ct_owner_name(unsigned uid, char *buf, unsigned long cap);

#endif
