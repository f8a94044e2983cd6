libctrain_a_SOURCES += \
  %D%/ct_elem.h %D%/elem.c \
  %D%/ct_weights.h %D%/weights.c %D%/foreign.c \
  %D%/ct_weights_store.h %D%/checkpoint.c \
  %D%/ct_weights_safetensors.h %D%/safetensors.h \
  %D%/safetensors.c %D%/safetensors_header.c %D%/safetensors_set.c %D%/safetensors_write.c \
  %D%/ct_pickle.h %D%/pickle.c %D%/ct_zip.h %D%/zip.c %D%/zip_out.h %D%/zip_out.c \
  %D%/ct_weights_pth.h %D%/pth.h %D%/pth.c %D%/pth_dict.c %D%/pth_tensor.c %D%/pth_old.c \
  %D%/pth_read.c %D%/pth_write.c \
  %D%/ct_quant_file.h %D%/quant_file.c \
  %D%/ct_names.h %D%/names.c %D%/known.c \
  %D%/ct_init.h %D%/match.c %D%/options.c
