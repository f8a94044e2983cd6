# CT_CHECK_HOST: with --host=HOST the compiler must be one for it; autoconf takes the machine's own
# where there is none.
AC_DEFUN([CT_CHECK_HOST],[
AS_IF([test -n "$host_alias"],[
  ct_makes=`$CC -dumpmachine 2>/dev/null`
  AS_CASE([${ct_makes:-$host_alias}],["${host_alias%%-*}"-*],[],[AC_MSG_ERROR(
    [--host=$host_alias, but $CC compiles for $ct_makes (Debian: gcc-$host_alias; or CC=/path/to/cross/compiler)])])])])

# CT_PKG_CONFIG: PKG_CONFIG, or nothing where cross compiling and pkg-config knows this machine's libraries only.
AC_DEFUN([CT_PKG_CONFIG],[
AC_ARG_VAR([PKG_CONFIG],[pkg-config; where cross compiling HOST-pkg-config is looked for])
ct_pkg_config=$PKG_CONFIG$PKG_CONFIG_LIBDIR$PKG_CONFIG_SYSROOT_DIR
AC_PATH_TOOL([PKG_CONFIG],[pkg-config])
AS_CASE([$cross_compiling,$ct_pkg_config,$PKG_CONFIG],
  [yes,,*/"$host_alias"-pkg-config],[],
  [yes,,?*],[AC_MSG_WARN([$PKG_CONFIG is not asked: it knows this machine's libraries
    (Debian: pkgconf:ARCHITECTURE has $host_alias-pkg-config; or set PKG_CONFIG_LIBDIR)])
    PKG_CONFIG=])])

# CT_CHECK_MPI: a compiler for MPI programs.  CC is mpicc, or any other one: then mpicc (MPICC) tells
# which flags make it one; where cross compiling that is HOST-mpicc, else pkg-config tells of MPICH or Open MPI.
# Results: MPI_CPPFLAGS, MPI_LIBS (both empty where CC is an MPI compiler itself); ct_mpi_from in words.
AC_DEFUN([CT_CHECK_MPI],[
AC_ARG_VAR([MPICC],[MPI compiler, asked for its flags where CC is none])
MPI_CPPFLAGS= MPI_LIBS= ct_mpi_from=
AC_MSG_CHECKING([whether $CC compiles MPI programs])
CT_TRY_MPI
AC_MSG_RESULT([$ct_is_mpi])
AS_IF([test $ct_is_mpi = no],[
  AS_CASE([$MPICC,$cross_compiling],
    [,yes],[AC_PATH_PROGS([MPICC],["$host_alias-mpicc"])],
    [,*],[AC_PATH_PROGS([MPICC],[mpicc.mpich mpicc])])
  ct_mpi_module=
  AS_IF([test -z "$MPICC" && test -n "$PKG_CONFIG" && test $cross_compiling = yes],[
    for ct_module in ompi mpich; do
      AS_IF([$PKG_CONFIG --exists $ct_module],[ct_mpi_module=$ct_module])
    done])
  AC_MSG_CHECKING([whether it does with the flags of ${MPICC:-${ct_mpi_module:-mpicc}}])
  AS_IF([test -n "$ct_mpi_module"],[
    MPI_CPPFLAGS=`$PKG_CONFIG --cflags $ct_mpi_module | sed 's/-I/-isystem /g'`
    MPI_LIBS=`$PKG_CONFIG --libs $ct_mpi_module`])
  dnl Open MPI knows --showme, the relatives of MPICH -show; the first word is their own compiler
  AS_IF([test -n "$MPICC"],[
    for ct_flag in `$MPICC --showme 2>/dev/null || $MPICC -show 2>/dev/null`; do
      AS_CASE([$ct_flag],
        [-I*],[MPI_CPPFLAGS="$MPI_CPPFLAGS -isystem `echo "$ct_flag" | sed s/^-I//`"],
        [-D*],[MPI_CPPFLAGS="$MPI_CPPFLAGS $ct_flag"],
        [-L*|-l*|-Wl,*|-pthread],[MPI_LIBS="$MPI_LIBS $ct_flag"])
    done])
  CT_TRY_MPI
  AC_MSG_RESULT([$ct_is_mpi])
  AS_IF([test $ct_is_mpi = no],[AC_MSG_FAILURE(
    [$CC is not a working MPI compiler (Debian: mpich libmpich-dev; or CC=/path/to/mpicc, or MPICC=/path/to/mpicc; cross compiling: docs/install.md)])])
  ct_mpi_from=", by the flags of ${MPICC:-$ct_mpi_module}"])
AC_SUBST([MPI_CPPFLAGS]) AC_SUBST([MPI_LIBS])])

AC_DEFUN([CT_TRY_MPI],[
  ct_save_CPPFLAGS=$CPPFLAGS; ct_save_LIBS=$LIBS
  CPPFLAGS="$CPPFLAGS $MPI_CPPFLAGS"; LIBS="$MPI_LIBS $LIBS"
  AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <mpi.h>]],[[return MPI_Init(0,0);]])],[ct_is_mpi=yes],[ct_is_mpi=no])
  CPPFLAGS=$ct_save_CPPFLAGS; LIBS=$ct_save_LIBS])
