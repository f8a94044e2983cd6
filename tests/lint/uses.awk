# Finds dependencies between source files by text.  Reads all .c files twice; prints "USER DEFINER NAME" for
# each function or object ct_x, ct__x or cpu__x that one file defines and another names.
function code(line,    i) { # without comments and strings
  gsub(/\\\\|\\"/, "", line)
  gsub(/"[^"]*"/, "", line)
  sub(/\/\/.*/, "", line)
  if (in_comment) {
    i = index(line, "*/")
    if (!i) return ""
    line = substr(line, i + 2)
    in_comment = 0
  }
  gsub(/\/\*([^*]|\*+[^*\/])*\*+\//, "", line)
  i = index(line, "/*")
  if (i) in_comment = 1
  return i ? substr(line, 1, i - 1) : line
}
FNR == 1 {
  in_comment = 0
  second = FILENAME in seen
  seen[FILENAME] = 1
}
{ line = code($0) }
!second && line ~ /^[a-z][a-zA-Z0-9_ *]*[ *](ct|cpu)_[a-zA-Z0-9_]+(\(|\[| =|;)/ && line !~ /^(static|extern|typedef)/ {
  name = line
  sub(/(\(|\[| =|;).*/, "", name)
  sub(/.*[ *]/, "", name)
  definer[name] = FILENAME
}
second {
  while (match(line, /[a-zA-Z_][a-zA-Z0-9_]*/)) {
    name = substr(line, RSTART, RLENGTH)
    line = substr(line, RSTART + RLENGTH)
    if (!(name in definer) || definer[name] == FILENAME || (FILENAME, name) in told) continue
    told[FILENAME, name] = 1
    print FILENAME, definer[name], name
  }
}
