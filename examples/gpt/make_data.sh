#!/bin/sh
# Makes train.h5 and val.h5 of the documentation of this tree, a token per byte.
#
#   ./make_data.sh [DIRECTORY [SOURCE...]]      $CTRAIN is the program (ctrain-hpc)
here=$(cd "$(dirname "$0")" && pwd) || exit 1
to=${1:-$here}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- "$here/../../README.md" "$here/../../docs/*.md" "$here/../../hdf5io/FORMAT.md" \
  "$here/../../src/*.md"
exec "${CTRAIN:-ctrain-hpc}" pack --tokens "$@" --output "$to/train.h5" --split 0.9 --rest "$to/val.h5" --force
