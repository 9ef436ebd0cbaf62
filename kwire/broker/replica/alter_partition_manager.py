"""Commits changes of the ISR (in-sync replicas) for the partitions that this broker leads.

Rules:

- A partition reports that it needs a change. One task collects the proposals of all partitions and
  commits them together. It asks a partition for its proposal only when it decides, so that the
  proposal is up to date.
- Every half of ``replica.lag.time.max.ms``, all partitions with followers look for followers that
  lag. When brokers come or go, they look for followers that may join.
- A proposal that was refused, or whose result is unknown, is made again after a pause if the
  partition still wants it. The partition treats it as possibly accepted until the metadata log has
  passed the revision that the proposal would have (``LeaderPartition.withdraw``).
- A broker that is cut off from the metadata store (``controller_lease``) can't know whether another
  broker leads by now. It acknowledges only records that an in-sync follower has: a new leader must
  be one of those followers, and would no longer fetch from this broker. So it refuses acks=0 and
  acks=1. It also refuses appends to partitions whose only in-sync replica is its own, and to
  partitions of which a replica out of sync may become the leader (unclean elections).
- A coordinator that is cut off answers only while every in-sync follower has fetched the partition
  within ``LATELY_S`` (``surely_leads``), which shows that none of them leads.

Source: AlterPartitionManager of Kafka, KIP-497.
"""

import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from itertools import islice
from typing import Protocol

import trio

from kwire.broker.partition import ACKS_ALL, Partition
from kwire.broker.proposals import Decide
from kwire.broker.replica.isr_news import IsrNews
from kwire.broker.replica.leader_partition import LeaderPartition
from kwire.broker.replica.replica_sessions import ReplicaPosition
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.changes import Change, PartitionsChanged
from kwire.metadata.image import MetadataImage, PartitionImage
from kwire.metadata.partition_change import IsrProposal, proposed_isr
from kwire.metadata.replication_configs import ReplicationConfigs

log = logging.getLogger(__name__)

PARTITIONS_PER_COMMIT = 2000
PARTITIONS_PER_TURN = 200
"""How many partitions are handled before other tasks have their turn."""

REST_S = 0.25
"""How long a partition waits after a refusal before it proposes again."""

LATELY_S = 1.0

LONGEST_REST_S = 1.0
"""The longest pause after several failed commits, when the metadata store doesn't answer."""


class IsrView(Protocol):
    """The parts of the broker that the proposals need."""

    node_id: int
    image: MetadataImage

    def integer(self, name: str) -> int:
        """The effective value of a setting that is a whole number."""

    def partitions(self) -> Sequence[Partition]:
        """Every partition that this broker leads."""

    async def commit(self, decide: Decide) -> None:
        """Commit the changes that ``decide`` returns; see ``Commits.commit``."""


