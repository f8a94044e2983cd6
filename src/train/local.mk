libctrain_a_SOURCES += \
  %D%/ct_trainer.h %D%/options.c %D%/recipe.c \
  %D%/trainer.h %D%/trainer.c %D%/step.c %D%/dp.c %D%/input.c %D%/update.c %D%/low_weights.c %D%/repeat.c \
  %D%/state.c %D%/work_times.c
