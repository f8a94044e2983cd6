libctrain_a_SOURCES += \
  %D%/ct_optim.h %D%/kinds.h %D%/kinds.c %D%/optim.c %D%/groups.c %D%/schedule.c %D%/plateau.c %D%/scaler.c
