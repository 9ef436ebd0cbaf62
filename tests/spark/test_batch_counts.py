"""What a pipeline believes of the counts that Spark tells after a batch."""

from typing import Any, NamedTuple

import pytest

from kwire.spark import batch_counts
from kwire.spark.batch_counts import Counts


class Told(NamedTuple):
    """Counts as Spark's Observation tells them."""

    found: dict[str, int]
    is_complete: bool = True

    @property
    def _jo(self) -> "Told":
        return self

    def future(self) -> "Told":
        """What is asked whether the counts are there."""
        return self

    def getAsJava(self) -> dict[str, int]:
        """The counts."""
        return self.found

    def isCompleted(self) -> bool:
        """Whether the counts are there."""
        return self.is_complete


def told(records: int, good: int, *, is_complete: bool = True) -> tuple[Any, Any]:
    """The observation of what was read, and that of the good rows."""
    found = {"records": records, "value_bytes": records * 10, "skipped": 1}
    return Told(found), Told({"rows": good}, is_complete)


def test_counts_of_no_records_are_not_believed() -> None:
    """An action that has read nothing tells zeros: the dead letters would be lost."""
    assert batch_counts.counts_of(*told(5, 3)) == Counts(5, 1, 50)
    assert batch_counts.counts_of(*told(0, 0)) is None


def test_counts_that_come_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pipeline counts by itself then, and doesn't wait for ever."""
    monkeypatch.setattr(batch_counts, "COUNTS_TIMEOUT_S", 0)
    assert batch_counts.counts_of(*told(5, 3, is_complete=False)) is None
