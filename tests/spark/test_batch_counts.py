"""What a pipeline believes of the counts that Spark tells after a batch."""

from typing import Any

import pytest

from kwire.spark import batch_counts
from kwire.spark.batch_counts import Counts


class Told:
    """Counts as Spark's Observation tells them, which are there when it has told some events."""

    def __init__(self, found: dict[str, int], events: "Events | None" = None) -> None:
        self._found = found
        self._events = events
        self._jo = self

    def future(self) -> "Told":
        """What is asked whether the counts are there."""
        return self

    def getAsJava(self) -> dict[str, int]:
        """The counts."""
        return self._found

    def isCompleted(self) -> bool:
        """Whether the counts are there."""
        return self._events is None or not self._events.left


class Events:
    """The part of a session that tells listeners what has happened, in so many moments."""

    def __init__(self, left: int) -> None:
        self.left = left
        self._jsparkSession = self

    def sparkContext(self) -> "Events":
        """Where the events are."""
        return self

    def listenerBus(self) -> "Events":
        """What tells them."""
        return self

    def waitUntilEmpty(self, timeout_ms: int) -> None:
        """A moment is over."""
        self.left -= 1
        if self.left:
            raise TimeoutError


def told(records: int, good: int, events: Events | None = None) -> tuple[Any, Any]:
    """The observation of what was read, and that of the good rows."""
    found = {"records": records, "value_bytes": records * 10, "skipped": 1}
    return Told(found), Told({"rows": good}, events)


def test_counts_of_no_records_are_not_believed() -> None:
    """An action that has read nothing tells zeros: the dead letters would be lost."""
    spark: Any = Events(0)
    assert batch_counts.counts_of(spark, *told(5, 3)) == Counts(5, 1, 50)
    assert batch_counts.counts_of(spark, *told(0, 0)) is None


def test_counts_are_waited_for_while_spark_has_something_to_tell() -> None:
    """If it has none, and they aren't there, nothing was counted: nobody waits for that."""
    spark: Any = Events(3)
    assert batch_counts.counts_of(spark, *told(5, 3, spark)) == Counts(5, 1, 50)
    spark, others = Events(3), Events(1)
    assert batch_counts.counts_of(spark, *told(5, 3, others)) is None
    assert (spark.left, others.left) == (0, 1)


def test_counts_that_come_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pipeline counts by itself then, and doesn't wait for ever."""
    monkeypatch.setattr(batch_counts, "COUNTS_TIMEOUT_S", -1)
    spark: Any = Events(3)
    assert batch_counts.counts_of(spark, *told(5, 3, spark)) is None
    assert spark.left == 3
