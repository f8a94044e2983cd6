libctrain_a_SOURCES += \
  %D%/ct_run_opts.h %D%/options.c %D%/ct_steps.h %D%/steps.c %D%/ct_loop.h %D%/loop.h %D%/loop.c %D%/saves.c %D%/stops.c %D%/lines.h %D%/lines.c %D%/shown.h %D%/shown.c %D%/skips.c \
  %D%/ct_range.h %D%/range.c %D%/ct_calibrate.h %D%/calibrate.c \
  %D%/ct_eval.h %D%/eval.c %D%/ct_measures.h %D%/measures.c %D%/scored.h %D%/scored.c %D%/ct_confusion.h %D%/confusion.c \
  %D%/ct_predict.h %D%/predict.c \
  %D%/ct_rundir.h %D%/rundir.c %D%/ct_metrics.h %D%/metrics.c %D%/ct_mllog.h %D%/mllog.c \
  %D%/ct_events.h %D%/events.h %D%/events.c %D%/events_about.c %D%/histograms.c \
  %D%/ct_account.h %D%/account.c %D%/account_json.c %D%/account_lines.h %D%/account_lines.c \
  %D%/trace.c %D%/ct_meter.h %D%/meter.c \
  %D%/pace.h %D%/pace.c %D%/stragglers.h %D%/stragglers.c
