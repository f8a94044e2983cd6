# The emulated module: the CUDA backend's own sources and kernels, compiled for the host, over a fake
# CUDA runtime, plain loops for the products and a fake NCCL.  CTRAIN_PLUGIN_DIR=tests/cuda/emu
# loads it.
# Unless sanitizers are used, the compiler puts calls before accesses to memory (fake_access.cc);
# the kernels include the emulator where nvcc does not compile them
emu_cxxflags = -DCT_KERNEL_HOST='"tests/cuda/emu/emu.h"' -std=gnu++17 -Wall -Wextra -Wshadow -fno-exceptions -fno-rtti -fPIC \
  -fvisibility=hidden $(CT_SAN_CXX)
emu_calls = $(if $(CT_SAN),,-fsanitize=thread)
emu_kernels = $(cuda_cu:cuda/kernels/%.cu=%D%/emu/kernels/%.o)

# what is behind the seam product.h
emu_products_c = \
  %D%/emu/host_conv.c \
  %D%/emu/host_gemm.c \
  %D%/emu/host_products.c \
  %D%/emu/fake_rnn.c \
  %D%/emu/host_sdpa.c
emu_cc = \
  %D%/emu/emu.cc \
  %D%/emu/fake_access.cc \
  %D%/emu/fake_device.cc \
  %D%/emu/fake_graph.cc \
  %D%/emu/fake_memory.cc \
  %D%/emu/fake_stream.cc
emu_h = \
  %D%/emu/host_tune.h \
  %D%/emu/emu.h \
  %D%/emu/fake.h \
  %D%/emu/fake_cuda.h
fake_nccl = \
  %D%/emu/fake_nccl.c \
  %D%/emu/fake_nccl.h \
  %D%/emu/fake_nccl_calls.c \
  %D%/emu/fake_nccl_rules.c \
  %D%/emu/fake_nccl_work.c
if HAVE_NCCL
emu_nccl_c = $(cuda_nccl_c) $(fake_nccl)
endif

nccl_tests = \
  %D%/graphs.test \
  %D%/nccl.test \
  %D%/nccl_app.test \
  %D%/nccl_calls.test \
  %D%/nccl_fails.test \
  %D%/nccl_inject.test \
  %D%/nccl_train.test \
  %D%/zero_slices.test
EXTRA_DIST += $(emu_products_c) $(emu_cc) $(emu_h) $(fake_nccl) $(nccl_tests) \
  %D%/choices.test \
  %D%/emu/STRICT.md \
  %D%/compose.test \
  %D%/conform.test \
  %D%/energy.test \
  %D%/host_states.test \
  %D%/lag.test \
  %D%/fails.test \
  %D%/deviceprop/a100.json \
  %D%/deviceprop/b200.json \
  %D%/deviceprop/h100.json \
  %D%/memory.test \
  %D%/roofline.test \
  %D%/staged.test \
  %D%/train.test

%D%/emu/kernels/%.o: cuda/kernels/%.cu
	$(AM_V_CXX)$(MKDIR_P) $(@D) && $(CXX) -x c++ $(CXXFLAGS) -Werror=switch $(emu_cxxflags) \
	  -fno-math-errno -ffp-contract=off $(emu_calls) -I$(top_srcdir)/src -I$(top_srcdir) \
	  $(CUDA_CPPFLAGS) -MD -MP -MF $(@:.o=.d) -c -o $@ $<
