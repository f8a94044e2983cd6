libctrain_a_SOURCES += \
  %D%/blend.c \
  %D%/class_counts.c \
  %D%/class_counts.h \
  %D%/compared.h \
  %D%/confusion.c \
  %D%/ct_blend.h \
  %D%/ct_confusion.h \
  %D%/ct_eval.h \
  %D%/ct_eval_metrics.h \
  %D%/ct_predict.h \
  %D%/eval.c \
  %D%/exact_sum.c \
  %D%/exact_sum.h \
  %D%/field_errors.c \
  %D%/field_errors.h \
  %D%/metrics.c \
  %D%/predict.c \
  %D%/ranking_metrics.c \
  %D%/ranking_metrics.h
