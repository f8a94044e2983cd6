libctrain_a_SOURCES += \
  %D%/ct_import.h
