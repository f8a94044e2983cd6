# CT_CUDA_PART(name): a library of CUDA in a directory of its own comes before CUDA's own folders.
AC_DEFUN([CT_CUDA_PART],[
  AS_CASE([$with_$1],[yes|check|no],[],[
    CT_FIND_IN([ct_part],[$with_$1],[$1.h],[$1])
    AS_IF([test -n "$ct_why"],[AC_MSG_ERROR([--with-$1=$with_$1: $ct_why])])
    CUDA_CPPFLAGS="$ct_part_CPPFLAGS $CUDA_CPPFLAGS"
    CUDA_LDFLAGS="-L$ct_lib $CUDA_LDFLAGS"
    ct_rpath="$ct_lib:$ct_rpath"])])

# CT_CHECK_CUDA: --with-cuda[=DIR], --with-cudnn[=DIR], --with-nccl[=DIR], --with-cuda-archs=LIST.
# Results: have_cuda, have_nccl, ct_cuda_why; NVCC, NVCC_GENCODE, CUDA_CPPFLAGS, _LDFLAGS, _LIBS, _RPATH.
# The checks need the toolkit, but neither a GPU nor a driver.
AC_DEFUN([CT_CHECK_CUDA],[
AC_ARG_VAR([NVCC],[CUDA compiler])
AC_ARG_VAR([NVCCFLAGS],[further flags for nvcc])
AC_ARG_WITH([cuda],[AS_HELP_STRING([--with-cuda@<:@=DIR@:>@],[the CUDA backend @<:@default: if the toolkit is found@:>@])],[],[with_cuda=check])
AC_ARG_WITH([cudnn],[AS_HELP_STRING([--with-cudnn@<:@=DIR@:>@],[cuDNN 9, if it is not in CUDA's own folders])],[],[with_cudnn=yes])
AC_ARG_WITH([nccl],[AS_HELP_STRING([--with-nccl@<:@=DIR@:>@],[NCCL 2.18 or later, likewise])],[],[with_nccl=check])
AC_ARG_WITH([cuda-archs],[AS_HELP_STRING([--with-cuda-archs=LIST],[GPU architectures @<:@80,90,100,120@:>@])],
  [cuda_archs=$withval ct_archs_from=given],[cuda_archs=80,90,100,120 ct_archs_from=default])
AC_ARG_ENABLE([cuda-rpath],[AS_HELP_STRING([--disable-cuda-rpath],[do not record where the CUDA libraries are])],[],[enable_cuda_rpath=yes])
have_cuda=no have_nccl=no ct_cuda_why= cuda_dir= cuda_lib=
CUDA_CPPFLAGS= CUDA_LDFLAGS= CUDA_LIBS= CUDA_RPATH= NVCC_GENCODE=
AS_IF([test "x$with_cuda" = xno],[ct_cuda_why="--without-cuda"],[
  AS_CASE([$with_cuda],
    [yes|check],[
       AC_PATH_PROG([ct_nvcc_in_path],[nvcc])
       ct_cuda_dirs="$CUDA_HOME $CUDA_PATH"
       AS_IF([test -n "$ct_nvcc_in_path"],[ct_cuda_dirs="$ct_cuda_dirs `dirname \`dirname "$ct_nvcc_in_path"\``"])
       ct_cuda_dirs="$ct_cuda_dirs /usr/local/cuda /opt/cuda"],
    [ct_cuda_dirs=$with_cuda])
  AC_MSG_CHECKING([for the CUDA toolkit])
  for d in $ct_cuda_dirs; do
    AS_IF([test -z "$cuda_dir" && test -x "$d/bin/nvcc"],[cuda_dir=$d])
  done
  AS_IF([test -z "$cuda_dir"],[
    AC_MSG_RESULT([no])
    ct_cuda_why="no nvcc in: `echo $ct_cuda_dirs`"
  ],[
    AC_MSG_RESULT([$cuda_dir])
    test -n "$NVCC" || NVCC=$cuda_dir/bin/nvcc
    dnl CUDA's word for servers with 64-bit ARM processors
    AS_CASE([`$CC -dumpmachine 2>/dev/null`],[aarch64*],[ct_cuda_target=sbsa-linux],[ct_cuda_target=x86_64-linux])
    for d in lib64 "targets/$ct_cuda_target/lib" lib; do
      AS_IF([test -z "$cuda_lib" && test -e "$cuda_dir/$d/libcudart.so"],[cuda_lib=$cuda_dir/$d])
    done
    CUDA_CPPFLAGS="-isystem $cuda_dir/include"
    CUDA_LDFLAGS="-L$cuda_lib"
    ct_rpath=$cuda_lib
    CT_CUDA_PART([cudnn])
    CT_CUDA_PART([nccl])
    AS_IF([test "x$enable_cuda_rpath" = xyes],[CUDA_RPATH="-Wl,--enable-new-dtags -Wl,-rpath,$ct_rpath"])
    # code for each architecture, and PTX of the last for what comes after it
    for a in `echo "$cuda_archs" | tr ',;' '  '`; do
      NVCC_GENCODE="$NVCC_GENCODE -gencode arch=compute_$a,code=sm_$a"
    done
    NVCC_GENCODE="$NVCC_GENCODE -gencode arch=compute_$a,code=compute_$a"
    AC_MSG_CHECKING([whether $NVCC compiles for $cuda_archs])
    echo '__global__ void k(float *p) { p@<:@threadIdx.x@:>@ = 1; } void l(float *p) { k<<<1, 32>>>(p); }' > conftest.cu
    AS_IF([$NVCC $NVCC_GENCODE $NVCCFLAGS -c conftest.cu -o conftest.o >&AS_MESSAGE_LOG_FD 2>&1],
      [AC_MSG_RESULT([yes])],[AC_MSG_RESULT([no])
       ct_cuda_why="$NVCC does not compile for $cuda_archs (config.log says why)"])
    rm -f conftest.cu conftest.o
    ct_save_CPPFLAGS=$CPPFLAGS; ct_save_LDFLAGS=$LDFLAGS; ct_save_LIBS=$LIBS
    CPPFLAGS="$CPPFLAGS $CUDA_CPPFLAGS"; LDFLAGS="$LDFLAGS $CUDA_LDFLAGS"; LIBS=
    ct_missing=
    AC_CHECK_HEADER([cuda_runtime_api.h],[],[ct_missing="$ct_missing cuda_runtime_api.h"])
    AC_CHECK_HEADER([cudnn.h],[],[ct_missing="$ct_missing cudnn.h"])
    AC_CHECK_LIB([cudart],[cudaGetDeviceCount],[CUDA_LIBS="-lcudart"],[ct_missing="$ct_missing libcudart"])
    AC_CHECK_LIB([cublasLt],[cublasLtCreate],[CUDA_LIBS="-lcublasLt $CUDA_LIBS"],[ct_missing="$ct_missing libcublasLt"])
    AC_CHECK_LIB([cudnn],[cudnnBackendFinalize],[CUDA_LIBS="-lcudnn $CUDA_LIBS"],[ct_missing="$ct_missing libcudnn"])
    AS_IF([test -n "$ct_missing"],[ct_cuda_why="missing:$ct_missing"])
    AS_IF([test -z "$ct_cuda_why"],[have_cuda=yes])
    AS_IF([test "x$have_cuda" = xyes && test "x$with_nccl" != xno],[
      AC_CHECK_HEADER([nccl.h],[AC_CHECK_LIB([nccl],[ncclCommInitRankConfig],[have_nccl=yes])])
      AS_CASE([$have_nccl,$with_nccl],
        [yes,*],[CUDA_LIBS="-lnccl $CUDA_LIBS"
                 AC_DEFINE([HAVE_NCCL],[1],[the CUDA backend has NCCL])],
        [no,check],[],
        [AC_MSG_ERROR([--with-nccl was given, but nccl.h or libnccl was not found])])])
    CPPFLAGS=$ct_save_CPPFLAGS; LDFLAGS=$ct_save_LDFLAGS; LIBS=$ct_save_LIBS
  ])])
AS_CASE([$have_cuda,$with_cuda],[yes,*|*,check|*,no],[],
  [AC_MSG_ERROR([the CUDA backend was asked for, but: $ct_cuda_why])])
AC_SUBST([CUDA_CPPFLAGS]) AC_SUBST([CUDA_LDFLAGS]) AC_SUBST([CUDA_LIBS]) AC_SUBST([CUDA_RPATH]) AC_SUBST([NVCC_GENCODE])
AM_CONDITIONAL([HAVE_CUDA],[test "x$have_cuda" = xyes])
AM_CONDITIONAL([HAVE_NCCL],[test "x$have_nccl" = xyes])
])
