libctrain_a_SOURCES += %D%/ct_store.h %D%/ct_ckpt.h %D%/ct_score.h %D%/score.c %D%/ckpt.c %D%/disk_space.h %D%/options.c %D%/disk_space.c
