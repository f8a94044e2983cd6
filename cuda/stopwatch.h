/** \file stopwatch.h  Memory, a stream and two events to time algorithms with. Module-internal. */
#ifndef GPU_STOPWATCH_H
#define GPU_STOPWATCH_H
#include "cuda/gpu.h"

/** Initially {0}. */
typedef struct gpu__stopwatch {
  char *memory; /**< owned; zeros */
  cudaStream_t stream;
  cudaEvent_t begin, end;
} gpu__stopwatch_t;

/** Local. Allocates \a bytes of zeros and the rest. Call gpu__stopwatch_close() even after a
 * failure. */
int gpu__stopwatch_open(gpu__stopwatch_t *w, size_t bytes);
/** Frees everything. Clears CUDA's last error, so that the next kernel does not report one of an
 * algorithm that failed. */
void gpu__stopwatch_close(gpu__stopwatch_t *w);
int gpu__stopwatch_start(gpu__stopwatch_t *w);
/** Local. Waits for the work on the stream; *ms: milliseconds since the start. */
int gpu__stopwatch_stop(gpu__stopwatch_t *w, float *ms);

#endif
