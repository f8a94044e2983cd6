libctrain_a_SOURCES += \
  %D%/ct_decoder.h \
  %D%/ct_generate.h \
  %D%/ct_sample.h \
  %D%/decoder.c \
  %D%/generate.c \
  %D%/sample.c
