#!/bin/sh
# commit.sh DIR: the commit of the sources in DIR, its time in seconds since 1970, and how far it is
# from the newest release before it, as `git describe --long` says it, if there is one:
# "0123456789abcdef… 1700000000 v0.2.0-12-g0123456789ab"; "+" behind the commit: with changes that are
# in none.  Of an archive the file .commit says it, of a clone git does; nothing if neither can.
# commit.sh DIR header VERSION [OLD]: the header with CT_VERSION, that VERSION and the commit.  Where
# nobody knows the commit, that of OLD, a header of the same VERSION: `make install` from the shell of
# root, whom git tells nothing of a user's clone, is no reason to forget it.
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
    tag=$(git -C "$1" describe --tags --long --abbrev=12 --match 'v[0-9]*' 2>/dev/null)
    noted=$noted${noted:+${tag:+ $tag}}
  fi
  ;;
esac
if [ "$2" != header ]; then
  echo "$noted"
  exit
fi

# A released version is that number; commits after it, and what was never released, have a suffix.
version=$3
if [ -n "$noted" ]; then
  # shellcheck disable=SC2086
  set -- "$1" "$2" "$3" "$4" $noted
  changed=
  case $5 in *+) changed=+ ;; esac
  commit=$(printf %.12s "$5")$changed
  day=$(date -u -d "@$6" +%F 2>/dev/null)
  # an archive that git made says v0.2.0 without -0-gCOMMIT
  case $7 in "v$3" | "v$3-0-g"*) number=0 ;; "v$3-"*-g*) number=${7#"v$3-"} number=${number%%-*} ;; *) number= ;; esac
  if [ "$number$changed" = 0 ]; then
    version="$3 (commit $commit${day:+, $day})"
  else
    version="$3-${number:+$number-}g$commit${day:+ ($day)}"
  fi
elif grep -q "\"$3[- ]" "${4:-/dev/null}" 2>/dev/null; then
  cat "$4"
  exit
fi
printf '/* made by src/cli/commit.sh */\n#define CT_VERSION "%s"\n' "$version"
