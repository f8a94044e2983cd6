# CT_CHECK_MPI: a compiler for MPI programs.  CC is mpicc, or any other one: then mpicc (MPICC) tells
# which flags make it one.
# Results: MPI_CPPFLAGS, MPI_LIBS (both empty where CC is an MPI compiler itself); ct_mpi_from in words.
AC_DEFUN([CT_CHECK_MPI],[
AC_ARG_VAR([MPICC],[MPI compiler, asked for its flags where CC is none])
MPI_CPPFLAGS= MPI_LIBS= ct_mpi_from=
AC_MSG_CHECKING([whether $CC compiles MPI programs])
CT_TRY_MPI
AC_MSG_RESULT([$ct_is_mpi])
AS_IF([test $ct_is_mpi = no],[
  AS_IF([test -z "$MPICC"],[AC_PATH_PROGS([MPICC],[mpicc.mpich mpicc])])
  AC_MSG_CHECKING([whether it does with the flags of ${MPICC:-mpicc}])
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
    [$CC is not a working MPI compiler (Debian: mpich libmpich-dev; or CC=/path/to/mpicc, or MPICC=/path/to/mpicc)])])
  ct_mpi_from=", by the flags of $MPICC"])
AC_SUBST([MPI_CPPFLAGS]) AC_SUBST([MPI_LIBS])])

AC_DEFUN([CT_TRY_MPI],[
  ct_save_CPPFLAGS=$CPPFLAGS; ct_save_LIBS=$LIBS
  CPPFLAGS="$CPPFLAGS $MPI_CPPFLAGS"; LIBS="$MPI_LIBS $LIBS"
  AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <mpi.h>]],[[return MPI_Init(0,0);]])],[ct_is_mpi=yes],[ct_is_mpi=no])
  CPPFLAGS=$ct_save_CPPFLAGS; LIBS=$ct_save_LIBS])
