libctrain_a_SOURCES += \
  %D%/ct_backend.h \
  %D%/ct_dropout.h \
  %D%/ct_element.h \
  %D%/ct_expr.h \
  %D%/ct_expr_view.h \
  %D%/ct_fake_quant.h \
  %D%/ct_host.h \
  %D%/ct_int8.h \
  %D%/ct_matmul.h \
  %D%/ct_op.h %D%/ct_op_parts.h \
  %D%/ct_op_loss.h \
  %D%/ct_op_modes.h \
  %D%/ct_op_windows.h \
  %D%/ct_random.h \
  %D%/ct_resize.h \
  %D%/ct_rope.h \
  %D%/ct_rules.h \
  %D%/ct_sdpa.h \
  %D%/ct_slabs.h \
  %D%/ct_strided.h \
  %D%/ct_update.h \
  %D%/element.c \
  %D%/expr.c \
  %D%/expr_view.c \
  %D%/host.c \
  %D%/int8.c \
  %D%/matmul.c \
  %D%/op.c \
  %D%/op_check.c \
  %D%/op_text.c \
  %D%/op_windows.c \
  %D%/rope.c \
  %D%/sdpa.c \
  %D%/slabs.c \
  %D%/strided.c
