"""A read of segments has every row or ends: what is damaged or missing is never passed over."""

from pathlib import Path

import pytest

from kwire.record.records import BatchBuilder
from kwire.spark.segments.errors import CorruptSegment, LostRecords
from kwire.spark.segments.planning import Task
from spark_tests.segment_files import offsets, planned, segmented, simple, write


def log_of(directory: Path, base: int) -> Path:
    """The file of a segment."""
    return directory / f"{base:020d}.log"


def read(directory: Path, **given: str) -> list[int]:
    """The offsets that a read gives."""
    return offsets(*planned(directory, **given))


def compacted(base: int, kept: list[int], end: int) -> bytes:
    """A batch of which compaction has left some records."""
    builder = BatchBuilder(base)
    for offset in kept:
        builder.add(1_700_000_000_000, b"k", b"v", offset=offset)
    return bytes(builder.build(last_offset_delta=end - base - 1))


@pytest.mark.parametrize("position", [0, 1])
def test_zeros_in_a_rolled_segment_are_damage(tmp_path: Path, position: int) -> None:
    """Wherever they are, also where compaction has been: only the last segment has room left."""
    directory = segmented(tmp_path)
    (directory.parent / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 30\n")
    pieces = [simple(10, 5), simple(15, 5)]
    pieces[position][:64] = bytes(64)
    log_of(directory, 10).write_bytes(b"".join(pieces))
    with pytest.raises(CorruptSegment, match="zeros stand where a batch should begin"):
        read(directory)
    log_of(directory, 10).write_bytes(simple(10, 10) + bytes(5000))
    assert read(directory) == list(range(30)), "the task ends before these zeros"
    log_of(directory, 10).write_bytes(simple(10, 5) + bytes(5000))
    with pytest.raises(CorruptSegment, match="zeros stand where a batch should begin"):
        read(directory)


def test_zeros_before_batches_of_the_last_segment_are_damage(tmp_path: Path) -> None:
    """A preallocated file has nothing after its zeros."""
    directory = segmented(tmp_path)
    log_of(directory, 20).write_bytes(simple(20, 2) + bytes(64) + simple(22, 8))
    with pytest.raises(CorruptSegment, match="zeros stand where a batch should begin"):
        read(directory)


@pytest.mark.parametrize("left", [b"", bytes(simple(10, 5))])
def test_a_rolled_segment_that_is_cut_is_a_loss(tmp_path: Path, left: bytes) -> None:
    """Also between two batches, and where nothing is left; failOnDataLoss=false reads the rest."""
    directory = segmented(tmp_path)
    log_of(directory, 10).write_bytes(left)
    first = 15 if left else 10
    with pytest.raises(LostRecords, match=f"lacks the offsets {first} to 19, and nothing"):
        read(directory)
    assert read(directory, failOnDataLoss="false") == [*range(first), *range(20, 30)]


def test_a_missing_segment_is_a_loss(tmp_path: Path) -> None:
    """Before the read is planned, and after it."""
    directory = segmented(tmp_path)
    made, options = planned(directory)
    log_of(directory, 10).unlink()
    with pytest.raises(LostRecords, match="lacks the offsets 10 to 19"):
        offsets(made, options)
    with pytest.raises(LostRecords, match="lacks the offsets 10 to 19"):
        read(directory)
    assert read(directory, failOnDataLoss="false") == [*range(10), *range(20, 30)]


def test_a_missing_batch_is_a_loss(tmp_path: Path) -> None:
    """Within a segment, for a task that reads the offsets; the others don't care."""
    directory = write(tmp_path / "t-0", [simple(0, 10), simple(20, 10)])
    with pytest.raises(LostRecords, match="lacks the offsets 10 to 19"):
        read(directory)
    below = '{"t": {"0": 10}}'
    assert read(directory, endingOffsets=below) == list(range(10))
    above = '{"t": {"0": 20}}'
    assert read(directory, startingOffsets=above) == list(range(20, 30))


def test_a_partition_without_segments_is_a_loss(tmp_path: Path) -> None:
    """The checkpoint of high watermarks says that there were records."""
    directory = segmented(tmp_path)
    for base in (0, 10, 20):
        log_of(directory, base).unlink()
    data = directory.parent
    with pytest.raises(LostRecords, match="has no segment, and the offsets 0 to 29 were to be"):
        read(data)
    assert read(data, failOnDataLoss="false") == []


def test_a_batch_that_says_it_has_no_rows_is_checked(tmp_path: Path) -> None:
    """One bit of its header would otherwise hide all of its records."""
    directory = segmented(tmp_path)
    damaged = simple(10, 10)
    damaged[22] ^= 0x20
    log_of(directory, 10).write_bytes(damaged)
    with pytest.raises(CorruptSegment, match="offsets 10 to 19: the checksum is wrong"):
        read(directory)


def test_where_compaction_has_been_offsets_may_be_missing(tmp_path: Path) -> None:
    """The cleaner's checkpoint says up to where; above that a gap is a loss."""
    directory = segmented(tmp_path)
    log_of(directory, 0).write_bytes(simple(3, 2) + simple(7, 1))
    log_of(directory, 10).write_bytes(b"")
    cleaner = directory.parent / "cleaner-offset-checkpoint"
    cleaner.write_text("0\n1\nt 0 20\n")
    assert read(directory) == [3, 4, 7, *range(20, 30)]
    cleaner.write_text("0\n1\nt 0 10\n")
    with pytest.raises(LostRecords, match="lacks the offsets 10 to 19"):
        read(directory)
    cleaner.write_text("0\n1\nother 0 20\n")
    with pytest.raises(LostRecords, match="lacks the offsets 5 to 6"):
        read(directory)


def test_a_compaction_that_is_running_explains_gaps(tmp_path: Path) -> None:
    """Its checkpoint comes last; the segments that it replaced are still there."""
    directory = segmented(tmp_path)
    log_of(directory, 0).write_bytes(simple(3, 2))
    with pytest.raises(LostRecords):
        read(directory)
    for base in (0, 10):
        log_of(directory, base).with_suffix(".log.deleted").write_bytes(simple(base, 10))
    log_of(directory, 10).unlink()
    assert read(directory) == [3, 4, *range(20, 30)]


def test_a_compacted_log_without_a_checkpoint_shows_it(tmp_path: Path) -> None:
    """As in a copy of a partition, or on a follower: a batch that lacks records."""
    batches = [simple(4, 1), compacted(10, [12, 19], 20), simple(20, 10)]
    directory = write(tmp_path / "t-0", batches)
    assert read(directory) == [4, 12, *range(19, 30)]
    batches = [compacted(0, [2], 10), simple(20, 10)]
    directory = write(tmp_path / "t-1", batches)
    with pytest.raises(LostRecords, match="lacks the offsets 10 to 19"):
        read(directory)


def test_a_task_goes_on_in_a_segment_that_begins_at_its_offset(tmp_path: Path) -> None:
    """Where a plan was made before the segment was there under its own name."""
    directory = segmented(tmp_path)
    made, options = planned(directory)
    whole = [Task(made[0].partition, 0, 30, 0, 0)]
    assert offsets(whole, options) == list(range(30))
