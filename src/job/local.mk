libctrain_a_SOURCES += \
  %D%/ct_job.h %D%/number.h %D%/job.c \
  %D%/ct_launch.h %D%/launch.c \
  %D%/ct_job_energy.h %D%/energy.c \
  %D%/ct_stop.h %D%/stop.c \
  %D%/ct_walltime.h %D%/walltime.c
