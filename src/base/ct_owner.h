/** \file ct_owner.h  Checks the owner of directories before writing to them.  Layer 0.  All
 * functions are local.
 *
 * The owner of a directory controls its entries: an entry may be a link to a file of the user who
 * writes.  Therefore nothing is written through a link (ct_file_open()), and directories of other
 * users are refused, unless they are shared on purpose. */
#ifndef CT_OWNER_H
#define CT_OWNER_H

/** Opens a directory for writing files into it; the caller closes *fd.  Accepts directories of this
 * user and of root, and directories that a group of this user may write to while others may not.
 * On file systems that assign all files to one user, a directory counts as this user's.  CT_ERR_IO:
 * the directory cannot be opened or belongs to another user, or the path is a link of another user
 * to a directory that does not belong to that user. */
int ct_dir_open_own(const char *dir, int *fd);
/** Checks a directory as ct_dir_open_own() does, but does not open it. */
int ct_dir_check_own(const char *dir);
/** Opens or creates a lock file for reading and writing; \a dir is an open directory.  Other users
 * get no permissions, since every reader could lock the file; the group gets read and write
 * permission if it may write to the directory.  Returns a descriptor, or -1 with errno set. */
int ct_owner_lock_file(int dir, const char *name);
/** Writes "user anna", or "user 1005" if the name of the uid is unknown, to buf (returned). */
const char *ct_owner_name(unsigned uid, char *buf, unsigned long cap);

#endif
