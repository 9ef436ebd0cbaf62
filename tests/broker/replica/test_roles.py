"""What a broker is for a partition, and what becomes of its replicas when that changes."""

import threading
from pathlib import Path
from typing import Any

import pytest

from kwire.broker.broker import Broker
from kwire.broker.partition import Partition
from kwire.broker.replica.follower_partition import FollowerPartition
from kwire.broker.replica.leader_partition import LeaderPartition
from kwire.broker.replica.roles import Role, Touched, may_begin, role_of, touched_by
from kwire.errors import ErrorCode, KafkaError
from kwire.log.checkpoints import HIGH_WATERMARKS, write_offsets
from kwire.log.disk import Disk
from kwire.log.validation import CheckedBatch
from kwire.metadata.changes import (
    Change,
    ConfigChanged,
    PartitionsAdded,
    PartitionsChanged,
    TopicCreated,
    TopicDeleted,
    apply,
)
from kwire.metadata.image import ConfigResourceType, PartitionImage, TopicImage
from kwire.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from kwire.record.batch import RecordBatch
from kwire.record.records import BatchBuilder
from kwire.testing.waiting import until
from tests.broker.following import batch_at
from tests.support.committed_topics import commit_topic
from tests.support.in_process import running_server

ME, OTHER = 1, 2
DATE_MS = 1_700_000_000_000


def row(leader: int, *replicas: int, epoch: int = 3, isr: tuple[int, ...] | None = None) -> Any:
    """A partition's row."""
    return PartitionImage(leader, epoch, replicas, replicas if isr is None else isr, epoch)


@pytest.mark.parametrize(
    ("partition", "role", "may"),
    [
        (row(ME, ME), Role.SOLE, True),
        (row(-1, ME), Role.SOLE, True),
        (row(-1, ME, isr=()), Role.SOLE, False),  # its records are lost
        (row(ME, ME, OTHER), Role.LEADER, True),
        (row(OTHER, ME, OTHER), Role.FOLLOWER, True),
        (row(-1, ME, OTHER, isr=()), Role.FOLLOWER, True),
        (row(OTHER, OTHER), Role.NONE, True),
    ],
)
def test_a_role_follows_from_the_row(partition: PartitionImage, role: Role, may: bool) -> None:
    """And so does whether an empty log may be made."""
    assert role_of(partition, ME) is role
    assert may_begin(partition, ME) is may


def test_a_partition_that_doesnt_exist_has_no_role() -> None:
    """It may have been deleted meanwhile."""
    assert role_of(None, ME) is Role.NONE


def test_changes_say_only_where_to_look() -> None:
    """Each thing once; a change of a broker's settings concerns all topics."""
    topic = TopicImage("t", b"t", (row(ME, ME),), 1)
    kind = ConfigResourceType
    changes: list[Change] = [
        PartitionsChanged(b"u", ((3, row(ME, ME)), (1, row(ME, ME)))),
        PartitionsChanged(b"u", ((3, row(ME, ME)),)),
        TopicCreated(topic),
        PartitionsChanged(b"t", ((0, row(ME, ME)),)),
        PartitionsAdded(b"v", (row(ME, ME),)),
        TopicDeleted(b"w"),
        ConfigChanged(kind.TOPIC, "t", "retention.ms", "1"),
        ConfigChanged(kind.GROUP, "g", "share.auto.offset.reset", "earliest"),
    ]
    partitions: dict[bytes, set[int] | None] = {b"u": {1, 3}, b"t": None, b"v": None}
    expected = Touched(partitions, {b"w": None}, {"t": None})
    assert touched_by(changes) == expected
    changes.append(ConfigChanged(kind.BROKER, "", "log.retention.ms", "1"))
    changes.append(ConfigChanged(kind.TOPIC, "u", "retention.ms", "1"))
    assert touched_by(changes).configs is None


