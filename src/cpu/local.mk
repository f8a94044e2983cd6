libctrain_a_SOURCES += \
  %D%/ct_cpu.h %D%/cpu_backend.c %D%/cpu_ops.h \
  %D%/dnnl_glue.h %D%/dnnl_glue.c \
  %D%/cpu_product.h %D%/cpu_product.c %D%/cpu_conv.c %D%/cpu_linear.c %D%/cpu_storage.c \
  %D%/kern_bnorm.h %D%/kern_bnorm.c %D%/kern_bnorm_stats.c %D%/kern_elt.c %D%/kern_pool.c %D%/kern_dropout.c %D%/kern_reorder.c %D%/kern_loss.c %D%/kern_cast.c %D%/kern_update.c \
  %D%/kern_loops.h %D%/kern_loops.c %D%/kern_vec.h \
  %D%/kern_body_elt.h %D%/kern_body_bnorm.h %D%/kern_body_pool.h %D%/kern_body_dropout.h \
  %D%/kern_body_softmax.h %D%/kern_body_update.h %D%/kern_body_loss.h %D%/kern_body_cast.h \
  %D%/kern_isa.h %D%/kern_isa_scalar.c %D%/kern_isa_portable.c %D%/kern_isa_avx2.c %D%/kern_isa_avx512.c \
  %D%/kern_bf16_scalar.c %D%/kern_bf16_portable.c %D%/kern_bf16_avx2.c %D%/kern_bf16_avx512.c \
  %D%/cpu_tiny.c %D%/cpu_tiny.h %D%/tiny_avx2.c %D%/tiny_avx512.c %D%/tiny_body.h %D%/tiny_loops.h \
  %D%/cpu_gemm.h %D%/cpu_gemm.c %D%/cpu_lstm.c %D%/cpu_attention.c %D%/kern_lnorm.c %D%/kern_tokens.c \
  %D%/kern_body_seq.h
libctrain_a_SOURCES += \
  %D%/kern_act.c %D%/kern_concat.c %D%/kern_pool3.c %D%/kern_body_act.h %D%/kern_body_pool3.h
