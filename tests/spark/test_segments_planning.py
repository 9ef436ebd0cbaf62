"""Which offsets and positions a read of segments covers, on a directory of Apache Kafka's."""

import itertools
import shutil
import tarfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kwire.log import open_partition
from kwire.spark.batch import OffsetRange
from kwire.spark.segments.errors import LostRecords
from kwire.spark.segments.files import list_segments, open_at
from kwire.spark.segments.filters import bounds_of
from kwire.spark.segments.options import Options, read_options
from kwire.spark.segments.partitions import (
    Partition,
    StableOffset,
    check_known,
    find_partitions,
    high_watermarks,
    log_end_offset,
)
from kwire.spark.segments.planning import ALL, Bounds, narrowed, ranges, tasks
from kwire.spark.settings import WrongSetting

DATA = Path(__file__).parent.parent / "data"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A data directory that Kafka 4.4 wrote."""
    with tarfile.open(DATA / "kafka-4.4-data-dir.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "logs"


def options(logs: Path, **given: str) -> Options:
    """Options for the directory."""
    return read_options({"path": str(logs), **given})


def covered(logs: Path, **given: str) -> dict[str, tuple[int, int]]:
    """First and end offset of each partition that the options choose."""
    chosen = options(logs, **given)
    found = ranges(find_partitions(chosen), chosen)
    return {part.directory.name: (one.first, one.end) for part, one in found.items()}


def test_partitions_are_chosen(logs: Path) -> None:
    """By topics, pattern and partitions; Kafka's own topics only by name."""
    assert "__consumer_offsets-0" not in covered(logs)
    assert set(covered(logs, pattern="codec-.*")) == {
        f"codec-{codec}-0" for codec in ("gzip", "lz4", "none", "snappy", "zstd")
    }
    assert set(covered(logs, topics="plain,__transaction_state", partitions="1")) == {
        "plain-1",
        "__transaction_state-1",
    }
    assert set(covered(logs / "plain-0")) == {"plain-0"}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"topics": "nowhere"}, "topics = 'nowhere': topics below"),
        ({"pattern": "nowhere"}, "none that the options choose is there"),
    ],
)
def test_a_choice_of_nothing_is_an_error(logs: Path, given: dict[str, str], text: str) -> None:
    """A read without partitions would silently have no rows."""
    with pytest.raises(WrongSetting, match=text):
        covered(logs, **given)


def test_bounds_are_the_checkpoints(logs: Path) -> None:
    """The high watermark and the log start offset of the data directory's checkpoints."""
    checkpoint = logs / "replication-offset-checkpoint"
    text = checkpoint.read_text()
    checkpoint.write_text(text.replace("plain 1 1750", "plain 1 1700"))
    starts = logs / "log-start-offset-checkpoint"
    starts.write_text("0\n1\nplain 1 30\n")
    assert covered(logs, topics="plain", partitions="1") == {"plain-1": (30, 1700)}
    assert covered(logs, topics="plain", partitions="1", highWatermark="ignore") == {
        "plain-1": (30, 1750)
    }
    with pytest.raises(LostRecords, match="begins at offset 30, and startingOffsets asks for 5"):
        covered(logs, topics="plain", startingOffsets='{"plain": {"1": 5}}')
    with pytest.raises(LostRecords, match="up to offset 1700, and endingOffsets asks for 1750"):
        covered(logs, topics="plain", endingOffsets='{"plain": {"1": 1750}}')


def test_a_copy_of_one_partition_is_read_to_its_end(logs: Path, tmp_path: Path) -> None:
    """Without a checkpoint beside it; an incomplete last batch doesn't count."""
    copy = tmp_path / "copy" / "plain-1"
    shutil.copytree(logs / "plain-1", copy)
    assert covered(copy) == {"plain-1": (0, 1750)}
    last = list_segments(copy).path(list_segments(copy).bases[-1])
    with last.open("ab") as file:
        file.write((1750).to_bytes(8, "big") + bytes([0, 0, 1, 0]) + bytes(100))
    assert covered(copy) == {"plain-1": (0, 1750)}


def test_a_partition_that_the_checkpoint_lacks_is_named(logs: Path) -> None:
    """A batch read would have no rows of it; a stream waits for the checkpoint."""
    shutil.copytree(logs / "plain-1", logs / "moved-0")
    found = find_partitions(options(logs, topics="moved"))
    assert list(high_watermarks(found, ignored=False).values()) == [0]
    with pytest.raises(LostRecords, match="highWatermark=ignore reads to the log's end"):
        check_known(found, ignored=False)
    check_known(find_partitions(options(logs, topics="moved,empty")), ignored=True)


def test_the_last_stable_offset_is_that_of_the_high_watermark(logs: Path) -> None:
    """At each high watermark, the oldest transaction that is open there; forward in steps too."""
    part = find_partitions(options(logs / "txn-0"))[0]
    end = log_end_offset(part)
    steps = StableOffset()
    assert open_partition(part.directory).last_stable_offset == StableOffset().at(part, end)
    opened: dict[int, int] = {}
    for batch in open_partition(part.directory).batches():
        expected = min([batch.base_offset, *opened.values()])
        assert StableOffset().at(part, batch.base_offset) == expected
        assert steps.at(part, batch.base_offset) == expected
        if batch.is_control:
            opened.pop(batch.producer_id, None)
        elif batch.is_transactional:
            opened.setdefault(batch.producer_id, batch.base_offset)


