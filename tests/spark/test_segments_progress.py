"""How far a stream over segments goes: limits, new and lost partitions, and what was deleted."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from kwire.log.disk import Disk
from kwire.log.partition_metadata import write_topic_id
from kwire.record.records import BatchBuilder
from kwire.spark.segments.errors import LostRecords, OtherTopic
from kwire.spark.segments.options import read_options
from kwire.spark.segments.progress import Follower, Progress
from kwire.spark.settings import WrongSetting


class Data:
    """A data directory whose partitions have segments of ten records, in batches of five."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ends: dict[str, int] = {}
        path.mkdir()

    def write(self, name: str, *bases: int, topic_id: bytes = b"") -> Path:
        """Add segments to a partition, and its new high watermark to the checkpoint."""
        directory = self.path / name
        directory.mkdir(exist_ok=True)
        for base in bases:
            file = directory / f"{base:020d}.log"
            file.write_bytes(b"".join(_batch(at) for at in (base, base + 5)))
        if topic_id:
            write_topic_id(directory, topic_id, Disk())
        self.ends[name] = bases[-1] + 10
        self.checkpoint()
        return directory

    def checkpoint(self, **ends: int) -> None:
        """Write the high watermarks; those given are others than the log's ends."""
        lines = [
            f"{name.rpartition('-')[0]} {name.rpartition('-')[2]} {end}"
            for name, end in (self.ends | {f"{one}-0": end for one, end in ends.items()}).items()
        ]
        text = "\n".join(["0", str(len(lines)), *lines, ""])
        (self.path / "replication-offset-checkpoint").write_text(text)

    def retain(self, name: str, first: int) -> None:
        """Remove the segments below an offset, as retention does after a minute."""
        for file in (self.path / name).glob("*.log"):
            if int(file.stem) < first:
                file.unlink()

    def follower(self, **options: str) -> Follower:
        """What a stream that begins at the log start offsets asks."""
        given = {"path": str(self.path), "startingOffsets": "earliest", **options}
        return Follower(read_options(given, is_stream=True))


@pytest.fixture
def data(tmp_path: Path) -> Data:
    """An empty data directory."""
    return Data(tmp_path / "data")


def _batch(base: int) -> bytes:
    builder = BatchBuilder(base)
    for n in range(5):
        builder.add(1_700_000_000_000 + base + n, b"k", b"v")
    return bytes(builder.build())


def offsets(progress: Progress) -> dict[str, dict[str, int]]:
    """Without the topics' ids."""
    return {topic: entry["offsets"] for topic, entry in progress.items()}


def read(follower: Follower, start: Progress, end: Progress) -> list[tuple[str, int, int]]:
    """Partition, first and end offset of each task."""
    return [
        (task.partition.directory.name, task.first, task.end) for task in follower.tasks(start, end)
    ]


def test_new_partitions_and_topics_are_read_from_their_start(data: Data) -> None:
    """Where they begin, which needn't be offset 0; also for a stream that began at the end."""
    data.write("a-0", 0, 10)
    follower = data.follower(startingOffsets="latest")
    start = follower.initial()
    assert offsets(start) == {"a": {"0": 20}}
    data.write("a-1", 0)
    data.write("b-0", 30)
    end = follower.latest(start)
    assert offsets(end) == {"a": {"0": 20, "1": 10}, "b": {"0": 40}}
    assert read(follower, start, end) == [("a-1", 0, 10), ("b-0", 30, 40)]
    assert read(follower, end, follower.latest(end)) == []


def test_deleted_offsets_that_were_not_read(data: Data) -> None:
    """They stop the stream; with failOnDataLoss=false it goes on with what is there."""
    data.write("a-0", 0, 10, 20)
    follower, lenient = data.follower(), data.follower(failOnDataLoss="false")
    start = follower.latest(follower.initial(), max_records=10)
    assert offsets(start) == {"a": {"0": 10}}
    data.retain("a-0", 10)
    assert read(follower, start, follower.latest(start)) == [("a-0", 10, 20), ("a-0", 20, 30)]
    data.retain("a-0", 20)
    end = follower.latest(start)
    with pytest.raises(LostRecords, match="begins at offset 20, and the stream has read up to 10"):
        follower.tasks(start, end)
    assert read(lenient, start, end) == [("a-0", 20, 30)]
    data.write("a-0", 30)
    data.retain("a-0", 30)
    assert read(lenient, start, end) == [], "a batch that was planned, all of which is gone"
    assert read(lenient, end, lenient.latest(end)) == [("a-0", 30, 40)]


