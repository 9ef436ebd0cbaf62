"""Proposals for in-sync replicas: together in one commit, and again after a refusal."""

from collections.abc import Awaitable
from pathlib import Path

import pytest
import trio
import trio.testing

from kwire.broker.replica.alter_partition_manager import AlterPartitionManager
from kwire.broker.replica.leader_partition import LeaderPartition
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.changes import BrokerChanged, Change, PartitionsChanged, TopicCreated, apply
from kwire.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from tests.broker.leading import BROKER_EPOCH, LEADER, ROW, append, follow, leader

TOPIC_ID = bytes(16)
LAG_MS = 10_000


class Cluster:
    """A leader of some partitions and the metadata log, whose commits may fail.

    ``fails`` is what the next commits do: "refused", "lost" (committed, but nobody knows) or
    "vanished" (not committed, and nobody knows).
    """

    def __init__(self, directory: Path, rows: list[PartitionImage]) -> None:
        self.node_id = LEADER
        self.commits: list[list[Change]] = []
        self.fails: list[str] = []
        self.image = MetadataImage(
            brokers={node: BrokerImage(node, None, (), epoch=BROKER_EPOCH) for node in (1, 2, 3)}
        )
        self.image = apply(
            self.image, [TopicCreated(TopicImage("t", TOPIC_ID, tuple(rows), len(rows)))], 1
        )
        self.updates = AlterPartitionManager(self)
        self.led: list[LeaderPartition] = []
        for index, row in enumerate(rows):
            partition, _ = leader(directory / str(index), row, updates=self.updates, index=index)
            self.led.append(partition)

    def integer(self, _name: str) -> int:
        """The lag time."""
        return LAG_MS

    def partitions(self) -> list[LeaderPartition]:
        """What is led."""
        return self.led

    async def commit(self, decide) -> None:
        """Commit, unless this one is to fail."""
        decided = decide(self.image)
        changes = await decided if isinstance(decided, Awaitable) else decided
        await trio.lowlevel.checkpoint()
        if changes:
            outcome = self.fails.pop(0) if self.fails else ""
            if outcome != "vanished":
                self.take(changes)
            if outcome:
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)

    def take(self, changes: list[Change]) -> None:
        """Whoever commits: the image is newer now."""
        self.commits.append(changes)
        self.image = apply(self.image, changes, self.image.revision + 1)

    def isr(self, index: int = 0) -> tuple[int, ...]:
        """What the log has."""
        return self.image.topics_by_id[TOPIC_ID].partitions[index].isr


@pytest.fixture
async def nursery():
    """Runs what a test starts, until it ends."""
    async with trio.open_nursery() as opened:
        yield opened
        opened.cancel_scope.cancel()


async def pass_s(seconds: float) -> None:
    """Let virtual time pass."""
    with trio.move_on_after(seconds):
        await trio.sleep_forever()


