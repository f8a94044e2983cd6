/** \file tar.h  The members of a tar file, one after the other.  Internal.
 *
 * POSIX ustar and pax (IEEE Std 1003.1, pax), GNU's long names, large sizes and incremental
 * archives; several archives in one file (cat a.tar b.tar).  Only the places of members are told;
 * nothing of them is read.  Refused: sparse files, parts of several volumes, and a file that ends
 * without the blocks of zeros that end an archive, since it is cut off. */
#ifndef CT_PACK_TAR_H
#define CT_PACK_TAR_H
#include "base/ct_text.h"

typedef struct ct__tar {
  int fd;
  const char *path;
  int64_t bytes;          /**< of the file */
  int64_t at;             /**< of the next header */
  int archive;            /**< number of the archive in the file */
  char last[CT_PATH_MAX]; /**< name of the last member */
} ct__tar_t;

typedef struct ct__tar_member {
  char name[CT_PATH_MAX];
  char link[CT_PATH_MAX]; /**< of a link: the name that it leads to */
  int64_t at, bytes;      /**< of its content */
  int archive;            /**< which archive of the file it is in */
  char type; /**< '0': a file, '5': a folder, '1': a hard link, '2': a symbolic one; 0: there is
                  none any more */
} ct__tar_member_t;

/** Local.  CT_ERR_IO; CT_ERR_FORMAT: is no tar file, or a compressed one.  Closed by
 * ct__tar_close(), also after an error. */
int ct__tar_open(const char *path, ct__tar_t *out);
void ct__tar_close(ct__tar_t *t);
/** The next member.  CT_ERR_FORMAT names the place: a damaged header, a member that reaches behind
 * the end of the file, a name that is too long, no end. */
int ct__tar_next(ct__tar_t *t, ct__tar_member_t *out);

#endif
