libctrain_a_SOURCES += \
  %D%/bench_ops.c \
  %D%/comm.c \
  %D%/comm_output.c \
  %D%/comm_output.h \
  %D%/ct_bench.h \
  %D%/ct_data_wait.h \
  %D%/ct_forward_timing.h \
  %D%/ct_lr_range.h \
  %D%/data_wait.c \
  %D%/forward_timing.c \
  %D%/io.c \
  %D%/io_output.c \
  %D%/io_output.h \
  %D%/lr.c \
  %D%/lr_range.c \
  %D%/predict.c \
  %D%/roofline.c \
  %D%/step.c \
  %D%/step_output.c \
  %D%/step_output.h
