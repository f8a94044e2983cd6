libctrain_a_SOURCES += \
  %D%/ct_optim.h %D%/optim_internal.h %D%/used.c %D%/optim.c %D%/groups.c %D%/schedule.c %D%/plateau.c %D%/scaler.c