@pytest.mark.parametrize("named", [{}, {"topics": "a,b"}, {"pattern": "[ab]"}])
@pytest.mark.parametrize("gone", ["a-1", "b-0"])
def test_a_partition_that_is_gone(data: Data, gone: str, named: dict[str, str]) -> None:
    """It or its topic stops the stream, or others go on; its place is kept if it comes back."""
    for name in ("a-0", "a-1", "b-0"):
        data.write(name, 0, 10)
    follower = data.follower(**named)
    lenient = data.follower(failOnDataLoss="false", **named)
    start = follower.latest(follower.initial())
    aside = data.path.with_name("aside")
    shutil.move(data.path / gone, aside)
    data.write("a-0", 20)
    topic, _, number = gone.partition("-")
    said = f"has no partition {number} of the topic {topic} any more"
    with pytest.raises(LostRecords, match=said):
        follower.latest(start)
    with pytest.raises(LostRecords, match=said):
        follower.tasks(start, start)
    end = lenient.latest(start)
    assert offsets(end) == {"a": {"0": 30, "1": 20}, "b": {"0": 20}}
    assert read(lenient, start, end) == [("a-0", 20, 30)]
    assert lenient.latest({}, target=end), "as a restart with the trigger availableNow asks"
    shutil.move(aside, data.path / gone)
    data.write(gone, 20)
    assert read(lenient, end, lenient.latest(end)) == [(gone, 20, 30)]


def test_a_new_stream_needs_its_topics(data: Data) -> None:
    """A name with a mistake would otherwise be a stream that never has a record."""
    data.write("a-0", 0)
    with pytest.raises(WrongSetting, match="topics = 'b'"):
        data.follower(topics="a,b", failOnDataLoss="false").initial()


def test_a_topic_that_was_created_again(data: Data) -> None:
    """It is known by its id, and no option goes on with it."""
    data.write("a-0", 0, topic_id=bytes(15) + b"1")
    follower = data.follower(failOnDataLoss="false")
    start = follower.latest(follower.initial())
    shutil.rmtree(data.path / "a-0")
    data.write("a-0", 0, 10, 20, topic_id=bytes(15) + b"2")
    with pytest.raises(OtherTopic, match="The topic a was created again"):
        follower.latest(start)
    with pytest.raises(OtherTopic, match="The topic a was created again"):
        follower.tasks(start, start)


def test_offsets_never_go_back(data: Data) -> None:
    """A checkpoint of high watermarks may, after a broker was killed."""
    data.write("a-0", 0, 10)
    follower = data.follower()
    start = follower.latest(follower.initial())
    data.checkpoint(a=10)
    assert follower.latest(start) == start
    assert follower.tasks(start, follower.latest(start)) == []


@pytest.mark.parametrize("limit", [{"max_records": 9}, {"max_bytes": 300}])
def test_a_limit_is_shared_and_everything_is_read(data: Data, limit: dict[str, Any]) -> None:
    """In proportion to what partitions have; whole batches by bytes; segments roll meanwhile."""
    data.write("a-0", 0, 10)
    data.write("a-1", 0)
    follower = data.follower()
    place = follower.initial()
    found: list[tuple[str, int, int]] = []
    steps = 0
    while (end := follower.latest(place, **limit)) != place:
        made = read(follower, place, end)
        sizes = {name: 0 for name, _, _ in made}
        for name, first, stop in made:
            sizes[name] += stop - first
        assert sum(sizes.values()) <= 10
        assert steps or sizes["a-0"] >= sizes["a-1"] > 0
        found += made
        place = end
        steps += 1
        if steps == 2:
            data.write("a-0", 20)
    assert steps >= 4
    assert sorted((name, n) for name, first, stop in found for n in range(first, stop)) == [
        *(("a-0", n) for n in range(30)),
        *(("a-1", n) for n in range(10)),
    ]


def test_a_target_bounds_the_last_batch(data: Data) -> None:
    """With availableNow: what came later, and a partition that is new since then, have to wait."""
    data.write("a-0", 0)
    follower = data.follower()
    target = follower.latest({})
    start = follower.initial()
    data.write("a-0", 10)
    data.write("a-1", 0)
    end = follower.latest(start, target=target)
    assert offsets(end)["a"]["0"] == 10
    assert read(follower, start, end) == [("a-0", 0, 10)]
    assert read(follower, end, follower.latest(end)) == [("a-0", 10, 20), ("a-1", 0, 10)]
