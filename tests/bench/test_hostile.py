"""The figures of a hostile neighbor."""

import math
from pathlib import Path

import pytest

from bench import publish, published
from bench.hostile import NO_ANSWER, Waits, as_kept, median_of
from bench.hostile_table import ALONE, CONTROL, hostile_part, merged


def test_each_figure_is_its_own_median() -> None:
    """A round without an answer counts as the longest wait, and doesn't hide the others."""
    one = Waits(1.0, 9.0, 30.0, 4.0, 5.0, 7.0, 2.0)
    two = Waits(3.0, 8.0, 20.0, 6.0, 9.0, 8.0, 2.0)
    assert median_of([one]) == one
    assert median_of([one, two, NO_ANSWER]) == Waits(3.0, 9.0, 30.0, 6.0, 9.0, 8.0, 2.0)
    assert median_of([one, NO_ANSWER, NO_ANSWER]).p99_ms == math.inf


def test_of_two_rounds_neither_is_preferred() -> None:
    """The median is between both; a round without an answer is not hidden by the other one."""
    one = Waits(1.0, 9.0, 30.0, 4.0, 5.0, 7.0, 2.0)
    two = Waits(3.0, 8.0, 20.0, 6.0, 9.0, 8.0, 2.0)
    assert median_of([one, two]) == Waits(2.0, 8.5, 25.0, 5.0, 7.0, 7.5, 2.0)
    assert median_of([one, NO_ANSWER]).p99_ms == math.inf
    assert median_of([one, two, NO_ANSWER, NO_ANSWER]).p99_ms == math.inf
    assert median_of([one, one, two, NO_ANSWER]).p99_ms == 9.0


def _waits(p99_ms: float) -> Waits:
    return Waits(1.0, p99_ms, 30.0, 4.0, 5.0, 7.0, 2.0)


def test_what_was_not_measured_keeps_its_published_waits() -> None:
    """A broker that the run lacks, an attack that it lacks; an attack that is no more goes."""
    before = as_kept(
        {
            name: {"kwire": _waits(1.0), "kafka": _waits(2.0)}
            for name in (ALONE, CONTROL, "a", "b", "gone")
        }
    )
    now = as_kept({name: {"kwire": _waits(3.0)} for name in (ALONE, CONTROL, "new", "b")})
    found = merged(before, now, ["new", "a", "b"])
    p99 = {
        attack: {name: waits["p99_ms"] for name, waits in row.items()}
        for attack, row in found.items()
    }
    assert list(p99) == [ALONE, CONTROL, "new", "a", "b"]
    assert p99[ALONE] == p99[CONTROL] == p99["b"] == {"kwire": 3.0, "kafka": 2.0}
    assert p99["a"] == {"kwire": 1.0, "kafka": 2.0}
    assert p99["new"] == {"kwire": 3.0}
    assert hostile_part(found).count("| new | 3.00 | 1.0 |") == 1


def test_a_run_without_kafka_keeps_kafkas_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the numbers and in the page."""
    numbers, page = tmp_path / "numbers.json", tmp_path / "page.md"
    page.write_text(publish.HOSTILE_START + publish.HOSTILE_END)
    monkeypatch.setattr(publish, "PERFORMANCE", page)
    monkeypatch.setattr(publish, "read_hostile", lambda: published.read_hostile(numbers))
    monkeypatch.setattr(
        publish, "write_hostile", lambda results: published.write_hostile(results, numbers)
    )
    names = (ALONE, CONTROL, "a")
    first = as_kept({name: {"kwire": _waits(1.0), "kafka": _waits(2.0)} for name in names})
    publish.publish_hostile(first, ["a"])
    publish.publish_hostile(as_kept({name: {"kwire": _waits(4.0)} for name in names}), ["a"])
    row = published.read_hostile(numbers)["a"]
    assert [row[name]["p99_ms"] for name in ("kwire", "kafka")] == [4.0, 2.0]
    (line,) = (line for line in page.read_text().splitlines() if line.startswith("| a |"))
    assert [line.split(" | ")[1], line.split(" | ")[8]] == ["4.00", "2.00"]
