/* Which kind of op does what. */
#include "ref/ref.h"

const ct__ref_kind_t *const ct__ref_kinds[CT_OP_COUNT] = {
    [CT_OP_CONV] = &ct__ref_conv,           [CT_OP_LINEAR] = &ct__ref_linear,
    [CT_OP_BNORM] = &ct__ref_bnorm,         [CT_OP_RELU] = &ct__ref_relu,
    [CT_OP_POOL] = &ct__ref_pool,           [CT_OP_ADD] = &ct__ref_add,
    [CT_OP_DROPOUT] = &ct__ref_dropout,     [CT_OP_REORDER] = &ct__ref_reorder,
    [CT_OP_LOSS] = &ct__ref_loss,           [CT_OP_UPDATE] = &ct__ref_update,
    [CT_OP_GRADSTAT] = &ct__ref_gradstat,   [CT_OP_MEASURE] = &ct__ref_measure,
    [CT_OP_LNORM] = &ct__ref_lnorm,         [CT_OP_LSTM] = &ct__ref_lstm,
    [CT_OP_ATTENTION] = &ct__ref_attention, [CT_OP_TOKENS] = &ct__ref_tokens,
    [CT_OP_SELECT] = &ct__ref_select,       [CT_OP_ACT] = &ct__ref_act,
    [CT_OP_CONCAT] = &ct__ref_concat,       [CT_OP_FAKE_QUANT] = &ct__ref_fake_quant,
    [CT_OP_UPSAMPLE] = &ct__ref_upsample,
};
