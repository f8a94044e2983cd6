/** \file ct_owner.h  Checks the owner of directories before writing to them.  Layer 0.  All
 * functions are local.
 *
 * The owner of a directory controls its entries: an entry may be a link to a file of the user who
 * writes.  Therefore nothing is written through a link (ct_file_open()), and directories of other
 * users are refused, unless they are shared on purpose. */
#ifndef CT_OWNER_H
#define CT_OWNER_H

/** Opens a directory for writing files into it; the caller closes *fd.  Accepted are directories of
 * this user and of root, and those that a group of this user may write to while others may not.  On
 * file systems that assign all files to one user, a directory counts as this user's.  CT_ERR_IO: it
 * cannot be opened, it is another user's, or it is another user's link to a directory that is not
 * that user's. */
int ct_dir_open_own(const char *dir, int *fd);
/** The same check without an open descriptor. */
int ct_dir_check_own(const char *dir);
/** Opens or creates a lock file for reading and writing; \a dir is an open directory.  Other users
 * get no permissions, since every reader could lock the file; the group gets them if it may write
 * to the directory.  -1: errno is set. */
int ct_owner_lock_file(int dir, const char *name);
/** "user anna", or "user 1005" if the uid has no name; in buf (returned). */
const char *ct_owner_name(unsigned uid, char *buf, unsigned long cap);

#endif
