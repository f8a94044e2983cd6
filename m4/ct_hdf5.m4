# An HDF5 for parallel programs belongs to one MPI: its hdf5.h includes that MPI's mpi.h.  Compiled
# with another one, a program starts as many separate runs as it has ranks, or crashes.

# CT_SAME_MPI(CPPFLAGS, LDFLAGS and LIBS of libraries, HDF5 among them)
# Sets ct_differs: empty if a program with these flags has the MPI that CC compiles for, else what it
# has.  One program is compiled, linked and, where that is possible, run.
AC_DEFUN([CT_SAME_MPI],[
  ct_differs= ct_said=
  ct_same_CPPFLAGS=$CPPFLAGS; ct_same_LIBS=$LIBS
  CPPFLAGS="$1 $CPPFLAGS $MPI_CPPFLAGS"; LIBS="$2 $MPI_LIBS $LIBS -ldl"
  CT_WHICH_MPI([ct_behind])
  AS_IF([test "$ct_behind" != "$ct_mpi"],[ct_differs="mpi.h of $ct_behind"],[
    AC_LINK_IFELSE([AC_LANG_SOURCE([[#include <dlfcn.h>
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>
static herr_t (*volatile used)(void) = H5open;
int main(void)
{
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int n;
  void *all = dlopen(NULL, RTLD_LAZY);
  MPI_Get_library_version(text, &n);
  text[strcspn(text, "\n")] = 0;
  if (all && dlsym(all, "ompi_mpi_init") && dlsym(all, "MPIR_Dup_fn"))
    printf("both Open MPI and a relative of MPICH");
  else
    printf("%s", text);
  return !used;
}]])],[
      AS_IF([test "$cross_compiling" = no],[
        ct_said=`./conftest$EXEEXT 2>&AS_MESSAGE_LOG_FD | tr '\011' ' '`])],
      [ct_differs="flags that do not compile and link (config.log)"])
    AS_CASE([$ct_mpi,$ct_said],
      [*,both*],[ct_differs="libraries of $ct_said"],
      ["Open MPI",*MPICH*|"Open MPI",*"Intel(R) MPI"*|"Open MPI",*MVAPICH*],[ct_differs="the library of $ct_said"],
      ["Open MPI",*],[],
      [*,"Open MPI"*],[ct_differs="the library of $ct_said"])])
  CPPFLAGS=$ct_same_CPPFLAGS; LIBS=$ct_same_LIBS])

# CT_CHOOSE_HDF5: which of pkg-config's HDF5s fits the MPI.  hdf5.pc may be that of another MPI: where
# several are installed, Debian lets it lead to any of them, or nowhere.
# Results: ct_hdf5_pc (empty: none), ct_pc_hdf5 (what is wrong with those before it, for messages)
AC_DEFUN([CT_CHOOSE_HDF5],[
AC_ARG_VAR([HDF5_PC],[pkg-config's name of HDF5; else hdf5, hdf5-serial, and hdf5-mpich or hdf5-openmpi are tried])
ct_hdf5_pc= ct_pc_hdf5=
AS_CASE([$with_hdf5,$PKG_CONFIG],
  [*,|no,*],[],
  [,*|yes,*|check,*],[
    ct_own=
    AS_CASE([$ct_mpi],["Open MPI"],[ct_own=hdf5-openmpi],[MPICH],[ct_own=hdf5-mpich])
    AC_MSG_CHECKING([which HDF5 of pkg-config fits $ct_mpi])
    for ct_pc in ${HDF5_PC:-hdf5 hdf5-serial $ct_own}; do
      AS_IF([test -n "$ct_hdf5_pc"],[],
        [$PKG_CONFIG --exists $ct_pc],[
          ct_pc_CPPFLAGS=`$PKG_CONFIG --cflags $ct_pc` ct_pc_LIBS=`$PKG_CONFIG --libs $ct_pc`
          CT_SAME_MPI([$ct_pc_CPPFLAGS],[$ct_pc_LIBS])
          AS_IF([test -z "$ct_differs"],[ct_hdf5_pc=$ct_pc],
            [ct_pc_hdf5="$ct_pc_hdf5; $ct_pc.pc brings $ct_differs"])],
        [ct_pc_hdf5="$ct_pc_hdf5; pkg-config has no usable $ct_pc.pc"])
    done
    AC_MSG_RESULT([${ct_hdf5_pc:-none}$ct_pc_hdf5])
    AS_IF([test -n "$HDF5_PC" && test -z "$ct_hdf5_pc"],
      [AC_MSG_ERROR([HDF5_PC=$HDF5_PC does not fit$ct_pc_hdf5])])])])

# CT_CHECK_MPI_BEHIND: stops if any library has brought another MPI.
AC_DEFUN([CT_CHECK_MPI_BEHIND],[
AC_MSG_CHECKING([whether it is still $ct_mpi with all libraries])
CT_SAME_MPI([$DNNL_CPPFLAGS $HDF5_CPPFLAGS $YAML_CPPFLAGS $JANSSON_CPPFLAGS $DEFLATE_CPPFLAGS dnl
$XXHASH_CPPFLAGS $JPEG_CPPFLAGS $PNG_CPPFLAGS $LZ4_CPPFLAGS $ZSTD_CPPFLAGS $BLOSC_CPPFLAGS dnl
$BLOSC2_CPPFLAGS],
  [$DNNL_LDFLAGS $HDF5_LDFLAGS $YAML_LDFLAGS $JANSSON_LDFLAGS $DEFLATE_LDFLAGS $JPEG_LDFLAGS $PNG_LDFLAGS dnl
$LZ4_LDFLAGS $ZSTD_LDFLAGS $BLOSC_LDFLAGS $BLOSC2_LDFLAGS $DNNL_LIBS $HDF5_LIBS $YAML_LIBS $JANSSON_LIBS $DEFLATE_LIBS dnl
$JPEG_LIBS $PNG_LIBS $LZ4_LIBS $ZSTD_LIBS $BLOSC_LIBS $BLOSC2_LIBS])
AS_IF([test -n "$ct_differs"],[AC_MSG_RESULT([no: $ct_differs])],
  [AC_MSG_RESULT([yes${ct_said:+ ($ct_said)}])])
AS_IF([test -n "$ct_differs"],[AC_MSG_ERROR([the libraries bring $ct_differs, but $CC compiles for $ct_mpi. HDF5 is taken by: $HDF5_CPPFLAGS $HDF5_LDFLAGS $HDF5_LIBS. Take a serial one or that of $ct_mpi: HDF5_PC=hdf5-serial (Debian: libhdf5-dev), or --with-hdf5=DIR])])])
