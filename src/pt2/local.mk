libctrain_a_SOURCES += \
  %D%/ct_pt2.h
