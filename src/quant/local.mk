libctrain_a_SOURCES += \
  %D%/calibrate.c \
  %D%/ct_calibrate.h \
  %D%/ct_quant_file.h \
  %D%/ct_quantized.h \
  %D%/ct_range.h \
  %D%/quant_file.c \
  %D%/quantized.c \
  %D%/range.c
