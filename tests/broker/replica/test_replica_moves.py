"""Replicas move between the data directories of a broker, while clients go on."""

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from kwire.broker.replica.replica_moves import RATE
from kwire.errors import ErrorCode
from kwire.log.disk import Disk
from kwire.metadata.changes import ConfigChanged
from kwire.metadata.controller import delete_topic
from kwire.metadata.image import ConfigResourceType
from kwire.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from kwire.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from kwire.record.batch import complete_batches
from kwire.record.records import ProducerState
from kwire.testing.faulty_disk import FaultyDisk
from kwire.testing.waiting import until
from tests.broker.replicated import FOLLOWERS, create_replicated, follow, led, move
from tests.support.in_process import RawClient, RunningServer, running_server

PLACES = ("a", "b")
SETTINGS = {"node.id": "1"}
FEW = "10"
"""Bytes per second: a first batch is copied, and the second one has to wait for seconds."""


class Moving:
    """A broker with two data directories, and a topic of two partitions."""

    def __init__(self, path: Path, running: RunningServer, raw: RawClient) -> None:
        self.path = path
        self.running = running
        self.broker = running.broker
        self.raw = raw
        self.sequence = 0

    async def create(self, name: str = "t") -> None:
        """Create a topic of two partitions, one in each directory."""
        await self.raw.topic(name, partitions=2)

    async def limit(self, rate: str | None) -> None:
        """Set how many bytes per second are copied; None: as fast as it goes."""
        change = ConfigChanged(ConfigResourceType.BROKER, "", RATE, rate)
        await self.broker.commit(lambda _: [change])

    def place(self, index: int = 0, topic: str = "t") -> str:
        """The data directory of a replica."""
        replica = self.broker.replica(topic, index)
        assert replica is not None
        return replica.log.directory.parent.name

    def other(self, index: int = 0, topic: str = "t") -> str:
        """The directory where it isn't."""
        return next(place for place in PLACES if place != self.place(index, topic))

    async def alter(self, place: str, index: int = 0, topic: str = "t", version: int = 2) -> int:
        """Ask for a directory; the error code."""
        request = AlterReplicaLogDirsRequest(
            dirs=[
                AlterReplicaLogDir(
                    path=str(self.path / place),
                    topics=[AlterReplicaLogDirTopic(name=topic, partitions=[index])],
                )
            ]
        )
        response = await self.raw.request(request, version, AlterReplicaLogDirsResponse)
        [result] = response.results
        assert result.topic_name == topic
        [partition] = result.partitions
        assert partition.partition_index == index
        return partition.error_code

    async def described(self, place: str, topic: str = "t") -> dict[int, DescribeLogDirsPartition]:
        """What DescribeLogDirs says of a directory."""
        response = await self.raw.request(
            DescribeLogDirsRequest(topics=None), 4, DescribeLogDirsResponse
        )
        [found] = [one for one in response.results if one.log_dir == str(self.path / place)]
        named = [one for one in found.topics if one.name == topic]
        return {one.partition_index: one for one in named[0].partitions} if named else {}

    async def produce(self, count: int, index: int = 0, topic: str = "t", acks: int = -1) -> None:
        """Append numbered records, each in a batch of an idempotent producer."""
        for _ in range(count):
            fields = {"producer": ProducerState(77, 0, self.sequence), "partition": index}
            value = b"%d" % self.sequence
            answer = await self.raw.produce(topic, value, key=b"k", acks=acks, **fields)
            assert answer.base_offset == self.sequence
            self.sequence += 1

    def offsets(self, index: int = 0, topic: str = "t") -> list[int]:
        """The offsets of everything in a log."""
        replica = self.broker.replica(topic, index)
        assert replica is not None
        log, found = replica.log, []
        for segment in log.segments:
            content = segment.file().pread(segment.size_bytes, 0)
            found += [batch.base_offset for batch in complete_batches(bytearray(content))]
        return found


@asynccontextmanager
async def moving(
    path: Path, disk: Disk | None = None, *, create: bool = True
) -> AsyncIterator[Moving]:
    """A broker on the directories a and b."""
    settings = {**SETTINGS, "log.dirs": ",".join(str(path / place) for place in PLACES)}
    async with running_server(path, settings, disk=disk) as running:
        raw = await running.connect()
        made = Moving(path, running, raw)
        if create:
            await made.create()
        yield made
        await raw.aclose()


@pytest.mark.parametrize("version", [1, 2])
async def test_a_partition_moves_while_it_is_written(tmp_path: Path, version: int) -> None:
    """No request fails, nothing is lost or doubled, and the next start finds it."""
    async with moving(tmp_path) as one:
        await one.produce(100)
        target = one.other()
        assert await one.alter(target, version=version) == ErrorCode.NONE
        while one.place() != target:
            await one.produce(1)
        await one.produce(10)
        count = one.sequence
        assert one.offsets() == list(range(count))
        await until(lambda: not one.broker.replica_moves.all(), what="the end of the move")
        found = await one.described(target)
        assert not found[0].is_future_key
        assert 0 not in await one.described(one.other())
    async with moving(tmp_path, create=False) as one:
        assert one.place() == target
        assert one.offsets() == list(range(count))


