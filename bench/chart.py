"""The charts: how many times better kwire is, row by row, and how cost grows.

They are SVG files of a few KB, written as text. They need only lines and words, and a changed
number should change only one line of a file in the repository.
"""

import math
from collections.abc import Iterable
from pathlib import Path
from xml.sax.saxutils import escape

from bench.brokers import titles
from bench.report import Grown, Growth, Line, Run, main_lines

TICKS = [whole * 10.0**power for power in range(-3, 8) for whole in (1, 2, 5)]
AHEAD, BEHIND, GRID = "#2a6f97", "#c1121f", "#ddd"
COLORS = ("#2a6f97", "#e09f3e", "#6a994e")
ROW_HEIGHT = 17
RATIOS_LEGEND = "times better than Apache Kafka; black: the bar; red: it is missed"
MEASURES = (("p50_us", "p50, µs"), ("p99_us", "p99, µs"), ("cpu_us", "CPU a request, µs"))


class Axis:
    """A logarithmic axis that maps values from ``low`` to ``high`` to coordinates."""

    def __init__(self, values: Iterable[float], start: float, end: float) -> None:
        positive = [value for value in values if value > 0]
        self.low, self.high = min(positive), max(positive)
        self.start, self.end = start, end

    def at(self, value: float) -> float:
        """The coordinate of a value; zero is placed at the start of the axis."""
        span = math.log(self.high / self.low) or 1.0
        part = math.log(max(value, self.low) / self.low) / span
        return round(self.start + part * (self.end - self.start), 1)

    def ticks(self) -> list[float]:
        """The numbers on the axis: powers of ten; if those are few, also 2, 5, 20, 50 and so on."""
        found = [tick for tick in TICKS if self.low <= tick <= self.high]
        powers = [tick for tick in found if math.log10(tick).is_integer()]
        return powers if len(powers) > 2 else found


def _around(values: Iterable[float]) -> list[float]:
    """The values, and the ticks below and above all of them."""
    found = list(values)
    low = max(tick for tick in TICKS if tick <= min(found))
    return [*found, low, min(tick for tick in TICKS if tick >= max(found))]


def _text(x: float, y: float, text: str) -> str:
    return f'<text x="{x:g}" y="{y:g}">{escape(text)}</text>'


def _path(pieces: Iterable[str], attributes: str) -> str:
    """Many lines as one SVG element; empty without lines."""
    joined = "".join(pieces)
    return f'<path d="{joined}" {attributes}/>' if joined else ""


def _write(target: Path, width: float, height: float, elements: Iterable[str]) -> None:
    box = f'viewBox="0 0 {width:g} {height:g}" font-family="sans-serif" font-size="11"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box}>',
        f'<path d="M0 0h{width:g}v{height:g}H0z" fill="#fff"/>',
        *filter(None, elements),
        "</svg>",
    ]
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")


def draw_ratios(run: Run, target: Path) -> None:
    """Write the chart: the rows that have a bar of their own, on a logarithmic axis."""
    lines = [line for line in main_lines(run) if line.advantage is not None]
    if not lines:
        return
    values = [value for line in lines for value in (_advantage(line), _limit(line) or 1.0)]
    axis = Axis(
        [*(value * 1.1 for value in values), *(value / 1.1 for value in values), 1], 330, 730
    )
    bottom = ROW_HEIGHT * len(lines) + 10
    ticks = axis.ticks()
    _write(
        target,
        800,
        bottom + 40,
        [
            _path((f"M{axis.at(tick):g} 5V{bottom}" for tick in ticks), f'stroke="{GRID}"'),
            _bars(axis, lines, missed=False),
            _bars(axis, lines, missed=True),
            *_marks(axis, lines),
            _path([f"M{axis.at(1):g} 5V{bottom}"], 'stroke="#000"'),
            '<g text-anchor="end">',
            *(_text(322, _middle(n) + 4, line.row.name) for n, line in enumerate(lines)),
            '</g><g text-anchor="middle">',
            *(_text(axis.at(tick), bottom + 14, f"{tick:g}x") for tick in ticks),
            _text(400, bottom + 32, RATIOS_LEGEND),
            "</g>",
        ],
    )


