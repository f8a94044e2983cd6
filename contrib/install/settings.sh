#!/bin/sh
# settings.sh install|uninstall ENV.SH DESTDIR SETTINGS JOBS: installs and uninstalls the site settings
# of batch jobs for `make install` and `make uninstall`.  The settings are the file env.sh in the
# directory SETTINGS; an edited file is kept.  The directory JOBS of the templates gets a link to it, and
# env.sh.dist, the unedited file, which shows whether env.sh was edited.
set -eu
action=$1 new=$2 file=$3$4/env.sh link=$3$5/env.sh dist=$3$5/env.sh.dist
edited() { [ -L "$file" ] || ! cmp -s "$file" "$dist"; }

case $action in
install)
  (umask u+rwx,go+rx && mkdir -p "${file%/*}" "${link%/*}")
  # versions before 0.2.0 installed it in the directory of the templates
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
