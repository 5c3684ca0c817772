# commands.awk: makes C of commands.txt, the rows of commands.h in the order of the file.
#
# Of a group there is a line "== NAME" and its text. Of a command there are, in this order, "= NAME", its fields
# "summary:", "usage:" and "takes:", its options, an empty line, its text, "examples:" and those. Empty lines at the end
# of a text don't count. An option is a flag, or has a value that is a text, a number, or one of a list of texts:
#
#     --lines: with -: send each line of standard input as a message
#     --receipt-handle HANDLE (default NEWEST): which message that is
#     --delay SECONDS (0 to 900): deliver it so much later
#     --attribute NAME=VALUE (list): may be given again
#
# "options of NAME" stands for all options of another command, behind its own.

function quoted(line) {
    gsub(/\\/, "\\\\&", line)
    gsub(/"/, "\\\"", line)
    return "\"" line "\""
}

# What follows "NAME: "; the file has the fields in their order.
function field(name,    value) {
    if (index($0, name ":") != 1) {
        print FILENAME ":" FNR ": " name ": is missing" >"/dev/stderr"
        exit failed = 1
    }
    value = substr($0, length(name) + 2)
    sub(/^ +/, "", value)
    return value
}

# "1", "1 to 2", "1 or more", each perhaps with ", and a program".
function takes(value,    words) {
    split(value, words, /,? /)
    row = row ", .arguments_min = " words[1] ", .arguments_max = "
    row = row (words[2] == "or" ? -1 : words[2] == "to" ? words[3] : words[1])
    if (value ~ /, and a program$/)
        row = row ", .takes_program = true"
}

function option(    head, words, kind, min, max, fallback) {
    head = substr($0, 3, index($0, ": ") - 3)
    min = max = 0
    fallback = "NULL"
    if (match(head, / \(.*\)$/)) {
        kind = substr(head, RSTART + 2, RLENGTH - 3)
        head = substr(head, 1, RSTART - 1)
        if (match(kind, /(^|, )default .*$/)) {
            fallback = substr(kind, RSTART)
            sub(/^(, )?default /, "", fallback)
            fallback = quoted(fallback)
            kind = substr(kind, 1, RSTART - 1)
        }
        if (split(kind, words, / to /) == 2) {
            min = words[1] "u"
            max = words[2] "u"
            kind = "NUMBER"
        }
    }
    kind = kind == "list" ? "LIST" : kind == "NUMBER" ? kind : head ~ / / ? "TEXT" : "FLAG"
    split(head, words, / /)
    options[name] = options[name] "    {" quoted(words[1]) ", " (words[2] == "" ? "NULL" : quoted(words[2])) ", " \
        quoted(substr($0, index($0, ": ") + 2)) ", OPTION_" kind ", " min ", " max ", " fallback "},\n"
}

function end_options() {
    if (options[name] == "")
        return
    symbols[++count] = symbol
    names[count] = name
    row = row ",\n     .options = " symbol "_options, .option_count = ARRAY_LENGTH(" symbol "_options)"
}

function end_text() {
    sub(/("\\n" )+$/, "", text)
    if (state == "text")
        row = row ",\n     .text = " text
    else if (state == "examples")
        rows = rows row ",\n     .examples = " text "},\n"
    else if (state == "group")
        groups = groups "    {" quoted(group) ", " text "},\n"
    text = ""
}

/^#/ && state == "" { next }
/^== / { end_text(); group = substr($0, 4); state = "group"; next }
/^= / {
    end_text()
    name = substr($0, 3)
    symbol = name
    gsub(/[ -]/, "_", symbol)
    declared = declared "extern const struct command command_" symbol ";\n"
    row = "    {.name = " quoted(name) ", .command = &command_" symbol
    state = "summary"
    next
}
state == "summary" { row = row ",\n     .summary = " quoted(field("summary")); state = "usage"; next }
state == "usage" { row = row ", .arguments = " quoted(field("usage")); state = "takes"; next }
state == "takes" { takes(field("takes")); state = "options"; next }
state == "options" && /^--/ { option(); next }
state == "options" && /^options of / { others[name] = substr($0, 12); next }
state == "options" { end_options(); state = "text"; next }
state == "text" && /^examples:$/ { end_text(); state = "examples"; next }
{ text = text quoted($0) "\"\\n\" " }

END {
    if (failed)
        exit 1
    end_text()
    print "/* Made of commands.txt by commands.awk. */\n#include \"tally/commands.h\"\n\n#include \"base/assert.h\"\n"
    for (i = 1; i <= count; i++)
        tables = tables "\nstatic const struct option_row " symbols[i] "_options[] = {\n" options[names[i]] \
            (names[i] in others ? options[others[names[i]]] : "") "};\n"
    print declared tables "\nconst struct command_row commands[] = {\n" rows "};"
    print "const size_t command_count = ARRAY_LENGTH(commands);\n\nconst struct group_row groups[] = {\n" groups "};"
    print "const size_t group_count = ARRAY_LENGTH(groups);"
}
