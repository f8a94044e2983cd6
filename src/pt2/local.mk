libctrain_a_SOURCES += \
  %D%/args.c \
  %D%/change.c \
  %D%/complex.c \
  %D%/complex.h \
  %D%/complex_fft.c \
  %D%/complex_make.c \
  %D%/complex_ops.c \
  %D%/complex_product.c \
  %D%/ct_pt2.h \
  %D%/data.c \
  %D%/expr.c \
  %D%/fold.c \
  %D%/fold.h \
  %D%/fold_array.c \
  %D%/fold_list.c \
  %D%/fold_math.c \
  %D%/fold_shape.c \
  %D%/get.c \
  %D%/graph.c \
  %D%/live.c \
  %D%/make.c \
  %D%/memory.c \
  %D%/names.c \
  %D%/open.c \
  %D%/pt2.h \
  %D%/schema.c \
  %D%/schemas.c \
  %D%/signature.c \
  %D%/simplify.c \
  %D%/view.c
EXTRA_DIST += %D%/make_schemas.py
