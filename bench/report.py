"""The result of a run: its numbers, medians, spreads and ratios, as lines and as a table.

A run is a dictionary that can be stored as JSON: ``brokers``, ``machine``, ``limits`` (name →
number, unit), ``rows`` (name → broker → one number for each round), ``limited`` (broker → loads in
which the generator was the limit), ``notes`` (what was not measured, and why), ``seconds`` (row or
load → broker → how long each measurement took) and ``options``.
"""

import statistics
from collections.abc import Iterator
from typing import Any, NamedTuple

from rich.table import Table

from bench.bars import BARS, Bar, advantage, bar_of, ratio
from bench.brokers import KAFKA, KWIRE, titles
from bench.rows import ALL_ROWS, SECTIONS
from bench.rows.common import Row

Run = dict[str, Any]
Grown = dict[str, Any]
"""One curve: ``points`` (broker → its points), ``restart_s`` (broker → seconds)."""
Growth = dict[str, Grown]
COSTS = {"p50 µs": "p50_us", "p99 µs": "p99_us", "CPU µs": "cpu_us", "MB": "memory_mb"}
DIGITS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
SPREAD = "±: half the distance between the extremes of the rounds"
LIMITED = "* the load generator was the limit: the broker can do more"
OWN_BARS = "bars in parentheses are our own (level with Apache Kafka), the others were given"
WITHIN = "within ±: the bar is missed by less than the rounds differ"
RATIO_HEAD = "kwire / Kafka"


def rounds_text(rounds: int) -> str:
    """``1 round``, ``3 rounds``."""
    return f"{rounds} round{'s' * (rounds != 1)}"


class Cell(NamedTuple):
    """One broker's numbers of a row: the median, and half the distance of the extremes."""

    median: float | None
    spread: float
    limited: bool

    def __str__(self) -> str:
        """The median, with a mark if the generator was the limit, and its spread in percent."""
        if self.median is None:
            return "-"
        share = f" ±{self.relative_spread:.0%}" if self.spread and self.median else ""
        return f"{number(self.median)}{'*' if self.limited else ''}{share}"

    @property
    def relative_spread(self) -> float:
        """The spread as a share of the median."""
        return self.spread / abs(self.median) if self.median else 0.0


class Line(NamedTuple):
    """One row of the table; kwire's ratio to Kafka, and whether the bar is met."""

    row: Row
    rounds: int
    cells: dict[str, Cell]
    bar: Bar
    ratio: float | None
    met: bool | None
    advantage: float | None
    within_spread: bool

    @property
    def missed(self) -> bool:
        """Whether kwire misses the bar."""
        return self.met is False

    def verdict(self) -> str:
        """Whether the bar is met, as text."""
        if self.met is None:
            return ""
        text = "met" if self.met else "not met"
        return f"{text}, within ±" if self.within_spread else text


