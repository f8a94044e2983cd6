libctrain_a_SOURCES += \
  %D%/ct_reader.h %D%/reader_synthetic.c \
  %D%/ct_sampler.h %D%/sampler.c \
  %D%/ct_feed.h %D%/dataset.c %D%/transforms.c %D%/feed.c \
  %D%/convert.h %D%/convert.c
