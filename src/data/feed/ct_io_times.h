/** \file ct_io_times.h  Where the time of reading threads goes.  Layer 2.  Everything is local.
 *
 * A thread has an account, and is in one phase at a time: what it spends there, without what it
 * spends in phases entered meanwhile, is added to that phase, so that the phases of a thread add up
 * to its time.  Code that reads says where it is:
 *
 *     ct_io_phase_t before = ct_io_enter(CT_IO_READ);
 *     n = pread(fd, to, bytes, at);
 *     ct_io_enter(before);
 *     ct_io_count(CT_IO_READ, n);
 *
 * Each change of phase is a reading of the clock (some 25 ns): once a block or a sample, not once a
 * row.  A thread without an account pays one comparison. */
#ifndef CT_IO_TIMES_H
#define CT_IO_TIMES_H
#include <stdatomic.h>
#include <stdint.h>

/** Phases, with their names and what they are. */
#define CT_IO_LIST(X)                                                               \
  X(WAIT, wait, "for room in the feed: the model is slower")                        \
  X(OPEN, open, "files opened, their headers read")                                 \
  X(LOCK, lock, "waiting for another thread: HDF5's lock, a block that it reads")   \
  X(READ, read, "bytes fetched from files, with HDF5's own work where it reads")    \
  X(DECOMPRESS, decompress, "chunks decoded")                                       \
  X(DECODE, decode, "JPEG and PNG decoded")                                         \
  X(COPY, copy, "samples copied out of blocks, and what is left of making a batch") \
  X(CONVERT, convert, "to float32")                                                 \
  X(TRANSFORM, transform, "the transforms")

#define CT_IO_NAME(upper, lower, help) CT_IO_##upper,
typedef enum ct_io_phase { CT_IO_LIST(CT_IO_NAME) CT_IO_COUNT } ct_io_phase_t;
#undef CT_IO_NAME

/** The account of a thread, which alone writes it; any may look. */
typedef struct ct_io_times {
  atomic_llong ns[CT_IO_COUNT];    /**< nanoseconds in each phase */
  atomic_llong times[CT_IO_COUNT]; /**< calls of ct_io_count() */
  atomic_llong bytes[CT_IO_COUNT]; /**< what came out of it: READ as stored, DECOMPRESS decoded */
} ct_io_times_t;

/** "read" */
const char *ct_io_name(ct_io_phase_t phase);
/** What it is, for people. */
const char *ct_io_help(ct_io_phase_t phase);
/** The calling thread's time counts for \a t (borrowed) from now on, beginning in \a phase; NULL:
 * no more. */
void ct_io_account(ct_io_times_t *t, ct_io_phase_t phase);
/** Hot.  The calling thread does something else now.  Returns what it did before. */
ct_io_phase_t ct_io_enter(ct_io_phase_t phase);
/** Hot.  One piece of \a bytes was done. */
void ct_io_count(ct_io_phase_t phase, int64_t bytes);
/** Adds \a t to \a sum, which nobody else uses. */
void ct_io_add(ct_io_times_t *sum, const ct_io_times_t *t);

#endif