class AlterPartitionManager:
    """The proposals of one broker. The task ``run`` has to run.

    The metrics show ``expands``, ``shrinks`` and ``failures``.
    """

    def __init__(self, broker: IsrView) -> None:
        self.expands = self.shrinks = self.failures = 0
        self.is_cut_off = False
        self._broker = broker
        self._news = IsrNews()
        self._asking: dict[LeaderPartition, None] = {}
        self._resting: dict[LeaderPartition, float] = {}
        self._asked = trio.Event()
        self._brokers_changed = trio.Event()
        self._failed_in_row = 0

    def cut_off(self, is_cut_off: bool) -> None:
        """Store whether the broker is cut off from the metadata store."""
        self.is_cut_off = is_cut_off
        if not is_cut_off:
            return
        for partition in self._broker.partitions():
            if isinstance(partition, LeaderPartition) and self.refuses(partition, ACKS_ALL):
                partition.acks.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    # Questions of partitions

    def refuses(self, partition: LeaderPartition, required_acks: int) -> bool:
        """Whether the broker must refuse an append, because it is cut off and the record could be
        lost.
        """
        return (
            required_acks != ACKS_ALL
            or len(partition.maximal_isr) == 1
            or ReplicationConfigs(self._broker.image).allows_unclean(partition.topic)
        )

    def surely_leads(self, partition: LeaderPartition) -> bool:
        """Whether it is certain that no other broker has led this partition for longer than
        ``LATELY_S``.
        """
        if not self.is_cut_off:
            return True
        since_s = trio.current_time() - LATELY_S
        lately = {
            waiter.session.node_id
            for waiter in partition.replica_waiters
            if isinstance(waiter, ReplicaPosition) and waiter.session.asked_s >= since_s
        }
        others = set(partition.maximal_isr) - {self._broker.node_id}
        return bool(others) and others <= lately

    def is_active(self, node_id: int) -> bool:
        """Whether a broker is registered, not fenced, and not shutting down."""
        return self._broker.image.is_active(node_id)

    def is_eligible(self, node_id: int, broker_epoch: int) -> bool:
        """Whether a broker is active and registered with this epoch (KIP-903)."""
        registered = self._broker.image.brokers.get(node_id)
        return registered is not None and registered.is_active and registered.epoch == broker_epoch

    def wanted(self, partition: LeaderPartition) -> None:
        """Commit the proposal of this partition soon."""
        if partition not in self._resting:
            self._asking[partition] = None
            self._asked.set()

    def brokers_changed(self) -> None:
        """Make every partition check which followers may join now."""
        self._brokers_changed.set()

    # The tasks

    async def run(self) -> None:
        """Look for followers that lag, commit proposals, and log changes, forever."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._look_for_lag)
            nursery.start_soon(self._look_at_brokers)
            nursery.start_soon(self._commit_proposals)
            nursery.start_soon(self._news.run)

    async def _look_for_lag(self) -> None:
        while True:
            await trio.sleep(self._broker.integer("replica.lag.time.max.ms") / 2000)
            async for partition in self._led():
                partition.find_lagging_followers()

    async def _look_at_brokers(self) -> None:
        while True:
            await self._brokers_changed.wait()
            self._brokers_changed = trio.Event()
            async for partition in self._led():
                partition.look_at_brokers()

    async def _led(self) -> AsyncIterator[LeaderPartition]:
        """The partitions with followers, one by one; other tasks have their turn in between."""
        for number, partition in enumerate(self._broker.partitions(), 1):
            if number % PARTITIONS_PER_TURN == 0:
                await trio.lowlevel.checkpoint()
            if isinstance(partition, LeaderPartition) and not partition.is_deleted:
                yield partition

    async def _commit_proposals(self) -> None:
        while True:
            with trio.move_on_at(min(self._resting.values(), default=float("inf"))):
                await self._asked.wait()
            self._asked = trio.Event()
            now_s = trio.current_time()
            for partition in [one for one, until_s in self._resting.items() if until_s <= now_s]:
                del self._resting[partition]
                self._asking[partition] = None
            while self._asking:
                some = list(islice(self._asking, PARTITIONS_PER_COMMIT))
                for partition in some:
                    del self._asking[partition]
                await self._commit(some)

    async def _commit(self, partitions: Sequence[LeaderPartition]) -> None:
        """Commit the proposals of these partitions, and report the results to them."""
        proposals = _Proposals(self._broker.node_id, partitions)
        rests: Iterable[LeaderPartition]
        try:
            await self._broker.commit(proposals.decide)
        except KafkaError as error:
            self._failed_in_row += 1
            if self._failed_in_row == 1:
                log.warning(
                    "it isn't known whether changes of in-sync replicas were made: %s", error
                )
            rests = [one for one in partitions if not one.is_deleted]
        else:
            self._failed_in_row = 0
            rests = proposals.refused
        rest_s = min(REST_S * 2 ** min(self._failed_in_row, 8), LONGEST_REST_S)
        until_s = trio.current_time() + rest_s
        for partition in rests:
            self.failures += 1
            self._resting[partition] = until_s
            self._asking.pop(partition, None)
        for number, partition in enumerate(partitions, 1):
            if number % PARTITIONS_PER_TURN == 0:
                await trio.lowlevel.checkpoint()
            self._update_from_image(partition, proposals)

    def _update_from_image(self, partition: LeaderPartition, proposals: "_Proposals") -> None:
        """Give each partition its row of the current metadata."""
        row = _row(self._broker.image, partition)
        if row is None:
            return
        partition.update(row)
        partition.withdraw(self._broker.image.revision)
        before, wished = proposals.wishes.get(partition, ((), ()))
        if wished and set(row.isr) == set(wished) != set(before):
            self.expands += not set(wished) <= set(before)
            self.shrinks += not set(before) <= set(wished)
            self._news.changed(partition.log.name, before, wished)


class _Proposals:
    """The proposals of one commit: ``refused`` ones, and ``wishes`` as pairs of old and new ISR."""

    def __init__(self, node_id: int, partitions: Sequence[LeaderPartition]) -> None:
        self.refused: list[LeaderPartition] = []
        self.wishes: dict[LeaderPartition, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self._node_id = node_id
        self._partitions = partitions

    async def decide(self, image: MetadataImage) -> list[Change]:
        """The changes at this image, one for each topic; none for proposals that are refused."""
        self.refused = []
        self.wishes = {}
        rows: dict[bytes, list[tuple[int, PartitionImage]]] = {}
        for number, partition in enumerate(self._partitions, 1):
            if number % PARTITIONS_PER_TURN == 0:
                await trio.lowlevel.checkpoint()
            try:
                changes = self._proposed(image, partition)
            except KafkaError as error:
                log.info("%s keeps its in-sync replicas: %s", partition.log.name, error.code.name)
                if error.code != ErrorCode.FENCED_LEADER_EPOCH:
                    self.refused.append(partition)
                continue
            for change in changes:
                assert isinstance(change, PartitionsChanged)
                rows.setdefault(change.topic_id, []).extend(change.rows)
        return [PartitionsChanged(topic_id, tuple(changed)) for topic_id, changed in rows.items()]

    def _proposed(self, image: MetadataImage, partition: LeaderPartition) -> Sequence[Change]:
        """The changes of one partition. KafkaError as ``proposed_isr`` raises it."""
        row = _row(image, partition)
        if row is None or partition.is_deleted:
            return ()
        if row.partition_epoch == partition.row.partition_epoch:
            partition.withdraw(image.revision)
        before = partition.in_sync
        wished = partition.propose(image.revision)
        if wished is None:
            return ()
        self.wishes[partition] = (before, wished)
        proposal = IsrProposal(
            leader=self._node_id,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.row.partition_epoch,
            isr=tuple((node, self._epoch(image, partition, node)) for node in wished),
            is_recovered=True,
        )
        return proposed_isr(image, partition.topic_id, partition.index, proposal)

    def _epoch(self, image: MetadataImage, partition: LeaderPartition, node_id: int) -> int:
        """The broker epoch of a member; of one that joins, that with which it fetched."""
        if node_id not in partition.in_sync:
            return partition.followers[node_id].broker_epoch
        registered = image.brokers.get(node_id)
        return -1 if registered is None else registered.epoch


def _row(image: MetadataImage, partition: LeaderPartition) -> PartitionImage | None:
    """The row of a partition, if it is one of the same leader epoch."""
    topic = image.topics_by_id.get(partition.topic_id)
    if topic is None or not partition.index < len(topic.partitions):
        return None
    row = topic.partitions[partition.index]
    return row if row.leader_epoch == partition.leader_epoch else None
