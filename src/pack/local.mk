libctrain_a_SOURCES += \
  %D%/ct_pack_in.h %D%/file.c %D%/idx.c %D%/labels.h %D%/labels.c %D%/cells.h %D%/cells.c %D%/csv.c %D%/array.h %D%/array.c %D%/npy_header.c %D%/npy.c %D%/cifar.h %D%/cifar.c %D%/cifar_names.c \
  %D%/list.h %D%/list.c %D%/folder.c %D%/list_csv.c %D%/tar.h %D%/tar.c %D%/list_tar.c \
  %D%/images.c \
  %D%/ct_pack_job.h %D%/job.h %D%/order.c %D%/names.c %D%/lock.c %D%/bad.c %D%/job.c
