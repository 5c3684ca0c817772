"""The rows: every figure beside its reference of the same run and the bar that Tally sets itself; as a table and as
JSON."""

import statistics

from harness import rounds
from harness.measure import DISTURBED, STOLEN, undisturbed

# The bars: what Tally must reach.
POSTGRES_TO_TABLE = 6.0  # in tens; 10 is the aim
POSTGRES_TO_TABLE_SINGLE = 10.0
SEND_TO_BAREST = 0.9  # of fixed replies, with one write and sync for each turn of the loop
BATCH_TO_NGINX = 2.4  # 300,000 messages/s where nginx gives 125,000 requests/s
LIFE_TO_BEANSTALKD = 3.0
ONE_TO_BARE = 1.5
INDEX_BYTES = 128
RESTART_S_PER_MILLION = 1.0  # 10 million in 10 s; below a million, 1 s
GROWTH = 1.3
PAUSE_MS = 20


def row(name, value, unit, reference="", reference_value=None, reference_unit="", at_least=None, at_most=None,
        bar_on_value=False, problem="", is_disturbed=False, ratios=()):
    """One line of the table. The bar judges the median of the rounds' ratios, or value / reference_value where no
    rounds are given, or the value itself with bar_on_value."""
    ratio, ratio_range = rounds.middle(ratios)
    if ratio is None and value is not None and reference_value:
        ratio = value / reference_value
    judged = value if bar_on_value else ratio
    bar = at_least if at_least is not None else at_most
    met = None
    if bar is not None and judged is not None:
        met = judged >= bar if at_least is not None else judged <= bar
    return {
        "name": name, "value": value, "unit": unit, "reference": reference, "reference_value": reference_value,
        "reference_unit": reference_unit, "ratio": ratio, "ratio_range": ratio_range, "bar": bar,
        "bar_is": "at least" if at_least is not None else "at most",
        "bar_on_value": bar_on_value, "met": met, "problem": problem,
        "is_disturbed": is_disturbed,
    }


RATE = (("messages_per_s",), "/s")
P50 = (("latency_us", "p50"), "us")
CPU = (("server_cpu_us",), "us")

# Name, load of Tally, load beside it, figure and unit, bar.
COMPARISONS = [
    ("SendMessage", "send", "barest", RATE, {"at_least": SEND_TO_BAREST}),
    ("SendMessage", "send", "nginx", RATE, {}),
    ("SendMessage", "send", "redis", RATE, {}),
    ("SendMessage", "send", "ceiling.send", RATE, {}),
    ("SendMessageBatch of 10", "batch", "nginx", RATE, {"at_least": BATCH_TO_NGINX}),
    ("SendMessageBatch of 10", "batch", "redis.tens", RATE, {}),
    ("send, receive, delete in tens", "life", "beanstalkd", RATE, {"at_least": LIFE_TO_BEANSTALKD}),
    ("send, receive, delete, single", "life.single", "beanstalkd", RATE, {}),
    ("send, receive, delete in tens", "life", "beanstalkd.tens", RATE, {}),
    ("send, receive, delete in tens", "life", "beanstalkd.sync", RATE, {}),
    ("send, receive, delete in tens", "life", "redis.streams", RATE, {}),
    ("send, receive, delete in tens", "life", "nats", RATE, {}),
    ("send, receive, delete in tens", "life", "nats.sync", RATE, {}),
    ("send, receive, delete in tens", "life", "rabbitmq", RATE, {}),
    ("send, receive, delete in tens", "life", "rabbitmq.quorum", RATE, {}),
    ("send, receive, delete in tens", "life", "postgresql", RATE, {}),
    ("send, receive, delete in tens", "life", "graphile", RATE, {}),
    ("send, receive, delete in tens", "life", "pgboss", RATE, {}),
    ("send, receive, delete in tens", "life", "bullmq", RATE, {}),
    ("on PostgreSQL: send, receive, delete in tens", "life.postgres", "postgresql", RATE,
     {"at_least": POSTGRES_TO_TABLE}),
    ("on PostgreSQL: send, receive, delete in tens", "life.postgres", "graphile", RATE, {}),
    ("on PostgreSQL: send, receive, delete in tens", "life.postgres", "pgboss", RATE, {}),
    ("on PostgreSQL: send, receive, delete, single", "life.single.postgres", "postgresql.single", RATE,
     {"at_least": POSTGRES_TO_TABLE_SINGLE}),
    ("on PostgreSQL: send, receive, delete, single", "life.single.postgres", "postgresql.single.held", RATE, {}),
    ("in files: send, receive, delete, single", "life.single", "postgresql.single", RATE, {}),
    ("SendMessage, signed", "send.signed", "barest", RATE, {"at_least": SEND_TO_BAREST}),
    ("SendMessage, signed", "send.signed", "send", RATE, {}),
    ("SendMessageBatch of 10, signed", "batch.signed", "nginx", RATE, {"at_least": BATCH_TO_NGINX}),
    ("send, receive, delete in tens, signed", "life.signed", "beanstalkd", RATE, {"at_least": LIFE_TO_BEANSTALKD}),
    ("one connection, one message, p50", "one", "one.bare", P50, {"at_most": ONE_TO_BARE}),
    ("one connection, one message, p50", "one", "one.redis", P50, {}),
    ("CPU time of a SendMessage", "send", "nginx", CPU, {}),
    ("CPU time of a SendMessage", "send", "redis", CPU, {}),
    ("CPU time of a SendMessage, signed", "send.signed", "send", CPU, {}),
    ("CPU time of a message, batches of 10", "batch", "redis.tens", CPU, {}),
    ("CPU time of a message's life, in tens", "life", "beanstalkd", CPU, {}),
]


