libctrain_a_SOURCES += \
  %D%/convert.c \
  %D%/convert.h \
  %D%/convert_int8.c \
  %D%/convert_int8.h \
  %D%/convert_onnx.c \
  %D%/convert_weights.c \
  %D%/ct_commands.h \
  %D%/doctor.c \
  %D%/eval.c \
  %D%/import.c \
  %D%/inspect.c \
  %D%/pack.c \
  %D%/palette.c \
  %D%/predict.c \
  %D%/predict_fields.c \
  %D%/predict_output.c \
  %D%/predict_several.c \
  %D%/predict_several.h \
  %D%/quantize.c \
  %D%/report.c \
  %D%/scale.c \
  %D%/stats.c \
  %D%/summary.c \
  %D%/train.c \
  %D%/train_mllog.c \
  %D%/train_mllog.h \
  %D%/watch.c
