/** \file io_output.h  What `bench io` measures, and how it is shown.  Layer 5. */
#ifndef CT_BENCH_IO_H
#define CT_BENCH_IO_H
#include "base/ct_text.h"
#include "data/feed/ct_io_times.h"

enum { CT_BENCH_IO_THREADS = 64 };

typedef struct ct_bench_io {
  int ranks, threads; /**< threads: of a rank, that make batches */
  int64_t batch, samples;
  double seconds, all;   /**< all: samples/s */
  char from[80], to[64]; /**< shapes of a sample: stored, and as the model sees it */
  /** Of all ranks' threads while the clock ran: nanoseconds, pieces and bytes of each phase. */
  int64_t ns[CT_IO_COUNT], times[CT_IO_COUNT], bytes[CT_IO_COUNT];
  int64_t thread_ns[CT_BENCH_IO_THREADS][CT_IO_COUNT]; /**< of each thread of rank 0 */
  int64_t disk;                                        /**< bytes that disks gave; -1: unknown */
  double mates, full_mates; /**< ct_sampler_mixing() of the order, of the full shuffle; 0: none */
} ct_bench_io_t;

/** Appended. */
int ct_bench_io_json(const ct_bench_io_t *b, ct_str_t *out);
int ct_bench_io_text(const ct_bench_io_t *b, ct_str_t *out);
/** Bytes that this process has read from disks so far, of /proc/self/io; -1: unknown. */
int64_t ct_bench_io_disk(void);

#endif
