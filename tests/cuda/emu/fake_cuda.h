/** \file fake_cuda.h  The fake CUDA runtime: functions for tests and other fakes.
 *
 * Implements the runtime functions that the CUDA module uses, on the host.  A stream is a queue of
 * actions that run later: when the program waits for them, or at random calls.  The environment is
 * read at the first call:
 *
 *     CTRAIN_FAKE_GPUS=n          number of devices (1); 0: cudaErrorNoDevice;
 *                                 -1: cudaErrorInsufficientDriver
 *     CTRAIN_FAKE_GPU_MEMORY=n    bytes of each device (8 GiB)
 *     CTRAIN_FAKE_ORDER=order     inline: actions run at once; late: only when needed;
 *                                 random[:seed] (random:1): at random times, streams in
 *                                 any order that events allow
 *     CTRAIN_FAKE_CUDA_FAIL=function:n[:code],…   the n-th call of the function fails
 *                                 (code: a number of cudaError, else cudaErrorUnknown);
 *                                 a launch is "cudaLaunchKernel"; "alloc": a call that
 *                                 allocates, of any function and of fake libraries, for which
 *                                 there is no memory; "any": a call of any function except those
 *                                 that poll
 *     CTRAIN_FAKE_CUDA_ACCOUNT=file   the process writes to file.<pid> at its end: numbers of
 *                                 calls "alloc" and "any", failures injected, objects alive,
 *                                 hazards
 *     CTRAIN_FAKE_HAZARDS=0       accesses that nothing orders are no errors
 *     CUDA_VISIBLE_DEVICES=i,…    numbers only
 *
 * The same environment gives the same order of execution.
 *
 * Device memory is host memory, filled with 0xa5.  Accesses outside of allocated memory, and those
 * of two streams to the same bytes that nothing orders, end the action with
 * cudaErrorIllegalAddress (fake_access.cc).  A kernel that gets a pointer to host memory that is
 * neither pinned nor registered fails with the same error, and a fault in the emulator with
 * cudaErrorLaunchFailure; both errors are sticky, as on a GPU.  STRICT.md has all rules. */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H
#include <cuda_runtime_api.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

/** Enqueues a host function as if it were a kernel, for fake libraries (GEMM, collectives).  Later,
 * or once in each launch of a graph, work() is called with a copy of the bytes at args.  It returns
 * cudaSuccess; cudaErrorNotReady if it waits for another process and must be called again; or an
 * error, which is sticky.  It must not call the runtime. */
cudaError_t fake_cuda_work(cudaStream_t stream, cudaError_t (*work)(void *args), const void *args,
                           size_t bytes);
/** The same; gone() is called with the copy when no stream and no graph holds the work any more,
 * also if this function fails.  It must not call the runtime. */
cudaError_t fake_cuda_work_owned(cudaStream_t stream, cudaError_t (*work)(void *args),
                                 const void *args, size_t bytes, void (*gone)(void *args));
/** Returns a number that changes when something is put into the stream, or captured from it. */
int64_t fake_cuda_position(cudaStream_t stream);
/** Called by a function of a fake library that allocates: an injected failure, or cudaSuccess. */
cudaError_t fake_cuda_library(const char *function);
/** Called by the work of a fake library: it reads or writes these bytes now. */
void fake_cuda_access(const void *p, size_t bytes, int writes);
/** Returns the number of hazards found: accesses to the same bytes, at least one of them a write,
 * that nothing orders. */
int fake_cuda_hazards(void);
/** Returns 1 if the accesses of kernels are seen, 0 in a build with sanitizers. */
int fake_cuda_sees_kernels(void);
/** Runs one action of any stream, as a GPU makes progress while its process is busy.  Returns 0 if
 * no action can run now. */
int fake_cuda_progress(void);
/** Discards all state (streams, leaked memory, errors) and reads the environment again. */
void fake_cuda_reset(void);
/** Returns the number of leaked objects: memory of cudaMalloc, cudaHostAlloc and cudaHostRegister,
 * streams, events and graphs. */
int fake_cuda_alive(void);
/** Returns 1 if something was done on the device that needs a context. */
int fake_cuda_touched(int device);

#ifdef __cplusplus
}
#endif
#endif
