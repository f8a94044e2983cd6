/** \file tar.h  Iterates over the members of a tar file.  Internal.
 *
 * POSIX ustar and pax (IEEE Std 1003.1, pax), GNU's long names, large sizes and incremental
 * archives; several archives in one file (cat a.tar b.tar).  It returns the offsets of members and
 * does not read their content.  Refused: sparse files, multi-volume archives, and a file without
 * the zero blocks at the end of an archive, since it is truncated. */
#ifndef CT_PACK_TAR_H
#define CT_PACK_TAR_H
#include "base/ct_text.h"

typedef struct ct__tar {
  int fd;
  const char *path;
  int64_t bytes;          /**< size of the file */
  int64_t at;             /**< offset of the next header */
  int archive;            /**< index of the archive in the file */
  char last[CT_PATH_MAX]; /**< name of the last member */
} ct__tar_t;

typedef struct ct__tar_member {
  char name[CT_PATH_MAX];
  char link[CT_PATH_MAX]; /**< target of a link */
  int64_t at;             /**< offset of its content */
  int64_t bytes;          /**< size of its content */
  int archive;            /**< index of its archive in the file */
  char type; /**< '0': a file, '5': a folder, '1': a hard link, '2': a symbolic link; 0: the
                archive has ended */
} ct__tar_member_t;

/** Local.  Opens a tar file.  CT_ERR_IO; CT_ERR_FORMAT: not a tar file, or a compressed one.  Has
 * to be closed by ct__tar_close(), even after an error. */
int ct__tar_open(const char *path, ct__tar_t *out);
void ct__tar_close(ct__tar_t *t);
/** Reads the header of the next member.  CT_ERR_FORMAT, with the offset in the message: a damaged
 * header, a member that exceeds the file, a name that is too long, a missing end. */
int ct__tar_next(ct__tar_t *t, ct__tar_member_t *out);

#endif
