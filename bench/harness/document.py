"""The places in a document that a program writes: between `<!-- NAME: COMMAND -->` and `<!-- end -->`."""

import re


def table(head, lines, right=()):
    """In Markdown; `right` are the columns of numbers."""
    marks = [" ---: " if at in right else " --- " for at in range(len(head))]
    made = ["| " + " | ".join(head) + " |", "|" + "|".join(marks) + "|"]
    return "\n".join(made + ["| " + " | ".join(line) + " |" for line in lines])


def filled(document, name, command, made):
    """The document with `made` in its place for that name; LookupError where there isn't just one."""
    pattern = re.compile(rf"(<!-- {name}: {command} -->\n).*?(<!-- end -->)", re.DOTALL)
    if len(pattern.findall(document)) != 1:
        raise LookupError(f"the document has no single place for {name}")
    return pattern.sub(lambda found: found.group(1) + (made + "\n" if made else "") + found.group(2), document)
