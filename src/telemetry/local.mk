libctrain_a_SOURCES += \
  %D%/ct_events.h \
  %D%/ct_histograms.h \
  %D%/ct_meter.h \
  %D%/ct_metrics.h \
  %D%/ct_mllog.h \
  %D%/ct_runlog.h \
  %D%/ct_stragglers.h \
  %D%/ct_time_breakdown.h \
  %D%/ct_time_breakdown_lines.h \
  %D%/ct_trace_file.h \
  %D%/events.c \
  %D%/events.h \
  %D%/events_run.c \
  %D%/histograms.c \
  %D%/meter.c \
  %D%/metrics.c \
  %D%/mllog.c \
  %D%/runlog.c \
  %D%/slow_rank_stats.c \
  %D%/slow_rank_stats.h \
  %D%/stragglers.c \
  %D%/time_breakdown.c \
  %D%/time_breakdown_json.c \
  %D%/time_breakdown_lines.c \
  %D%/trace_file.c
