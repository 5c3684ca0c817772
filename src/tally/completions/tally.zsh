#compdef tally
# Completion of tally in zsh. `source <(tally completion zsh)`, or a file _tally in a folder of fpath.
#
# `tally __complete` knows what fits: a candidate a line, a tab and what it means. Status 1: the names of files fit.
_tally() {
    local fits line
    local -a candidates
    fits=$("${(Q)words[1]}" __complete "${(Q@)words[2,CURRENT - 1]}" "${(Q)PREFIX}" 2>/dev/null) || {
        _files
        return
    }
    for line in "${(f@)fits}"; do
        [[ -z $line ]] || candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    done
    _describe tally candidates
}
if [[ ${funcstack[1]} == _tally ]]; then
    _tally "$@"
else
    compdef _tally tally
fi