def comparison_rows(cases):
    rows = []
    for name, key, reference_key, (path, unit), bar in COMPARISONS:
        case, reference = cases[key], cases[reference_key]
        if case.is_wanted and reference.is_wanted:
            promise = ("" if reference.server.durability == case.server.durability
                       else f" ({reference.server.durability})")
            rows.append(row(name, case.median(*path), unit, reference.title + promise, reference.median(*path), unit,
                            problem=case.problem or reference.problem,
                            is_disturbed=case.is_disturbed() or reference.is_disturbed(),
                            ratios=rounds.ratios(case.results, reference.results, path), **bar))
    return rows


def median_of(results, name):
    return statistics.median(result[name] for result in undisturbed(results)) if results else None


def unstolen(results):
    """The runs of which a virtual machine's host withheld nearly nothing, or all where there is none."""
    return [one for one in results if one["stolen_share"] <= STOLEN] or results


def p999_ms(results, which):
    return statistics.median(one[which]["p999"] for one in results) / 1000 if results else None


def pause_row(backlog, many_of):
    calm, pauses = unstolen(backlog.calm), unstolen(backlog.pauses)
    problem = backlog.problem
    whole = sum(len(one["snapshots_s"]) for one in pauses)
    if not problem and whole == 0:
        problem = "no snapshot was seen from its fork to its name"
    of = ""
    if pauses and not problem:
        worst, longest = (max(one["during"][which] for one in pauses) / 1000 for which in ("p999", "max"))
        of = f"worst of {len(pauses)} runs {worst:.2f} ms, longest send {longest:.0f} ms, {whole} snapshots whole; "
    return row("p99.9 of a send during a snapshot", None if problem else p999_ms(pauses, "during"), "ms",
               f"without one; {of}{many_of}; sends of {backlog.sent_body}", p999_ms(calm, "latency_us"), "ms",
               at_most=PAUSE_MS, bar_on_value=True,
               is_disturbed=any(one["stolen_share"] > STOLEN for one in calm + pauses), problem=problem)


def backlog_rows(backlog):
    many = f"{backlog.messages:,} waiting"
    many_of = f"{many}, bodies of {backlog.body} bytes"
    memory = "index memory of a waiting message"
    rows = [row(memory, backlog.index_bytes, "bytes", f"none; {many_of}", at_most=INDEX_BYTES, bar_on_value=True,
                problem=backlog.problem)]
    for name, size in backlog.peers.items():
        rows.append(row(memory, backlog.index_bytes, "bytes", f"{name}, body included", size, "bytes",
                        problem=backlog.problem))
    bar_s = RESTART_S_PER_MILLION * max(1.0, backlog.messages / 1e6)
    rows.append(row("restart after kill -9", backlog.restart_warm_s, "s", f"files not in the page cache; {many_of}",
                    backlog.restart_cold_s, "s", at_most=bar_s, bar_on_value=True, problem=backlog.problem))
    rows.append(pause_row(backlog, many_of))
    for name, which, unit, bar in (("growth: CPU time of a life", "server_cpu_us", "us", GROWTH),
                                   ("growth: lives", "messages_per_s", "/s", None)):
        rows.append(row(name, median_of(backlog.many, which), unit, f"1,000 waiting, not {many_of}",
                        median_of(backlog.few, which), unit, at_most=bar, problem=backlog.problem,
                        ratios=rounds.ratios(backlog.many, backlog.few, (which,)),
                        is_disturbed=max(median_of(lives, "others_share") or 0
                                         for lives in (backlog.few, backlog.many)) > DISTURBED))
    return rows


def all_rows(cases, backlog):
    by_key = {case.key: case for case in cases}
    return comparison_rows(by_key) + (backlog_rows(backlog) if backlog is not None else [])


def with_unit(value, unit):
    return "-" if value is None else number(value) + unit if unit == "/s" else f"{number(value)} {unit}"


