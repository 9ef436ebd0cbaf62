"""A partition with followers on its leader, without a broker, for tests."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from kwire.broker.broker import Broker
from kwire.broker.delayed_produce import DelayedProduce
from kwire.broker.flusher import Flusher
from kwire.broker.replica.leader_partition import InSyncUpdates, LeaderPartition
from kwire.errors import ErrorCode
from kwire.log.disk import Disk
from kwire.log.log_config import LogConfig
from kwire.log.recovery import open_log
from kwire.metadata.image import PartitionImage
from kwire.record.records import BatchBuilder

NOW_MS = 1_700_000_000_000
LEADER = 1
EPOCH = 3
BROKER_EPOCH = 7
"""The epoch with which every broker is registered."""

ROW = PartitionImage(LEADER, EPOCH, (1, 2, 3), (1, 2, 3))


class Brokers:
    """The other brokers as a leader sees them; ``asked`` are the partitions that want changes."""

    def __init__(self) -> None:
        self.inactive: set[int] = set()
        self.asked: list[LeaderPartition] = []

    is_cut_off = False

    def refuses(self, partition: LeaderPartition, required_acks: int) -> bool:
        """Everything, while cut off."""
        return self.is_cut_off

    def is_active(self, node_id: int) -> bool:
        """Whether the broker is there."""
        return node_id not in self.inactive

    def is_eligible(self, node_id: int, broker_epoch: int) -> bool:
        """Whether the broker is there with this epoch."""
        return node_id not in self.inactive and broker_epoch == BROKER_EPOCH

    def wanted(self, partition: LeaderPartition) -> None:
        """Note who asks."""
        self.asked.append(partition)


class Syncs:
    """In place of the flusher: nothing is flushed by itself."""

    def demand(self, _partition: object) -> str:
        """Promise a flush."""
        return "later"


class NotedProduce(DelayedProduce):
    """A request that waits; ``told`` is what it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[int, object]] = []

    def done(self, slot: int, error: ErrorCode | None = None) -> None:
        """Note the outcome."""
        self.told.append((slot, error))
        super().done(slot, error)


def leader(
    directory: Path,
    row: PartitionImage = ROW,
    *,
    records: int = 0,
    index: int = 0,
    updates: InSyncUpdates | None = None,
    **settings: Any,
) -> tuple[LeaderPartition, Brokers]:
    """A leader whose log has so many records of earlier epochs, and the brokers around it."""
    brokers = Brokers()
    config = LogConfig(**settings)
    log = open_log(
        directory / f"t-{index}",
        "t",
        index,
        config,
        disk=Disk(),
        now_ms=NOW_MS,
        clean=True,
        topic_id=bytes(16),
    )
    for _ in range(records):
        log.append(batch(), leader_epoch=EPOCH - 1, now_ms=NOW_MS)
    log.leader_epochs.assign(EPOCH, log.log_end_offset)
    partition = LeaderPartition(
        "t",
        index,
        bytes(16),
        log,
        EPOCH,
        cast(Flusher, Syncs()),
        LEADER,
        row,
        updates=updates or brokers,
    )
    partition.configure(config)
    return partition, brokers


def lead(broker: Broker, topic: str, index: int = 0, min_isr: int = 2) -> LeaderPartition:
    """A leader with followers takes the place of a broker's partition, with the same log."""
    served = broker.replica_manager
    before = served.partition(topic, index)
    partition = LeaderPartition(
        topic,
        index,
        before.topic_id,
        before.log,
        before.leader_epoch,
        broker.flusher,
        LEADER,
        ROW._replace(leader_epoch=before.leader_epoch),
        updates=Brokers(),
        high_watermark=before.high_watermark,
    )
    partition.configure(replace(before.log.config, min_insync_replicas=min_isr))
    served.host(partition)
    return partition


def batch(count: int = 1) -> bytearray:
    """A batch of so many records."""
    builder = BatchBuilder()
    for _ in range(count):
        builder.add(NOW_MS, None, b"value")
    return builder.build()


def append(partition: LeaderPartition, count: int = 1, acks: int = -1) -> int:
    """Append one batch of so many records; the log end offset afterwards."""
    partition.append(batch(count), now_ms=NOW_MS, required_acks=acks)
    return partition.log.log_end_offset


def follow(
    partition: LeaderPartition, node_id: int, end_offset: int = -1, epoch: int = BROKER_EPOCH
) -> None:
    """A follower fetches from an offset on; by default, from the log's end."""
    if end_offset < 0:
        end_offset = partition.log.log_end_offset
    partition.followed(partition.follower(node_id, names_epoch=True), end_offset, 0, epoch)
