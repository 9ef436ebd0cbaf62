"""The table: medians of all rounds, and how far kwire is ahead."""

import statistics

from rich.table import Table

from bench.rows import ROWS
from bench.rows.common import Row
from bench.rows.memory import IDLE_ROWS

START = Row("start to first acknowledged record", "s", False, lambda running: 0.0)
"""Measured by whoever starts the broker."""

Results = dict[str, dict[str, list[float]]]
"""row → broker → one number for each round."""


def ratio(row: Row, kwire: float, kafka: float) -> float:
    """How far kwire is ahead: above 1 it is, whichever way the row counts; 0 where it can't be."""
    if kwire <= 0 or kafka <= 0:
        return 0.0
    return kwire / kafka if row.more_is_better else kafka / kwire


def selected(rows: list[Row], text: str | None) -> list[Row]:
    """The rows whose name has ``text``, all of them without one."""
    return [row for row in rows if text is None or text in row.name]


def table_of(results: Results, brokers: list[str], limited: dict[str, set[str]]) -> Table:
    """The table of medians; ``limited``: broker → loads in which the generator was the limit."""
    table = Table(title="medians; the ratio is above 1 where kwire is ahead")
    table.add_column("what")
    table.add_column("unit")
    for name in brokers:
        table.add_column(name, justify="right")
    if len(brokers) == 2:
        table.add_column("ratio", justify="right")
    for row in [START, *IDLE_ROWS, *ROWS]:
        if row.name not in results:
            continue
        medians = [statistics.median(results[row.name][name]) for name in brokers]
        cells = [
            number(value) + ("*" if row.load in limited.get(name, ()) else "")
            for name, value in zip(brokers, medians, strict=True)
        ]
        if len(brokers) == 2:
            cells.append(f"{ratio(row, medians[0], medians[1]):.2f}")
        table.add_row(row.name, row.unit, *cells)
    if any(limited.values()):
        table.caption = "* the load generator was the limit: the broker can do more"
    return table


def number(value: float) -> str:
    """A number with as many digits as say something."""
    return f"{value:,.2f}" if abs(value) < 10 else f"{value:,.0f}"