def number(value: float) -> str:
    """A number as text, with about three significant digits."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def ratio_text(value: float | None) -> str:
    """A ratio as text with two decimals, or one significant digit if it is below 0.01."""
    if value is None:
        return "-"
    return f"{value:.2f}" if value >= 0.01 else f"{value:.1g}"


def cell_of(numbers: list[float], limited: bool) -> Cell:
    """Median and spread of the rounds."""
    if not numbers:
        return Cell(None, 0.0, False)
    return Cell(statistics.median(numbers), (max(numbers) - min(numbers)) / 2, limited)


def line_of(run: Run, row: Row) -> Line:
    """One row of a run."""
    numbers = run["rows"][row.name]
    cells = {
        name: cell_of(numbers.get(name, []), row.load in run["limited"].get(name, ()))
        for name in run["brokers"]
    }
    kwire, kafka = cells[KWIRE], cells.get(KAFKA, Cell(None, 0.0, False))
    bar = bar_of(row)
    met = None if kwire.median is None else bar.met(kwire.median, kafka.median)
    missed_by = bar.missed_by(kwire.median or 0.0, kafka.median) if met is False else 0
    noise = kwire.relative_spread + (0.0 if bar.absolute else kafka.relative_spread)
    return Line(
        row,
        max(map(len, numbers.values()), default=0),
        cells,
        bar,
        ratio(kwire.median, kafka.median),
        met,
        advantage(row, kwire.median, kafka.median),
        0 < missed_by < noise,
    )


def lines_of(run: Run) -> Iterator[Line]:
    """The rows that were measured, in the order of the registry."""
    for row in ALL_ROWS:
        if row.name in run["rows"]:
            yield line_of(run, row)


def sections_of(run: Run) -> Iterator[tuple[str, list[Line]]]:
    """The measured rows, section by section."""
    lines = {line.row.name: line for line in lines_of(run)}
    for section, rows in SECTIONS.items():
        found = [lines[row.name] for row in rows if row.name in lines]
        if found:
            yield section, found


def text_of(run: Run, line: Line) -> list[str]:
    """The cells of one line; a superscript gives its number of rounds if not all measured it."""
    few = line.rounds < run["options"]["rounds"]
    name = f"{line.row.name} {str(line.rounds).translate(DIGITS)}" if few else line.row.name
    cells = [name, line.row.unit, *map(str, line.cells.values())]
    if KAFKA in line.cells:
        unit = f" {line.row.unit}" if line.bar.absolute else ""
        cells += [ratio_text(line.ratio), f"{line.bar}{unit}", line.verdict()]
    return cells


def headings(run: Run) -> list[str]:
    """The headings of the columns."""
    names = list(titles(run["brokers"]).values())
    if KAFKA not in run["brokers"]:
        return ["what", "unit", *names]
    return ["what", "unit", *names, RATIO_HEAD, "bar", ""]


def legend(run: Run, lines: list[Line]) -> list[str]:
    """The explanations of the marks that occur in these lines of a run's table."""
    compared = KAFKA in run["brokers"]
    rounds = run["options"]["rounds"]
    few = sorted({line.rounds for line in lines if line.rounds < rounds})
    said = {
        SPREAD: rounds > 1,
        LIMITED: any(cell.limited for line in lines for cell in line.cells.values()),
        **{f"{str(n).translate(DIGITS)} measured in {rounds_text(n)}": True for n in few},
        OWN_BARS: compared and any(line.bar.own for line in lines),
        WITHIN: any(line.within_spread for line in lines),
    }
    return [text for text, needed in said.items() if needed]


def table_of(run: Run) -> Table:
    """The table for a terminal."""
    table = Table(title=f"medians of {rounds_text(run['options']['rounds'])}")
    for index, heading in enumerate(headings(run)):
        table.add_column(heading, justify="left" if index in (0, 1) else "right")
    for section, lines in sections_of(run):
        table.add_section()
        table.add_row(f"[bold]{section}")
        for line in lines:
            table.add_row(*text_of(run, line))
    table.caption = "\n".join(legend(run, list(lines_of(run))))
    return table


def main_lines(run: Run) -> list[Line]:
    """The rows with a bar set in advance, which the README shows."""
    return [line for line in lines_of(run) if line.row.name in BARS]


def behind(run: Run) -> list[Line]:
    """The rows in which kwire misses its bar, including our own bars."""
    return [line for line in lines_of(run) if line.missed]


def cells_of(name: str, grown: Grown) -> list[list[str]]:
    """A curve as rows of text, the head first: the cost at each step for each broker."""
    names = titles(list(grown["points"]))
    rows = [[name, *(f"{names[broker]} {cost}" for broker in grown["points"] for cost in COSTS)]]
    for points in zip(*grown["points"].values(), strict=True):
        numbers = [f"{one[cost]:,.0f}" for one in points for cost in COSTS.values()]
        rows.append([f"{points[0]['x']:,}", *numbers])
    return rows


def restarts_of(grown: Grown) -> str:
    """The restart times of a curve as text; empty if the curve has none."""
    if not grown["restart_s"]:
        return ""
    names = titles(list(grown["restart_s"]))
    times = [f"{names[name]} in {taken:.2f} s" for name, taken in grown["restart_s"].items()]
    return f"restarted with all of that: {', '.join(times)}"
