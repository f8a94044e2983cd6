#!/bin/bash
# Makes the run directories of earlier versions that tests/cli/upgrade.test resumes:
#
#   tests/golden/make_upgrade.sh COMMIT PROGRAM...
#
# PROGRAM is ctrain-hpc as COMMIT built it.  Each makes upgrade/COMMIT.tar.gz: half of a run over two
# epochs of the digits, of the configuration upgrade.yaml.  A commit whose checkpoints hold something
# else than those before it is worth an archive; those that are there stay.
set -euo pipefail
here=$(cd "${0%/*}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ln -s "$here/../../examples/digits" "$work/digits"
sed 's#DIGITS#digits#g' "$here/upgrade/upgrade.yaml" >"$work/upgrade.yaml"
while [ $# -ge 2 ]; do
  (cd "$work" && "$2" train upgrade.yaml --set train.epochs=1 --set run.dir="$work/run")
  (cd "$work/run" && rm -rf lock ranks.csv && tar --sort=name --owner=0 --group=0 --mtime=@0 -c .) |
    gzip -9n >"$here/upgrade/$1.tar.gz"
  rm -rf "$work/run"
  shift 2
done
