"""Panels of lines over one axis as SVG, written by hand. They stand on a card of their own, light or dark, so they read
on any page.

    panels.draw("A soak", "70 % of the peak", "minutes", [
        panels.Panel("p99", "ms", [panels.Line("send", [(0, 1.2), (1, 1.3)])], bounds=[panels.Bound("bar", 20)])],
        marks=panels.Marks("workers killed", [0.2, 0.7]))
"""

import html
import math
from dataclasses import dataclass, field

WIDTH = 760
LEFT, RIGHT = 76, 24
PANEL_HEIGHT, PANEL_GAP = 150, 46
COLOURS = 4  # lines in a panel, told apart by most eyes
STYLE = """
  text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: #1f2328; }
  .title { font-size: 17px; font-weight: 600; } .panel { font-weight: 600; } .small { font-size: 12px; fill: #59636e; }
  .end { text-anchor: end; } .middle { text-anchor: middle; }
  path, line { fill: none; stroke-width: 1.5; stroke-linejoin: round; }
  .card { fill: #ffffff; } .grid { stroke: #e3e6ea; stroke-width: 1; } .mark { stroke: #59636e; stroke-width: 0.6; }
  .c0 { stroke: #0969da; } .c1 { stroke: #c4570c; } .c2 { stroke: #1a7f37; } .c3 { stroke: #8250df; }
  .bound { stroke: #cf222e; stroke-dasharray: 6 4; }
  .d0 { stroke-width: 1; } .d1 { stroke-width: 3; stroke-opacity: 0.6; }
  .d2 { stroke-width: 5.5; stroke-opacity: 0.4; } .d3 { stroke-width: 8; stroke-opacity: 0.3; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; } .small { fill: #9198a1; } .card { fill: #0d1117; }
    .grid { stroke: #2c323a; } .mark { stroke: #9198a1; }
    .c0 { stroke: #4493f8; } .c1 { stroke: #f0883e; } .c2 { stroke: #3fb950; } .c3 { stroke: #ab7df8; }
    .bound { stroke: #f85149; }
  }
"""


@dataclass
class Line:
    name: str
    points: list  # (x, y), by x; y is None where nothing is known, and the line has a gap there


@dataclass
class Bound:
    """What a panel's values are held against: one value, or a line of its own."""

    name: str
    value: float | list


@dataclass
class Panel:
    title: str
    unit: str
    lines: list
    bounds: list = field(default_factory=list)
    is_logarithmic: bool = False


@dataclass
class Marks:
    """Moments on the axis."""

    name: str
    at: list


def number(value):
    """As short as it can be said: 0.5, 12, 1,200, 3.4 M."""
    if value == 0:
        return "0"
    if abs(value) >= 1e6:
        return f"{value / 1e6:.3g} M"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def steps(top):
    """Round values from 0 to at least `top`, four to six of them."""
    if top <= 0:
        return [0, 1]
    size = 10 ** math.floor(math.log10(top / 6))
    step = next(size * times for times in (1, 2, 2.5, 5, 10) if top / (size * times) <= 6)
    return [step * i for i in range(math.ceil(top / step - 1e-9) + 1)]


