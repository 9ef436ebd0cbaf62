"""How long a run will still take, as it is told; no clock is read."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from bench.__main__ import options_of
from bench.brokers import kwire_maker
from bench.pace import Pace, Teller, minutes, usual_seconds
from bench.published import write_run
from bench.rows import ALL_ROWS, ROWS, SLOW
from bench.session import Session

STEPS = [("fetch", "kwire"), ("fetch", "kafka"), ("mix", "kwire")]
USUAL = {("fetch", "kwire"): 20.0, ("fetch", "kafka"): 20.0}


def test_steps_take_what_they_usually_do() -> None:
    """And a guess where nothing is known."""
    pace = Pace(STEPS, USUAL, 60.0)
    assert pace.total_s == pace.left_s(0.0) == 100
    pace.finish(("fetch", "kwire"))
    assert pace.left_s(5.0) == 80


def test_a_slow_machine_is_known_after_a_while() -> None:
    """What is left takes as much longer as what is done did."""
    pace = Pace(STEPS, USUAL, 60.0)
    pace.finish(("fetch", "kwire"))
    pace.finish(("fetch", "kafka"))
    assert pace.left_s(80.0) == 120
    pace.finish(("mix", "kwire"))
    assert pace.left_s(200.0) == 0


def test_what_is_usual_comes_from_the_published_run(tmp_path: Path) -> None:
    """The mean of its rounds; without one nothing is known."""
    file = tmp_path / "numbers.json"
    assert usual_seconds(file) == {}
    write_run({"seconds": {"mix": {"kwire": [60, 62], "kafka": []}}}, file)
    assert usual_seconds(file) == {("mix", "kwire"): 61}


def test_times_are_told_in_minutes() -> None:
    """And in seconds below one."""
    assert [minutes(seconds) for seconds in (7.4, 59, 60, 3000)] == [
        "7 s",
        "59 s",
        "1 min",
        "50 min",
    ]


def test_a_file_gets_a_line_now_and_then() -> None:
    """Not one for every step."""
    console = Console(file=io.StringIO(), record=True, force_terminal=False, width=100)
    teller = Teller(console)
    with teller.telling(Pace(STEPS, USUAL, 60.0)):
        for what, name in STEPS:
            teller.tell(f"{name}: {what}")
    assert console.export_text().strip() == "2 min left, kwire: fetch"


def session_of(*arguments: str) -> Session:
    """A session that isn't run."""
    makers = {"kwire": kwire_maker(), "kafka": kwire_maker()}
    return Session(options_of(list(arguments)), makers, Teller(Console(file=io.StringIO())))


def test_slow_rows_are_measured_in_fewer_rounds() -> None:
    """All others in every round."""
    session = session_of("--rounds", "3", "--slow-rounds", "2")
    assert [session.rows_of(n) == ROWS for n in range(3)] == [True, True, False]
    assert {row.name for row in ROWS} - {row.name for row in session.rows_of(2)} == SLOW
    assert {row.name for row in ALL_ROWS} > SLOW


def test_a_load_is_one_step_however_many_rows_look_at_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each broker, in every round; starts and warm-ups are steps too."""
    monkeypatch.setattr("bench.session.usual_seconds", dict)  # nothing was ever measured
    session = session_of("--rounds", "2", "--only", "10 in flight")
    guess_s = 4.0
    starts, warm_up, loads = 2, 1, 2
    assert session.usual_s == 2 * (starts + warm_up + loads) * guess_s
