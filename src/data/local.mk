libctrain_a_SOURCES += \
  %D%/ct_reader.h %D%/reader_synthetic.c %D%/reader_images.c %D%/reader_dims.c %D%/parts.h %D%/reader_parts.c \
  %D%/ct_image.h %D%/image.h %D%/image.c %D%/image_check.c %D%/image_png.c %D%/image_jpeg.c \
  %D%/ct_io_times.h %D%/io_times.c \
  %D%/ct_sampler.h %D%/sampler.c %D%/order.c %D%/permute.c \
  %D%/ct_blocks.h %D%/blocks.h %D%/blocks.c %D%/lanes.c \
  %D%/ct_label_count.h %D%/label_count.c %D%/ct_dataset.h %D%/dataset.c %D%/ct_feed.h %D%/feed.c %D%/make.c %D%/make.h %D%/skip.c %D%/skip.h \
  %D%/ct_transform_list.h %D%/transforms.h %D%/transforms.c %D%/transform_kind.c %D%/transform_draw.c %D%/transform_affine.c \
  %D%/transform_crop.c %D%/transform_resize.c %D%/transform_color.c %D%/transform_erase.c \
  %D%/transform_mix.c %D%/transform_head.c %D%/transform_view.c %D%/transform_resample.c %D%/transform_usual.c \
  %D%/encoded.h %D%/encoded.c \
  %D%/node_dir.h %D%/node_dir.c %D%/ct_cache.h %D%/cache.h %D%/cache.c %D%/cache_fill.c %D%/cache_dir.c \
  %D%/convert.h %D%/convert.c
