# Makes the tables of the shell completions from the concatenated output of `ctrain-hpc --help` and
# `ctrain-hpc COMMAND --help`.  The tables are functions for both bash and zsh; -v shell=zsh adds zsh's
# first line.  ctrain-hpc.bash or ctrain-hpc.zsh, which use the tables, is appended to the result.

function words(text,   n, word, i, out) { # of a|b|FILE the literal words, without placeholders
  n = split(text, word, "|")
  for (i = 1; i <= n; i++)
    if (word[i] !~ /[A-Z]/) out = out (out == "" ? "" : " ") word[i]
  return out
}
function list(name, text) { print name "='" text "'" }
function described(text) { # within single quotes
  gsub(/'/, "'\\''", text)
  return text
}
function option(left, text,   name) {
  name = left
  sub(/ .*/, "", name)
  options[command] = options[command] name " "
  about[command] = about[command] "\n" name ":" text
  if (left ~ / /) {
    sub(/^[^ ]* /, "", left)
    values[++n_values] = "'" command " " name "') echo '" words(left) "' ;;"
  }
}
function key(name, type) {
  sub(/:$/, "", name)
  keys = keys name " "
  if (type ~ /\|/) key_values[++n_keys] = "'" name "') echo '" words(type) "' ;;"
}

BEGIN { if (shell == "zsh") print "#compdef ctrain-hpc" }
/^ctrain-hpc trains/ { part = "overview"; next }
part == "overview" && /^  [a-z]+ / { commands = commands $1 " "; next }
/^Usage: ctrain-hpc / {
  command = $3
  sub(/^Usage: ctrain-hpc [a-z]+ /, "")
  gsub(/\[[^]]*\]/, "")
  gsub(/, or /, "|")
  gsub(/ /, "|")
  arguments[command] = words($0)
  part = "says"
  next
}
part == "says" {
  sub(/\.$/, "")
  what = what "\n" command ":" $0
  part = "options"
  next
}
part == "options" && /^  --/ {
  left = substr($0, 3)
  if (length(left) > 26 && substr(left, 27, 1) == " ") { # else the help is on the next line
    text = substr(left, 28)
    left = substr(left, 1, 26)
    sub(/ +$/, "", left)
    option(left, text)
    left = ""
  }
  next
}
part == "options" && /^ +[^ ]/ && left != "" { sub(/^ +/, ""); option(left, $0); left = ""; next }
/^Configuration/ { part = "keys"; next }
/^Transforms:/ { part = ""; next }
/^Model families/ { part = "families"; next }
/^Layer kinds/ { part = ""; next }
part == "keys" && /^  [a-z]/ { key($1, $2) }
part == "families" && /^  / { families = families (families == "" ? "" : " ") $1 }

function cases(title, argument, row, n,   i) {
  print title "() {\n  case " argument " in"
  for (i = 1; i <= n; i++)
    print "  " row[i]
  print "  *) return 1 ;;\n  esac\n}"
}
END {
  key_values[++n_keys] = "'model.family') echo '" families "' ;;"
  print "# made from the program's help; what is changed here is lost"
  list("_ctrain_hpc_commands", commands)
  list("_ctrain_hpc_keys", keys)
  if (shell == "zsh") list("_ctrain_hpc_about_commands", described(substr(what, 2)))
  n = split(commands, name, " ")
  for (i = 1; i <= n; i++) {
    command = name[i]
    rows[i] = command ") echo '" options[command] "' ;;"
    abouts[i] = command ") echo '" described(substr(about[command], 2)) "' ;;"
    firsts[i] = command ") echo '" arguments[command] "' ;;"
  }
  print "# of a command: its options; the same with their help (in zsh); words that may be its first"
  print "# argument"
  cases("_ctrain_hpc_options", "$1", rows, n)
  if (shell == "zsh") cases("_ctrain_hpc_about_options", "$1", abouts, n)
  cases("_ctrain_hpc_arguments", "$1", firsts, n)
  print "# of a command's option: words that may be its value; an error if it has none"
  cases("_ctrain_hpc_values", "\"$1 $2\"", values, n_values)
  print "# of a key"
  cases("_ctrain_hpc_key_values", "$1", key_values, n_keys)
}
