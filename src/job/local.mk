libctrain_a_SOURCES += \
  %D%/ct_launch.h %D%/launch.c \
  %D%/ct_stop.h %D%/stop.c \
  %D%/ct_walltime.h %D%/walltime.c