class Roles:
    """The partition t-0 of a broker, in whatever role the test gives it."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    async def create(self) -> None:
        """Create it."""
        await commit_topic(self.broker, "t")

    async def become(self, partition: PartitionImage) -> None:
        """Take another row."""
        topic_id = self.broker.image.topics_by_name["t"].topic_id
        await self.broker.commit(lambda _: [PartitionsChanged(topic_id, ((0, partition),))])

    def append(self, *values: bytes) -> None:
        """Append as its leader, for nobody who waits."""
        builder = BatchBuilder()
        for value in values:
            builder.add(DATE_MS, None, value)
        self.broker.partition("t", 0).append(builder.build(), now_ms=DATE_MS, required_acks=1)

    def hosted(self) -> Any:
        """What is here of it."""
        found = self.broker.hosted()
        return found[0] if found else None


async def test_nobody_appends_in_a_role_that_is_over(tmp_path: Path) -> None:
    """A request that began when the broker had the only replica would be lost, or divide the log.

    It may have checked a large batch in a thread meanwhile.
    """
    async with running_server(tmp_path, {"node.id": str(ME)}) as server:
        roles = Roles(server.broker)
        await roles.create()
        roles.append(b"a")
        sole = roles.hosted()
        await roles.become(row(ME, ME, OTHER, epoch=5, isr=(ME,)))
        await roles.become(row(OTHER, ME, OTHER, epoch=6))
        builder = BatchBuilder()
        builder.add(DATE_MS, None, b"late")
        batch = builder.build()
        for append in (
            lambda: sole.append(batch, now_ms=DATE_MS),
            lambda: sole.append_checked(CheckedBatch(RecordBatch(batch), -1), now_ms=DATE_MS),
            lambda: sole.append_own(bytearray(batch), DATE_MS),
        ):
            with pytest.raises(KafkaError) as refused:
                append()
            assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert roles.hosted().log.log_end_offset == 1


async def test_a_role_is_an_object_and_a_new_one_ends_it(tmp_path: Path) -> None:
    """Who waits for the old one looks again; handlers see only what is led here."""
    async with running_server(tmp_path, {"node.id": str(ME)}) as server:
        roles = Roles(server.broker)
        await roles.create()
        roles.append(b"a", b"b")
        sole = roles.hosted()
        assert type(sole) is Partition
        await roles.become(row(ME, ME, epoch=4))
        assert roles.hosted() is sole
        assert (sole.leader_epoch, sole.log.leader_epochs.entries[-1]) == (4, (4, 2))
        await roles.become(row(ME, ME, OTHER, epoch=5, isr=(ME,)))
        led = roles.hosted()
        assert isinstance(led, LeaderPartition)
        assert sole.is_deleted
        assert led.high_watermark == 2
        await roles.become(row(OTHER, ME, OTHER, epoch=6))
        followed = roles.hosted()
        assert isinstance(followed, FollowerPartition)
        assert led.is_deleted
        assert (followed.leader, followed.leader_epoch, followed.high_watermark) == (OTHER, 6, 2)
        assert followed.log.leader_epochs.latest == 5
        with pytest.raises(KafkaError) as refused:
            server.broker.partition("t", 0)
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert server.broker.partitions() == []
        assert server.broker.fetchers.leaders == [OTHER]
        await roles.become(row(-1, ME, OTHER, epoch=7))
        assert roles.hosted() is followed
        assert (followed.leader, followed.leader_epoch) == (-1, 7)
        await roles.become(row(ME, ME, OTHER, epoch=8))
        again = roles.hosted()
        assert isinstance(again, LeaderPartition)
        assert (again.high_watermark, again.epoch_start) == (2, 2)
        assert again.log.leader_epochs.entries[-1] == (8, 2)


async def test_an_unclean_leader_says_what_may_be_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """P7: once, with the offset from which on records are lost; a clean leader says nothing."""
    async with running_server(tmp_path, {"node.id": str(ME)}) as server:
        roles = Roles(server.broker)
        await roles.create()
        roles.append(b"a", b"b")
        await roles.become(row(OTHER, ME, OTHER, epoch=4))
        await roles.become(row(ME, ME, OTHER, epoch=5))
        await roles.become(row(OTHER, ME, OTHER, epoch=6))
        assert "unclean" not in caplog.text
        unclean = row(ME, ME, OTHER, epoch=7, isr=(ME,))._replace(is_recovering=True)
        await roles.become(unclean)
        [line] = [one for one in caplog.messages if "unclean" in one]
        assert line.startswith("t-0 is led by a replica that may lack records")
        assert "records from offset 2 on" in line


class SyncsOnTheLoop(Disk):
    """Notes what is synced while all tasks have to wait for it."""

    def __init__(self) -> None:
        self.noted: list[str] = []

    def sync(self, fd: int) -> None:
        """Sync a file."""
        self._note("sync")
        super().sync(fd)

    def sync_directory(self, path: Path) -> None:
        """Sync a directory."""
        self._note("sync_directory")
        super().sync_directory(path)

    def _note(self, what: str) -> None:
        if threading.current_thread() is threading.main_thread():
            self.noted.append(what)


async def test_roles_are_taken_without_a_sync(tmp_path: Path) -> None:
    """No sync of a disk holds the event loop up while thousands of partitions change leaders."""
    disk, taken = SyncsOnTheLoop(), []
    async with running_server(tmp_path, {"node.id": str(ME)}, disk) as server:
        roles = Roles(server.broker)
        await roles.create()
        roles.append(b"a")
        disk.noted.clear()
        for leader, epoch in ((ME, 4), (OTHER, 5), (ME, 6)):
            isr = {"isr": (ME,)} if epoch == 4 else {}
            await roles.become(row(leader, ME, OTHER, epoch=epoch, **isr))
            taken.append(type(roles.hosted()))
        assert disk.noted == []
    assert taken == [LeaderPartition, FollowerPartition, LeaderPartition]


async def test_a_replica_that_is_given_to_others_is_deleted(tmp_path: Path) -> None:
    """And made anew, empty, if it is given back."""
    async with running_server(tmp_path, {"node.id": str(ME)}) as server:
        roles = Roles(server.broker)
        await roles.create()
        roles.append(b"a")
        await roles.become(row(OTHER, OTHER, epoch=4))
        assert roles.hosted() is None
        assert server.broker.log_manager.logs == {}
        assert not (tmp_path / "t-0").exists()
        await roles.become(row(OTHER, OTHER, ME, epoch=5, isr=(OTHER,)))
        assert roles.hosted().log.log_end_offset == 0


async def test_a_role_ends_before_its_log_is_deleted(tmp_path: Path) -> None:
    """The logs of many replicas that are moved away take a while; nobody is served meanwhile."""
    async with running_server(tmp_path, {"node.id": str(ME)}) as server:
        roles = Roles(server.broker)
        await roles.create()
        led, served = roles.hosted(), server.broker.replica_manager
        topic_id = server.broker.image.topics_by_name["t"].topic_id
        changes = [PartitionsChanged(topic_id, ((0, row(OTHER, OTHER, epoch=4)),))]
        image = apply(server.broker.image, changes, server.broker.image.revision + 1)
        await served.take_roles(image, changes)
        assert led.is_deleted
        assert roles.hosted() is None
        assert (tmp_path / "t-0").exists()
        await served.publish(image, changes)
        assert not (tmp_path / "t-0").exists()


async def test_a_follower_is_kept_like_any_log(tmp_path: Path) -> None:
    """Shown by DescribeLogDirs, given new settings, and its watermark checkpointed."""
    async with running_server(tmp_path, {"node.id": str(ME)}) as server:
        broker = server.broker
        roles = Roles(broker)
        await roles.create()
        roles.append(b"a", b"b")
        await roles.become(row(OTHER, ME, OTHER, epoch=4))
        followed = roles.hosted()
        kind = ConfigResourceType.TOPIC
        await broker.commit(lambda _: [ConfigChanged(kind, "t", "retention.bytes", "77")])
        assert followed.log.config.retention_bytes == 77
        assert broker.high_watermarks() == {("t", 0): 2}
        client = await server.connect()
        request = DescribeLogDirsRequest(topics=None)
        [found] = (await client.request(request, 4, DescribeLogDirsResponse)).results
        [topic] = found.topics
        assert topic.partitions[0].partition_size == followed.log.size_bytes


async def test_the_high_watermark_is_read_at_the_start(tmp_path: Path) -> None:
    """Never beyond the log's end, and only where others have replicas."""
    settings = {"node.id": str(ME)}
    async with running_server(tmp_path, settings) as server:
        roles = Roles(server.broker)
        await roles.create()
        roles.append(b"a", b"b", b"c")
        await roles.become(row(OTHER, ME, OTHER, epoch=4))
        roles.hosted().high_watermark = 1
    async with running_server(tmp_path, settings) as server:
        assert Roles(server.broker).hosted().high_watermark == 1
    write_offsets(tmp_path / HIGH_WATERMARKS, {("t", 0): 9}, server.broker.log_manager.disk)
    async with running_server(tmp_path, settings) as server:
        roles = Roles(server.broker)
        assert roles.hosted().high_watermark == 3
        await roles.become(row(ME, ME, epoch=5))
        assert roles.hosted().high_watermark == 3
    write_offsets(tmp_path / HIGH_WATERMARKS, {("t", 0): 1}, server.broker.log_manager.disk)
    async with running_server(tmp_path, settings) as server:
        assert Roles(server.broker).hosted().high_watermark == 3


