libctrain_a_SOURCES += \
  %D%/ct_h5.h \
  %D%/h5_glue.h %D%/h5_glue.c %D%/h5_note.h %D%/h5_note.c \
  %D%/h5_cache.h %D%/h5_cache.c \
  %D%/h5_chunk.h %D%/h5_chunk.c %D%/h5_filter.h %D%/h5_filter.c \
  %D%/h5_filter_shuffle.c %D%/h5_filter_fletcher.c %D%/h5_filter_lzf.c %D%/h5_filter_lz4.c \
  %D%/h5_filter_zstd.c %D%/h5_filter_bitshuffle.c %D%/h5_filter_blosc2.c \
  %D%/h5_stamp.h %D%/h5_stamp.c %D%/h5_source.h %D%/h5_source.c %D%/h5_array.h %D%/h5_array.c \
  %D%/h5_cf.h %D%/h5_cf.c %D%/h5_convert.h %D%/h5_convert.c %D%/h5_retry.h %D%/h5_retry.c \
  %D%/h5_block.h %D%/h5_block.c \
  %D%/h5_files.h %D%/h5_files.c %D%/h5_list.h %D%/h5_list.c \
  %D%/h5_see.h %D%/h5_see.c %D%/h5_shard.h %D%/h5_shard.c %D%/h5_names.c %D%/h5_reader.h %D%/h5_reader.c %D%/h5_read.c %D%/h5_ahead.c %D%/h5_encoded.h %D%/h5_encoded.c %D%/h5_encoded_read.c \
  %D%/h5_seal.h %D%/h5_seal.c \
  %D%/h5_store.h %D%/h5_store_items.c %D%/h5_store.c %D%/h5_store_write.c \
  %D%/h5_weights.c %D%/h5_inspect.c \
  %D%/ct_pack.h %D%/h5_pack.h %D%/h5_pack_array.c %D%/h5_pack_encoded.c %D%/h5_pack.c
EXTRA_DIST += %D%/FORMAT.md
