/** \file cases.h  The ops that every backend is tried with, as plain data. */
#ifndef CONFORM_CASES_H
#define CONFORM_CASES_H
#include "backend/ct_op.h"
#include "tests/conform/rig.h"

typedef struct op_case {
  ct_op_desc_t desc;
  data_kind_t data;
  int big; /**< more than 8 MiB: large tensors may take other paths; few trials are enough */
} op_case_t;

/** Case i of a kind into *out; 0 when there are no more. */
int case_conv(int i, op_case_t *out);
int case_linear(int i, op_case_t *out);
int case_bnorm(int i, op_case_t *out);
int case_relu(int i, op_case_t *out);
int case_act(int i, op_case_t *out);
int case_concat(int i, op_case_t *out);
/** Convolution, pooling and batch normalisation of volumes; adaptive averages. */
int case_volume(int i, op_case_t *out);
int case_pool(int i, op_case_t *out);
/** Maximum pooling of windows about and above 255 elements. */
int case_wide_pool(int i, op_case_t *out);
/** Pooling of images and volumes, drawn from a seed. */
int case_drawn_pool(int i, op_case_t *out);
int case_add(int i, op_case_t *out);
int case_dropout(int i, op_case_t *out);
int case_flatten(int i, op_case_t *out);
int case_loss(int i, op_case_t *out);
/** Cross-entropy with a label for each place of a sample; the last also for differences. */
int case_places(int i, op_case_t *out);
int case_lnorm(int i, op_case_t *out);
int case_lstm(int i, op_case_t *out);
int case_attention(int i, op_case_t *out);
int case_tokens(int i, op_case_t *out);
int case_select(int i, op_case_t *out);
int case_upsample(int i, op_case_t *out);
/** A descriptor of each kind that every backend computes, and i-th ones that none does, with words
 * of the reason. */
void sound_op(ct_op_kind_t kind, ct_op_desc_t *d);
int case_bad(int i, ct_op_desc_t *d, const char **words);
/** Small ops for central differences, of all kinds. */
int case_gradient(int i, op_case_t *out);
int case_loss_gradient(int i, op_case_t *out);
int case_volume_gradient(int i, op_case_t *out);

#endif
