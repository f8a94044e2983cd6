/** \file ct_weights_pth.h  PyTorch's .pth files, in and out.  Layer 3.
 *
 * Read: what torch.save() wrote, the zip format and the older one before PyTorch 1.6, by a reader
 * that executes nothing.  A state dict, or a dict that has one: under the key that was asked for,
 * else the likeliest (ct_weights_likeliest()).  Tensors may be views of shared storages with any
 * stride, and parameters.
 * What is no tensor is left out with a remark; a tensor of another kind (sparse, quantized,
 * on no device), a TorchScript archive and an object of another class are refused by name.
 *
 * Written: the zip format, for torch.load(weights_only=True), also with mmap=True.  Texts are
 * records "ctrain-hpc/NAME" beside PyTorch's own, which it passes over. */
#ifndef CT_WEIGHTS_PTH_H
#define CT_WEIGHTS_PTH_H
#include "weights/ct_weights.h"

extern const ct_weights_ops_t ct_weights_pth;

#endif
