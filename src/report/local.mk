libctrain_a_SOURCES += \
  %D%/ct_report.h \
  %D%/losses.c \
  %D%/page.c \
  %D%/plots.c \
  %D%/report.h \
  %D%/ct_runlog.h %D%/runlog.c %D%/runlog_text.c \
  %D%/svg.c \
  %D%/svg.h \
  %D%/tables.c \
  %D%/timeline.c
