/** \file ct_pack_in.h  What `pack` reads: a function for each kind of source.  Layer 4.
 *
 * Each opens its files and checks what can be checked without the samples; all ranks call it, and
 * each reads for itself.  Errors: CT_ERR_IO, CT_ERR_FORMAT (names file, place, what was expected),
 * CT_ERR_NOMEM; then *out is empty.  A source that was opened is closed by out->close(out->state).
 */
#ifndef CT_PACK_IN_H
#define CT_PACK_IN_H
#include <stddef.h>

#include "hdf5io/ct_pack.h"

/** Images and labels of IDX files (MNIST's), plain or gzip. */
int ct_pack_open_idx(const char *images, const char *labels, ct_pack_source_t *out);
/** shape: of a sample, dim[0] = 1; ndim 0: flat, as wide as the file.  label: its column; -1: the
 * last. targets: so many last columns are real-valued targets (then there is no label); 0: none.
 * Lines end in LF, CR LF or CR, all in the same.  A first line that is no numbers is a header.
 * Values that are all integers in 0 … 255 become uint8, any others float32. */
int ct_pack_open_csv(const char *path, const ct_shape_t *shape, int64_t label, int64_t targets,
                     ct_pack_source_t *out);

/* ---- for those who write such a function ---- */

/** Whole file, decompressed if it is gzip; NUL-terminated; ct_mem_free. */
int ct_pack_read_file(const char *path, char **data, size_t *bytes);
/** Hash of a file's name, size and time, chained by \a seed, of its name alone if it is
 * not there. */
uint64_t ct_pack_identity(const char *path, uint64_t seed);

#endif
