libctrain_a_SOURCES += \
  %D%/ct_trainer.h %D%/trainer.h %D%/trainer.c %D%/step.c %D%/input.c %D%/step_dp.c %D%/update.c %D%/recipe.c %D%/state.c %D%/loop.h %D%/loop.c %D%/saves.c %D%/stops.c %D%/lines.c %D%/eval.c \
  %D%/ct_rundir.h %D%/rundir.c %D%/ct_metrics.h %D%/metrics.c %D%/options.c %D%/ct_confusion.h %D%/confusion.c %D%/low.c %D%/repeat.c %D%/time.c \
  %D%/pace.h %D%/pace.c %D%/stragglers.h %D%/stragglers.c
