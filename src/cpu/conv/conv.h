/** \file conv/conv.h  Convolution and its algorithms.  Module-internal. */
#ifndef CT_CPU_CONV_H
#define CT_CPU_CONV_H
#include "cpu/gemm/choose.h"

extern const cpu__op_kind_t cpu__conv;
extern const cpu__algos_t cpu__conv_algos;

extern const cpu__algo_t cpu__conv_depthwise;              /* depthwise.c */
extern const cpu__algo_t cpu__conv_by_hand;                /* few_channels.c */
extern const cpu__algo_t cpu__conv_winograd;               /* winograd.c */
extern const cpu__algo_t cpu__conv_lowered;                /* lowered.c */
extern const cpu__algo_t cpu__conv_amx_gradient;           /* amx_gradient.c */
extern const cpu__algo_t cpu__conv_direct, cpu__conv_bf16; /* onednn.c */

/** Pure.  Returns 1 if a window covers, or nearly covers, the whole input in a dim: oneDNN computes
 * wrong weight gradients for some convolutions of this kind (onednn.c). */
int cpu__conv_overreaches(const ct_op_desc_t *d);

#endif
