/** \file ct_io_times.h  The time breakdown of reading threads.  Layer 2.  All functions are local.
 *
 * A thread has a time breakdown and is in one phase at a time.  Time in a phase, excluding the
 * phases entered within it, is added to that phase, so the phases of a thread add up to its total
 * time.  Code that reads marks its phase:
 *
 *     ct_io_phase_t before = ct_io_enter(CT_IO_READ);
 *     n = pread(fd, to, bytes, at);
 *     ct_io_enter(before);
 *     ct_io_count(CT_IO_READ, n);
 *
 * Each change of phase reads the clock (about 25 ns), so change it once per block or sample, not
 * once per row.  In a thread without a time breakdown it costs one comparison. */
#ifndef CT_IO_TIMES_H
#define CT_IO_TIMES_H
#include <stdatomic.h>
#include <stdint.h>

/** Phases: constant, name, help text. */
#define CT_IO_LIST(X)                                                                         \
  X(WAIT, wait, "waiting for a free slot of the feed: the model is slower")                   \
  X(OPEN, open, "opening files and reading their headers")                                    \
  X(LOCK, lock, "waiting for another thread: HDF5's lock, or a block that it reads")          \
  X(READ, read, "reading bytes from files, with the work of the HDF5 library where it reads") \
  X(DECOMPRESS, decompress, "decompressing chunks")                                           \
  X(DECODE, decode, "decoding JPEG and PNG")                                                  \
  X(COPY, copy, "copying samples out of blocks, and the rest of making a batch")              \
  X(CONVERT, convert, "converting to float32")                                                \
  X(TRANSFORM, transform, "applying transforms")

#define CT_IO_NAME(upper, lower, help) CT_IO_##upper,
typedef enum ct_io_phase { CT_IO_LIST(CT_IO_NAME) CT_IO_COUNT } ct_io_phase_t;
#undef CT_IO_NAME

/** The time breakdown of a thread.  Only this thread writes it; any thread may read it. */
typedef struct ct_io_times {
  atomic_llong ns[CT_IO_COUNT];    /**< nanoseconds in each phase */
  atomic_llong times[CT_IO_COUNT]; /**< calls of ct_io_count() */
  atomic_llong bytes[CT_IO_COUNT]; /**< bytes produced: READ as stored, DECOMPRESS decoded */
} ct_io_times_t;

/** Returns the name of a phase, such as "read". */
const char *ct_io_name(ct_io_phase_t phase);
/** Returns the help text of a phase. */
const char *ct_io_help(ct_io_phase_t phase);
/** Adds the time of the calling thread to \a t (borrowed) from now on, starting in \a phase.  If
 * \a t is NULL, stops that. */
void ct_io_times_begin(ct_io_times_t *t, ct_io_phase_t phase);
/** Hot.  Changes the phase of the calling thread.  Returns the previous phase. */
ct_io_phase_t ct_io_enter(ct_io_phase_t phase);
/** Hot.  Counts one operation on \a bytes bytes. */
void ct_io_count(ct_io_phase_t phase, int64_t bytes);
/** Adds \a t to \a sum, which no other thread uses. */
void ct_io_add(ct_io_times_t *sum, const ct_io_times_t *t);

#endif
