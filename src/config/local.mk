libctrain_a_SOURCES += \
  %D%/ct_config.h %D%/config.h %D%/config.c %D%/file.c %D%/foreign.c %D%/resolve.c %D%/compare.c
