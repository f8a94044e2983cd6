libctrain_a_SOURCES += \
  %D%/ct_import.h \
  %D%/import.h \
  %D%/layer.c \
  %D%/match_attention.c \
  %D%/match_drop_path.c \
  %D%/match_tokens.c \
  %D%/open.c \
  %D%/ops_arithmetic.c \
  %D%/ops_attention.c \
  %D%/ops_conv.c \
  %D%/ops_elementwise.c \
  %D%/ops_fft.c \
  %D%/ops_index.c \
  %D%/ops_norm.c \
  %D%/ops_product.c \
  %D%/ops_random.c \
  %D%/ops_reduce.c \
  %D%/ops_rnn.c \
  %D%/ops_view.c \
  %D%/translate.c \
  %D%/value.c \
  %D%/view.c \
  %D%/write.c
