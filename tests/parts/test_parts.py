"""The parts of `make test`: which ones there are, when each begins, and how long they take."""

import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.parts.__main__ import main
from tests.parts.parts import (
    PAGE,
    PARTS,
    ROOT,
    Part,
    duration,
    longest_first,
    next_part,
    page_with_table,
    read_measured,
)
from tests.parts.run import RESULTS, make_command
from tests.parts.tables import write_measured
from tests.parts.tiny import MEASURED, ONE, THREE, TWO, run_tiny, script


def started(parts: Sequence[Part], cores: int) -> list[set[str]]:
    """Which parts run at the same time, if the one that began first always ends first."""
    waiting, running, seen = list(parts), [], []
    while waiting or running:
        while part := next_part(waiting, running, cores):
            waiting.remove(part)
            running.append(part)
        seen.append({part.target for part in running})
        running.pop(0)
    return seen


def test_parts_that_fit_run_side_by_side() -> None:
    """A part with both cores runs alone, two that wait most of their time run together."""
    parts = [Part("long", "", 1), Part("whole", "", 2), Part("half", "", 1)]
    assert started(parts, cores=2) == [{"long", "half"}, {"half"}, {"whole"}]
    assert started(parts, cores=4) == [{"long", "whole", "half"}, {"whole", "half"}, {"half"}]


def test_parts_that_mostly_wait_share_a_core() -> None:
    """Tenths of a core add up as people add them."""
    parts = [Part("two thirds", "", 0.6), Part("more", "", 0.8), Part("rest", "", 0.6)]
    assert started(parts, cores=2)[0] == {"two thirds", "more", "rest"}
    parts = [Part("sparks", "", 1.4), Part("some", "", 0.6), Part("late", "", 0.1)]
    assert started(parts, cores=2)[0] == {"sparks", "some"}


def test_one_core_runs_one_part_after_the_other() -> None:
    """Also one that would keep more cores busy."""
    parts = [Part("whole", "", 2), Part("half", "", 1), Part("more", "", 3)]
    assert started(parts, cores=1) == [{"whole"}, {"half"}, {"more"}]


def test_the_longest_is_first() -> None:
    """It decides when the run ends; a part that nobody has measured may be the longest."""
    unknown = Part("unknown", "")
    assert longest_first([THREE, TWO, unknown, ONE], MEASURED) == [unknown, ONE, TWO, THREE]


def test_the_times_of_a_run_become_the_usual_ones(tmp_path: Path) -> None:
    """Those of parts that went well; the documentation shows them."""
    check, compat = (part for part in PARTS if part.target in ("check", "compat"))
    commands = {"check": script(""), "compat": script("sys.exit(1)")}
    run_tiny(tmp_path, [check, compat], commands)
    known = {
        "check": {"seconds": 99, "processor_s": 9},
        "compat": {"seconds": 88, "processor_s": 8},
    }
    file = tmp_path / "measured.json"
    file.write_text(json.dumps({"seconds": 600, "cores": 2, "parts": known}))
    assert write_measured(tmp_path / RESULTS, file) == "check"
    found = read_measured(file)
    assert found["parts"]["check"]["seconds"] < 60
    assert found["parts"]["compat"] == known["compat"]
    assert found["seconds"] == 600  # not all parts ran
    page = page_with_table("before\n<!-- parts -->\nold\n<!-- end of parts -->\nafter\n", found)
    assert "| `compat` | stock clients and Kafka's Java tools | 0.6 | 1 min 28 s | 8 s |" in page
    assert page.startswith("before\n")
    assert page.endswith("<!-- end of parts -->\nafter\n")
    assert "old" not in page


def test_the_documentation_has_the_parts_and_times_of_today() -> None:
    """``make docs`` has been run since they changed."""
    page = PAGE.read_text(encoding="utf-8")
    assert "| `check` |" in page
    assert page_with_table(page, read_measured()) == page


def test_every_part_is_a_target_of_the_makefile() -> None:
    """Make would do it, and names the file of each test while it works."""
    one = make_command(PARTS[0])
    assert one.count(PARTS[0].target) == 1
    command = [*one, "-n", *(part.target for part in PARTS[1:])]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "pytest" in said
    assert "pytest -q" not in said


def test_names_choose_parts(capsys: pytest.CaptureFixture[str]) -> None:
    """A name that no part has is an error that names them all."""
    assert main(["chek"]) == 2
    said = capsys.readouterr().err
    assert "chek" in said
    assert all(part.target in said for part in PARTS)


def test_a_time_is_read_easily() -> None:
    """Seconds up to a minute, then both."""
    assert [duration(s) for s in (0.4, 59.4, 59.6, 125)] == [
        "0 s",
        "59 s",
        "1 min 00 s",
        "2 min 05 s",
    ]


def test_what_is_shown_is_not_done() -> None:
    """``make -n`` runs a line with $(MAKE) for real, so such a line changes nothing by itself."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.startswith("\t") and "$(MAKE)" in line]
    assert lines
    for line in lines:
        assert not re.search(r"\b(rm|mv|cp|ln|mkdir|touch|install)\b", line), line
