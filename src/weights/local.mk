libctrain_a_SOURCES += %D%/ct_elem.h %D%/elem.c %D%/ct_names.h %D%/names.c \
  %D%/ct_weights.h %D%/weights.c %D%/ct_weights_store.h %D%/checkpoint.c \
  %D%/ct_init.h %D%/match.c %D%/options.c
