"""The tables of ``make test``: what it will do, what ran, and the slowest tests and files."""

import heapq
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.table import Table
from rich.text import Text

from tests.parts.parts import (
    MEASURED,
    PAGE,
    PARTS,
    Measured,
    Part,
    duration,
    page_with_table,
    read_measured,
    usual,
)
from tests.parts.report import Noted
from tests.parts.running import Result

SLOWEST = 30
"""So many tests are in the table of the slowest."""
SLOWEST_FILES = 15
"""And so many files of tests in theirs."""


def plan(parts: Sequence[Part], measured: Measured) -> Table:
    """What will be done."""
    table = Table(title="make test", title_justify="left")
    table.add_column("part", no_wrap=True)  # a name in two pieces can't be copied
    for name in ("what", "usually takes", "downloads once"):
        table.add_column(name, overflow="fold")
    for part in parts:
        table.add_row(part.target, part.what, usual(part, measured), part.downloads or "nothing")
    table.caption = f"all parts take {duration(measured['seconds'])} on {measured['cores']} cores"
    return table


def summary(
    results: Sequence[Result],
    interrupted: Sequence[Result],
    waiting: Sequence[Part],
    seconds: float,
) -> Table:
    """What ran, and what didn't end or begin since the run was interrupted."""
    table = Table(title="what ran", title_justify="left")
    table.add_column("part", no_wrap=True)
    table.add_column("result", overflow="fold")
    for name in ("passed", "skipped", "failed", "time", "processor time"):
        table.add_column(name, justify="right", overflow="fold")
    for result in results:
        status = result.status
        shown = "[green]ok[/]" if status == 0 else f"[red]failed ({status})[/]"
        table.add_row(result.part.target, shown, *_figures(result))
    for result in interrupted:
        table.add_row(result.part.target, "[yellow]interrupted[/]", *_figures(result))
    for part in waiting:
        table.add_row(part.target, "[yellow]not run[/]")
    used = duration(sum(result.processor_s for result in (*results, *interrupted)))
    table.caption = f"{duration(seconds)} in all, {used} of processors"
    return table


def _figures(result: Result) -> list[str]:
    counts = [result.outcomes[outcome] for outcome in ("passed", "skipped", "failed")]
    times = [duration(result.seconds), duration(result.processor_s)]
    return [*(str(count or "") for count in counts), *times]


def slowest(results: Sequence[Result]) -> list[tuple[Part, Noted]]:
    """The tests that took longest, over all parts."""
    ran = ((result.part, noted) for result in results for noted in result.tests)
    return heapq.nlargest(SLOWEST, ran, key=lambda found: found[1].seconds)


def slowest_table(results: Sequence[Result]) -> Table:
    """The tests that took longest: what grows is seen here first."""
    table = Table(title=f"the {SLOWEST} slowest tests", title_justify="left")
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("part", overflow="fold")
    table.add_column("test", overflow="fold")
    for part, noted in slowest(results):
        table.add_row(f"{noted.seconds:.1f} s", part.target, Text(noted.test))
    return table


class FileOfTests(NamedTuple):
    """A file of tests as a part has run it: its number of tests, and the seconds of all."""

    part: str
    file: str
    tests: int
    seconds: float


def slowest_files(results: Sequence[Result]) -> list[FileOfTests]:
    """The files whose tests took longest together, over all parts."""
    found: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for result in results:
        for noted in result.tests:
            found[result.part.target, noted.test.partition("::")[0]].append(noted.seconds)
    files = (FileOfTests(*where, len(each), sum(each)) for where, each in found.items())
    return heapq.nlargest(SLOWEST_FILES, files, key=lambda file: file.seconds)


def slowest_files_table(results: Sequence[Result]) -> Table:
    """Those files: many small tests that each grew are seen here first."""
    table = Table(title=f"the {SLOWEST_FILES} slowest files of tests", title_justify="left")
    table.add_column("part", overflow="fold")
    table.add_column("file", overflow="fold")
    table.add_column("tests", justify="right", no_wrap=True)
    table.add_column("time", justify="right", no_wrap=True)
    for one in slowest_files(results):
        table.add_row(one.part, Text(one.file), str(one.tests), duration(one.seconds))
    return table


def failures(results: Sequence[Result]) -> Iterator[Text]:
    """The tests that failed, and for each part that did the file with what it printed."""
    for result in results:
        failed = [noted.test for noted in result.tests if noted.outcome == "failed"]
        if failed or result.status:
            where = f" (all it printed: {result.output})" if result.output else ""
            yield Text(f"{result.part.target}: failed{where}", style="red")
            yield from (Text(f"  {test}") for test in failed)


def write_results(path: Path, results: Sequence[Result], seconds: float, cores: int) -> None:
    """Keep the figures of a run, for ``--measured`` and for programs."""
    found = {
        "seconds": round(seconds),
        "cores": cores,
        "parts": {
            result.part.target: {
                "status": result.status,
                "seconds": round(result.seconds),
                "processor_s": round(result.processor_s),
                **result.outcomes,
            }
            for result in results
        },
        "slowest": [{"part": part.target, **noted._asdict()} for part, noted in slowest(results)],
        "slowest_files": [one._asdict() for one in slowest_files(results)],
    }
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def write_measured(results: Path, measured: Path = MEASURED) -> str:
    """Make the last run's times the usual ones; the parts that were renewed.

    Parts that failed and parts that didn't run keep theirs, and so does the time of all together
    unless all parts ran.
    """
    found = json.loads(results.read_text(encoding="utf-8"))
    ran = {name: part for name, part in found["parts"].items() if part["status"] == 0}
    known = read_measured(measured)
    times = {
        name: {key: ran[name][key] for key in ("seconds", "processor_s")}
        if name in ran
        else known["parts"][name]
        for name in (part.target for part in PARTS)
        if name in ran or name in known["parts"]
    }
    whole = found if ran.keys() >= {part.target for part in PARTS} else known
    renewed = {"seconds": whole["seconds"], "cores": whole["cores"], "parts": times}
    measured.write_text(json.dumps(renewed, indent=1) + "\n", encoding="utf-8")
    return ", ".join(ran)


def write_page() -> None:
    """Renew the table of parts in the documentation."""
    page = page_with_table(PAGE.read_text(encoding="utf-8"), read_measured())
    PAGE.write_text(page, encoding="utf-8")
