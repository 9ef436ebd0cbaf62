"""Records decoded with numpy are those that kwire's own reader finds, and nothing else passes."""

import random
import shutil
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

from kwire.errors import KafkaError
from kwire.log import open_partition
from kwire.record.batch import HEADER_BYTES, RecordBatch
from kwire.record.checksum import crc32c
from kwire.record.records import BatchBuilder
from kwire.spark.segments.errors import CorruptSegment, LostRecords, OtherTopic, SegmentsError
from kwire.spark.segments.files import list_segments
from kwire.spark.segments.planning import Bounds, Task
from kwire.spark.segments.reading import read_task
from spark_tests.segment_files import (
    Rows,
    offsets,
    opened,
    planned,
    rows,
    segmented,
    simple,
    taken,
    write,
)


def random_bytes(chance: random.Random, least: int = 0) -> bytes:
    """Bytes of many lengths; some are all zeros, some all high bits, some look like records."""
    size = chance.choice([0, 1, 5, 30, 63, 64, 65, 200, 9000, chance.randrange(300)]) + least
    kind = chance.randrange(4)
    if kind == 0:
        return bytes(size)
    if kind == 1:
        return b"\xff" * size
    if kind == 2:
        return (b"\x0e\x00\x00\x02\x01\x01\x00" * (size // 7 + 1))[:size]
    return chance.randbytes(size)


def random_batch(chance: random.Random, base: int) -> bytearray:
    """A batch with records of every shape, some with gaps between their offsets."""
    builder = BatchBuilder(base)
    offset = base
    for _ in range(chance.choice([1, 2, 10, 100, 300])):
        headers = tuple(
            (f"h{i}" * chance.randrange(3), chance.choice([None, random_bytes(chance)]))
            for i in range(chance.choice([0, 0, 0, 1, 3]))
        )
        key = chance.choice([None, random_bytes(chance)])
        value = chance.choice([None, random_bytes(chance), random_bytes(chance)])
        time = 1_700_000_000_000 + chance.randrange(-(10**6), 10**6)
        builder.add(time, key, value, headers, offset)
        offset += chance.choice([1, 1, 1, 7])
    kind = {"timestamp_type": chance.randrange(2), "compression": chance.randrange(5)}
    return builder.build(**kind, last_offset_delta=offset - base - 1)


@pytest.mark.parametrize("seed", range(25))
def test_random_batches_are_decoded(tmp_path: Path, seed: int) -> None:
    """All codecs and shapes, and values that are made to be mistaken for records."""
    chance = random.Random(seed)
    batches = []
    base = 0
    for _ in range(chance.choice([1, 5, 40])):
        batches.append(random_batch(chance, base))
        base = RecordBatch(bytes(batches[-1])).last_offset + chance.choice([1, 1, 50])
    directory = write(tmp_path / "t-0", batches)
    (tmp_path / "cleaner-offset-checkpoint").write_text(f"0\n1\nt 0 {base + 50}\n")
    assert rows(opened(directory)) == [tuple(r) for r in open_partition(directory).records()]


@pytest.mark.parametrize("seed", range(60))
def test_damaged_records_are_errors_or_what_they_were(tmp_path: Path, seed: int) -> None:
    """With a right checksum: an error with file and offsets, or what kwire's own reader finds."""
    chance = random.Random(seed)
    builder = BatchBuilder(0)
    for n in range(40):
        builder.add(1_700_000_000_000 + n, b"k%d" % n, b"v" * (n * 3), (("h", b"x"),) * (n % 3))
    batch = builder.build()
    for _ in range(chance.randrange(1, 4)):
        batch[chance.randrange(HEADER_BYTES, len(batch))] = chance.choice([0, 1, 2, 127, 128, 255])
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    directory = write(tmp_path / "t-0", [batch])
    try:
        expected: Rows | None = sorted(tuple(r) for r in open_partition(directory).records())
    except KafkaError:
        expected = None
    place = r"00000000000000000000\.log, position 0, offsets 0 to 39"
    with suppress(CorruptSegment) if expected is None else nullcontext():
        found = rows(opened(directory))
        assert expected is not None, "kwire's own reader refuses these records"
        assert found == [(o, t, k, v, _as_java(h)) for o, t, k, v, h in expected if 0 <= o < 40]
        return
    with pytest.raises(CorruptSegment, match=place):
        rows(opened(directory))


def _as_java(headers: Any) -> Any:
    """Headers whose names aren't UTF-8 as Java's connector shows them."""
    text = [(k.encode(errors="surrogateescape").decode(errors="replace"), v) for k, v in headers]
    return tuple(text)


def _flip(batch: bytearray) -> bytearray:
    batch[-1] ^= 1
    return batch


def _old(batch: bytearray) -> bytearray:
    batch[16] = 1
    return batch


def _garbage(batch: bytearray) -> bytearray:
    return bytearray(b"\x07" * len(batch))


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (_flip, "offsets 10 to 19: the checksum is wrong"),
        (_old, "message format v1, which Kafka 4 no longer reads"),
        (_garbage, "no batch begins here"),
    ],
)
def test_damage_is_named_with_its_place(
    tmp_path: Path, damage: Callable[[bytearray], bytearray], text: str
) -> None:
    """File and position stand in one line; what isn't asked for isn't touched."""
    first, third = simple(0, 10), simple(20, 10)
    directory = write(tmp_path / "data", [])
    (directory / "replication-offset-checkpoint").write_text("0\n1\nt 0 30\n")
    part = write(directory / "t-0", [first, damage(simple(10, 10)), third])
    options = opened(part)
    with pytest.raises(CorruptSegment, match=text) as caught:
        rows(options)
    assert f"{part / '00000000000000000000.log'}, position {len(first)}" in str(caught.value)
    below = opened(part, endingOffsets='{"t": {"0": 10}}')
    assert [row[0] for row in rows(below)] == list(range(10))


