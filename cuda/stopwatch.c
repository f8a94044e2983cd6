/* Times algorithms on a stream of their own. */
#include "cuda/stopwatch.h"

int gpu__stopwatch_open(gpu__stopwatch_t *w, size_t bytes)
{
  int rc = CT_OK;
  GPU_TRY(cudaMalloc((void **)&w->memory, bytes));
  GPU_TRY(cudaStreamCreateWithFlags(&w->stream, cudaStreamNonBlocking));
  GPU_TRY(cudaEventCreate(&w->begin));
  GPU_TRY(cudaEventCreate(&w->end));
  GPU_TRY(cudaMemsetAsync(w->memory, 0, bytes, w->stream));
out:
  return rc;
}

void gpu__stopwatch_close(gpu__stopwatch_t *w)
{
  if (w->begin) (void)cudaEventDestroy(w->begin);
  if (w->end) (void)cudaEventDestroy(w->end);
  if (w->stream) (void)cudaStreamDestroy(w->stream);
  if (w->memory) (void)cudaFree(w->memory);
  (void)cudaGetLastError();
}

int gpu__stopwatch_start(gpu__stopwatch_t *w)
{
  return GPU_CHECK(cudaEventRecord(w->begin, w->stream));
}

int gpu__stopwatch_stop(gpu__stopwatch_t *w, float *ms)
{
  int rc = CT_OK;
  GPU_TRY(cudaEventRecord(w->end, w->stream));
  GPU_TRY(cudaEventSynchronize(w->end));
  GPU_TRY(cudaEventElapsedTime(ms, w->begin, w->end));
out:
  return rc;
}
