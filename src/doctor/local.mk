libctrain_a_SOURCES += \
  %D%/ct_doctor.h \
  %D%/ct_survey.h \
  %D%/doctor.h \
  %D%/facts.c \
  %D%/findings.c \
  %D%/judge.c \
  %D%/judge_cores.c \
  %D%/judge_gpus.c \
  %D%/judge_job.c \
  %D%/judge_memory.c \
  %D%/judge_numa.c \
  %D%/judge_survey.c \
  %D%/nodes.c \
  %D%/report.c \
  %D%/report_json.c \
  %D%/report_start.c \
  %D%/survey.c