CLEANFILES += %D%/emu/kernels/*.o %D%/emu/kernels/*.d
-include tests/cuda/emu/kernels/*.d

if HAVE_CUDA
if HAVE_TESTS
TESTS += \
  %D%/staged.test \
  %D%/choices.test \
  %D%/memory.test \
  %D%/energy.test \
  %D%/host_states.test \
  %D%/lag.test \
  %D%/fails.test \
  %D%/train.test \
  %D%/compose.test \
  %D%/roofline.test
if HAVE_NCCL
TESTS += $(nccl_tests) tests/gpu/day.test
endif
check_PROGRAMS += %D%/t_nccl
%C%_t_nccl_SOURCES = %D%/t_nccl.c $(comm_rig)
%C%_t_nccl_LDFLAGS = $(AM_LDFLAGS) $(load_modules)
if HAVE_NCCL
check_PROGRAMS += %D%/t_fake_nccl
%C%_t_fake_nccl_SOURCES = %D%/t_fake_nccl.c $(fake_nccl)
%C%_t_fake_nccl_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%C%_t_fake_nccl_LDADD = libfakecuda.a $(test_ldadd) -lstdc++
TESTS += %D%/t_fake_nccl
endif
check_PROGRAMS += tests/gpu/t_gpu_nccl
tests_gpu_t_gpu_nccl_SOURCES = tests/gpu/t_gpu_nccl.c
tests_gpu_t_gpu_nccl_LDFLAGS = $(AM_LDFLAGS) $(load_modules)
endif
check_PROGRAMS += %D%/emu/ctrain-cuda.so
%C%_emu_ctrain_cuda_so_SOURCES = $(cuda_c) $(emu_nccl_c) $(emu_products_c) $(emu_h)
%C%_emu_ctrain_cuda_so_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%C%_emu_ctrain_cuda_so_CFLAGS = $(AM_CFLAGS) -fPIC -fvisibility=hidden
%C%_emu_ctrain_cuda_so_CXXFLAGS = $(emu_cxxflags)
%C%_emu_ctrain_cuda_so_LDFLAGS = -shared $(CT_SAN)
%C%_emu_ctrain_cuda_so_LDADD = $(emu_kernels) libfakecuda.a -lstdc++
%C%_emu_ctrain_cuda_so_DEPENDENCIES = $(emu_kernels) libfakecuda.a

# the emulator and the fake runtime alone
check_LIBRARIES += libfakecuda.a
libfakecuda_a_SOURCES = $(emu_cc)
libfakecuda_a_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS) $(if $(CT_SAN),,-DFAKE_SEES_KERNELS)
libfakecuda_a_CXXFLAGS = $(emu_cxxflags)
if HAVE_TESTS
check_PROGRAMS += %D%/t_dnn
%C%_t_dnn_SOURCES = %D%/t_dnn.c $(cuda_dnn_c) cuda/conv/dnn_check.c
%C%_t_dnn_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%C%_t_dnn_LDFLAGS = $(AM_LDFLAGS) $(CUDA_LDFLAGS) $(CUDA_RPATH)
%C%_t_dnn_LDADD = $(test_ldadd) -lcudnn
TESTS += %D%/t_dnn
# plans of attention, with a driver that has no device
check_PROGRAMS += %D%/fake_driver.so %D%/t_sdpa
%C%_fake_driver_so_SOURCES = %D%/fake_driver.c
%C%_fake_driver_so_CFLAGS = $(AM_CFLAGS) -fPIC
%C%_fake_driver_so_LDFLAGS = -shared -Wl,-soname,libcuda.so.1
%C%_fake_driver_so_LDADD =
%C%_t_sdpa_SOURCES = %D%/t_sdpa.c $(cuda_dnn_c) cuda/conv/dnn_check.c
%C%_t_sdpa_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%C%_t_sdpa_LDFLAGS = $(AM_LDFLAGS) $(CUDA_LDFLAGS) $(CUDA_RPATH)
%C%_t_sdpa_LDADD = $(test_ldadd) -lcudnn -ldl
TESTS += %D%/t_sdpa
check_PROGRAMS += %D%/t_sdpa_run
%C%_t_sdpa_run_SOURCES = %D%/t_sdpa_run.c cuda/attention/sdpa_dnn.c
%C%_t_sdpa_run_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%C%_t_sdpa_run_LDADD = libfakecuda.a $(test_ldadd) -lstdc++
TESTS += %D%/t_sdpa_run
# which plans are taken, on an invented cuDNN
check_PROGRAMS += %D%/t_conv
%C%_t_conv_SOURCES = %D%/t_conv.c cuda/conv/conv_dnn.c cuda/conv/conv_run.c cuda/conv/conv_store.c cuda/conv/conv_tune.c \
  cuda/conv/conv_graph.c cuda/conv/conv_plan.c cuda/conv/conv_text.c cuda/choices.c cuda/stopwatch.c
%C%_t_conv_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%C%_t_conv_LDADD = %D%/emu/kernels/bias.o %D%/emu/kernels/elt.o libfakecuda.a $(test_ldadd) -lstdc++
TESTS += %D%/t_conv
check_PROGRAMS += %D%/t_choices
%C%_t_choices_SOURCES = %D%/t_choices.c cuda/choices.c
%C%_t_choices_LDADD = $(test_ldadd)
TESTS += %D%/t_choices
fake_tests = %D%/t_emu %D%/t_emu_sync %D%/t_fake_cuda %D%/t_fake_graph
check_PROGRAMS += $(fake_tests)
TESTS += $(fake_tests)
tests_cuda_t_emu_sync_SOURCES = %D%/t_emu_sync.cc %D%/emu_rig.h
tests_cuda_t_emu_sync_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
tests_cuda_t_emu_sync_CXXFLAGS = $(emu_cxxflags)
tests_cuda_t_emu_sync_LDADD = libfakecuda.a $(test_ldadd)
tests_cuda_t_fake_cuda_SOURCES = %D%/t_fake_cuda.cc %D%/emu_rig.h
tests_cuda_t_fake_cuda_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS) $(emu_calls)
tests_cuda_t_fake_cuda_CXXFLAGS = $(emu_cxxflags)
tests_cuda_t_fake_cuda_LDADD = libfakecuda.a $(test_ldadd)
tests_cuda_t_fake_graph_SOURCES = %D%/t_fake_graph.cc %D%/emu_rig.h
tests_cuda_t_fake_graph_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
tests_cuda_t_fake_graph_CXXFLAGS = $(emu_cxxflags)
tests_cuda_t_fake_graph_LDADD = libfakecuda.a $(test_ldadd)
tests_cuda_t_emu_SOURCES = %D%/t_emu.cc %D%/emu_rig.h
tests_cuda_t_emu_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
tests_cuda_t_emu_CXXFLAGS = $(emu_cxxflags)
tests_cuda_t_emu_LDADD = libfakecuda.a $(test_ldadd)
# kernels of batchnorm
check_PROGRAMS += %D%/t_bnorm
bnorm_kernels = %D%/emu/kernels/bnorm.o %D%/emu/kernels/bnorm_merge.o %D%/emu/kernels/bnorm_back.o
%C%_t_bnorm_SOURCES = %D%/t_bnorm.cc %D%/emu_rig.h
%C%_t_bnorm_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%C%_t_bnorm_CXXFLAGS = $(emu_cxxflags)
%C%_t_bnorm_LDADD = $(bnorm_kernels) libfakecuda.a $(test_ldadd)
%C%_t_bnorm_DEPENDENCIES = $(bnorm_kernels) libfakecuda.a libctest.a libctrain.a
TESTS += %D%/t_bnorm %D%/conform.test
# kernels of attention
check_PROGRAMS += %D%/t_attention
%C%_t_attention_SOURCES = %D%/t_attention.cc %D%/emu_rig.h
%C%_t_attention_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%C%_t_attention_CXXFLAGS = $(emu_cxxflags)
%C%_t_attention_LDADD = %D%/emu/kernels/attention.o %D%/emu/kernels/attention_back.o \
  libfakecuda.a $(test_ldadd)
%C%_t_attention_DEPENDENCIES = %D%/emu/kernels/attention.o \
  %D%/emu/kernels/attention_back.o libfakecuda.a libctest.a libctrain.a
TESTS += %D%/t_attention
check_PROGRAMS += %D%/t_fake_lt
%C%_t_fake_lt_SOURCES = %D%/t_fake_lt.c %D%/emu/fake_lt.h %D%/emu/fake_lt.c
%C%_t_fake_lt_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%C%_t_fake_lt_LDADD = libfakecuda.a $(test_ldadd) -lstdc++
TESTS += %D%/t_fake_lt
# convolutions on a fake cuDNN
check_PROGRAMS += %D%/t_fake_dnn
%C%_t_fake_dnn_SOURCES = %D%/t_fake_dnn.c %D%/emu/fake_dnn.h %D%/emu/fake_dnn_rules.h %D%/emu/fake_dnn.c %D%/emu/fake_dnn_run.c \
  %D%/emu/host_conv.c $(cuda_dnn_c) cuda/conv/dnn_check.c
%C%_t_fake_dnn_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%C%_t_fake_dnn_LDADD = %D%/emu/kernels/bias.o libfakecuda.a $(test_ldadd) -lstdc++
TESTS += %D%/t_fake_dnn
# products on a fake cuBLASLt
check_PROGRAMS += %D%/t_gemm
%C%_t_gemm_SOURCES = %D%/t_gemm.c %D%/emu/fake_lt.h %D%/emu/fake_lt.c cuda/gemm_lt.c cuda/gemm_map.c cuda/choices.c cuda/stopwatch.c
%C%_t_gemm_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%C%_t_gemm_LDADD = libfakecuda.a $(test_ldadd) -lstdc++
TESTS += %D%/t_gemm
endif
endif
