#!/bin/sh
# empty.sh DESTDIR PREFIX DIR...: for `make uninstall`, removes the directories DIR that are empty, and
# their empty parents below PREFIX, but not PREFIX itself.  If PREFIX is /usr or /usr/local, and outside
# of PREFIX, it removes only directories with the name of the program.
destdir=$1 prefix=$2
shift 2
for dir; do
  case $dir/ in
  */ctrain-hpc/*) [ ! -d "$destdir$dir" ] || find "$destdir$dir" -depth -type d -exec rmdir {} + ;;
  esac
done 2>/dev/null
case $prefix in '' | / | /usr | /usr/ | /usr/local | /usr/local/) prefix= ;; esac
for dir; do
  while :; do
    [ "$dir" != "$prefix" ] || break
    case $dir/ in
    */ctrain-hpc/ | "${prefix:-none}"/*) ;;
    *) break ;;
    esac
    [ ! -d "$destdir$dir" ] || rmdir "$destdir$dir" || break
    dir=${dir%/*}
  done
done 2>/dev/null
exit 0
