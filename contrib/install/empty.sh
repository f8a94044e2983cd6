#!/bin/sh
# empty.sh DESTDIR PREFIX DIR...: `make uninstall` removes the directories that it has emptied, and
# those above them below PREFIX, which stays.  Of /usr and /usr/local, and of what is outside of PREFIX, it
# removes only those that have the program's name.
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
