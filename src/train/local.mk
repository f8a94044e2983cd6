libctrain_a_SOURCES += \
  %D%/arenas.c \
  %D%/average.c \
  %D%/ct_memory.h \
  %D%/ct_step_opts.h \
  %D%/ct_strategies.h \
  %D%/ct_train_opts.h \
  %D%/ct_trainer.h \
  %D%/ddp.c \
  %D%/dp.c \
  %D%/input.c \
  %D%/launch_times.c \
  %D%/memory.c \
  %D%/memory_report.c \
  %D%/observe.c \
  %D%/options.c \
  %D%/plans.c \
  %D%/qat.c \
  %D%/reduced_precision_weights.c \
  %D%/repeat.c \
  %D%/single_value_batchnorm.c \
  %D%/state.c \
  %D%/step.c \
  %D%/step_opts.c \
  %D%/sync_bn.c \
  %D%/trainer.c \
  %D%/trainer.h \
  %D%/update.c
