libctrain_a_SOURCES += \
  %D%/ct_train_opts.h %D%/options.c %D%/ct_ways.h %D%/ct_recipe.h %D%/recipe.c \
  %D%/ct_memory.h %D%/memory.c %D%/places.c %D%/ct_trainer.h %D%/trainer.h %D%/trainer.c %D%/arenas.c %D%/plans.c \
  %D%/low_weights.c %D%/one_value.c %D%/average.c %D%/sync_bn.c %D%/input.c %D%/step.c %D%/ddp.c %D%/dp.c %D%/update.c \
  %D%/repeat.c %D%/observe.c %D%/qat.c %D%/state.c %D%/work_times.c
