# CT_CHECK_LAUNCHERS: which ways there are to start ranks; --with-slurm-pmi[=yes|no|check].
# Results, for the summary only: ct_mpi (the MPI that is compiled with), ct_mpiexec (whose MPIEXEC is, and
# whether it fits), have_slurm_pmi (yes or no), ct_slurm_pmi (the srun that fits, or "no" and why).
#
# srun speaks PMI-1 and PMI-2 with MPICH and its relatives by its plugin mpi_pmi2, and PMIx with Open MPI by mpi_pmix.
# It lists its plugins only where Slurm is configured; elsewhere they are looked for as files.
AC_DEFUN([CT_CHECK_LAUNCHERS],[
AC_ARG_WITH([slurm-pmi],[AS_HELP_STRING([--with-slurm-pmi@<:@=yes|no|check@:>@],
  [report whether srun can start this MPI's ranks; yes: fail if it cannot @<:@check@:>@])],[],[with_slurm_pmi=check])
AC_ARG_VAR([SRUN],[Slurm's launcher])

AC_MSG_CHECKING([which MPI this is])
ct_save_CPPFLAGS=$CPPFLAGS; CPPFLAGS="$CPPFLAGS $MPI_CPPFLAGS"
CT_WHICH_MPI([ct_mpi])
CPPFLAGS=$ct_save_CPPFLAGS
AC_MSG_RESULT([$ct_mpi])

ct_mpiexec=
AS_IF([test -n "$MPIEXEC"],[
  AC_MSG_CHECKING([whose $MPIEXEC is])
  AS_CASE([`$MPIEXEC --version 2>&1`],
    [*HYDRA*|*Hydra*|*hydra*],[ct_mpiexec=MPICH],
    [*"Intel(R) MPI"*],[ct_mpiexec="Intel MPI"],
    [*OpenRTE*|*"Open MPI"*|*PRRTE*],[ct_mpiexec="Open MPI"],
    [ct_mpiexec=unknown])
  AS_CASE([$ct_mpi,$ct_mpiexec],
    [*,unknown|unknown,*|"Open MPI,Open MPI"],[],
    ["Open MPI",*|*,"Open MPI"],[ct_mpiexec="$ct_mpiexec's: it cannot start ranks of $ct_mpi"])
  AC_MSG_RESULT([$ct_mpiexec])])

have_slurm_pmi=no ct_slurm_pmi=
AS_CASE([$with_slurm_pmi],
  [no],[ct_slurm_pmi=--without-slurm-pmi],
  [yes|check],[CT_CHECK_SRUN],
  [AC_MSG_ERROR([--with-slurm-pmi is yes, no or check, not '$with_slurm_pmi'])])
AS_CASE([$have_slurm_pmi,$with_slurm_pmi],[yes,*],[],
  [no,yes],[AC_MSG_ERROR([--with-slurm-pmi was given, but: $ct_slurm_pmi])],
  [ct_slurm_pmi="no ($ct_slurm_pmi)"])
])

# CT_WHICH_MPI(variable): whose mpi.h the compiler finds, and in <variable>_pmi the plugin of srun.
# The first that fits: the relatives of MPICH define MPICH_VERSION, too.
AC_DEFUN([CT_WHICH_MPI],[
$1=unknown $1_pmi=
CT_MPI_IS([$1],[OMPI_MAJOR_VERSION],[Open MPI],[pmix])
CT_MPI_IS([$1],[I_MPI_VERSION],[Intel MPI],[pmi2])
CT_MPI_IS([$1],[MVAPICH2_VERSION],[MVAPICH2],[pmi2])
CT_MPI_IS([$1],[CRAY_MPICH_VERSION],[Cray MPICH],[cray_shasta])
CT_MPI_IS([$1],[MPICH_VERSION],[MPICH],[pmi2])])

# CT_MPI_IS(variable, macro of its mpi.h, name, plugin of srun)
AC_DEFUN([CT_MPI_IS],[
AS_IF([test "x$$1" = xunknown],[
  AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <mpi.h>
#ifndef $2
#error another one
#endif]],[])],[$1="$3" $1_pmi=$4])])])

# Sets have_slurm_pmi and ct_slurm_pmi.
AC_DEFUN([CT_CHECK_SRUN],[
AC_PATH_PROG([SRUN],[srun])
AC_MSG_CHECKING([whether srun can start ranks of $ct_mpi])
AS_IF([test -z "$SRUN"],[ct_slurm_pmi="srun is not installed"],
  [test -z "$ct_mpi_pmi"],[ct_slurm_pmi="this MPI is not known here: see srun --mpi=list"],[
  ct_plugins=`$SRUN --mpi=list 2>&1 | tr ',' ' '`
  AS_CASE([" `echo $ct_plugins` "],
    [*" $ct_mpi_pmi "*],[have_slurm_pmi=yes],
    [*" none "*],[],[
      ct_prefix=`dirname "$SRUN"`
      for f in "$ct_prefix"/../lib*/slurm*/mpi_$ct_mpi_pmi.so "$ct_prefix"/../lib/*/slurm*/mpi_$ct_mpi_pmi.so; do
        AS_IF([test -e "$f"],[have_slurm_pmi=yes])
      done])
  AS_IF([test "x$have_slurm_pmi" = xyes],[ct_slurm_pmi="srun --mpi=$ct_mpi_pmi"],
    [ct_slurm_pmi="$SRUN has no plugin mpi_$ct_mpi_pmi, which $ct_mpi needs"])])
AC_MSG_RESULT([$have_slurm_pmi ($ct_slurm_pmi)])])
