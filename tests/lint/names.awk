# Names behind \a in the comments of headers that occur nowhere in the code of that header.
function done(    i) {
  for (i = 1; i <= count; i++)
    if (!(wanted[i] in code)) print file ":" at[i] ": \\a " wanted[i] " is no name of this header"
  count = 0
  split("", code)
}
FNR == 1 { done(); file = FILENAME; in_comment = 0 }
{
  line = $0
  while (line != "") {
    if (in_comment) {
      end = index(line, "*/")
      text = end ? substr(line, 1, end) : line
      while (match(text, /\\a +[a-zA-Z_0-9]+/)) {
        word = substr(text, RSTART + 2, RLENGTH - 2)
        gsub(/ /, "", word)
        wanted[++count] = word
        at[count] = FNR
        text = substr(text, RSTART + RLENGTH)
      }
      line = end ? substr(line, end + 2) : ""
      in_comment = !end
    } else {
      begin = index(line, "/*")
      text = begin ? substr(line, 1, begin - 1) : line
      while (match(text, /[a-zA-Z_][a-zA-Z_0-9]*/)) {
        code[substr(text, RSTART, RLENGTH)] = 1
        text = substr(text, RSTART + RLENGTH)
      }
      line = begin ? substr(line, begin + 2) : ""
      in_comment = begin > 0
    }
  }
}
END { done() }
