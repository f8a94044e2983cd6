/** \file zip_write.h  Writes a zip archive as torch.save() does: no compression, contents at
 * multiples of 64 bytes, so that they can be mapped into memory. */
#ifndef CT__WEIGHTS_ZIP_OUT_H
#define CT__WEIGHTS_ZIP_OUT_H
#include "weights/pth/ct_zip.h"

typedef struct ct__zip_out ct__zip_out_t;

/** Local. Creates path.tmp, which ct__zip_commit() renames. CT_ERR_IO, CT_ERR_NOMEM. */
int ct__zip_create(const char *path, ct__zip_out_t **out);
/** Local. Starts a record of \a bytes bytes; its content follows by one or more calls of
 * ct__zip_write(). */
int ct__zip_begin(ct__zip_out_t *o, const char *name, int64_t bytes);
int ct__zip_write(ct__zip_out_t *o, const void *from, int64_t bytes);
/** Returns the bytes still to be written to the last record. */
int64_t ct__zip_left(const ct__zip_out_t *o);
/** Local. Writes a record and its content. */
int ct__zip_put(ct__zip_out_t *o, const char *name, const void *from, int64_t bytes);
/** Local. Writes the central directory, fsync, rename; frees o also on failure. */
int ct__zip_commit(ct__zip_out_t *o);
/** Removes the temporary file; frees \a o, which may be NULL. */
void ct__zip_discard(ct__zip_out_t *o);

#endif
