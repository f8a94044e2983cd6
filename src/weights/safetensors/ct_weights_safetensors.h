/** \file ct_weights_safetensors.h  The format of https://github.com/huggingface/safetensors.
 * Layer 3.
 *
 * Also reads models split into several files, through their index (MODEL.safetensors.index.json).
 * Rejects what the reference implementation rejects (its README, and tensor.rs of version 0.8), and
 * also headers of more than 25 MB, names that occur twice in a file or contain a NUL, and numbers
 * of more than 63 bits. Restores tensor names that the Python package's save_model() dropped
 * because they share another tensor's memory. Written files are byte-identical to those of the
 * reference with the metadata {"format": "pt"}; a text NAME of this program becomes the metadata
 * "ctrain-hpc/NAME". */
#ifndef CT_WEIGHTS_SAFETENSORS_H
#define CT_WEIGHTS_SAFETENSORS_H
#include "weights/ct_weights.h"

extern const ct_weights_ops_t ct_weights_safetensors;

#endif
