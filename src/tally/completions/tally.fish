# Completion of tally in fish. `tally completion fish | source`, or a file in a folder of vendor_completions.d.
#
# `tally __complete` knows what fits: a candidate a line, a tab and what it means. Status 1: the names of files fit.
function __tally_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    $words[1] __complete $words[2..-1] "$current" 2>/dev/null
    or __fish_complete_path "$current"
end
complete -c tally -f -a '(__tally_complete)'
