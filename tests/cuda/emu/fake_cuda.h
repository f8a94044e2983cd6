/** \file fake_cuda.h  The fake CUDA runtime: what a test, and other fakes, need besides CUDA's own
 * API.
 *
 * The functions of the runtime that the module uses, on the host.  Streams are queues of work that
 * is done late: when somebody waits for it, or by and by.  Read from the environment at the first
 * call:
 *
 *     CTRAIN_FAKE_GPUS=n          devices (1); 0: cudaErrorNoDevice;
 *                                 -1: cudaErrorInsufficientDriver
 *     CTRAIN_FAKE_GPU_MEMORY=n    bytes of each (8 GiB)
 *     CTRAIN_FAKE_ORDER=order     inline: at once; late: not before it is needed;
 *                                 random[:seed] (random:1): sooner or later, and the
 *                                 streams in any order that events allow
 *     CTRAIN_FAKE_CUDA_FAIL=function:n[:code],…   the n-th call of the function fails
 *                                 (code: a number of cudaError, else cudaErrorUnknown);
 *                                 a launch is "cudaLaunchKernel"
 *     CUDA_VISIBLE_DEVICES=i,…    numbers only
 *
 * With the same environment everything happens in the same order.
 *
 * Device memory is the host's, full of 0xa5; an access out of bounds is the sanitizer's to find.  A
 * kernel that is handed a pointer to host memory that is neither pinned nor registered ends with
 * cudaErrorIllegalAddress, and an emulator's fault with cudaErrorLaunchFailure; both stay, as on a
 * GPU. */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H
#include <cuda_runtime_api.h>
#ifdef __cplusplus
extern "C" {
#endif

/** Enqueues work of the host as if it were a kernel (libraries' products, collectives): later, or
 * once each launch of a graph, work(copy of the bytes at args) is called.  It returns cudaSuccess;
 * cudaErrorNotReady: not now, call me again (of other processes that must be waited for); another
 * error, which stays.  It must not call the runtime. */
cudaError_t fake_cuda_work(cudaStream_t stream, cudaError_t (*work)(void *args), const void *args,
                           size_t bytes);
/** Does some piece of work of any stream, as a GPU does while its process is busy with something
 * else.  0: there is none that could be done now. */
int fake_cuda_progress(void);
/** Forgets everything (streams, memory that was not freed, errors) and reads the environment
 * again. */
void fake_cuda_reset(void);
/** Allocations of cudaMalloc, cudaHostAlloc and cudaHostRegister that are not freed, and streams,
 * events and graphs that are not destroyed. */
int fake_cuda_alive(void);
/** 1 if something was done on the device that needs a context. */
int fake_cuda_touched(int device);

#ifdef __cplusplus
}
#endif
#endif
