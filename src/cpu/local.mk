src/cpu/%.$(OBJEXT): CONTRACT =

libctrain_a_SOURCES += \
  %D%/ct_cpu.h \
  %D%/team.h \
  %D%/team.c \
  %D%/kinds.h \
  %D%/kinds.c \
  %D%/op.c \
  %D%/backend.c \
  %D%/storage.c \
  %D%/conv_pool.c \
  %D%/convt.c \
  %D%/head_loss.c \
  %D%/head_pixels.c \
  %D%/head_pixels.h \
  %D%/linear.c \
  %D%/linear_bf16.c %D%/linear_amx.c \
  %D%/lstm.c \
  %D%/rnn.h \
  %D%/rnn.c \
  %D%/rnn_weights.c \
  %D%/attention.c \
  %D%/in_floats.c \
  %D%/matmul.c \
  %D%/sdpa.c %D%/sdpa_amx.c \
  %D%/convolve.c \
  %D%/gru.c
# oneDNN, or the memory formats without it
if HAVE_DNNL
libctrain_a_SOURCES += \
  %D%/onednn/glue.h %D%/onednn/glue.c %D%/onednn/prim.h %D%/onednn/int8.c
else
libctrain_a_SOURCES += %D%/onednn/glue.h %D%/onednn/without.c
endif
# micro-kernels
libctrain_a_SOURCES += \
  %D%/tile/tile.h %D%/tile/tile.c %D%/tile/tile_body.h %D%/tile/pack_body.h %D%/tile/gemm_tiled.h %D%/tile/gemm_tiled.c \
  %D%/tile/tile_portable.c %D%/tile/tile_avx2.c %D%/tile/tile_avx512.c \
  %D%/tile/bf16_dot.h %D%/tile/bf16_dot.c %D%/tile/tile_bf16_dot.c \
  %D%/tile/amx.h %D%/tile/tile_amx.c
# GEMM, and the algorithms of convolution and linear …
libctrain_a_SOURCES += \
  %D%/gemm/algorithm.h %D%/gemm/choose.h %D%/gemm/choose.c %D%/gemm/passes.h %D%/gemm/passes.c \
  %D%/gemm/primitive.h %D%/gemm/primitive.c %D%/gemm/dense.h %D%/gemm/dense.c \
  %D%/gemm/gemm_amx.h %D%/gemm/gemm_amx.c %D%/gemm/gemm_blocked.h %D%/gemm/gemm_blocked.c %D%/gemm/gemm_skinny.c
# … and those of convolution alone
libctrain_a_SOURCES += \
  %D%/conv/conv.h %D%/conv/conv.c \
  %D%/conv/amx_gradient.c \
  %D%/conv/onednn.c %D%/conv/lowered.c %D%/conv/depthwise.c %D%/conv/few_channels.c %D%/conv/few_channels_loops.h \
  %D%/conv/few_channels_body.h %D%/conv/few_channels_pixels.h %D%/conv/few_channels_avx2.c %D%/conv/few_channels_avx512.c \
  %D%/conv/few_channels_neon.c \
  %D%/conv/winograd.h %D%/conv/winograd.c %D%/conv/winograd_gradient.c %D%/conv/winograd_loops.h %D%/conv/winograd_body.h %D%/conv/winograd_portable.c \
  %D%/conv/winograd_avx2.c %D%/conv/winograd_avx512.c
# other kernels: ops, …
libctrain_a_SOURCES += \
  %D%/kern/op.h %D%/kern/act.c %D%/kern/bnorm_stats.h %D%/kern/bnorm.c %D%/kern/bnorm_stats.c %D%/kern/cast.c %D%/kern/concat.c %D%/kern/upsample.c %D%/kern/loss_pixels.h %D%/kern/loss_pixels.c \
  %D%/kern/loss_rows.h \
  %D%/kern/loss_rows.c \
  %D%/kern/loss_samples.h \
  %D%/kern/loss_samples.c \
  %D%/kern/dropout.c \
  %D%/kern/elt.c \
  %D%/kern/fake_quant.c \
  %D%/kern/gnorm.c \
  %D%/kern/lnorm.c \
  %D%/kern/loss.c \
  %D%/kern/pool.c \
  %D%/kern/channels.h \
  %D%/kern/channels.c \
  %D%/kern/cache.c \
  %D%/kern/operand.c \
  %D%/kern/reorder.c \
  %D%/kern/strided.c \
  %D%/kern/strided_body.h \
  %D%/kern/strided_sum.h \
  %D%/kern/strided_sum.c \
  %D%/kern/tokens.c \
  %D%/kern/update.c \
  %D%/kern/reduce.c \
  %D%/kern/softmax.c \
  %D%/kern/random.c \
  %D%/kern/expr.c \
  %D%/kern/expr_reduce.c \
  %D%/kern/expr.h \
  %D%/kern/rope.c \
  %D%/kern/rows.c \
  %D%/kern/free_max.h \
  %D%/kern/free_max.c
# … and their inner loops for each instruction set
libctrain_a_SOURCES += \
  %D%/kern/loops.h %D%/kern/loops.c %D%/kern/vec.h %D%/kern/isa.h \
  %D%/kern/body_act.h %D%/kern/body_bnorm.h %D%/kern/body_cast.h %D%/kern/body_depthwise.h \
  %D%/kern/body_dropout.h \
  %D%/kern/body_elt.h \
  %D%/kern/body_loss.h \
  %D%/kern/body_pool.h \
  %D%/kern/body_reduce.h \
  %D%/kern/body_seq.h \
  %D%/kern/body_softmax.h \
  %D%/kern/body_expr.h \
  %D%/kern/body_update.h \
  %D%/kern/isa_scalar.c %D%/kern/isa_portable.c %D%/kern/isa_avx2.c %D%/kern/isa_avx512.c \
  %D%/kern/bf16_scalar.c %D%/kern/bf16_portable.c %D%/kern/bf16_avx2.c %D%/kern/bf16_avx512.c
# int8
libctrain_a_SOURCES += \
  %D%/int8/int8.h %D%/int8/kinds.c %D%/int8/layout.c %D%/int8/gemm.h %D%/int8/gemm.c %D%/int8/dynamic.c %D%/int8/pool.c %D%/int8/point.c %D%/int8/reorder.c
