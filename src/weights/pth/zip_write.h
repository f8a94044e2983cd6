/** \file zip_write.h  Writes a zip archive as torch.save() does: nothing compressed, contents at
 * multiples of 64 bytes, so that they can be mapped into memory. */
#ifndef CT__WEIGHTS_ZIP_OUT_H
#define CT__WEIGHTS_ZIP_OUT_H
#include "weights/pth/ct_zip.h"

typedef struct ct__zip_out ct__zip_out_t;

/** Local.  path.tmp is begun.  CT_ERR_IO */
int ct__zip_create(const char *path, ct__zip_out_t **out);
/** Local.  A record of so many bytes, which follow by ct__zip_write() in any pieces. */
int ct__zip_begin(ct__zip_out_t *o, const char *name, int64_t bytes);
int ct__zip_write(ct__zip_out_t *o, const void *from, int64_t bytes);
/** Bytes that the last record still lacks. */
int64_t ct__zip_left(const ct__zip_out_t *o);
/** Local.  A record and its content. */
int ct__zip_put(ct__zip_out_t *o, const char *name, const void *from, int64_t bytes);
/** Local.  The list, fsync, rename; frees o also on failure. */
int ct__zip_commit(ct__zip_out_t *o);
/** Removes the temporary; frees o; NULL is fine. */
void ct__zip_discard(ct__zip_out_t *o);

#endif
