# Generates docs/configuration.md from the output of `ctrain-hpc train --help`, which comes from the
# option tables.  `make docs` runs it; tests/cli/docs.test checks that the page is current.

# Prints text filled up to 100 columns; lines after the first are indented.
function fill(text, indent,   word, n, i, line) {
  n = split(text, word, " ")
  match(text, /^ */)
  line = substr(text, 1, RLENGTH) word[1]
  for (i = 2; i <= n; i++)
    if (length(line) + 1 + length(word[i]) <= 100)
      line = line " " word[i]
    else {
      print line
      line = indent word[i]
    }
  print line
}

# `auto`, `cpu` or `ref`, where the help has auto|cpu|ref.
function values(type,   word, n, i, out) {
  n = split(type, word, "|")
  if (n == 1) return tolower(type)
  for (i = 1; i <= n; i++)
    out = out (i == 1 ? "" : i == n ? " or " : ", ") (word[i] ~ /^[A-Z ]+$/ ? tolower(word[i]) : "`" word[i] "`")
  return out
}

# A row's help ends with its default, or says that there is none.
function option(key, type, help, indent,   given) {
  given = ""
  if (match(help, / \(default .*\)$/)) {
    given = "; default `" substr(help, RSTART + 10, RLENGTH - 11) "`"
    help = substr(help, 1, RSTART - 1)
  } else if (sub(/ \(required\)$/, "", help))
    given = "; required"
  fill(indent "- `" key "` (" values(type) given "): " help, indent "  ")
}

# Of a line "   name: text" the name; the text stays in $0.
function take_name(   name) {
  name = $1
  sub(/:$/, "", name)
  sub(/^ *[a-z0-9_.]+: */, "")
  return name
}

function section(name, title) {
  part = name
  print "\n## " title "\n"
  intro = ""
}

BEGIN {
  print "# Configuration: every key, with its values and its default\n"
  print "<!-- made by `make docs`; what is changed here by hand is lost -->\n"
  fill("A configuration is a YAML file. Every key can also be set on the command line, as often" \
    " as you like: `--set optim.lr=0.1`. An unknown key, a wrong type and a value out of range" \
    " are errors that name the file, the line, the key and the nearest valid one. `ctrain-hpc" \
    " train --help` prints this page as plain text; `config.yaml` in a run's directory has all" \
    " keys with the values that the run had, and the directory may be given for it (`ctrain-hpc" \
    " eval runs/digits`). `null` in place of a number or a word stands for" \
    " the default, so that `--set optim.momentum=null` undoes what a file says. `train CONFIG" \
    " --print-config` prints what comes of it all.")
  print ""
  fill("`include: base.yaml`, or a list of files, puts others under a file: sections are joined" \
    " key by key, what is further up wins, and of a list the last one. YAML's anchors and merge" \
    " keys work within a file (`optim: {<<: *usual, lr: 0.1}`); a section `x-NAME` is a place to" \
    " write them down. Another `optim.kind` or `schedule.kind`, on the command line or above an" \
    " included file, leaves out the keys that it does not have, and says so.")
  print ""
  fill("A relative path belongs to where it is written: in a file to that file's directory, on" \
    " the command line to the working directory. In paths `$NAME` and `${NAME}` are variables of" \
    " the environment, `~/` is the home directory, and `$$` is a dollar.")
}

/^Configuration/ { section("keys", "At the top"); next }
/^Transforms:/ { section("transforms", "Transforms"); next }
/^Model families/ { section("families", "Model families: `model.family`"); next }
/^Layer kinds/ {
  section("layers", "Layer kinds: `model.layers`")
  intro = $0
  sub(/^Layer kinds; /, "", intro)
  next
}
part == "" || /^$/ { next }

# a row whose help stands on the next line
key != "" {
  sub(/^ +/, "")
  option(key, type, $0, indent)
  key = ""
  next
}

part == "keys" && /^[a-z]+: / { name = take_name(); section("keys", "`" name "`: " $0); next }
part == "families" { name = $1; sub(/^ +[^ ]+ +/, ""); fill("- `" name "`: " $0, "  "); next }

# a transform or a layer kind, above the first of which stand some sentences
/^ [a-z0-9_]+: / {
  if (intro != "") {
    sub(/^ +/, "", intro)
    sub(/^(transforms|model.layers) is/, "`&", intro)
    sub(/ is/, "` is", intro)
    sub(/:$/, ".", intro)
    fill(intro, "")
    intro = ""
    print ""
  }
  name = take_name()
  fill("- `" name "`: " $0, "  ")
  next
}
/^  [a-z0-9_.]+: / {
  indent = part == "keys" ? "" : "  "
  key = take_name()
  if (!match($0, /  +/)) {
    type = $0
    next
  }
  option(key, substr($0, 1, RSTART - 1), substr($0, RSTART + RLENGTH), indent)
  key = ""
  next
}
{ intro = intro " " $0 }