def number(value):
    """Three or four digits that matter."""
    if value is None:
        return "-"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"


def ratio_text(entry):
    if entry["ratio"] is None:
        return ""
    low, high = entry["ratio_range"] or (None, None)
    return f"{entry['ratio']:.2f} x" + (f" ({low:.2f} to {high:.2f})" if low is not None and low < high else "")


def is_behind(entry):
    """Whether the reference is better: more in a second, or less of a time and of bytes."""
    if entry["ratio"] is None or entry["unit"] not in ("/s", "us", "ms", "s", "bytes"):
        return False
    return entry["ratio"] < 1 if entry["unit"] == "/s" else entry["ratio"] > 1


def bar_text(entry):
    if entry["bar"] is None:
        return ""
    unit = f" {entry['unit']}" if entry["bar_on_value"] else " x"
    return f"{entry['bar_is']} {entry['bar']:,g}{unit}"


def verdict_text(entry):
    if entry["problem"]:
        return entry["problem"]
    verdict = {True: "met", False: "MISSED", None: "" if entry["bar"] is None else "not measured"}[entry["met"]]
    return f"{verdict} (disturbed)".lstrip() if entry["is_disturbed"] else verdict


def table(head, lines, right):
    """Aligned text; `right` names the columns that are numbers."""
    widths = [max(len(line[at]) for line in [head] + lines) for at in range(len(head))]
    made = []
    for line in [head] + lines:
        cells = [cell.rjust(width) if at in right else cell.ljust(width)
                 for at, (cell, width) in enumerate(zip(line, widths))]
        made.append("  ".join(cells).rstrip())
    made.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(made)


def rows_table(rows):
    lines = [[entry["name"], with_unit(entry["value"], entry["unit"]),
              with_unit(entry["reference_value"], entry["reference_unit"]), entry["reference"],
              ratio_text(entry), bar_text(entry), verdict_text(entry)] for entry in rows]
    return table(["what", "Tally", "reference", "which", "ratio", "bar", ""], lines, {1, 2, 4})


def cases_table(cases):
    lines = []
    for case in filter(lambda case: case.is_wanted, cases):
        span = case.span("messages_per_s")
        if span is None:
            lines.append([case.title, case.server.durability, "-"] + [""] * 6 + ["", case.problem])
            continue
        latency = [number(case.median("latency_us", which)) for which in ("p50", "p99", "p999")]
        shares = [f"{100 * case.median(which):.0f} %" for which in ("generator_share", "others_share")] + [""]
        lines.append([case.title, case.server.durability, number(case.median("messages_per_s")),
                      f"{number(span[0])} to {number(span[1])}", *latency, number(case.median("server_cpu_us")),
                      *shares])
    return table(["load", "promise", "messages/s", "range", "p50 us", "p99 us", "p99.9 us", "CPU us/msg", "load busy",
                  "others", ""], lines, set(range(2, 10)))


def notes(cases):
    """What a reader must know before he believes a figure."""
    by_key = {case.key: case for case in cases}
    named = (("ceiling.send", "SendMessage"), ("ceiling.batch", "batches of ten"), ("ceiling.life", "lives"))
    ceilings = [f"{number(by_key[key].median('requests_per_s'))} requests/s of {name}"
                for key, name in named if by_key[key].results]
    made = []
    if ceilings:
        made.append("The load generator's own ceiling, at least: " + ", ".join(ceilings)
                    + " (against a bare server, which is as busy then).")
    for case in cases:
        share = case.median("generator_share")
        if share is not None and share > 0.95 and not case.key.startswith("ceiling"):
            made.append(f"{case.title}: the generator was {100 * share:.0f} % busy and may be the limit.")
    disturbed = [case.title for case in cases if case.is_disturbed()]
    if disturbed:
        made.append(f"Disturbed: in every run others took more than {100 * DISTURBED:.0f} % of a core (threads of the "
                    "kernel that serve the disk count too); don't trust: " + "; ".join(disturbed) + ".")
    return made


def as_json(machine_facts, settings, versions, disk, cases, backlog, parts, rows):
    measured = {
        case.key: {
            "title": case.title, "server": case.server.name, "durability": case.server.durability, "mode": case.mode,
            "problem": case.problem, "messages_per_s": case.median("messages_per_s"),
            "range_messages_per_s": case.span("messages_per_s"), "runs": case.results,
        } for case in cases if case.is_wanted
    }
    return {"machine": machine_facts, "settings": settings, "versions": versions, "disk": disk, "rows": rows,
            "measured": measured, "backlog": vars(backlog) if backlog is not None else None, "notes": notes(cases),
            "parts": {part.key: {"title": part.title, "problem": part.problem, "results": part.results}
                      for part in parts}}
