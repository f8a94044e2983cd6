/** \file ct_out.h  Files that appear complete at their path, or not at all.  Layer 0.
 *
 *     ct_out_t o;
 *     ct_out_begin(&o, "model.onnx");      writes model.onnx.tmp
 *     ct_out_put(&o, data, bytes);
 *     return ct_out_commit(&o);            fsync, rename; after an error: removes the temporary
 *
 * The first error is recorded in the file: later calls do nothing and return its code, so a caller
 * may check the result of the commit only.  All functions are local; CT_ERR_IO names the file.  A
 * ct_out_t that is all zero is a file that was not begun: committing or dropping it does nothing.
 */
#ifndef CT_OUT_H
#define CT_OUT_H
#include <stddef.h>
#include <stdint.h>

#include "base/ct_text.h"

/** The fields are for reading. */
typedef struct ct_out {
  char path[CT_PATH_MAX];
  char temporary[CT_PATH_MAX]; /**< "": not begun, or committed, or dropped */
  int fd;
  int rc;     /**< code of the first error */
  int64_t at; /**< bytes appended so far */
} ct_out_t;

/** Creates path.tmp, and replaces an existing file of that name. */
int ct_out_begin(ct_out_t *o, const char *path);
/** Appends bytes to the file. */
int ct_out_put(ct_out_t *o, const void *from, int64_t bytes);
/** Writes at an offset from the beginning of the file; does not change o->at. */
int ct_out_put_at(ct_out_t *o, int64_t at, const void *from, int64_t bytes);
/** Closes the file, writes it to the disk and gives it its name; after an error, removes it. */
int ct_out_commit(ct_out_t *o);
/** Closes and removes the temporary; does nothing after a commit. */
void ct_out_drop(ct_out_t *o);

#endif
