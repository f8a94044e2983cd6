#!/bin/sh
# commit.sh DIR [header]: the commit of the sources in DIR and its time in seconds since 1970, as in
# "0123456789abcdef… 1700000000"; "+" behind the commit: with changes that are in none.  Of an
# archive the file .commit says it, of a clone git does; nothing if neither can.
# With `header`: as the macro CT_COMMIT in C, " (commit 0123456789ab, 2023-11-14)" or "".
noted=$(cat "$1/.commit" 2>/dev/null)
case $noted in
'' | '$'*)
  noted=
  # a directory inside of someone else's repository is no clone of this one
  if prefix=$(git -C "$1" rev-parse --show-prefix 2>/dev/null) && [ -z "$prefix" ]; then
    noted=$(git -C "$1" log -1 --format='%H %ct' 2>/dev/null)
    if [ -n "$noted" ] && [ -n "$(git -C "$1" status --porcelain -uno 2>/dev/null)" ]; then
      noted="${noted% *}+ ${noted#* }"
    fi
  fi
  ;;
esac
if [ "$2" != header ]; then
  echo "$noted"
  exit
fi
text=
if [ -n "$noted" ]; then
  commit=${noted% *}
  changed=
  case $commit in *+) changed=+ ;; esac
  day=$(date -u -d "@${noted#* }" +%F 2>/dev/null)
  text=" (commit $(printf %.12s "$commit")$changed${day:+, $day})"
fi
printf '/* made by src/app/commit.sh */\n#define CT_COMMIT "%s"\n' "$text"
