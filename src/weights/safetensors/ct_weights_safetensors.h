/** \file ct_weights_safetensors.h  The format of https://github.com/huggingface/safetensors.
 * Layer 3.
 *
 * Also sets of several files, by their index (MODEL.safetensors.index.json).  What is refused is
 * what the reference refuses (its README, and tensor.rs of version 0.8), and besides: headers of
 * more than 25 MB, names that stand twice in a file or have a NUL in them, numbers beyond 63 bits.
 * Names that save_model() of the Python package has dropped, because they share another tensor's
 * memory, are there again.  Files are written as the reference writes them, to the byte, with the
 * metadata {"format": "pt"} and a text NAME of this program as "ctrain-hpc/NAME". */
#ifndef CT_WEIGHTS_SAFETENSORS_H
#define CT_WEIGHTS_SAFETENSORS_H
#include "weights/ct_weights.h"

extern const ct_weights_ops_t ct_weights_safetensors;

#endif
