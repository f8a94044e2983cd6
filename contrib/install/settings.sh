#!/bin/sh
# settings.sh install|uninstall ENV.SH DESTDIR SETTINGS JOBS: `make install` and `make uninstall` for
# the site's settings of batch jobs.  They are the file env.sh in the directory SETTINGS and belong to
# the site: an edited one is kept.  Beside the templates in the directory JOBS are a link to it and
# env.sh.dist, the file as it came, by which it is known whether it was edited.
set -eu
action=$1 new=$2 file=$3$4/env.sh link=$3$5/env.sh dist=$3$5/env.sh.dist
edited() { [ -L "$file" ] || ! cmp -s "$file" "$dist"; }

case $action in
install)
  (umask u+rwx,go+rx && mkdir -p "${file%/*}" "${link%/*}")
  # a version before 0.2.0 had it among the templates
  if [ -f "$link" ] && [ ! -L "$link" ]; then
    if [ -e "$file" ]; then mv -f "$link" "$link.old"; else mv -f "$link" "$file"; fi
  fi
  if [ -e "$file" ] && ! cmp -s "$file" "$new" && edited; then
    echo "kept: $4/env.sh, which was edited; $5/env.sh.dist is how it comes with this version"
  elif ! cmp -s "$file" "$new"; then
    install -m 644 "$new" "$file"
  fi
  install -m 644 "$new" "$dist"
  ln -sfn "$4/env.sh" "$link"
  ;;
uninstall)
  if [ -e "$file" ] && edited; then
    echo "kept: $4/env.sh, which was edited"
  else
    rm -f "$file"
  fi
  rm -f "$link" "$dist"
  ;;
*)
  echo "settings.sh: error: install or uninstall, not $action" >&2
  exit 2
  ;;
esac
