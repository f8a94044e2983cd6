# gold_on WORD: the golden models (make_golden.py) that are tried there; the words stand in the second
# line of each file.
gold_on() {
  local file
  for file in "$CT_SRC"/tests/golden/models/*.gold; do
    LC_ALL=C sed -n 2p "$file" | grep -aqE "(^| )$1 " && basename "$file" .gold
  done
}
