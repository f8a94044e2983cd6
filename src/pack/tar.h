/** \file tar.h  The members of a tar file, one after the other.  Internal.
 *
 * POSIX ustar and pax (IEEE Std 1003.1, pax), GNU's long names and large sizes.  Only the places of
 * members are told; nothing of them is read. */
#ifndef CT_PACK_TAR_H
#define CT_PACK_TAR_H
#include "base/ct_text.h"

typedef struct ct__tar {
  int fd;
  const char *path;
  int64_t bytes; /**< of the file */
  int64_t at;    /**< of the next header */
} ct__tar_t;

typedef struct ct__tar_member {
  char name[CT_PATH_MAX];
  int64_t at, bytes; /**< of its content; 0: the archive is at its end */
  char type;         /**< '0': a file, '5': a folder, '1', '2': links; 0: there is none any more */
} ct__tar_member_t;

/** Local.  CT_ERR_IO; CT_ERR_FORMAT: is no tar file, or a compressed one.  Closed by
 * ct__tar_close(), also after an error. */
int ct__tar_open(const char *path, ct__tar_t *out);
void ct__tar_close(ct__tar_t *t);
/** The next member.  CT_ERR_FORMAT names the place: a damaged header, a member that reaches behind
 * the end of the file, a name that is too long. */
int ct__tar_next(ct__tar_t *t, ct__tar_member_t *out);

#endif
