/** \file rnn.h  One LSTM layer by cuDNN's RNN functions (cudnnRNNForward and its family, version
 * 8). Module-internal.
 *
 * cuDNN keeps all weights in one block, whose layout only cuDNN knows. So each pass first copies
 * the layer's parameters into such a block, and the weight gradients back out of one. */
#ifndef GPU_RNN_H
#define GPU_RNN_H
#include "cuda/gpu.h"

typedef struct gpu__rnn gpu__rnn_t;

/** Local. Prepares the passes of \a d (CT_OP_LSTM, semantics as in ref_lstm.c). *saved and
 * *scratch: bytes from forward to backward and within a pass. CT_ERR_UNSUP: this version of
 * cuDNN, or this GPU, cannot run the layer. */
int gpu__rnn_make(ct_dev_t *dev, const ct_op_desc_t *d, gpu__rnn_t **out, size_t *saved,
                  size_t *scratch);
/** Frees a layer, which may be NULL. */
void gpu__rnn_free(gpu__rnn_t *r);

/** Operands of a pass. w: the parameters w_ih, w_hh in the type of x; b_ih, b_hh in float32. */
typedef struct gpu__rnn_memory {
  const void *x, *w[4];
  void *y, *saved, *scratch;
} gpu__rnn_memory_t;

/** Hot. Enqueues the forward pass: writes y, and `saved` if the layer is trained. */
int gpu__rnn_forward(gpu__rnn_t *r, const gpu__rnn_memory_t *m, cudaStream_t s);
/** Hot. Enqueues the backward pass; y and `saved` are those of the forward pass. dx NULL: the
 * gradient of x is not wanted. dw: the four gradients of the parameters in float32, overwritten;
 * NULL: not wanted. */
int gpu__rnn_backward(gpu__rnn_t *r, const gpu__rnn_memory_t *m, const void *dy, void *dx,
                      void *const dw[4], cudaStream_t s);

#endif