def powers(low, high):
    """Powers of ten around what is shown on a logarithmic axis."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [10.0**power for power in range(first, max(last, first + 1) + 1)]


def thinned(points, width):
    """As many points as can be seen: of those that fall on one pixel the first, the least and the largest."""
    if len(points) <= 2 * width:
        return points
    first, span = points[0][0], (points[-1][0] - points[0][0]) or 1
    pixels = {}
    for point in points:
        pixels.setdefault(int((point[0] - first) / span * width), []).append(point)
    kept = []
    for same in pixels.values():
        known = [point for point in same if point[1] is not None]
        chosen = {same[0], min(known, key=lambda p: p[1]), max(known, key=lambda p: p[1])} if known else {same[0]}
        kept += sorted(chosen, key=lambda p: p[0])
    return kept


class Picture:
    """Elements, one after the other."""

    def __init__(self):
        self.elements = []

    def text(self, x, y, text, kind=""):
        self.elements.append(f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{html.escape(text)}</text>')

    def line(self, x1, y1, x2, y2, kind):
        self.elements.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>')

    def path(self, points, kind):
        """Through all points; a gap where y is None."""
        drawn, is_open = [], False
        for x, y in points:
            if y is not None:
                drawn.append(f'{"L" if is_open else "M"}{x:.1f} {y:.1f}')
            is_open = y is not None
        self.elements.append(f'<path d="{"".join(drawn)}" class="{kind}"/>')

    def legend(self, x_end, y, entries):
        """Names from the right edge on leftwards: (name, kind)."""
        for name, kind in reversed(entries):
            x_end -= 6.8 * len(name) + 4
            self.text(x_end, y, name, "small")
            self.line(x_end - 24, y - 4, x_end - 6, y - 4, kind)
            x_end -= 38

    def as_svg(self, height, title):
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" '
            f'height="{height:.0f}" role="img"><title>{html.escape(title)}</title>\n<style>{STYLE}</style>\n'
            f'<rect width="{WIDTH}" height="{height:.0f}" class="card"/>\n' + "\n".join(self.elements) + "\n</svg>\n")


def scale_of(panel):
    """The values that the axis names, and where a value stands between 0 and 1."""
    values = [y for line in panel.lines for _, y in line.points if y is not None]
    for bound in panel.bounds:
        values += [y for _, y in bound.value] if isinstance(bound.value, list) else [bound.value]
    if panel.is_logarithmic:
        positive = [value for value in values if value > 0] or [1]
        named = powers(min(positive), max(positive))
        low, span = math.log10(named[0]), math.log10(named[-1] / named[0])
        return named, lambda value: max(0.0, (math.log10(value) - low) / span) if value > 0 else 0.0
    named = steps(max(values, default=1))
    return named, lambda value: value / named[-1]


def panel_draw(picture, panel, top, x_of, ends):
    """One panel with its grid, its lines, and its bounds as dashes."""
    named, share_of = scale_of(panel)
    bottom = top + PANEL_HEIGHT
    y_of = lambda value: None if value is None else bottom - PANEL_HEIGHT * share_of(value)
    picture.text(LEFT, top - 10, f"{panel.title}, {panel.unit}" if panel.unit else panel.title, "panel")
    for value in named:
        picture.line(LEFT, y_of(value), WIDTH - RIGHT, y_of(value), "grid")
        picture.text(LEFT - 8, y_of(value) + 4, number(value), "small end")
    for bound in panel.bounds:
        points = bound.value if isinstance(bound.value, list) else [(x, bound.value) for x in ends]
        picture.path([(x_of(x), y_of(y)) for x, y in thinned(points, WIDTH - LEFT - RIGHT)], "bound")
    # the first lies on top, and those below are the wider the deeper they lie
    for index in reversed(range(len(panel.lines))):
        points = thinned(panel.lines[index].points, WIDTH - LEFT - RIGHT)
        picture.path([(x_of(x), y_of(y)) for x, y in points], f"c{index % COLOURS} d{index % COLOURS}")
    entries = [(line.name, f"c{index % COLOURS}") for index, line in enumerate(panel.lines)]
    entries += [(bound.name, "bound") for bound in panel.bounds]
    picture.legend(WIDTH - RIGHT, top - 10, entries)


def draw(title, subtitle, x_name, panels, marks=None):
    """Panels below each other over one axis; `marks` are ticks that stand under the last of them."""
    xs = [x for panel in panels for line in panel.lines for x, _ in line.points]
    first, last = min(xs, default=0), max(xs, default=1)
    span = (last - first) or 1
    x_of = lambda x: LEFT + (WIDTH - LEFT - RIGHT) * (x - first) / span
    picture = Picture()
    picture.text(24, 32, title, "title")
    picture.text(24, 52, subtitle, "small")
    top = 92
    for panel in panels:
        panel_draw(picture, panel, top, x_of, (first, last))
        top += PANEL_HEIGHT + PANEL_GAP
    bottom = top - PANEL_GAP
    if marks is not None:
        for at in marks.at:
            if first <= at <= last:
                picture.line(x_of(at), bottom + 6, x_of(at), bottom + 14, "mark")
        bottom += 14
    for x in steps(last):
        if first <= x <= last:
            picture.text(x_of(x), bottom + 18, number(x), "small middle")
    picture.text((LEFT + WIDTH - RIGHT) / 2, bottom + 38, x_name, "small middle")
    if marks is not None:
        picture.text(WIDTH - RIGHT, bottom + 38, f"| {len(marks.at):,} {marks.name}", "small end")
    return picture.as_svg(bottom + 54, title)
