libctrain_a_SOURCES += \
  %D%/doctor.h %D%/facts.c %D%/start.c %D%/config.c \
  %D%/judge.c %D%/cores.c %D%/memory.c %D%/job.c \
  %D%/report.c %D%/json.c
