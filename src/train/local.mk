libctrain_a_SOURCES += \
  %D%/ct_train_opts.h %D%/options.c %D%/ct_recipe.h %D%/recipe.c %D%/ct_memory.h %D%/ct_trainer.h \
  %D%/trainer.h %D%/trainer.c %D%/step.c %D%/dp.c %D%/input.c %D%/update.c %D%/low_weights.c %D%/repeat.c \
  %D%/state.c %D%/work_times.c
