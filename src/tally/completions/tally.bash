# Completion of tally in bash. `source <(tally completion bash)`, or a file of bash-completion.
#
# `tally __complete` knows what fits: a candidate a line, a tab and what it means. Status 1: the names of files fit.
_tally() {
    local line=${COMP_LINE:0:COMP_POINT} words current stem fits
    read -ra words <<<"$line"
    [[ $line != *[[:space:]] ]] || words+=("")
    current=${words[${#words[@]} - 1]}
    COMPREPLY=()
    fits=$("${1/#\~/$HOME}" __complete "${words[@]:1}" 2>/dev/null) || {
        compopt -o default 2>/dev/null
        return 0
    }
    # Bash takes : and = for ends of words, and puts what it gets behind them.
    stem=${current%"${current##*[:=]}"}
    while IFS=$'\t' read -r candidate _; do
        [[ -z $candidate ]] || COMPREPLY+=("${candidate#"$stem"}")
    done <<<"$fits"
}
complete -F _tally tally
