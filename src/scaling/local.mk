libctrain_a_SOURCES += \
  %D%/ct_scaling.h \
  %D%/ct_study.h \
  %D%/ct_timeline.h \
  %D%/fit.c \
  %D%/links.c \
  %D%/predict.c \
  %D%/print.c \
  %D%/scaling.h \
  %D%/study.c \
  %D%/study_sizes.c \
  %D%/term_list.c \
  %D%/terms.c \
  %D%/timeline.c
