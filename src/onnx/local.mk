libctrain_a_SOURCES += \
  %D%/ct_onnx.h \
  %D%/onnx.h \
  %D%/onnx_attention.c \
  %D%/onnx_cache.c \
  %D%/onnx_expr.c \
  %D%/onnx_file.c \
  %D%/onnx_layer.h \
  %D%/onnx_layers.c \
  %D%/onnx_move.c \
  %D%/onnx_node.c \
  %D%/onnx_products.c \
  %D%/onnx_quant.c \
  %D%/onnx_rnn.c \
  %D%/onnx_rope.c \
  %D%/onnx_tensor.c \
  %D%/onnx_windows.c
