"""The table of three replicas: ratios of medians, judged by their bars."""

from bench.bars import at_least, at_most
from bench.cluster.__main__ import REPLICATED_END, REPLICATED_START
from bench.cluster.replicated import Row, table
from bench.publish import PERFORMANCE
from bench.reliability.clusters import KAFKA, KWIRE


def test_a_ratio_is_that_of_the_medians() -> None:
    """One slow round of either system changes nothing."""
    rate = Row("one in flight", "req/s", {KWIRE: [1.0, 300.0, 310.0], KAFKA: [150, 90, 900]}, _RATE)
    assert rate.is_met
    assert "| one in flight | req/s | 300 | 150 | 2 | ≥ 1.5 | met |" in table([rate])
    cpu = Row("CPU", "s", {KWIRE: [3.0], KAFKA: [4.0]}, at_most(0.6))
    assert not cpu.is_met
    assert "| 0.75 | ≤ 0.6 | not met |" in table([cpu])


def test_without_kafka_there_is_no_verdict() -> None:
    """kwire's numbers are shown alone."""
    row = Row("one in flight", "req/s", {KWIRE: [100.0]}, _RATE)
    assert row.is_met
    assert "| one in flight | req/s | 100 |  |  | ≥ 1.5 |  |" in table([row])


def test_the_document_has_the_places_for_the_table() -> None:
    """``--publish`` would break off after all measurements else."""
    text = PERFORMANCE.read_text(encoding="utf-8")
    assert text.count(REPLICATED_START) == text.count(REPLICATED_END) == 1


_RATE = at_least(1.5)
