# shellcheck shell=bash
# A root directory of Debian 12 for tests that install packages: another machine, but for the kernel.
# It is made by debootstrap and kept, with its packages, for the next time (CTRAIN_SITE_ROOT says
# where; remove it to have a fresh one).  The sources are in /src of it, as git knows them.
root=${CTRAIN_SITE_ROOT:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/ctrain-hpc/bookworm}
mirror=${CTRAIN_MIRROR:-http://deb.debian.org/debian}

# need_root: the directory is there, or the test is skipped; until the test ends no other has it.
need_root() {
  [ "$(id -u)" = 0 ] || skip_all "not root"
  unshare --mount --pid --fork mount --make-rprivate / 2>/dev/null ||
    skip_all "mounts are not allowed here"
  mkdir -p "$(dirname "$root")" || skip_all "$root cannot be written"
  exec 9>"$root.lock" && flock 9
  if [ ! -e "$root/usr" ]; then
    command -v debootstrap >/dev/null || skip_all "debootstrap is not installed"
    rm -rf --one-file-system "$root.new"
    timeout -k 10 900 debootstrap --variant=minbase --include=ca-certificates,procps \
      bookworm "$root.new" "$mirror" >"$root.log" 2>&1 ||
      skip_all "debootstrap: $(tail -n 1 "$root.log")"
    mv "$root.new" "$root"
  fi
  rm -rf --one-file-system "$root/src" "$root/tmp"
  mkdir -p "$root/src" && mkdir -m 1777 "$root/tmp" && cp /etc/resolv.conf /etc/hosts "$root/etc/" &&
    (cd "$CT_SRC" && if [ -e .git ]; then git ls-files -z; else find . -type f -print0; fi |
      tar --null --no-recursion -T - -cf - | tar -C "$root/src" -xf -) ||
    skip_all "$root cannot be written"
}

# in_root COMMAND...: there, with mounts and processes that end with it
in_root() {
  # shellcheck disable=SC2016
  unshare --mount --pid --fork --kill-child bash -c '
    root=$1
    shift
    mount -t proc proc "$root/proc" && mount --rbind /sys "$root/sys" &&
      mount --rbind /dev "$root/dev" || exit 1
    exec chroot "$root" env -i HOME=/root LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin \
      DEBIAN_FRONTEND=noninteractive ${http_proxy:+http_proxy="$http_proxy"} "$@"' bash "$root" "$@"
}

# install_there PACKAGE...: with apt-get, from the network unless they are there
install_there() {
  # shellcheck disable=SC2016
  in_root sh -c 'install() { apt-get install -y -qq --no-install-recommends "$@"; }
    install "$@" || { apt-get update -qq && install "$@"; }' sh "$@" >"$work/apt" 2>&1 ||
    { tail -n 3 "$work/apt"; return 1; }
}
