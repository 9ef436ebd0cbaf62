"""``python -m bench.publish [RESULTS.json]``: write a run's numbers into README and docs.

Without a file it rewrites the documents from the numbers that were published last. Only this module
writes the parts between the markers. A test fails if they don't match the published numbers.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.brokers import KAFKA
from bench.chart import draw_growth, draw_ratios
from bench.hostile_table import Kept, hostile_part, merged
from bench.markdown import facts, growth_tables, legend_text, losses, rows_table, whole_table
from bench.published import (
    NUMBERS,
    read_growth,
    read_hostile,
    read_run,
    write_growth,
    write_hostile,
    write_run,
)
from bench.report import Growth, Run, main_lines

ROOT = Path(__file__).parent.parent
OUT = Path(__file__).parent / "out"
README = ROOT / "README.md"
PERFORMANCE = ROOT / "docs" / "PERFORMANCE.md"
PUBLISHED = NUMBERS.parent
RATIOS = "ratios.svg"
GROWTH_CHART = "growth.svg"
START = "<!-- bench: made by `make bench ARGS=--publish` -->\n"
END = "<!-- end of bench -->\n"
GROWTH_START = "<!-- growth: made by `make growth ARGS=--publish` -->\n"
GROWTH_END = "<!-- end of growth -->\n"
HOSTILE_START = "<!-- hostile: made by `make hostile ARGS=--publish` -->\n"
HOSTILE_END = "<!-- end of hostile -->\n"


def between_markers(text: str, made: str, start: str = START, end: str = END) -> str:
    """The document's text with ``made`` between the markers."""
    head, rest = text.split(start)
    _, tail = rest.split(end)
    return f"{head}{start}\n{made}\n{end}{tail}"


def publish_part(made: str, start: str, end: str) -> None:
    """Rewrite the part of docs/PERFORMANCE.md between these markers."""
    text = PERFORMANCE.read_text(encoding="utf-8")
    PERFORMANCE.write_text(between_markers(text, made, start, end), encoding="utf-8")


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """A table whose first row is its head."""
    head, *others = ("| " + " | ".join(row) + " |" for row in rows)
    return "\n".join([head, "|" + " --- |" * len(rows[0]), *others])


README_ROWS = (
    "start to first acknowledged record",
    "memory when idle",
    "1 connection, 1 in flight",
    "64 connections, 1 in flight",
    "batches of 1000 x 1000 B",
    "librdkafka consumer, 100 B",
)


def readme_part(run: Run) -> str:
    """The README's table: a few rows, and how many rows miss their bars."""
    lines = [line for line in main_lines(run) if line.row.name in README_ROWS]
    missed = sum(bool(line.missed) for line in main_lines(run))
    return (
        f"{rows_table(run, lines)}\n{legend_text(run, lines)}\n"
        f"{missed} of {len(main_lines(run))} rows with a bar miss it; "
        "docs/PERFORMANCE.md says which, and why.\n"
    )


def performance_part(run: Run) -> str:
    """The generated part of docs/PERFORMANCE.md: chart, table, losses, machine."""
    if KAFKA not in run["brokers"]:
        return f"{whole_table(run)}\n{facts(run)}"
    return f"![ratios](performance/{RATIOS})\n\n{whole_table(run)}\n{losses(run)}\n{facts(run)}"


def growth_part(growth: Growth) -> str:
    """The generated part of docs/PERFORMANCE.md about growth."""
    return f"![growth](performance/{GROWTH_CHART})\n\n{growth_tables(growth)}"


def publish_hostile(measured: Kept, attacks: Sequence[str]) -> None:
    """Store these waits with the documents, and rewrite docs/PERFORMANCE.md from them.

    Of these attacks, which are all that exist, those and the brokers that were not measured this
    time keep their published waits.
    """
    results = merged(read_hostile(), measured, attacks)
    write_hostile(results)
    publish_part(hostile_part(results), HOSTILE_START, HOSTILE_END)


def write_documents(run: Run) -> None:
    """Rewrite the parts between the markers."""
    for document, made in ((README, readme_part(run)), (PERFORMANCE, performance_part(run))):
        text = document.read_text(encoding="utf-8")
        document.write_text(between_markers(text, made), encoding="utf-8")


def publish(run: Run) -> None:
    """Store these numbers with the documents, and rewrite the documents from them."""
    write_run(run)
    if KAFKA in run["brokers"]:
        draw_ratios(run, PUBLISHED / RATIOS)
    write_documents(run)


def publish_growth(measured: Growth) -> None:
    """Store these curves with the documents, and rewrite docs/PERFORMANCE.md from them.

    Published curves that were not measured this time stay.
    """
    growth = read_growth() | measured
    write_growth(growth)
    draw_growth(growth, PUBLISHED / GROWTH_CHART)
    text = PERFORMANCE.read_text(encoding="utf-8")
    made = between_markers(text, growth_part(growth), GROWTH_START, GROWTH_END)
    PERFORMANCE.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        publish(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    elif (published := read_run()) is not None:
        publish(published)
    if read_growth():
        publish_growth({})
    if hostile := read_hostile():
        publish_hostile({}, list(hostile))
