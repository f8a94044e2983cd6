# The CUDA backend: a module loaded at run time.  nvcc compiles the kernels, mpicc the C files.
cuda_c = \
  %D%/gpu.h %D%/gemm_conv.h %D%/kernels/step_params.h %D%/kernels/kernel.h %D%/kernels/elt.h \
  %D%/kernels/map.h %D%/kernels/reorder.h %D%/kernels/bytes.h %D%/kernels/bias.h %D%/kernels/depthwise.h \
  %D%/op_conv.c %D%/op_conv_pool.c %D%/op_convt.c %D%/op_convolve.c %D%/choices.h %D%/choices.c %D%/stopwatch.h %D%/stopwatch.c \
  %D%/card.h %D%/card.c %D%/backend.c %D%/energy.c %D%/memory.c %D%/queue.c %D%/repeat.c %D%/op.c %D%/module.c \
  %D%/op_elt.c %D%/op_reorder.c
# matrix products and the layers built on them
cuda_c += %D%/gemm_map.h %D%/gemm_map.c %D%/dense.h %D%/dense.c %D%/op_linear.c \
  %D%/op_lnorm.c \
  %D%/kernels/lnorm.h \
  %D%/kernels/softmax.h \
  %D%/kernels/reduce.h \
  %D%/kernels/rows.h \
  %D%/op_lstm.c \
  %D%/kernels/lstm.h \
  %D%/op_attention.c \
  %D%/op_matmul.c \
  %D%/op_softmax.c \
  %D%/op_reduce.c \
  %D%/op_sdpa.c \
  %D%/kernels/attention.h \
  %D%/kernels/attention_tiles.h \
  %D%/op_gru.c \
  %D%/kernels/gru.h
# RNNs of cuDNN
cuda_c += %D%/rnn/rnn.h %D%/rnn/rnn_dnn.c %D%/conv/dnn_check.c %D%/library_handles.h
# the NCCL communicator
cuda_nccl_all_c = %D%/nccl/comm_nccl.h %D%/nccl/comm_nccl.c %D%/nccl/comm_nccl_calls.c %D%/nccl/comm_nccl_waits.c %D%/nccl/nccl_check.c
EXTRA_DIST += $(cuda_nccl_all_c)
if HAVE_NCCL
cuda_nccl_c = $(cuda_nccl_all_c)
endif
# implementation of product.h
cuda_products_c = %D%/library_handles.c \
  %D%/conv/conv_dnn.c %D%/conv/conv_run.c %D%/conv/conv_store.c %D%/conv/conv_tune.c %D%/attention/sdpa_dnn.c $(cuda_dnn_c)
# the part that needs no device
cuda_dnn_c = %D%/conv/dnn.h %D%/conv/dnn_graph.c %D%/conv/dnn_plan.c %D%/conv/conv_plan.h %D%/conv/conv_graph.c %D%/conv/conv_plan.c %D%/conv/conv_text.c \
  %D%/attention/sdpa_plan.h %D%/attention/sdpa_graph.c
cuda_cu = %D%/kernels/elt.cu %D%/kernels/reorder.cu %D%/kernels/bytes.cu %D%/kernels/bias.cu %D%/kernels/depthwise.cu
cuda_products_c += %D%/gemm_lt.c
cuda_cu += %D%/kernels/lnorm.cu %D%/kernels/softmax.cu %D%/kernels/reduce.cu %D%/kernels/lstm.cu \
  %D%/kernels/gru.cu %D%/kernels/attention.cu %D%/kernels/attention_back.cu
# batch and group normalization
cuda_c += %D%/op_bnorm.c %D%/kernels/bnorm.h %D%/kernels/bnorm_lanes.h
cuda_c += %D%/op_gnorm.c %D%/kernels/gnorm.h
cuda_cu += %D%/kernels/gnorm.cu
cuda_cu += %D%/kernels/bnorm.cu %D%/kernels/bnorm_merge.cu %D%/kernels/bnorm_back.cu
# the optimizer
cuda_c += %D%/kernels/update.h %D%/op_update.c
cuda_cu += %D%/kernels/update.cu
# pooling, losses
cuda_c += %D%/op_pool.c %D%/kernels/pool.h %D%/op_loss.c %D%/kernels/loss.h
cuda_cu += %D%/kernels/pool.cu %D%/kernels/loss.cu %D%/kernels/loss_pixels.cu
cuda_c += %D%/kernels/loss_focal.h
cuda_c += %D%/op_head_loss.c
cuda_cu += %D%/kernels/loss_samples.cu
# element by element, and parts of rows
cuda_c += %D%/kernels/vec_access.h %D%/kernels/act.h %D%/op_act.c \
  %D%/kernels/dropout.h %D%/op_dropout.c %D%/kernels/concat.h %D%/op_concat.c %D%/op_tokens.c \
  %D%/op_operand.c \
  %D%/op_cache.c \
  %D%/op_strided.c \
  %D%/op_expr.c \
  %D%/kernels/expr.h \
  %D%/kernels/expr_fn.h \
  %D%/kernels/strided.h \
  %D%/op_rope.c \
  %D%/kernels/rope.h \
  %D%/op_rows.c \
  %D%/kernels/table_rows.h \
  %D%/kernels/upsample.h %D%/op_upsample.c
cuda_c += %D%/kernels/fake_quant.h %D%/op_fake_quant.c
cuda_cu += %D%/kernels/fake_quant.cu %D%/kernels/act.cu %D%/kernels/expr.cu %D%/kernels/dropout.cu \
  %D%/kernels/concat.cu %D%/kernels/upsample.cu %D%/kernels/strided.cu %D%/kernels/table_rows.cu
cuda_cu += %D%/kernels/rope.cu
EXTRA_DIST += $(cuda_c) $(cuda_products_c) $(cuda_cu) m4/ct_cuda.m4

AM_V_NVCC = $(am__v_NVCC_@AM_V@)
am__v_NVCC_ = $(am__v_NVCC_@AM_DEFAULT_V@)
am__v_NVCC_0 = @echo "  NVCC    " $@;
SUFFIXES = .cu
.cu.o:
	$(AM_V_NVCC)$(MKDIR_P) $(@D) && $(NVCC) $(NVCC_GENCODE) -O3 -std=c++17 -lineinfo -Xfatbin=-compress-all \
	  -I$(top_srcdir)/src -I$(top_srcdir) $(NVCCFLAGS) \
	  --compiler-options=-fPIC,-fno-exceptions,-fno-rtti,-Wall,-fvisibility=hidden \
	  -MD -MP -MT $@ -MF $(@:.o=.cud) -c -o $@ $<
CLEANFILES += cuda/kernels/*.cud cuda/kernels/*.o
-include cuda/kernels/*.cud

if HAVE_CUDA
module_PROGRAMS += ctrain-cuda.so
ctrain_cuda_so_SOURCES = $(cuda_c) $(cuda_nccl_c) $(cuda_products_c)
ctrain_cuda_so_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
ctrain_cuda_so_CFLAGS = $(AM_CFLAGS) -fPIC -fvisibility=hidden
ctrain_cuda_so_LDFLAGS = -shared $(CT_SAN) $(CUDA_LDFLAGS) $(CUDA_RPATH)
ctrain_cuda_so_LDADD = $(cuda_cu:.cu=.o) $(CUDA_LIBS) -lstdc++
ctrain_cuda_so_DEPENDENCIES = $(cuda_cu:.cu=.o)
endif
