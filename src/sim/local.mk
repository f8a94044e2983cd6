libctrain_a_SOURCES += %D%/ct_sim.h %D%/sim.h %D%/backend.c %D%/times.c
