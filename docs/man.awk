# Generates the manual pages from the concatenated output of `ctrain-hpc --help` and
# `ctrain-hpc COMMAND --help`, which comes from the tables of commands, options and keys:
# awk -v dir=DIR -v version=0.2.0 -f man.awk writes DIR/ctrain-hpc.1, DIR/ctrain-hpc-COMMAND.1 and
# DIR/ctrain-hpc-config.5.

# Converts text to roff: escapes special characters, prints `code` in bold, and protects the hyphens of
# options.  A roff line that begins with a dot or an apostrophe would be a command.
function roff(text,   n, part, i, out) {
  gsub(/\\/, "\\e", text)
  gsub(/'/, "\\(aq", text)
  gsub(/\^/, "\\(ha", text)
  gsub(/~/, "\\(ti", text)
  gsub(/--/, "\\-\\-", text)
  n = split(text, part, "`")
  out = part[1]
  for (i = 2; i <= n; i++)
    out = out (i % 2 ? "\\fR" : "\\fB") part[i]
  return (out ~ /^\./ ? "\\\\&" : "") out
}

# A name, which may be copied to a command line: its dashes are no hyphens.
function typed(text) {
  text = roff(text)
  gsub(/\\-/, "-", text)
  gsub(/-/, "\\-", text)
  return text
}

function put(line) { print line >file }
function manual(name, section) { return ".BR " typed(name) " (" section ")" }
function finish() {
  if (file == "") return
  put(".SH SEE ALSO\n" manual("ctrain-hpc", 1) ",\n" manual("ctrain-hpc-config", 5))
  close(file)
  file = ""
}
function page(name, section, what) {
  finish()
  file = dir "/" name "." section
  put(".\\\" made from the program's help; what is changed here is lost")
  put(".TH " toupper(typed(name)) " " section " \"" day "\" \"ctrain-hpc " version "\" \"ctrain-hpc\"")
  put(".SH NAME\n" typed(name) " \\- " roff(what))
}
function item(head, text) { put(".TP\n" head "\n" roff(text)) }

# `auto|never|FILE`: words in bold, what stands for others in italics.  A long list has blanks, where
# lines end.
function value(text,   n, word, i, out) {
  n = split(text, word, "|")
  for (i = 1; i <= n; i++)
    out = out (i == 1 ? "" : n > 8 ? " | " : "|") (word[i] ~ /^[^A-Z]*$/ ? "\\fB" : "\\fI") typed(word[i]) "\\fR"
  return out
}

function option(left, text,   name) {
  name = left
  sub(/ .*/, "", name)
  sub(/^[^ ]* ?/, "", left)
  item("\\fB" typed(name) "\\fR" (left == "" ? "" : " " value(left)), text)
}


# ---- ctrain-hpc.1 ----

/^ctrain-hpc trains/ { part = "overview"; next }
part == "overview" && /^  [a-z]+ / {
  commands[++count] = $1
  next
}
part == "overview" && !/^Usage: ctrain-hpc / { next }

# The rest of the overview stands behind the helps of commands, which have the sentences.
END {
  page("ctrain-hpc", 1, "train neural networks data-parallel on all ranks of an MPI job")
  put(".SH SYNOPSIS\n[\\fBmpirun \\-np\\fR \\fIN\\fR] \\fBctrain\\-hpc\\fR \\fICOMMAND\\fR [\\fICONFIG\\fR] [\\fIoptions\\fR]")
  put(".br\n\\fBctrain\\-hpc\\fR \\fICOMMAND\\fR \\fB\\-\\-help\\fR\n.br\n\\fBctrain\\-hpc \\-\\-version\\fR")
  put(".SH DESCRIPTION\nOne program that is started like any MPI program, reads sharded HDF5 data sets")
  put("and trains on CPUs, and on GPUs where it was built with CUDA.")
  put("Without a command it trains the example of handwritten digits that is installed with it, as")
  put("\\fBdemo\\fR does.")
  put(".SH COMMANDS\nEach has a page of its own.")
  for (i = 1; i <= count; i++)
    item("\\fB" commands[i] "\\fR" (takes[commands[i]] == "" ? "" : " " roff(takes[commands[i]])),
      says[commands[i]])
  put(".SH EXIT STATUS\nThe same on every rank.")
  item("\\fB0\\fR", "done")
  item("\\fB75\\fR", "stopped early with a good checkpoint: start it again, and it goes on")
  item("\\fB2\\fR", "wrong usage or configuration")
  item("\\fB1\\fR", "any other error")
  put(".SH ENVIRONMENT")
  item("\\fBCTRAIN_EXAMPLES\\fR", "directory of the examples, if they are not where they were installed")
  item("\\fBCTRAIN_PLUGIN_DIR\\fR", "directory of the CUDA module `ctrain-cuda.so`, likewise")
  item("\\fBCTRAIN_WATCH_PORTS\\fR", "ports that ranks may use to watch each other, as LOW:HIGH, for a firewall")
  item("\\fBCTRAIN_END_TIME\\fR", "when the job ends, in seconds since 1970, if the batch system does not tell")
  put(".SH FILES\nA run writes into \\fBruns/\\fR\\fINAME\\fR, or where \\fBrun.dir\\fR says.")
  item("\\fBconfig.yaml\\fR", "the whole configuration of the run")
  item("\\fBmetrics.jsonl\\fR", "an object of JSON a line: steps, evaluations, checkpoints")
  item("\\fBsummary.json\\fR", "the result")
  item("\\fBcheckpoints/\\fR", "checkpoints; `latest` names the newest")
  put(".SH SEE ALSO\n" manual("ctrain-hpc-config", 5) (count ? "," : ""))
  for (i = 1; i <= count; i++)
    put(manual("ctrain-hpc-" commands[i], 1) (i < count ? "," : ""))
  close(file)
}

# ---- a command's page ----

/^Usage: ctrain-hpc / {
  name = $3
  text = $0
  sub(/^Usage: ctrain-hpc [a-z]+ /, "", text)
  usage = text
  sub(/ ?\[options\]$/, "", text)
  takes[name] = text
  part = "says"
  next
}
part == "says" {
  sub(/\.$/, "")
  says[name] = $0
  what = $0
  sub(/^[^ ]*/, tolower($1), what)
  page("ctrain-hpc-" name, 1, what)
  put(".SH SYNOPSIS\n\\fBctrain\\-hpc " name "\\fR " roff(usage))
  put(".SH DESCRIPTION\n" roff($0 "."))
  part = "head"
  next
}
/^Options:/ && part == "head" { put(".SH OPTIONS"); part = "options"; next }
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
part == "options" && /^Configuration/ {
  page("ctrain-hpc-config", 5, "configuration of a run of ctrain-hpc: every key")
  put(".SH DESCRIPTION\nA configuration is a file in YAML. Every key can also be set on the command line:")
  put("\\fB\\-\\-set optim.lr=0.1\\fR. \\fBtrain\\fR \\fICONFIG\\fR \\fB\\-\\-print\\-config\\fR prints what comes of it all.")
  put(".PP\n\\fBinclude: base.yaml\\fR, or a list of files, puts others under a file. A relative path belongs to")
  put("where it is written: in a file to that file\\(aqs directory, on the command line to the working directory.")
  put("In paths $NAME and ${NAME} are variables of the environment.")
  put(".SH KEYS")
  part = "keys"
  next
}
part == "options" && /^$/ { next }

# ---- ctrain-hpc-config.5 ----

part == "keys" && /^$/ { next }
/^(Transforms|Model families|Layer kinds)/ && (part == "keys" || part == "families") {
  part = "keys"
  title = $1 " " $2
  sub(/[:;].*/, "", title)
  sub(/ \(.*/, "", title)
  put(".SH " toupper(title))
  if (/^Layer/) put(roff($0))
  if (/^Model/) part = "families"
  next
}
part == "keys" && /^[a-z]+: / {
  title = $1
  sub(/:$/, "", title)
  sub(/^[a-z]+: /, "")
  put(".SS " title "\n" roff($0))
  next
}
part == "keys" && /^  [a-z0-9_.]+: / {
  key = $1
  sub(/:$/, "", key)
  type = $0
  sub(/^ *[^ ]+ /, "", type)
  if (match(type, /  +/)) {
    text = substr(type, RSTART + RLENGTH)
    type = substr(type, 1, RSTART - 1)
    item("\\fB" typed(key) "\\fR: " value(type), text)
    key = ""
  }
  next
}
part == "keys" && key != "" && /^ +/ {
  sub(/^ +/, "")
  item("\\fB" typed(key) "\\fR: " value(type), $0)
  key = ""
  next
}
part == "keys" && /^ [a-z0-9_]+: / {
  title = $1
  sub(/:$/, "", title)
  sub(/^ [^ ]+ /, "")
  put(".SS " title "\n" roff($0))
  next
}
part == "families" && /^  / {
  title = $1
  sub(/^ +[^ ]+ +/, "")
  item("\\fB" typed(title) "\\fR", $0)
  next
}
part == "keys" && !/^$/ { sub(/^ +/, ""); put(roff($0)) }
