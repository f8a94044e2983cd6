libctrain_a_SOURCES += \
  %D%/confusion.c \
  %D%/ct_confusion.h \
  %D%/ct_eval.h \
  %D%/ct_eval_metrics.h \
  %D%/ct_predict.h \
  %D%/eval.c \
  %D%/metrics.c \
  %D%/predict.c \
  %D%/ranking_metrics.c \
  %D%/ranking_metrics.h
