libctrain_a_SOURCES += \
  %D%/ct_optim.h \
  %D%/groups.c \
  %D%/kinds.c \
  %D%/kinds.h \
  %D%/optim.c \
  %D%/plateau.c \
  %D%/scaler.c \
  %D%/schedule.c
