
# Completion in zsh: commands and options with their help, configuration keys, and the values of
# both; else file names.
_ctrain-hpc() {
  local command=train prev=${words[CURRENT-1]} cur=${words[CURRENT]}
  local -a rows
  if (( CURRENT > 2 )) && _ctrain_hpc_options ${words[2]} >/dev/null; then
    command=${words[2]}
  fi
  if [[ $cur == --*=* ]]; then
    prev=${cur%%=*}
    cur=${cur#*=}
    compset -P 1 '*='
  fi
  if [[ $prev == --set && $cur == *=* ]]; then
    compset -P 1 '*='
    compadd -- ${=$(_ctrain_hpc_key_values ${cur%%=*})}
  elif [[ $prev == --set ]]; then
    compadd -S = -q -- ${=_ctrain_hpc_keys}
  elif [[ $prev == --* ]] && _ctrain_hpc_values $command $prev >/dev/null; then
    compadd -- ${=$(_ctrain_hpc_values $command $prev)}
    _files
  elif [[ $cur == -* ]]; then
    rows=(${(f)"$(_ctrain_hpc_about_options $command)"})
    (( CURRENT == 2 )) && rows+=('--version:versions of the program and of its libraries')
    _describe option rows
  elif (( CURRENT == 2 )); then
    rows=(${(f)_ctrain_hpc_about_commands})
    _describe command rows
  else
    (( CURRENT == 3 )) && compadd -- ${=$(_ctrain_hpc_arguments $command)}
    _files
  fi
}
if [[ $funcstack[1] == _ctrain-hpc ]]; then
  _ctrain-hpc "$@"
else
  compdef _ctrain-hpc ctrain-hpc
fi
