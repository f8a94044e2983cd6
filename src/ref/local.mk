libctrain_a_SOURCES += \
  %D%/ct_ref.h \
  %D%/ref.h \
  %D%/ref_act.c \
  %D%/ref_attention.c \
  %D%/ref_backend.c \
  %D%/ref_conv.c \
  %D%/ref_expr.c \
  %D%/ref_int8.c \
  %D%/ref_kinds.c \
  %D%/ref_loss.c \
  %D%/ref_low.c \
  %D%/ref_lstm.c \
  %D%/ref_matmul.c \
  %D%/ref_norm.c \
  %D%/ref_op.c \
  %D%/ref_operand.c \
  %D%/ref_point.c \
  %D%/ref_pool.c \
  %D%/ref_queue.c \
  %D%/ref_reduce.c \
  %D%/ref_rows.c \
  %D%/ref_sdpa.c \
  %D%/ref_seq.c \
  %D%/ref_strided.c \
  %D%/ref_update.c \
  %D%/ref_upsample.c \
  %D%/ref_window.c
