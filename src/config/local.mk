libctrain_a_SOURCES += \
  %D%/ct_config.h %D%/config.c %D%/resolve.c %D%/compare.c
