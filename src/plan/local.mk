libctrain_a_SOURCES += %D%/ct_plan.h %D%/passes.h %D%/plan.c %D%/tables.c %D%/lower.c %D%/fuse.c %D%/slabs.c %D%/quantize.c %D%/precision.c %D%/place.c %D%/prepare.c %D%/launches.c %D%/offsets.c %D%/recompute.c %D%/arena.c %D%/buckets.c %D%/cache.c %D%/run.c %D%/traffic.c
libctrain_a_SOURCES += %D%/ct_loss.h %D%/loss.c
