#!/bin/sh
# commit.sh DIR: prints the commit of the sources in DIR, its time in seconds since 1970 and, if there
# is an earlier release, the distance from it as `git describe --long` prints it:
# "0123456789abcdef… 1700000000 v0.2.0-12-g0123456789ab".  "+" after the commit: there are uncommitted
# changes.  The source is the file .commit in an archive, or git in a clone; prints nothing if neither
# knows.
# commit.sh DIR header VERSION [OLD]: prints a C header with CT_VERSION: VERSION and the commit.  If the
# commit is unknown, takes it from OLD, a header of the same VERSION: git refuses to read a user's clone
# for root, so `make install` as root would lose it.
noted=$(cat "$1/.commit" 2>/dev/null)
case $noted in
'' | '$'*)
  noted=
  # a directory inside of another repository is not a clone of this one
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

# A release is only the number; later commits, and sources that were never released, get a suffix.
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
