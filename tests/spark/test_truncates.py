"""What is kept of truncates, for records that are read after them and are older."""

from itertools import permutations
from pathlib import Path

from kwire.spark.batch import Batch, OffsetRange
from kwire.spark.changes import Truncate
from kwire.spark.storage import LocalStorage
from kwire.spark.truncates import FILE, Truncates


def batch_of(topic: str, incarnation: int = 0) -> Batch:
    """A batch with records of a topic."""
    return Batch("p", "q", 1, (OffsetRange(topic, 0, 0, 9, incarnation),))


def test_what_counts_for_each_partition_is_kept(tmp_path: Path) -> None:
    """Whatever their order: the newest truncate in any other partition. After a restart, too."""
    found = [Truncate("t", *one) for one in ((0, 5, 100), (1, 3, 300), (2, 1, 200), (1, 9, 250))]
    for order in permutations(found):
        (tmp_path / FILE).unlink(missing_ok=True)
        known = Truncates(LocalStorage(tmp_path))
        for one in order:
            known.note(batch_of("t"), [one])
        assert known.of(batch_of("t")) == [Truncate("t", 1, 3, 300), Truncate("t", 2, 1, 200)]
        assert Truncates(LocalStorage(tmp_path)).of(batch_of("t")) == known.of(batch_of("t"))
    assert known.of(batch_of("other")) == []


def test_a_topic_that_is_created_again_has_none(tmp_path: Path) -> None:
    """Nor do those of before come back."""
    known = Truncates(LocalStorage(tmp_path))
    old, new = Truncate("t", 0, 5, 900), Truncate("t", 0, 1, 100)
    known.note(batch_of("t"), [old])
    assert known.of(batch_of("t", 1)) == []
    known.note(batch_of("t", 1), [new])
    assert known.of(batch_of("t", 1)) == [new]
    assert known.of(batch_of("t")) == []


def test_nothing_is_written_without_truncates(tmp_path: Path) -> None:
    """Most batches have none."""
    Truncates(LocalStorage(tmp_path)).note(batch_of("t"), [])
    assert not (tmp_path / FILE).exists()
