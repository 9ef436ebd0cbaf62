"""The tables of `make reliability`: every figure has a row, bars judge kwire alone."""

from pathlib import Path

from bench.reliability.checks import Outcome, log_bytes
from bench.reliability.clusters import KAFKA, KWIRE
from bench.reliability.scenarios import Scenarios, Seen
from bench.reliability.table import BARS_S, FAULTS, outcomes, shown, table

PAUSE = "pause of the leader's partitions"


def test_a_row_has_both_systems_and_a_verdict_about_kwire() -> None:
    """The bar is compared with kwire's 95th percentile; Apache Kafka's figures stand beside it."""
    seen = {
        KWIRE: [Seen("P1", PAUSE, 0.5), Seen("P1", PAUSE, 0.9)],
        KAFKA: [Seen("P1", PAUSE, 12.0)],
    }
    row = "| P1 | a leader gets SIGKILL | pause of the leader's partitions | 0.90 / 0.90 | 12.00 |"
    assert f"{row} ≤ 1 | met |" in table(seen)
    slow = {KWIRE: [Seen("P1", PAUSE, 0.5), Seen("P1", PAUSE, 1.1)]}
    assert "not met" in table(slow)


def test_figures_of_kafka_alone_are_not_judged() -> None:
    """Without kwire's trials there is no verdict."""
    assert "met" not in table({KAFKA: [Seen("P1", PAUSE, 12.0)]})


def test_every_scenario_has_a_fault_and_bars_belong_to_scenarios() -> None:
    """A scenario without a name of its fault would end the run at its last line."""
    assert set(Scenarios.by_name()) == set(FAULTS)
    assert {scenario for scenario, _ in BARS_S} <= set(FAULTS)


def test_many_trials_are_shown_as_median_and_95th_percentile() -> None:
    """One trial is shown as it is, none as nothing."""
    assert shown([]) == ""
    assert shown([1.0]) == "1.00"
    assert shown([float(n) for n in range(1, 101)]) == "51.00 / 96.00"


def test_losses_and_errors_are_counted() -> None:
    """Each system has a row."""
    made = outcomes({KWIRE: Outcome(80_610, 0, 0, ()), KAFKA: Outcome(7, 1, 2, ("late",))})
    assert "| kwire | 80,610 | 0 | 0 | 0 |" in made
    assert "| Apache Kafka | 7 | 1 | 2 | 1 |" in made


def test_replicas_are_compared_without_what_is_set_aside(tmp_path: Path) -> None:
    """Segments in the order of their offsets; zeros that a file got in advance don't count."""
    (tmp_path / "00000000000000000010.log").write_bytes(b"later\0\0")
    (tmp_path / "00000000000000000000.log").write_bytes(b"first ")
    (tmp_path / "00000000000000000000.index").write_bytes(b"index")
    assert log_bytes(tmp_path) == b"first later"
