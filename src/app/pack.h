/** \file pack.h  What `pack` reads: IDX and csv files as sources of samples.  Layer 5, local. */
#ifndef CT_PACK_H
#define CT_PACK_H
#include "data/ct_sampler.h"
#include "hdf5io/ct_h5.h"

/** An opened source; how many classes its labels show. */
typedef struct ct_pack_input {
  ct_pack_source_t src;
  int64_t classes; /**< highest label of the whole file + 1 */
  void (*close)(void *state);
} ct_pack_input_t;

/** Which rows of a file: [first, last), cut to what there is, after they were shuffled or not. */
typedef struct ct_pack_rows {
  int64_t first, last;
  int shuffle;
  uint64_t seed;
} ct_pack_rows_t;

/** Goes through those rows. */
typedef struct ct_pack_walk {
  ct_sampler_t order;
  int64_t at, end;
} ct_pack_walk_t;

/** The files are read at once and checked; src.next cannot fail later.  CT_ERR_IO, CT_ERR_FORMAT
 * (names file, place, what was expected), CT_ERR_USAGE (an empty range). */
int ct_pack_open_idx(const char *images, const char *labels, const ct_pack_rows_t *rows,
                     ct_pack_input_t *out);
/** shape: of a sample, dim[0] = 1; ndim 0: flat, as wide as the file.  label: its column; -1: the
 * last. targets: so many last columns are real-valued targets (then there is no label); 0: none.
 * Lines end in LF, CR LF or CR, all in the same.  A first line that is no numbers is a header.
 * Values that are all integers in 0 … 255 become uint8, any others float32. */
int ct_pack_open_csv(const char *path, const ct_shape_t *shape, int64_t label, int64_t targets,
                     const ct_pack_rows_t *rows, ct_pack_input_t *out);

/** Only the samples of the classes [first, last) of \a in, which are counted from 0 then.  \a same
 * is another source of the same samples, which is used up to count them.  CT_ERR_USAGE: there is
 * none. */
int ct_pack_only(ct_pack_input_t *in, ct_pack_source_t *same, int64_t first, int64_t last);

/** Whole file, decompressed if it is gzip; NUL-terminated; ct_mem_free. */
int ct_pack_read_file(const char *path, char **data, size_t *bytes);
/** Begins a walk through a file that has \a have rows.  CT_ERR_USAGE if none of them is asked
 * for. */
int ct_pack_walk_begin(ct_pack_walk_t *w, const char *path, int64_t have,
                       const ct_pack_rows_t *rows);
/** Number of the next row; there must be one. */
int64_t ct_pack_walk_next(ct_pack_walk_t *w);

#endif
