"""The parts of ``make test``, how long they took when they were measured, and which one is next.

A part is a target of the Makefile. It says how many cores it keeps busy, so that parts run side by
side where the machine has cores for them: one that mostly waits for other programs keeps less than
half of one busy, and has room beside unit tests, which wait now and then. What two parts would both
install is installed before, by what ``test`` needs in the Makefile, or under a lock
(``compat_tests.java_tools``).

``measured.json`` has the times. ``python -m tests.parts --measured`` writes it from the last run.
That and ``make docs`` renew the table of parts in docs/CONTRIBUTING-TESTS.md.
"""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TypedDict

ROOT = Path(__file__).parents[2]
MEASURED = Path(__file__).parent / "measured.json"
PAGE = ROOT / "docs" / "CONTRIBUTING-TESTS.md"
TABLE = re.compile(r"(?<=<!-- parts -->\n).*(?=<!-- end of parts -->)", re.DOTALL)


class Part(NamedTuple):
    """A target of the Makefile, the cores that it keeps busy, and what it downloads once."""

    target: str
    what: str
    cores: float = 1
    downloads: str = ""


PARTS = (
    Part("check", "format, lint, types, structure, unit tests", 1.6),
    Part("newest-python", "unit tests on another CPython", 1.4, "150 MB, test tools"),
    Part("processes", "tests that take seconds, in other programs mostly", 1.6),
    Part("worst-cases", "hostile clients, the largest requests, a long life", 2),
    Part("short-fuzz", "property tests with new examples", 2),
    Part("short-simulation", "clusters in virtual time under faults, seeded bugs", 2),
    Part("compat", "stock clients and Kafka's Java tools", 0.6, "160 MB, Java tools"),
    Part("short-compat-secured", "stock clients with TLS, a login, an authorizer", 0.6),
    Part("compat-cluster", "groups, transactions, Streams on three brokers", 0.4),
    Part("spark-stock", "PySpark with its published connector", 1.2, "700 MB, PySpark and Java"),
    Part("spark-new", "what depends on PySpark's version, with the newest", 0.4, "500 MB, PySpark"),
    Part("browser", "the page in Chromium", 0.4, "150 MB, Chromium, in CI"),
    Part("site", "pages of the documentation, without dead links", 0.8, "70 MB, MkDocs"),
)


class Times(TypedDict):
    """Seconds that a part took, and those of processors that it used."""

    seconds: int
    processor_s: int


class Measured(TypedDict):
    """A run of all parts: its seconds, the cores it had, and the times of its parts."""

    seconds: int
    cores: int
    parts: dict[str, Times]


def read_measured(path: Path = MEASURED) -> Measured:
    """The run that was measured."""
    found: Measured = json.loads(path.read_text(encoding="utf-8"))
    return found


def usual(part: Part, measured: Measured) -> str:
    """How long a part took, as people read it; empty if nobody has measured it."""
    times = measured["parts"].get(part.target)
    return duration(times["seconds"]) if times else ""


def duration(seconds: float) -> str:
    """As people read it: ``4 s``, ``2 min 05 s``."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def longest_first(parts: Iterable[Part], measured: Measured) -> list[Part]:
    """The order in which parts start; one that nobody has measured is among the first."""

    def seconds(part: Part) -> float:
        times = measured["parts"].get(part.target)
        return times["seconds"] if times else float("inf")

    return sorted(parts, key=seconds, reverse=True)


def next_part(waiting: Sequence[Part], running: Iterable[Part], cores: int) -> Part | None:
    """The first part that finds its cores free, or any if none runs; None: one has to end first."""
    free = round(cores - sum(part.cores for part in running), 1)
    return next((part for part in waiting if min(part.cores, cores) <= free), None)


def page_with_table(page: str, measured: Measured) -> str:
    """The page of the documentation with the parts and their times of today."""
    lines = ["| part | what | cores | time | processor time |", "| --- | --- | --: | --: | --: |"]
    for part in PARTS:
        times = measured["parts"].get(part.target)
        shown = [duration(times[key]) if times else "" for key in ("seconds", "processor_s")]
        lines.append(f"| `{part.target}` | {part.what} | {part.cores} | {' | '.join(shown)} |")
    whole = f"All parts together took {duration(measured['seconds'])} on {measured['cores']} cores."
    return TABLE.sub("\n".join((*lines, "", whole, "")).replace("\\", r"\\"), page)
