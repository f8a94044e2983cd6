libctrain_a_SOURCES += \
  %D%/ct_job.h \
  %D%/ct_job_energy.h \
  %D%/ct_launcher.h \
  %D%/ct_stop.h \
  %D%/ct_walltime.h \
  %D%/energy.c \
  %D%/job.c \
  %D%/launcher.c \
  %D%/number.h \
  %D%/stop.c \
  %D%/walltime.c
