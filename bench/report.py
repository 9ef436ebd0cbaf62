"""What a run says: its numbers, their medians, spreads and ratios, as JSON, table and Markdown.

A run is a dictionary that survives JSON: ``brokers``, ``machine``, ``limits`` (name → number,
unit), ``rows`` (name → broker → one number for each round), ``limited`` (broker → loads in which
the generator was the limit), ``notes`` (what was not measured, and why) and ``options``.
"""

import statistics
from collections.abc import Iterator
from typing import Any, NamedTuple

from rich.table import Table

from bench.bars import BARS, Bar, advantage, bar_of, ratio
from bench.brokers import titles
from bench.rows import ALL_ROWS, SECTIONS
from bench.rows.common import Row

Run = dict[str, Any]
Grown = dict[str, Any]
"""One curve: ``points`` (broker → its points), ``restart_s`` (broker → seconds)."""
Growth = dict[str, Grown]
COSTS = {"p50 µs": "p50_us", "p99 µs": "p99_us", "CPU µs": "cpu_us", "MB": "memory_mb"}
LIMITED = "* the load generator was the limit: the broker can do more"
HEADS = ("kwire / Kafka", "bar", "")


class Cell(NamedTuple):
    """One broker's numbers of a row: the median, and half the distance of the extremes."""

    median: float | None
    spread: float
    limited: bool

    def __str__(self) -> str:
        """The median, marked where the generator was the limit, and its spread in percent."""
        if self.median is None:
            return "-"
        share = f" ±{self.spread / abs(self.median):.0%}" if self.spread and self.median else ""
        return f"{number(self.median)}{'*' if self.limited else ''}{share}"


class Line(NamedTuple):
    """One row of the table."""

    row: Row
    cells: dict[str, Cell]
    bar: Bar
    ratio: float | None
    advantage: float | None
    met: bool | None

    def verdict(self) -> str:
        """Whether the bar is met, as the table says it."""
        return {True: "met", False: "not met", None: ""}[self.met]


def number(value: float) -> str:
    """A number with as many digits as say something."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def cell_of(numbers: list[float], limited: bool) -> Cell:
    """Median and spread of the rounds."""
    if not numbers:
        return Cell(None, 0.0, False)
    return Cell(statistics.median(numbers), (max(numbers) - min(numbers)) / 2, limited)


def lines_of(run: Run) -> Iterator[Line]:
    """The rows that were measured, in the order of the registry."""
    for row in ALL_ROWS:
        if row.name not in run["rows"]:
            continue
        numbers = run["rows"][row.name]
        cells = {
            name: cell_of(numbers.get(name, []), row.load in run["limited"].get(name, ()))
            for name in run["brokers"]
        }
        kwire = cells["kwire"].median
        kafka = cells["kafka"].median if "kafka" in cells else None
        bar = bar_of(row)
        met = None if kwire is None else bar.met(kwire, kafka)
        yield Line(row, cells, bar, ratio(kwire, kafka), advantage(row, kwire, kafka), met)


def text_of(line: Line) -> list[str]:
    """The cells of one line."""
    cells = [line.row.name, line.row.unit, *map(str, line.cells.values())]
    if len(line.cells) > 1:
        shown = "-" if line.ratio is None else f"{line.ratio:.2f}"
        unit = f" {line.row.unit}" if line.bar.absolute else ""
        cells += [shown, f"{line.bar}{unit}", line.verdict()]
    return cells


def headings(run: Run) -> list[str]:
    """What stands above the cells."""
    names = list(titles(run["brokers"]).values())
    return ["what", "unit", *names, *(HEADS if len(names) > 1 else ())]


def table_of(run: Run) -> Table:
    """The table for a terminal."""
    table = Table(title=f"medians of {run['options']['rounds']} rounds")
    for index, heading in enumerate(headings(run)):
        table.add_column(heading, justify="left" if index in (0, 1) else "right")
    lines = {line.row.name: line for line in lines_of(run)}
    for section, rows in SECTIONS.items():
        found = [lines[row.name] for row in rows if row.name in lines]
        if found:
            table.add_section()
            table.add_row(f"[bold]{section}")
        for line in found:
            table.add_row(*text_of(line))
    if any(run["limited"].values()):
        table.caption = LIMITED
    return table


def markdown(rows: list[list[str]], left: int) -> str:
    """A Markdown table; the first row is its head, the first columns are set to the left."""
    aligned = [*["---"] * left, *["---:"] * (len(rows[0]) - left)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (rows[0], aligned, *rows[1:]))


def markdown_rows(run: Run, lines: list[Line]) -> str:
    """Lines as a Markdown table."""
    return markdown([headings(run), *map(text_of, lines)], 2)


def markdown_table(run: Run) -> str:
    """The whole table, section by section."""
    lines = {line.row.name: line for line in lines_of(run)}
    parts = []
    for section, rows in SECTIONS.items():
        found = [lines[row.name] for row in rows if row.name in lines]
        if found:
            parts.append(f"### {section}\n\n{markdown_rows(run, found)}")
    if any(run["limited"].values()):
        parts.append(LIMITED.replace("*", r"\*", 1) + ".\n")
    parts += [f"Not measured: {note}.\n" for note in run["notes"]]
    return "\n".join(parts)


def markdown_facts(run: Run) -> str:
    """The machine, how it was measured, and the machine's own limits."""
    options = run["options"]
    facts = "".join(f"| {name} | {value} |\n" for name, value in run["machine"].items())
    limits = "".join(
        f"| {name} | {number(value)} {unit} |\n" for name, (value, unit) in run["limits"].items()
    )
    return (
        f"Medians of {options['rounds']} rounds of {options['seconds']:g} s a row, brokers in turn"
        f" in every row, after {options['warm_up']:g} s of warm-up and more. ± is half the distance"
        f" between the extremes.\n\n"
        f"| the machine | |\n| --- | --- |\n{facts}\n"
        f"| its own limits | |\n| --- | ---: |\n{limits}"
    )


def main_lines(run: Run) -> list[Line]:
    """The rows with a bar of their own: those of the README."""
    return [line for line in lines_of(run) if line.row.name in BARS]


def behind(run: Run) -> list[Line]:
    """The rows in which kwire is not ahead, or misses its bar."""
    return [line for line in lines_of(run) if line.met is False]


def cells_of(name: str, grown: Grown) -> list[list[str]]:
    """A curve as rows of text, the head first: what it costs at each step, broker by broker."""
    names = titles(list(grown["points"]))
    rows = [[name, *(f"{names[broker]} {cost}" for broker in grown["points"] for cost in COSTS)]]
    for points in zip(*grown["points"].values(), strict=True):
        numbers = [f"{one[cost]:,.0f}" for one in points for cost in COSTS.values()]
        rows.append([f"{points[0]['x']:,}", *numbers])
    return rows


def restarts_of(grown: Grown) -> str:
    """How long a restart takes with all that is there at the end of a curve."""
    names = titles(list(grown["restart_s"]))
    times = [f"{names[name]} in {taken:.2f} s" for name, taken in grown["restart_s"].items()]
    return f"restarted with all of that: {', '.join(times)}"


def markdown_growth(growth: Growth) -> str:
    """Every curve as a Markdown table."""
    return "\n".join(
        f"{markdown(cells_of(name, grown), 0)}\n{restarts_of(grown).capitalize()}.\n"
        for name, grown in growth.items()
    )
