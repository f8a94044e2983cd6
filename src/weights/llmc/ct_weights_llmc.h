/** \file ct_weights_llmc.h  Models of llm.c (gpt2_124M.bin), reading only. Layer 3.
 *
 * train_gpt2.py and the C programs of llm.c write them: 256 int32 (magic 20240326, version 3 for
 * float32 or 5 for bfloat16, context, vocabulary, layers, heads, channels, padded vocabulary), then
 * 16 arrays, each of all layers. Here each layer has tensors of its own, with the names of GPT-2 in
 * transformers; weights are out x in, as in torch.nn.Linear. The padding of the vocabulary is left
 * out. The text "model" has the model's numbers. */
#ifndef CT_WEIGHTS_LLMC_H
#define CT_WEIGHTS_LLMC_H
#include "weights/ct_weights.h"

extern const ct_weights_ops_t ct_weights_llmc;

#endif
