libctrain_a_SOURCES += \
  %D%/ct_layer.h %D%/layers.c %D%/layer_common.h %D%/layer_common.c \
  %D%/layer_conv.c %D%/layer_linear.c %D%/layer_batchnorm.c %D%/layer_relu.c \
  %D%/layer_maxpool.c %D%/layer_avgpool.c %D%/layer_global_avgpool.c \
  %D%/layer_flatten.c %D%/layer_dropout.c %D%/layer_add.c \
  %D%/layer_act.c %D%/layer_concat.c %D%/layer_adaptive_avgpool.c \
  %D%/ct_graph.h %D%/graph_internal.h %D%/graph.c %D%/graph_make.c %D%/graph_read.c \
  %D%/graph_summary.c %D%/graph_freeze.c \
  %D%/ct_family.h %D%/families.c %D%/family_mlp.c %D%/family_lenet.c %D%/family_resnet.c \
  %D%/layer_layernorm.c %D%/layer_attention.c %D%/layer_tokens.c %D%/layer_lstm.c %D%/layer_sequence.c %D%/layer_select.c \
  %D%/family_lstm.c %D%/family_vit.c
libctrain_a_SOURCES += \
  %D%/family_vgg.c %D%/family_densenet.c %D%/family_mobilenet_v2.c %D%/family_cosmoflow.c
