libctrain_a_SOURCES += \
  %D%/ct_sweep.h \
  %D%/over.c \
  %D%/record.c \
  %D%/sweep.c \
  %D%/table.c
