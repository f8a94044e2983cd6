libctrain_a_SOURCES += \
  %D%/ct_report.h \
  %D%/losses.c \
  %D%/page.c \
  %D%/plots.c \
  %D%/report.h \
  %D%/ct_runlog.h %D%/runlog.c %D%/runlog_text.c \
  %D%/ct_runs.h %D%/runs.h %D%/run.c \
  %D%/runs_curves.c %D%/runs_detail.c %D%/runs_page.c %D%/runs_tables.c \
  %D%/svg.c \
  %D%/svg.h \
  %D%/tables.c \
  %D%/timeline.c
