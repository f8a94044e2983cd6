
# Completion in bash: commands, options, configuration keys, and the values of both; else file names.
# Words are split at blanks only, because bash's own words also end at "=".
_ctrain_hpc_words() { # WORDS TEXT HEAD [MORE]: completes TEXT, which follows HEAD, from WORDS
  local head=$3
  # If "=" separates words, bash replaces only the text after the last "="
  [[ $COMP_WORDBREAKS == *=* ]] && head=
  mapfile -t COMPREPLY < <(compgen -P "$head" -S "${4:-}" -W "$1" -- "$2")
}

_ctrain_hpc() {
  local line=${COMP_LINE:0:COMP_POINT} words cur prev head='' command=train
  read -ra words <<<"$line"
  [[ $line == *[[:space:]] ]] && words+=('')
  cur=${words[-1]}
  prev=${words[-2]}
  COMPREPLY=()
  if [ ${#words[@]} -gt 2 ] && _ctrain_hpc_options "${words[1]}" >/dev/null; then
    command=${words[1]}
  fi
  if [[ $cur == --*=* ]]; then
    prev=${cur%%=*}
    cur=${cur#*=}
    head=$prev=
  fi
  if [[ $prev == --set && $cur == *=* ]]; then
    _ctrain_hpc_words "$(_ctrain_hpc_key_values "${cur%%=*}")" "${cur#*=}" "$head${cur%%=*}="
  elif [[ $prev == --set ]]; then
    _ctrain_hpc_words "$_ctrain_hpc_keys" "$cur" "$head" =
    compopt -o nospace 2>/dev/null
  elif [[ $prev == --* ]] && _ctrain_hpc_values "$command" "$prev" >/dev/null; then
    _ctrain_hpc_words "$(_ctrain_hpc_values "$command" "$prev")" "$cur" "$head"
  elif [[ $cur == -* ]]; then
    [ ${#words[@]} = 2 ] && head='--version '
    _ctrain_hpc_words "$head$(_ctrain_hpc_options "$command")" "$cur" ''
  elif [ ${#words[@]} = 2 ]; then
    _ctrain_hpc_words "$_ctrain_hpc_commands" "$cur" ''
  elif [ ${#words[@]} = 3 ]; then
    _ctrain_hpc_words "$(_ctrain_hpc_arguments "$command")" "$cur" ''
  fi
}
complete -o bashdefault -o default -F _ctrain_hpc ctrain-hpc