def test_times_choose_offsets_as_a_broker_does(logs: Path) -> None:
    """The first record with at least the time, also across segments."""
    records = list(open_partition(logs / "codec-lz4-0").records())
    for wanted in (records[0].timestamp, records[700].timestamp, records[-1].timestamp, 1):
        expected = next(r.offset for r in records if r.timestamp >= wanted)
        found = covered(logs, topics="codec-lz4", startingTimestamp=str(wanted))
        assert found == {"codec-lz4-0": (expected, 1500)}
    late = str(records[-1].timestamp + 100_000)
    assert covered(logs, topics="codec-lz4", startingTimestamp=late) == {
        "codec-lz4-0": (1500, 1500)
    }


@pytest.mark.parametrize("split_bytes", [1, 5000, 10**9])
def test_tasks_cover_each_offset_once(logs: Path, split_bytes: int) -> None:
    """And begin at the position of a batch at or before their first offset."""
    chosen = options(logs, pattern="codec-.*", splitBytes=str(split_bytes))
    found = ranges(find_partitions(chosen), chosen)
    for part, whole in found.items():
        made = [task for task in tasks(found, chosen) if task.partition == part]
        assert made[0].first == whole.first
        assert made[-1].end == whole.end
        assert all(one.end == other.first for one, other in itertools.pairwise(made))
        for task in made:
            segment = open_at(part.directory, task.first)
            assert segment is not None
            with segment:
                header = next(segment.headers(task.position))
            assert header.base_offset <= task.first
        assert len(made) >= (3 if split_bytes < 10**9 else 1)


def test_a_wrong_index_makes_larger_tasks_and_no_wrong_ones(logs: Path) -> None:
    """Each entry of an index is checked against the batch that it names."""
    for path in (logs / "codec-none-0").glob("*.index"):
        path.write_bytes(bytes(range(1, 9)) * (path.stat().st_size // 8))
    chosen = options(logs, topics="codec-none", splitBytes="1")
    found = ranges(find_partitions(chosen), chosen)
    made = tasks(found, chosen)
    assert len(made) == len(list_segments(logs / "codec-none-0").bases)
    assert {task.position for task in made} == {0}


def test_bounds_leave_out_partitions_offsets_and_old_segments(logs: Path) -> None:
    """A filter of the query's makes fewer tasks."""
    chosen = options(logs, topics="codec-lz4,plain")
    found = ranges(find_partitions(chosen), chosen)
    bounds = Bounds(partitions=frozenset([1]), first_offset=100, end_offset=200)
    assert list(narrowed(found, bounds).values()) == [OffsetRange("plain", 1, 100, 200)]
    newest = max(record.timestamp for record in open_partition(logs / "codec-lz4-0").records())
    chosen = options(logs, topics="codec-lz4")
    found = ranges(find_partitions(chosen), chosen)
    assert len(tasks(found, chosen, Bounds(first_timestamp=newest))) < len(tasks(found, chosen))


def test_files_of_a_swap_and_a_deletion_are_found(logs: Path) -> None:
    """A swap file counts as its segment; a deleted file only if nothing else has the offset."""
    directory = logs / "codec-none-0"
    bases = list_segments(directory).bases
    first, second = (list_segments(directory).path(base) for base in bases[:2])
    first.rename(first.with_name(first.name + ".swap"))
    assert list_segments(directory).bases == bases
    second.rename(second.with_name(second.name + ".deleted"))
    assert list_segments(directory).bases == [bases[0], *bases[2:]]
    (directory / (first.name + ".swap")).rename(directory / (first.name + ".deleted"))
    segment = open_at(directory, bases[1] + 1)
    assert segment is not None
    with segment:
        assert segment.path.name == second.name + ".deleted"
    (directory / f"{5:020d}.log.cleaned").write_bytes(b"")
    assert 5 not in list_segments(directory, with_deleted=True).bases


@dataclass(frozen=True)
class EqualTo:
    """As PySpark's."""

    attribute: tuple[str, ...]
    value: Any


@dataclass(frozen=True)
class In(EqualTo):
    """As PySpark's."""


@dataclass(frozen=True)
class GreaterThan(EqualTo):
    """As PySpark's."""


@dataclass(frozen=True)
class LessThanOrEqual(EqualTo):
    """As PySpark's."""


@dataclass(frozen=True)
class Not:
    """As PySpark's."""

    child: Any


def test_filters_become_bounds() -> None:
    """What isn't understood bounds nothing; times with microseconds are never cut too short."""
    time = datetime(2026, 1, 31, 12, 0, 0, 123456, UTC)
    found = bounds_of(
        [
            EqualTo(("topic",), "orders"),
            In(("partition",), (1, 2)),
            EqualTo(("partition",), 2),
            GreaterThan(("offset",), 10),
            LessThanOrEqual(("timestamp",), time),
        ]
    )
    assert found == Bounds(
        topics=frozenset(["orders"]),
        partitions=frozenset([2]),
        first_offset=10,
        end_timestamp=1_769_860_800_124,
    )
    others = [Not(EqualTo(("offset",), 1)), EqualTo(("a", "b"), 1), EqualTo(("offset",), None)]
    assert bounds_of(others) == ALL
    assert not Bounds(topics=frozenset(["a"])).allow(Partition("b", 0, Path("/b-0")))