async def test_a_new_leader_shows_what_was_flushed_for_the_follower(tmp_path: Path) -> None:
    """Consumers and coordinators don't wait for the next append (flush.messages)."""
    settings = {"node.id": str(ME), "log.flush.interval.messages": "1"}
    async with running_server(tmp_path, settings) as server:
        roles = Roles(server.broker)
        await roles.create()
        await roles.become(row(OTHER, ME, OTHER, epoch=4))
        roles.hosted().append(batch_at(0, b"a", epoch=4), DATE_MS)
        await roles.become(row(ME, ME, OTHER, isr=(ME,), epoch=5))
        roles.hosted().log.flush(0)  # the follower's, which was under way
        await until(lambda: roles.hosted().high_watermark == 1, what="the high watermark")


async def test_a_role_doesnt_change_while_a_thread_cuts(tmp_path: Path) -> None:
    """Its leader would lead a log that changes under it."""
    async with running_server(tmp_path, {"node.id": str(ME)}) as server:
        roles = Roles(server.broker)
        await roles.create()
        await roles.become(row(-1, ME, OTHER, epoch=4))
        followed = roles.hosted()
        followed.begin_cut()
        assert server.broker.stable_offset(("t", 0)) is None
        ends = []

        def end() -> None:
            ends.append(roles.hosted() is followed)
            followed.end_cut()

        server.broker.do_afterwards(end)
        await roles.become(row(ME, ME, OTHER, epoch=5))
        assert ends == [True]
        assert isinstance(roles.hosted(), LeaderPartition)
