# CT_FIND_IN(variable prefix, directory, header, library or [])
# A library in a directory of its own and nowhere else, where the compiler would find another copy by
# itself, too.  Sets <prefix>_CPPFLAGS, _LDFLAGS, ct_why: empty, or what the directory lacks.
AC_DEFUN([CT_FIND_IN],[
  ct_why= ct_lib=
  AS_IF([ct_in=`cd "$2" 2>/dev/null && pwd`],[],[ct_why="there is no directory $2"])
  AS_IF([test -z "$ct_why" && test ! -f "$ct_in/include/$3"],[ct_why="there is no $ct_in/include/$3"])
  m4_ifnblank([$4],[
    for ct_d in lib "lib/`$CC -print-multiarch 2>/dev/null`" lib64; do
      for ct_end in a so; do
        AS_IF([test -f "$ct_in/$ct_d/lib$4.$ct_end"],[ct_lib=$ct_in/$ct_d])
      done
    done
    AS_IF([test -z "$ct_why$ct_lib"],[ct_why="there is no lib$4.so or lib$4.a in $ct_in/lib or lib64"])])
  $1_CPPFLAGS="-isystem $ct_in/include"
  AS_IF([test -n "$ct_lib"],[$1_LDFLAGS="-L$ct_lib -Wl,-rpath,$ct_lib"])])

# CT_WITH_LIB(name, help, package for the message, pkg-config modules or [], header, library or [], function,
#             [required], [optional])
# A library: --with-NAME=DIR takes it from there and from nowhere else; otherwise pkg-config and then
# the default paths are asked.  Results: <NAME>_CPPFLAGS, _LDFLAGS, _LIBS; nothing leaks into the
# global flags; ct_has_NAME says in words what is used.
#   required  there is no --without-NAME
#   optional  --without-NAME leaves it out; it is missed only where --with-NAME asks for it
# Where pkg-config was asked before, ct_pc_NAME says what it had.
# What may be left out has HAVE_<NAME> in config.h, and have_NAME is yes or no.  What is missed goes
# into CT_MISSING, so that one run of configure names all of it.
AC_DEFUN([CT_WITH_LIB],[
  m4_pushdef([CT_U],[m4_toupper([$1])])
  AC_ARG_WITH([$1],[AS_HELP_STRING([--with-$1@<:@=DIR@:>@],[$2 @<:@default: found by itself@:>@])],
    [],[with_$1=m4_case([$8],[optional],[check],[yes])])
  CT_U[]_CPPFLAGS= CT_U[]_LDFLAGS= CT_U[]_LIBS="m4_ifnblank([$6],[-l$6])"
  ct_why_$1= ct_wants_$1=yes
  AS_CASE([$with_$1],
    [no],[ct_why_$1="--without-$1" m4_case([$8],[required],[],[ct_wants_$1=no])],
    [yes|check],[m4_ifnblank([$4],[
      AS_IF([test -n "$PKG_CONFIG" && test -n "$4" && $PKG_CONFIG --exists $4],[
        CT_U[]_CPPFLAGS=`$PKG_CONFIG --cflags $4`
        CT_U[]_LIBS=`$PKG_CONFIG --libs $4`])])],
    [CT_FIND_IN(CT_U,[$with_$1],[$5],[$6])
     ct_why_$1=$ct_why])
  AS_IF([test "$with_$1" = check],[ct_wants_$1=no])
  ct_save_CPPFLAGS=$CPPFLAGS; ct_save_LDFLAGS=$LDFLAGS; ct_save_LIBS=$LIBS
  CPPFLAGS="$CT_U[]_CPPFLAGS $CPPFLAGS"; LDFLAGS="$CT_U[]_LDFLAGS $LDFLAGS"; LIBS="$CT_U[]_LIBS $LIBS"
  AS_IF([test -z "$ct_why_$1"],[AC_CHECK_HEADER([$5],[],[ct_why_$1="header $5 not found$ct_pc_$1"])])
  m4_ifnblank([$6],[AS_IF([test -z "$ct_why_$1"],[
    AC_CHECK_FUNC([$7],[],[ct_why_$1="function $7 does not link with $CT_U[]_LDFLAGS $CT_U[]_LIBS"])])])
  CPPFLAGS=$ct_save_CPPFLAGS; LDFLAGS=$ct_save_LDFLAGS; LIBS=$ct_save_LIBS
  ct_has_$1="$CT_U[]_LDFLAGS $CT_U[]_LIBS"
  AS_IF([test -n "$ct_why_$1"],
    [ct_has_$1="no ($ct_why_$1)" CT_U[]_CPPFLAGS= CT_U[]_LDFLAGS= CT_U[]_LIBS=])
  m4_case([$8],[required],[],[
    AS_IF([test -z "$ct_why_$1"],[AC_DEFINE([HAVE_]CT_U,[1],[Define to 1 if $2 is there.])])
    AS_IF([test -z "$ct_why_$1"],[have_$1=yes],[have_$1=no])])
  AS_IF([test -n "$ct_why_$1" && test $ct_wants_$1 = yes],[CT_MISSING="$CT_MISSING
    $1: $ct_why_$1 (Debian: $3; elsewhere: --with-$1=DIR)"])
  AC_SUBST(CT_U[_CPPFLAGS]) AC_SUBST(CT_U[_LDFLAGS]) AC_SUBST(CT_U[_LIBS])
  m4_popdef([CT_U])])
