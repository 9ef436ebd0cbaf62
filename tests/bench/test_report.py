"""What the bench says of a run: table, Markdown and the documents; no timing asserted."""

import io
import math
from typing import Any

import pytest
from rich.console import Console

from bench.hostile_table import ALONE, CONTROL, hostile_part
from bench.markdown import growth_tables, whole_table
from bench.publish import (
    END,
    GROWTH_END,
    GROWTH_START,
    HOSTILE_END,
    HOSTILE_START,
    PERFORMANCE,
    README,
    START,
    between_markers,
    growth_part,
    performance_part,
    readme_part,
)
from bench.published import read_growth, read_hostile, read_run
from bench.report import Run, behind, cell_of, lines_of, main_lines, table_of

START_ROW = "start to first acknowledged record"
LOAD = "1 connection, 10 in flight"
SLOW_ROW = "Spark batch read of 1 GB"
OTHER = "8 connections, 1 in flight: p50"


def run_of(**changes: Any) -> Run:
    """A run of three rounds in which three rows were measured."""
    return {
        "brokers": ["kwire", "kafka"],
        "options": {"rounds": 3, "seconds": 2.0, "warm_up": 20.0},
        "machine": {"memory": "24 GiB"},
        "limits": {"memory copy": (11.5, "GB/s")},
        "rows": {
            START_ROW: {"kwire": [0.3, 0.2, 9.0], "kafka": [6.0, 6.0, 6.0]},
            LOAD: {"kwire": [20_000.0, 22_000.0, 21_000.0], "kafka": [10_000.0]},
            OTHER: {"kwire": [30.0], "kafka": []},
        },
        "limited": {"kwire": [LOAD], "kafka": []},
        "notes": ["Spark reads 1 GB: no Java"],
        **changes,
    }


def test_a_cell_has_the_median_and_half_the_distance_of_the_extremes() -> None:
    """And a broker without numbers has neither."""
    assert str(cell_of([0.3, 0.2, 0.6], False)) == "0.30 ±67%"
    assert str(cell_of([1234.5], True)) == "1,234*"
    assert str(cell_of([], False)) == "-"


def test_a_line_says_whether_its_bar_is_met() -> None:
    """The ratio is kwire / Kafka; without both there is no verdict."""
    lines = {line.row.name: line for line in lines_of(run_of())}
    assert (lines[START_ROW].ratio, lines[START_ROW].verdict()) == (0.3 / 6, "met")
    assert (lines[LOAD].ratio, lines[LOAD].verdict()) == (2.1, "not met")
    assert (lines[OTHER].ratio, lines[OTHER].verdict()) == (None, "")
    assert [line.row.name for line in behind(run_of())] == [LOAD]


def one_row(kwire: list[float], kafka: list[float]) -> Run:
    """A run of one row with a bar of 4 times Kafka's."""
    return run_of(rows={LOAD: {"kwire": kwire, "kafka": kafka}}, limited={}, notes=[])


@pytest.mark.parametrize(
    ("kwire", "wanted"),
    [([41.0], "met"), ([39.0], "not met"), ([37.0, 39.5, 41.0], "not met, within ±")],
)
def test_a_miss_that_the_rounds_cannot_tell_is_marked(kwire: list[float], wanted: str) -> None:
    """It is a miss nevertheless."""
    [line] = lines_of(one_row(kwire, [10.0]))
    assert line.verdict() == wanted
    assert line.missed is wanted.startswith("not met")


def test_kwire_has_a_ratio_to_apache_kafka() -> None:
    """Beside the numbers of both."""
    text = whole_table(one_row([50.0], [10.0]))
    assert "| what | unit | kwire | Apache Kafka | kwire / Kafka | bar |" in text
    assert "| 50.0 | 10.0 | 5.00 | ≥ 4 | met |" in text


def test_a_figure_says_in_how_many_rounds_a_row_was_measured() -> None:
    """Where that isn't all of them, as for slow rows."""
    run = run_of(rows={SLOW_ROW: {"kwire": [251.0], "kafka": [235.0]}})
    text = whole_table(run)
    assert f"| {SLOW_ROW} ¹ | MB/s |" in text
    assert "¹ measured in 1 round;" in text


def test_bars_of_our_own_are_in_parentheses() -> None:
    """And said to be our own; others are not."""
    run = run_of(rows={OTHER: {"kwire": [30.0], "kafka": [31.0]}})
    assert "| 0.97 | (≤ 1) | met |" in whole_table(run)
    assert "bars in parentheses are our own" in whole_table(run)
    assert "our own" not in whole_table(one_row([1.0], [1.0]))


def test_the_table_marks_what_the_generator_limited() -> None:
    """Rows that were not measured are left out."""
    console = Console(width=130, record=True, file=io.StringIO())
    console.print(table_of(run_of()))
    text = console.export_text()
    assert "21,000*" in text
    assert "10,000 " in text
    assert "memory when idle" not in text


