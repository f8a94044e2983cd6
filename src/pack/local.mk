libctrain_a_SOURCES += \
  %D%/ct_pack_in.h %D%/file.c %D%/idx.c %D%/csv.c \
  %D%/ct_pack_job.h %D%/job.h %D%/order.c %D%/names.c %D%/bad.c %D%/job.c
