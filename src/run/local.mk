libctrain_a_SOURCES += \
  %D%/checkpointing.c \
  %D%/ct_loop.h \
  %D%/ct_run_opts.h \
  %D%/ct_rundir.h \
  %D%/ct_steps.h \
  %D%/lines.c \
  %D%/lines.h \
  %D%/loop.c \
  %D%/loop.h \
  %D%/options.c \
  %D%/progress.c \
  %D%/progress.h \
  %D%/rundir.c \
  %D%/skipped_samples.c \
  %D%/steps.c \
  %D%/stop_policy.c \
  %D%/token_rate.c \
  %D%/token_rate.h
