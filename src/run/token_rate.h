/** \file token_rate.h  The arithmetic of a language model per token. */
#ifndef CT_TOKEN_RATE_H
#define CT_TOKEN_RATE_H
#include "data/ct_dataset.h"
#include "model/ct_graph.h"

/** Pure.  Returns the tokens of a sample; 0: samples are not windows of tokens. */
int64_t ct__tokens_per_sample(const ct_dataset_t *d);
/** Pure.  Returns the FLOPs of a training step per token: 6N + 12LCT, as PaLM (Chowdhery et al.
 * 2022, appendix B) and nanoGPT count them.  N: trained parameters without tables of positions; L:
 * layers of attention; C: features of an attention; T: tokens of a sample.  A causal model computes
 * half of the second term. */
double ct__token_flops(const ct_graph_t *g, int64_t tokens);
/** Pure.  Returns the part of the peak of all ranks that a rate uses; NaN if \a peak_tflops, that
 * of a rank, is 0: unknown. */
double ct__token_mfu(double tokens_per_s, double flops, int ranks, double peak_tflops);

#endif
