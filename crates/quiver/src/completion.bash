
# Commands of the router: after `quiver cli' and its options, and after `vppctl'.
_quiver_commands() {
    local line="${COMP_LINE:0:COMP_POINT}" socket=()
    local options='((-s|--socket)[= ]+([^ ]+) +|(--json|--keep-going|-k) +)*'
    if [[ $line =~ ^[^\ ]+\ +(cli\ +)?$options(.*)$ ]]; then
        [[ -n ${BASH_REMATCH[4]} ]] && socket=(--socket "${BASH_REMATCH[4]}")
        mapfile -t COMPREPLY < <(quiver complete "${socket[@]}" -- "${BASH_REMATCH[6]}" 2>/dev/null)
    fi
}

_quiver_or_commands() {
    # Options, and the values of those that take one, are the other function's.
    if [[ ${COMP_WORDS[1]} == cli && COMP_CWORD -gt 1 && $2 != -* && ! $3 =~ ^(-s|--socket|-f|--file)$ ]]; then
        _quiver_commands
    else
        _quiver "$@"
    fi
}

complete -F _quiver_or_commands -o bashdefault -o default quiver
complete -F _quiver_commands vppctl
