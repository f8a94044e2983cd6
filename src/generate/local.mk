libctrain_a_SOURCES += \
  %D%/ct_sample.h \
  %D%/sample.c
