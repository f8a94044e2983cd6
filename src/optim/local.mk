libctrain_a_SOURCES += %D%/ct_optim.h %D%/optim.c %D%/schedule.c