@pytest.mark.parametrize("compression", [1, 2, 3, 4])
def test_a_bomb_is_refused(tmp_path: Path, compression: int) -> None:
    """A batch may not decompress to more than maxBatchBytes."""
    builder = BatchBuilder(0)
    builder.add(1, b"k", bytes(5_000_000))
    directory = write(tmp_path / "t-0", [builder.build(compression=compression)])
    with pytest.raises(CorruptSegment, match="decompress to more than 1000000 bytes"):
        rows(opened(directory, maxBatchBytes="1000000"))
    assert len(rows(opened(directory))) == 1


def test_an_open_segment_outlives_its_file(tmp_path: Path) -> None:
    """The descriptor is held from the first to the last row."""
    directory = segmented(tmp_path)
    made, options = planned(directory)
    reads = [read_task(task, options) for task in made]
    started = [next(read).num_rows for read in reads]
    shutil.rmtree(directory)
    directory.mkdir()
    assert started == [10, 10, 10]
    assert list(reads[0]) == []


def test_a_segment_that_is_being_deleted_is_still_read(tmp_path: Path) -> None:
    """Retention renames a file a minute before it removes it; then the loss is an error."""
    directory = segmented(tmp_path)
    made, options = planned(directory)
    first = list_segments(directory).path(0)
    first.rename(first.with_name(first.name + ".deleted"))
    assert offsets(made, options) == list(range(30))
    first.with_name(first.name + ".deleted").unlink()
    with pytest.raises(LostRecords, match="begins at offset 10, and the offsets 0 to 9 were to be"):
        offsets(made, options)
    made, options = planned(directory, failOnDataLoss="false")
    assert offsets(made, options) == list(range(10, 30))
    later = [Task(task.partition, 0, 20, 0, 0) for task in made[:1]]
    assert offsets(later, options) == list(range(10, 20))


def test_a_compaction_meanwhile_neither_doubles_nor_loses(tmp_path: Path) -> None:
    """The tasks' positions are wrong afterwards, their offsets aren't."""
    directory = segmented(tmp_path)
    made, options = planned(directory)
    builder = BatchBuilder(0)
    for offset in (3, 9, 14):
        builder.add(1_700_000_000_000, b"k", b"v", offset=offset)
    cleaned = builder.build(last_offset_delta=19)
    swap = directory / f"{0:020d}.log.swap"
    swap.write_bytes(cleaned)
    (directory / f"{0:020d}.log").unlink()
    assert offsets(made, options) == [3, 9, *range(10, 30)]
    (directory / f"{10:020d}.log").unlink()
    swap.rename(directory / f"{0:020d}.log")
    assert offsets(made, options) == [3, 9, 14, *range(20, 30)]


def test_an_end_that_is_missing_is_an_error(tmp_path: Path) -> None:
    """A copy may have a checkpoint that is newer than its segments, or a cut file."""
    directory = segmented(tmp_path)
    made, options = planned(directory)
    last = list_segments(directory).path(20)
    whole = last.read_bytes()
    last.write_bytes(whole[:-5])
    with pytest.raises(CorruptSegment, match="position 0: a batch is cut short"):
        offsets(made, options)
    last.write_bytes(b"")
    with pytest.raises(LostRecords, match="ends at offset 20, and the offsets 20 to 29"):
        offsets(made, options)
    last.write_bytes(whole + bytes(5000))  # preallocated
    assert offsets(made, options) == list(range(30))


def test_another_topic_of_the_same_name_is_an_error(tmp_path: Path) -> None:
    """Between planning and reading as well."""
    directory = segmented(tmp_path)
    metadata = directory / "partition.metadata"
    metadata.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    made, options = planned(directory)
    metadata.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg")
    with pytest.raises(OtherTopic, match="its id is AAAAAAAAAAAAAAAAAAAAAg"):
        offsets(made, options)


def test_bounds_of_times_leave_out_rows(tmp_path: Path) -> None:
    """Rows outside of the bounds aren't given to Spark."""
    directory = segmented(tmp_path)
    made, options = planned(directory)
    bounds = Bounds(first_timestamp=1_700_000_000_005, end_timestamp=1_700_000_000_012)
    assert [row[0] for row in taken(made, options, bounds)] == list(range(5, 12))


def test_a_directory_that_goes_away_is_an_error(tmp_path: Path) -> None:
    """In one line."""
    directory = segmented(tmp_path)
    made, options = planned(directory)
    shutil.rmtree(directory)
    with pytest.raises(SegmentsError, match="was removed while it was read"):
        offsets(made, options)