async def test_proposals_that_come_together_are_one_commit(
    tmp_path: Path, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """With one change for a topic, so that its partitions are rebuilt once."""
    cluster = Cluster(tmp_path, [ROW._replace(isr=(1, 2))] * 5)
    nursery.start_soon(cluster.updates.run)
    for partition in cluster.led:
        follow(partition, 3)
    await pass_s(0.01)
    (changes,) = cluster.commits
    (change,) = changes
    assert isinstance(change, PartitionsChanged)
    assert [index for index, _ in change.rows] == [0, 1, 2, 3, 4]
    assert all(partition.in_sync == (1, 2, 3) for partition in cluster.led)
    assert (cluster.updates.expands, cluster.updates.shrinks) == (5, 0)


async def test_who_lags_is_taken_out_in_time(
    tmp_path: Path, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """After one to one and a half times the lag time; not who fetches on."""
    cluster = Cluster(tmp_path, [ROW])
    nursery.start_soon(cluster.updates.run)
    partition = cluster.led[0]
    for number in range(20):
        append(partition)
        follow(partition, 2)
        await pass_s(LAG_MS / 10_000)
        assert number > 10 or cluster.isr() == (1, 2, 3)
    assert cluster.isr() == (1, 2)
    assert partition.high_watermark == 20
    assert cluster.updates.shrinks == 1


@pytest.mark.parametrize("outcome", ["lost", "vanished"])
async def test_an_unknown_outcome_is_settled_by_the_log(
    tmp_path: Path,
    nursery: trio.Nursery,
    autojump_clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
    outcome: str,
) -> None:
    """The follower counts for the high watermark meanwhile, and is in sync in the end, once. One
    line tells of several failures in a row.
    """
    cluster = Cluster(tmp_path, [ROW._replace(isr=(1, 2))])
    cluster.fails = [outcome] * 3
    nursery.start_soon(cluster.updates.run)
    partition = cluster.led[0]
    follow(partition, 3)
    await pass_s(0.01)
    assert partition.maximal_isr == (1, 2, 3)
    append(partition)
    follow(partition, 2)
    assert partition.high_watermark == 0
    await pass_s(4)
    assert cluster.isr() == partition.in_sync == (1, 2, 3)
    assert len(cluster.commits) == 1
    assert sum("isn't known" in line for line in caplog.messages) == 1


async def test_a_proposal_that_vanished_counts_no_more_when_it_is_not_wanted_any_more(
    tmp_path: Path, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """The follower dies meanwhile; the log's next commit, whoever made it, says that it's over."""
    cluster = Cluster(tmp_path, [ROW._replace(isr=(1, 2))])
    cluster.fails = ["vanished"]
    nursery.start_soon(cluster.updates.run)
    partition = cluster.led[0]
    follow(partition, 3)
    await pass_s(0.01)
    append(partition)
    follow(partition, 2)
    cluster.take([BrokerChanged(3, is_fenced=True, is_shutting_down=False)])
    cluster.updates.brokers_changed()
    await pass_s(1)
    assert cluster.isr() == partition.maximal_isr == (1, 2)
    assert partition.high_watermark == 1


async def test_a_broker_that_is_unfenced_joins(
    tmp_path: Path, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """It caught up before; without another record it fetches no more of an idle partition."""
    cluster = Cluster(tmp_path, [ROW._replace(isr=(1, 2))])
    cluster.take([BrokerChanged(3, is_fenced=True, is_shutting_down=False)])
    nursery.start_soon(cluster.updates.run)
    follow(cluster.led[0], 3)
    await pass_s(1)
    assert cluster.isr() == (1, 2)
    cluster.take([BrokerChanged(3, is_fenced=False, is_shutting_down=False)])
    cluster.updates.brokers_changed()
    await pass_s(0.01)
    assert cluster.isr() == (1, 2, 3)


async def test_a_refusal_is_tried_again_by_the_newer_row(
    tmp_path: Path, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """Another broker has changed the partition first."""
    cluster = Cluster(tmp_path, [ROW._replace(isr=(1, 2))])
    row = cluster.image.topics_by_id[TOPIC_ID].partitions[0]
    newer = row._replace(isr=(1,), partition_epoch=row.partition_epoch + 1)
    cluster.take([PartitionsChanged(TOPIC_ID, ((0, newer),))])
    nursery.start_soon(cluster.updates.run)
    follow(cluster.led[0], 3)
    await pass_s(0.01)
    follow(cluster.led[0], 2)
    await pass_s(2)
    assert cluster.isr() == cluster.led[0].in_sync == (1, 2, 3)
    assert cluster.updates.failures == 1


async def test_an_unclean_leader_recovers(
    tmp_path: Path, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """It tells so with its ISR, as soon as it leads."""
    cluster = Cluster(tmp_path, [ROW._replace(isr=(1,), is_recovering=True)])
    nursery.start_soon(cluster.updates.run)
    cluster.led[0].ask_for_isr()
    await pass_s(0.01)
    assert not cluster.image.topics_by_id[TOPIC_ID].partitions[0].is_recovering
    assert not cluster.led[0].row.is_recovering