def test_markdown_has_what_the_table_has_and_what_is_missing() -> None:
    """Section by section; kwire alone needs no ratios."""
    text = whole_table(run_of())
    assert f"| {LOAD} | req/s | 21,000* ±5% | 10,000 | 2.10 | ≥ 4 | not met |" in text
    assert "Not measured: Spark reads 1 GB: no Java." in text
    alone = run_of(brokers=["kwire"])
    assert f"| {LOAD} | req/s | 21,000* ±5% |\n" in whole_table(alone)


def test_rows_of_the_readme_are_those_with_a_bar_of_their_own() -> None:
    """A latency without one is left to the whole table."""
    assert [line.row.name for line in main_lines(run_of())] == [START_ROW, LOAD]
    assert OTHER not in readme_part(run_of())
    assert "memory copy" in performance_part(run_of())


def test_losses_are_named() -> None:
    """With the ratio and the bar; a run of kwire alone has none."""
    assert f"- {LOAD}: **2.10**, the bar is ≥ 4." in performance_part(run_of())
    assert "loses" not in performance_part(run_of(brokers=["kwire"]))
    ahead = run_of(rows={START_ROW: {"kwire": [0.2], "kafka": [6.0]}})
    assert "Nowhere." in performance_part(ahead)


def test_documents_are_renewed_between_their_markers() -> None:
    """The rest of them stays."""
    text = f"before\n{START}old\n{END}after\n"
    assert between_markers(text, "new") == f"before\n{START}\nnew\n{END}after\n"


def test_a_curve_is_a_table_of_what_each_step_costs() -> None:
    """Broker by broker, and how long a restart takes in the end."""
    step = {"x": 1000, "p50_us": 30.4, "p99_us": 100, "cpu_us": 25, "memory_mb": 40}
    grown = {"points": {"kwire": [step], "kafka": [step]}, "restart_s": {"kwire": 0.25}}
    text = growth_tables({"partitions": grown})
    assert "| 1,000 | 30 | 100 | 25 | 40 | 30 | 100 | 25 | 40 |" in text
    assert "Restarted with all of that: kwire in 0.25 s." in text
    assert "Restarted" not in growth_tables({"connections": {**grown, "restart_s": {}}})


def test_documents_say_what_the_published_numbers_say() -> None:
    """`make bench ARGS=--publish` or `python -m bench.publish` wrote both."""
    documents = {README: readme_part, PERFORMANCE: performance_part}
    for document, part in documents.items():
        text = document.read_text(encoding="utf-8")
        if run := read_run():
            assert between_markers(text, part(run)) == text
        else:
            assert f"{START}{END}" in text
    text = PERFORMANCE.read_text(encoding="utf-8")
    if hostile := read_hostile():
        made = hostile_part(hostile)
        assert between_markers(text, made, HOSTILE_START, HOSTILE_END) == text
    else:
        assert f"{HOSTILE_START}{HOSTILE_END}" in text
    if growth := read_growth():
        made = growth_part(growth)
        assert between_markers(text, made, GROWTH_START, GROWTH_END) == text
    else:
        assert f"{GROWTH_START}{GROWTH_END}" in text


def test_waits_beside_hostile_clients_are_a_table_and_a_count() -> None:
    """An attack that a broker didn't survive is told, and counted."""
    alone = {"p50_ms": 0.2, "p99_ms": 1.0, "longest_ms": 3, "more_mb": 0}
    fine = {"p50_ms": 0.3, "p99_ms": 4.9, "longest_ms": 80, "more_mb": 105}
    fine |= {"flush_ms": 7, "create_ms": 9, "request_mb": 0.5}
    slow = fine | {"create_ms": 101}
    large = fine | {"request_mb": 0.4}
    dead = dict.fromkeys(alone, math.inf)
    text = hostile_part(
        {
            ALONE: {"kwire": alone, "kafka": alone},
            "a bomb": {"kwire": fine, "kafka": dead},
            "a storm": {"kwire": slow, "kafka": dead},
            "a flood": {"kwire": large, "kafka": dead},
        }
    )
    nothing = " | ".join("-" * 6)
    assert f"| a bomb | 4.90 | 4.9 | 80 | 7 | 9 | 0.5 | 105 | no answer | {nothing} |" in text
    assert f"| {ALONE} | 1.00 | 1.0 | 3 | - | - | - | 0 | 1.00 |" in text
    waits, memory = (
        "longest wait of anybody at most 100 ms in",
        "100 MB and 10 x the requests above",
    )
    assert f"in 3 of 3 attacks, {waits} 2, memory at most {memory} idle in 2, no answer" in text
    assert f"in 0 of 3 attacks, {waits} 0, memory at most {memory} idle in 0, no answer" in text


def test_waits_are_also_compared_with_those_beside_programs_that_only_compute() -> None:
    """On two processors these alone make a neighbor wait for its turn."""
    alone = {"p50_ms": 0.2, "p99_ms": 1.0, "longest_ms": 3, "more_mb": 0}
    shared = alone | {"p99_ms": 4.0}
    slow = alone | {"p99_ms": 6.0}
    text = hostile_part({ALONE: {"kwire": alone}, CONTROL: {"kwire": shared}, "a": {"kwire": slow}})
    assert "in 0 of 1 attacks (1: at most 5 x that beside two other programs), longest" in text
