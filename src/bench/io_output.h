/** \file io_output.h  Results of `bench io`, and their output.  Layer 5. */
#ifndef CT_BENCH_IO_H
#define CT_BENCH_IO_H
#include "base/ct_text.h"
#include "data/feed/ct_io_times.h"

enum { CT_BENCH_IO_THREADS = 64 };

typedef struct ct_bench_io {
  int ranks;
  int threads; /**< data threads per rank */
  int64_t batch, samples;
  double seconds;
  double all;    /**< samples/s of all ranks */
  char from[80]; /**< shape of a sample as it is stored */
  char to[64];   /**< shape of a sample as the model gets it */
  /** Sums over the data threads of all ranks during the measurement: nanoseconds, calls and bytes
   * of each phase. */
  int64_t ns[CT_IO_COUNT], times[CT_IO_COUNT], bytes[CT_IO_COUNT];
  int64_t thread_ns[CT_BENCH_IO_THREADS][CT_IO_COUNT]; /**< nanoseconds of each thread of rank 0 */
  int64_t disk;                                        /**< bytes read from disk; -1: unknown */
  double mates;      /**< ct_sampler_mixing() of this order; 0: not computed */
  double full_mates; /**< ct_sampler_mixing() of a full shuffle; 0: not computed */
} ct_bench_io_t;

/** Append the results as JSON or text. */
int ct_bench_io_json(const ct_bench_io_t *b, ct_str_t *out);
int ct_bench_io_text(const ct_bench_io_t *b, ct_str_t *out);
/** Returns the bytes that this process has read from disk, from /proc/self/io; -1: unknown. */
int64_t ct_bench_io_disk(void);

#endif
