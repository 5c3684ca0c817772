"""Charts as SVG, written by hand: readable on light and on dark ground, without scripts and fonts of their own."""

import math
from xml.sax.saxutils import escape

# The whole life of a job, of whom. What is in brackets in the table isn't needed beside a legend.
JOBS = [
    ("life", "Tally, 10 in a request"), ("life.single", "Tally, single"),
    ("life.signed", "Tally, signed, 10 in a request"),
    ("life.postgres", "Tally on PostgreSQL, 10 in a request"), ("life.single.postgres", "Tally on PostgreSQL, single"),
    ("beanstalkd", "beanstalkd, single"),
    ("beanstalkd.tens", "beanstalkd, 10 in a write"), ("beanstalkd.sync", "beanstalkd -f 0"),
    ("redis.streams", "Redis Streams"),
    ("nats", "NATS JetStream"),
    ("nats.sync", "NATS JetStream, each synced"), ("rabbitmq", "RabbitMQ, classic queue"),
    ("rabbitmq.quorum", "RabbitMQ, quorum queue"), ("postgresql", "PostgreSQL, SKIP LOCKED"),
    ("postgresql.single", "PostgreSQL, SKIP LOCKED, single"),
    ("graphile", "graphile-worker"),
    ("pgboss", "pg-boss"), ("bullmq", "BullMQ on Redis"),
]
PROMISES = {"synced": "an answer outlives a power cut", "page cache": "outlives the process",
            "memory": "outlives neither"}

STYLE = """
  text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: #1f2328; }
  .title { font-size: 17px; font-weight: 600; } .small { font-size: 12px; }
  .soft { fill: #59636e; } .ours { font-weight: 700; }
  .grid { stroke: #d1d9e0; stroke-width: 1; } .span { stroke: #1f2328; stroke-width: 1.5; }
  .synced { fill: #0969da; } .page-cache { fill: #bf8700; } .memory { fill: #818b98; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; } .soft { fill: #9198a1; } .grid { stroke: #3d444d; } .span { stroke: #f0f6fc; }
    .synced { fill: #4493f8; } .page-cache { fill: #d29922; } .memory { fill: #656c76; }
  }
"""

WIDTH, LEFT, RIGHT = 860, 210, 90
BAR, STEP = 18, 27


def text(x, y, words, classes="", anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{classes}" text-anchor="{anchor}">{escape(words)}</text>'


def ticks(largest):
    """Round numbers from 0 to at least the largest, about five of them."""
    rough = largest / 5
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    return [step * at for at in range(math.ceil(largest / step) + 1)]


def jobs_bars(result):
    """(label, class, median, range, is it ours) of those that were measured, the fastest first."""
    bars = []
    for key, label in JOBS:
        measured = result["measured"].get(key)
        if measured and measured["messages_per_s"]:
            bars.append((label, measured["durability"].replace(" ", "-"), measured["messages_per_s"],
                         measured["range_messages_per_s"], measured["server"].startswith("Tally")))
    return sorted(bars, key=lambda bar: -bar[2])


def legend(y, classes):
    parts, x = [], 16
    for promise, meaning in PROMISES.items():
        name = promise.replace(" ", "-")
        if name in classes:
            words = f"{promise}: {meaning}"
            parts += [f'<rect x="{x}" y="{y - 10}" width="12" height="12" rx="2" class="{name}"/>',
                      text(x + 17, y, words, "small")]
            x += 42 + 6.6 * len(words)
    return parts


def bar(at, top, scale, found):
    label, name, value, (low, high), is_ours = found
    y = top + at * STEP
    middle = y + BAR / 2
    weight = "ours" if is_ours else ""
    parts = [text(LEFT - 8, middle + 4.5, label, weight, "end"),
             f'<rect x="{LEFT}" y="{y}" width="{max(1.5, value * scale):.1f}" height="{BAR}" rx="2" class="{name}"/>']
    if (high - low) * scale > 3:
        parts.append(f'<line x1="{LEFT + low * scale:.1f}" x2="{LEFT + high * scale:.1f}" y1="{middle}" y2="{middle}" '
                     'class="span"/>')
    parts.append(text(LEFT + max(value, high) * scale + 7, middle + 4.5, f"{value:,.0f}", weight))
    return parts


def jobs(result, title_end=""):
    """Completed jobs in a second, each put, taken and acknowledged; an empty drawing where none was measured."""
    bars = jobs_bars(result)
    settings = result["settings"]
    top, bottom = 92, 92 + STEP * len(bars)
    marks = ticks(max((max(found[2], found[3][1]) for found in bars), default=1))
    scale = (WIDTH - LEFT - RIGHT) / marks[-1]
    height = bottom + 50
    runs = "one run" if settings["runs"] == 1 else f"median of {settings['runs']} runs, the line is their range"
    parts = [text(16, 28, "Completed jobs per second: put, taken and acknowledged" + title_end, "title"),
             text(16, 48, f"{settings['body']} bytes, {settings['connections']} clients, one server on one core, "
                  f"its clients on another; {runs}", "small soft")]
    parts += legend(74, {found[1] for found in bars})
    for mark in marks:
        x = LEFT + mark * scale
        parts += [f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top - 4}" y2="{bottom}" class="grid"/>',
                  text(x, bottom + 16, f"{mark:,.0f}", "small soft", "middle")]
    for at, found in enumerate(bars):
        parts += bar(at, top, scale, found)
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, bottom + 36, "jobs per second", "small soft", "middle"))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
            f'role="img" aria-label="Completed jobs per second of Tally and its peers">\n<style>{STYLE}</style>\n'
            + "\n".join(parts) + "\n</svg>\n")