def _middle(place: int) -> float:
    """The vertical coordinate of a row's middle."""
    return 10 + ROW_HEIGHT * (place + 0.5)


def _advantage(line: Line) -> float:
    """How many times better kwire is than Kafka."""
    return line.advantage or 1.0


def _limit(line: Line) -> float | None:
    """The bar of a row as an advantage; None for a bar that isn't about Kafka."""
    if line.bar.absolute:
        return None
    return line.bar.limit if line.row.more_is_better else 1 / line.bar.limit


def _bars(axis: Axis, lines: list[Line], *, missed: bool) -> str:
    """The colored bars, from 1 to how many times better kwire is."""
    start = f"{axis.at(1):g}"
    pieces = (
        f"M{start} {_middle(place) - 5:g}H{axis.at(_advantage(line)):g}v10H{start}z"
        for place, line in enumerate(lines)
        if line.missed is missed
    )
    return _path(pieces, f'fill="{BEHIND if missed else AHEAD}"')


def _marks(axis: Axis, lines: list[Line]) -> Iterable[str]:
    """The limit of each row as a black line, the number beside the bar."""
    limits = (
        f"M{axis.at(limit):g} {_middle(place) - 7:g}v14"
        for place, line in enumerate(lines)
        if (limit := _limit(line)) is not None
    )
    yield _path(limits, 'stroke="#000" stroke-width="2"')
    for is_ahead, anchor in ((True, "start"), (False, "end")):
        yield f'<g text-anchor="{anchor}">'
        for place, line in enumerate(lines):
            value = _advantage(line)
            if (value >= 1) is is_ahead:
                beside = axis.at(value) + (7 if is_ahead else -7)
                yield _text(beside, _middle(place) + 4, f"{value:.3g}x")
        yield "</g>"


def draw_growth(growth: Growth, target: Path) -> None:
    """One column for each curve: latency and CPU, both axes logarithmic."""
    if not growth:
        return
    elements = []
    for column, (curve, grown) in enumerate(growth.items()):
        for row, (what, unit) in enumerate(MEASURES):
            elements += _panel(grown, what, f"{unit} by {curve}", 230.0 * column, 170.0 * row)
    names = titles(list(next(iter(growth.values()))["points"]))
    for place, (name, color) in enumerate(zip(names.values(), COLORS, strict=False)):
        height = 170.0 * len(MEASURES) + 12
        elements.append(f'<g fill="{color}">{_text(50 + 180 * place, height, f"— {name}")}</g>')
    _write(target, 230 * len(growth), 170 * len(MEASURES) + 22, elements)


def _panel(grown: Grown, what: str, title: str, left: float, top: float) -> list[str]:
    """One measure of one curve, with a line for each broker."""
    points = [one for some in grown["points"].values() for one in some]
    across = Axis([one["x"] for one in points], left + 50, left + 215)
    up = Axis(_around(one[what] for one in points), top + 135, top + 25)
    grid = [f"M{across.at(x):g} {top + 25:g}v110" for x in across.ticks()]
    grid += [f"M{left + 50:g} {up.at(y):g}h165" for y in up.ticks()]
    lines = [
        _path(
            ["M", " ".join(f"{across.at(one['x']):g} {up.at(one[what]):g}" for one in some)],
            f'fill="none" stroke="{color}" stroke-width="2"',
        )
        for some, color in zip(grown["points"].values(), COLORS, strict=False)
    ]
    return [
        _path(grid, f'stroke="{GRID}"'),
        *lines,
        '<g text-anchor="middle">',
        _text(left + 132, top + 15, title),
        *(_text(across.at(x), top + 149, f"{x:,.0f}") for x in across.ticks()[::2]),
        '</g><g text-anchor="end">',
        *(_text(left + 46, up.at(y) + 4, f"{y:,.0f}") for y in up.ticks()),
        "</g>",
    ]