async def test_a_move_is_described_until_it_ends(tmp_path: Path) -> None:
    """The copy is a future replica, with its lag (KIP-113)."""
    disk, may_end = FaultyDisk(), threading.Event()

    def hold(path: Path) -> None:
        is_copy = path.suffix == ".log" and path.parent.name.endswith("-future")
        assert not is_copy or may_end.wait(60)

    disk.before_sync = hold
    async with moving(tmp_path, disk) as one:
        await one.produce(20)
        target = one.other()
        assert await one.alter(target) == ErrorCode.NONE
        await until(lambda: one.broker.replica_moves.all()[0].offset_lag == 0, what="the copy")
        future = (await one.described(target))[0]
        assert future.is_future_key
        assert future.offset_lag == 0
        current = (await one.described(one.place()))[0]
        assert not current.is_future_key
        assert future.partition_size == current.partition_size
        may_end.set()
        await until(lambda: one.place() == target, what="the move")


async def test_another_request_gives_a_move_up(tmp_path: Path) -> None:
    """A request for the directory where the replica is."""
    async with moving(tmp_path) as one:
        await one.limit("0")
        place, target = one.place(), one.other()
        await one.produce(20)
        await one.alter(target)
        await one.alter(target)
        assert len(one.broker.replica_moves.all()) == 1
        assert await one.alter(place) == ErrorCode.NONE
        assert not (await one.described(target)).get(0)
        await until(lambda: not list((tmp_path / target).glob("*-future")), what="no copy")
        assert one.place() == place


async def test_a_deleted_topic_moves_no_more(tmp_path: Path) -> None:
    """Its copy goes, and a new topic of the name begins empty."""
    async with moving(tmp_path) as one:
        await one.limit("0")
        await one.produce(5)
        target = one.other()
        await one.alter(target)
        topic_id = one.broker.image.topics_by_name["t"].topic_id
        await one.broker.commit(lambda image: delete_topic(image, topic_id))
        await until(lambda: not list((tmp_path / target).glob("*-future")), what="no copy")
        await one.create()
        assert one.offsets() == []


async def test_a_partition_that_is_not_here_yet_is_made_there(tmp_path: Path) -> None:
    """REPLICA_NOT_AVAILABLE, as Kafka says, and the directory counts when it comes."""
    async with moving(tmp_path) as one:
        await create_replicated(one.broker, "r")
        log_manager = one.broker.log_manager
        assert await one.alter("a", index=7) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for place in PLACES:
            log_manager.preferred[f"new-{place}", 0] = tmp_path / place
            log_manager.preferred[f"new-{place}", 1] = tmp_path / place
            await one.create(f"new-{place}")
            assert {one.place(index, f"new-{place}") for index in (0, 1)} == {place}
        assert not log_manager.preferred


async def test_mistakes(tmp_path: Path) -> None:
    """Kafka's errors, one for each partition."""
    async with moving(tmp_path, FaultyDisk()) as one:
        assert await one.alter("c") == ErrorCode.LOG_DIR_NOT_FOUND
        assert await one.alter("a", topic="nope") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        name = "__cluster_metadata"
        assert await one.alter("a", topic=name) == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert await one.alter(one.place()) == ErrorCode.NONE
        assert not one.broker.replica_moves.all()
        target = one.other()
        for data in one.broker.log_manager.data_directories:
            if data.path.name == target:
                data.health.fail("broken", OSError("by the test"))
        assert await one.alter(target) == ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_leader_with_followers_moves(tmp_path: Path) -> None:
    """Its followers, its high watermark and its epoch stay; so does a follower's role."""
    async with moving(tmp_path) as one:
        await create_replicated(one.broker, "r")
        partition = led(one.broker, "r")
        await one.produce(30, topic="r", acks=1)
        follow(partition)
        target = one.other(topic="r")
        assert await one.alter(target, topic="r") == ErrorCode.NONE
        await until(lambda: one.place(topic="r") == target, what="the move")
        assert led(one.broker, "r") is partition
        assert partition.high_watermark == 30
        await one.produce(5, topic="r", acks=1)
        follow(partition)
        assert partition.high_watermark == 35
        await move(one.broker, "r", FOLLOWERS[0])
        target = one.other(topic="r")
        assert await one.alter(target, topic="r") == ErrorCode.NONE
        await until(lambda: one.place(topic="r") == target, what="the move of a follower")
        assert one.offsets(topic="r") == list(range(35))
        assert one.broker.high_watermarks()["r", 0] == 35


async def test_an_unfinished_move_begins_anew_at_the_next_start(tmp_path: Path) -> None:
    """Without another request, and whatever the copy holds."""
    async with moving(tmp_path) as one:
        await one.limit(FEW)
        await one.produce(20)
        place, target = one.place(), one.other()
        await one.alter(target)
        await until(lambda: one.broker.replica_moves.all()[0].offset_lag < 20, what="a copy")
    [copy] = (tmp_path / target).glob("*-future")
    (copy / "00000000000000000000.log").write_bytes(b"nonsense")
    async with moving(tmp_path, create=False) as one:
        assert one.place() == place
        await one.limit(None)
        await until(lambda: one.place() == target, what="the move")
        assert one.offsets() == list(range(20))


async def test_the_rate_bounds_moves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """replica.alter.log.dirs.io.max.bytes.per.second, set while the broker runs; 0 stops all."""
    pauses: list[float] = []
    sleep = trio.sleep

    async def noted(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(min(seconds, 0.01))

    async with moving(tmp_path) as one:
        await one.produce(50)
        size_bytes = one.broker.partition("t", 0).log.size_bytes
        for rate in ("0", FEW):
            await one.limit(rate)
            if rate == "0":
                target = one.other()
                await one.alter(target)
                monkeypatch.setattr("trio.sleep", noted)
                await until(lambda: 0.05 in pauses, what="a rest")
                assert one.place() != target
        await until(lambda: one.place() == target, what="the move")
        monkeypatch.undo()
    assert max(pauses) > 0.9 * size_bytes / 10
