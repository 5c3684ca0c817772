"""The pages of the commands of `tally`, made from src/tally/commands.txt, which the tool's own help is made of, too.
src/tally/commands.awk says how that file is written."""

import re

# Of commands that belong together: (title, the first words of their names).
THEMES = [
    ("Queues", "queue"), ("Messages", "send receive delete delete-messages commit"),
    ("Looking at messages", "messages inflight peek find release replace failures dependents explain"),
    ("Groups", "group"), ("Type orders", "type-order"), ("Work", "work run"), ("Batches", "batch"),
    ("Schedules", "schedule"), ("Relays", "relay"), ("Pools", "pool match"), ("The log in PostgreSQL", "log"),
    ("Clusters", "cluster"), ("Backup and export", "backup export import apply"),
    ("The server", "health status events top ui completion call"),
]
SLASHED = "\\|"
VALUES = {"list": "may be given again"}


def read(text):
    """(texts of groups, commands), each by its name."""
    groups, commands = {}, {}
    for kind, name, body in re.findall(r"^(==?) (\S.*)\n((?:(?!==? \S).*\n)*)", text, re.MULTILINE):
        if kind == "==":
            groups[name] = body.strip("\n")
        else:
            commands[name] = command(body)
    for one in commands.values():
        one["options"] += [option for name in one.pop("others") for option in commands[name]["options"]]
    return groups, commands


def command(body):
    head, _, rest = body.partition("\n\n")
    text, _, examples = rest.partition("examples:\n")
    fields = dict(re.findall(r"^(summary|usage|takes): ?(.*)$", head, re.MULTILINE))
    return {**fields, "text": text.strip("\n"), "examples": re.sub("(?m)^  ", "", examples).strip("\n"),
            "options": re.findall(r"^(--[^(:]*?)(?: \(([^)]*)\))?: (.*)$", head, re.MULTILINE),
            "others": re.findall(r"^options of (.*)$", head, re.MULTILINE)}


def usage(name, one):
    words = ["tally", name, "[OPTIONS]", one["usage"], "-- COMMAND [ARGUMENT...]" if "program" in one["takes"] else ""]
    return " ".join(word for word in words if word)


def markdown(text):
    """Paragraphs, and what is indented as a block."""
    parts = []
    for part in re.split(r"\n\n+", text):
        blocks = []
        for line in part.split("\n"):
            is_code = line.startswith("  ")
            if not blocks or blocks[-1][0] != is_code:
                blocks.append((is_code, []))
            blocks[-1][1].append(line[2:] if is_code else line)
        for is_code, block in blocks:
            parts.append("```text\n" + "\n".join(block) + "\n```" if is_code else escaped("\n".join(block)))
    return "\n\n".join(parts)


def escaped(text):
    """What Markdown would take for markup, outside of backticks; and pages of docs/ become links."""
    text = "".join(part if at % 2 else re.sub(r"([<*\[\]])", r"\\\1", part) for at, part in enumerate(
        re.split(r"(`[^`]*`)", text)))
    return re.sub(r"\bdocs/([\w/-]+\.md)", r"[docs/\1](../../\1)", text)


def cell(text):
    return escaped(text).replace("|", "\\|")


def file_of(name):
    return f"{name.replace(' ', '-')}.md"


def page(name, one, action, siblings):
    lines = [f"# tally {name}", "", f"{one['summary'][0].upper()}{one['summary'][1:]}.", "",
             "```sh", one["examples"], "```", "", "## Usage", "", "```text", usage(name, one), "```", "",
             markdown(one["text"]), ""]
    if one["options"]:
        lines += ["## Options", "", "| option | values | meaning |", "|---|---|---|"]
        lines += [f"| `{option.replace('|', SLASHED)}` | {VALUES.get(values, cell(values))} | {cell(meaning)} |"
                  for option, values, meaning in one["options"]]
        lines += ["", "And those of [every command](README.md#options-of-every-command)."]
    else:
        lines += ["It has the options of [every command](README.md#options-of-every-command)."]
    lines += ["", "## See also", ""]
    if action:
        lines += [f"- Its action: [{action}](../actions/{action}.md)"]
    if len(siblings) > 1:
        lines += [f"- Its siblings: {', '.join(f'[{each}]({file_of(each)})' for each in siblings if each != name)}"]
    lines += ["- [All commands](README.md)"]
    return "\n".join(lines) + "\n"


def index(groups, commands, themes, text):
    lines = [text.rstrip("\n"), ""]
    for title, names in themes:
        lines += [f"## {title}", ""]
        told = groups.get(names[0].split()[0])
        if told:
            lines += [markdown(told.partition("\n\n")[0]), ""]
        lines += ["| command | what it does |", "|---|---|"]
        lines += [f"| [tally {name}]({file_of(name)}) | {cell(commands[name]['summary'])} |" for name in names]
        lines += [""]
    return "\n".join(lines).rstrip("\n") + "\n"


def pages(folder, text, introduction, actions):
    """(path, content) of each page. `actions`: the action of a command, by its name."""
    groups, commands = read(text)
    themes = [(title, [name for name in commands if name.split()[0] in words.split()]) for title, words in THEMES]
    assert sorted(commands) == sorted(name for _, names in themes for name in names), "a command has no theme"
    yield folder / "README.md", index(groups, commands, themes, introduction)
    for _, names in themes:
        for name in names:
            yield folder / file_of(name), page(name, commands[name], actions.get(name), names)
