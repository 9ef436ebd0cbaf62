"""The tables of `make reliability`: every figure has a row, bars judge kwire alone."""

from pathlib import Path

from bench.reliability.catalogue import NAMES
from bench.reliability.checks import Outcome, log_bytes
from bench.reliability.clusters import KAFKA, KWIRE
from bench.reliability.kept import Kept, read
from bench.reliability.scenarios import Seen
from bench.reliability.table import (
    BARS_S,
    BROKE_OFF,
    FAULTS,
    SHARES,
    outcomes,
    shown,
    table,
)

PAUSE = "pause of the leader's partitions"


def test_a_row_has_both_systems_and_a_verdict_about_kwire() -> None:
    """The bar is compared with kwire's 95th percentile; Apache Kafka's figures stand beside it."""
    seen = {
        KWIRE: [Seen("P1", PAUSE, 0.5), Seen("P1", PAUSE, 0.9)],
        KAFKA: [Seen("P1", PAUSE, 12.0)],
    }
    figures = "0.50 / 0.90 / 0.90 | 12.00 | ≤ 1 | met |"
    assert f"| P1 | a leader gets SIGKILL | {PAUSE} | {figures}" in table(seen)
    slow = {KWIRE: [Seen("P1", PAUSE, 0.5), Seen("P1", PAUSE, 1.1)]}
    assert "not met" in table(slow)


def test_a_bar_may_be_a_part_of_kafkas_time() -> None:
    """P5: the whole round takes at most a fifth of Apache Kafka's; without it there is no bar."""
    [(key, share)] = SHARES.items()
    seen = {KWIRE: [Seen(*key, 9.0)], KAFKA: [Seen(*key, 50.0)]}
    assert share == 0.2
    assert "| 9.00 | 50.00 | ≤ 10 | met |" in table(seen)
    assert "met" not in table({KWIRE: [Seen(*key, 9.0)]})


def test_a_scenario_that_broke_off_has_a_row(tmp_path: Path) -> None:
    """What it had shown before stays; nothing is said of what was lost, as nobody knows it."""
    file = tmp_path / "reliability.json"
    kept = Kept()
    kept.add(KWIRE, "P1", [Seen("P1", PAUSE, 0.5), Seen("P1", BROKE_OFF, 0.0)], None)
    kept.write(file)
    found = read(file)
    assert table({KWIRE: found.seen[KWIRE]["P1"]}).splitlines()[2:] == [
        "| P1 | a leader gets SIGKILL | | broke off |  | | not met |",
        "| P1 | a leader gets SIGKILL | pause of the leader's partitions | 0.50 |  | ≤ 1 | met |",
    ]
    assert found.outcomes == {KWIRE: {}}


def test_figures_of_kafka_alone_are_not_judged() -> None:
    """Without kwire's trials there is no verdict."""
    assert "met" not in table({KAFKA: [Seen("P1", PAUSE, 12.0)]})


def test_every_scenario_has_a_fault_and_bars_belong_to_scenarios() -> None:
    """A scenario without a name of its fault would end the run at its last line."""
    assert set(NAMES) == set(FAULTS)
    assert {scenario for scenario, _ in BARS_S} <= set(FAULTS)


def test_many_trials_are_shown_as_median_95th_percentile_and_longest() -> None:
    """One trial is shown as it is, none as nothing."""
    assert shown([]) == ""
    assert shown([1.0]) == "1.00"
    assert shown([float(n) for n in range(1, 101)]) == "50.00 / 95.00 / 100.00"


def test_losses_and_errors_are_counted() -> None:
    """Each system has a row for each scenario, in the order of the scenarios."""
    found = {
        KWIRE: {"P12": Outcome(1, 0, 0, 0), "P2": Outcome(80_610, 0, 0, 0)},
        KAFKA: {"P2": Outcome(7, 1, 2, 3)},
    }
    assert outcomes(found).splitlines()[2:] == [
        "| P2 | kwire | 80,610 | 0 | 0 | 0 |",
        "| P2 | Apache Kafka | 7 | 1 | 2 | 3 |",
        "| P12 | kwire | 1 | 0 | 0 | 0 |",
    ]


def test_a_run_of_some_scenarios_keeps_the_others(tmp_path: Path) -> None:
    """A long table is measured in pieces; what is measured again replaces what there was."""
    file = tmp_path / "reliability.json"
    first = Kept(machine="old")
    first.add(KWIRE, "P1", [Seen("P1", PAUSE, 0.5)], Outcome(10, 0, 0, 0))
    first.add(KWIRE, "P4", [Seen("P4", PAUSE, 0.1)], Outcome(20, 0, 0, 0))
    first.write(file)
    second = Kept(machine="new")
    second.add(KWIRE, "P1", [Seen("P1", PAUSE, 0.75)], Outcome(30, 0, 0, 1))
    both = read(file)
    both.take(second)
    both.write(file)
    found = read(file)
    assert found.machine == "new"
    assert found.seen == {KWIRE: {"P1": [Seen("P1", PAUSE, 0.75)], "P4": [Seen("P4", PAUSE, 0.1)]}}
    assert found.outcomes[KWIRE]["P1"] == Outcome(30, 0, 0, 1)


def test_replicas_are_compared_without_what_is_set_aside(tmp_path: Path) -> None:
    """Segments in the order of their offsets; zeros that a file got in advance don't count."""
    (tmp_path / "00000000000000000010.log").write_bytes(b"later\0\0")
    (tmp_path / "00000000000000000000.log").write_bytes(b"first ")
    (tmp_path / "00000000000000000000.index").write_bytes(b"index")
    assert log_bytes(tmp_path) == b"first later"
