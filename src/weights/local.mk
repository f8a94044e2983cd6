libctrain_a_SOURCES += %D%/ct_elem.h %D%/ct_names.h %D%/ct_weights.h \
  %D%/names.c
