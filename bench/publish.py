"""``python -m bench.publish [RESULTS.json]``: a run's numbers into README and docs/performance.

Without a file it writes the documents from the numbers that were published last. The parts between
the markers are made here and nowhere else; a test fails when they don't say what the numbers say.
"""

import json
import shutil
import sys
from pathlib import Path

from bench.chart import draw_growth, draw_ratios
from bench.report import (
    Growth,
    Run,
    behind,
    main_lines,
    markdown_facts,
    markdown_growth,
    markdown_rows,
    markdown_table,
)

ROOT = Path(__file__).parent.parent
OUT = Path(__file__).parent / "out"
README = ROOT / "README.md"
PERFORMANCE = ROOT / "docs" / "PERFORMANCE.md"
PUBLISHED = ROOT / "docs" / "performance"
NUMBERS = PUBLISHED / "results.json"
RATIOS = "ratios.svg"
GROWTH = PUBLISHED / "growth.json"
GROWTH_CHART = "growth.svg"
START = "<!-- bench: made by `make bench ARGS=--publish` -->\n"
END = "<!-- end of bench -->\n"
GROWTH_START = "<!-- growth: made by `make growth ARGS=--publish` -->\n"
GROWTH_END = "<!-- end of growth -->\n"


def between_markers(text: str, made: str, start: str = START, end: str = END) -> str:
    """A document with ``made`` between the markers."""
    head, rest = text.split(start)
    _, tail = rest.split(end)
    return f"{head}{start}\n{made}\n{end}{tail}"


def readme_part(run: Run) -> str:
    """The README's table."""
    return markdown_rows(run, main_lines(run))


def performance_part(run: Run) -> str:
    """The part of docs/PERFORMANCE.md that is made: chart, table, machine."""
    chart = f"![ratios](performance/{RATIOS})\n\n" if len(run["brokers"]) > 1 else ""
    return f"{chart}{markdown_table(run)}\n{losses(run)}\n{markdown_facts(run)}"


def losses(run: Run) -> str:
    """Where kwire loses, or misses its bar, in the documents' words."""
    if len(run["brokers"]) == 1:
        return ""
    missed = [
        f"- {line.row.name}: {line.ratio:.2f} of Apache Kafka's, the bar is {line.bar}"
        for line in behind(run)
        if line.ratio is not None
    ]
    return "### Where kwire loses, or misses its bar\n\n" + "\n".join(missed or ["Nowhere."]) + "\n"


def growth_part(growth: Growth) -> str:
    """The part of docs/PERFORMANCE.md about growth."""
    return f"![growth](performance/{GROWTH_CHART})\n\n{markdown_growth(growth)}"


def write_documents(run: Run) -> None:
    """Renew what lies between the markers."""
    for document, made in ((README, readme_part(run)), (PERFORMANCE, performance_part(run))):
        text = document.read_text(encoding="utf-8")
        document.write_text(between_markers(text, made), encoding="utf-8")


def publish(results: Path) -> None:
    """Keep these numbers with the documents, and write the documents from them."""
    PUBLISHED.mkdir(exist_ok=True)
    if results != NUMBERS:
        shutil.copy(results, NUMBERS)
    run = json.loads(NUMBERS.read_text(encoding="utf-8"))
    if len(run["brokers"]) > 1:
        draw_ratios(run, PUBLISHED / RATIOS)
    write_documents(run)


def publish_growth(results: Path) -> None:
    """Keep these curves with the documents, and write docs/PERFORMANCE.md from them."""
    PUBLISHED.mkdir(exist_ok=True)
    if results != GROWTH:
        shutil.copy(results, GROWTH)
    growth = json.loads(GROWTH.read_text(encoding="utf-8"))
    draw_growth(growth, PUBLISHED / GROWTH_CHART)
    text = PERFORMANCE.read_text(encoding="utf-8")
    made = between_markers(text, growth_part(growth), GROWTH_START, GROWTH_END)
    PERFORMANCE.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) > 1 or NUMBERS.exists():
        publish(Path(sys.argv[1]) if len(sys.argv) > 1 else NUMBERS)
    if GROWTH.exists():
        publish_growth(GROWTH)
