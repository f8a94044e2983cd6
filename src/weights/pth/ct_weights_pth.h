/** \file ct_weights_pth.h  PyTorch's .pth files, reading and writing, and the weights of .pt2
 * files. Layer 3.
 *
 * Reads files of torch.save(), both the zip format and the legacy format before PyTorch 1.6,
 * without executing anything. Loads a state dict, or a dict that contains one: under the given
 * key, else the most likely one (ct_weights_likeliest()). Tensors may be views of shared storages
 * with any stride, and parameters. Items that are not tensors are skipped with a remark. Other
 * kinds of tensors (sparse, quantized, meta), TorchScript archives and objects of other classes
 * are rejected with a message that names them.
 *
 * Of a file that torch.export.save() wrote (.pt2), the parameters and persistent buffers are read,
 * under their names in the state dict; its program is not.
 *
 * Writes the zip format, which torch.load(weights_only=True) reads, also with mmap=True. Texts are
 * stored as records "ctrain-hpc/NAME", which PyTorch ignores. */
#ifndef CT_WEIGHTS_PTH_H
#define CT_WEIGHTS_PTH_H
#include "weights/ct_weights.h"

extern const ct_weights_ops_t ct_weights_pth;

#endif
