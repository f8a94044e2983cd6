libctrain_a_SOURCES += \
  %D%/ct_doctor.h %D%/doctor.h %D%/facts.c %D%/nodes.c %D%/findings.c \
  %D%/judge.c %D%/judge_cores.c %D%/judge_memory.c %D%/judge_gpus.c %D%/judge_job.c \
  %D%/ct_survey.h %D%/survey.c %D%/judge_survey.c \
  %D%/report.c %D%/report_json.c %D%/report_start.c
