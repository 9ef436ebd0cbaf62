"""Giving up the replicas of a failed or full data directory, so that others lead in their place.

Rules:

- A replica that can't be used leaves the ISR, and its leadership goes to another in-sync replica.
  It isn't fetched any more: fetches of a follower without its disk must not bring it back into
  the ISR.
- A partition without another replica that has all records stays as it is, and answers
  KAFKA_STORAGE_ERROR: no other broker has all records.
- A replica on a full disk leaves the ISR, too, if another replica is in sync. Otherwise
  acknowledgements would wait for it until ``replica.lag.time.max.ms``. Its records are whole, so it
  stays eligible to lead. When the disk has room, the replica is fetched again, and its leader takes
  it back into the ISR.
- ``give_up_replicas`` compares the image with the disks, at each failure and every second. So a
  commit that failed is tried again.

Source: ReplicaManager.handleLogDirFailure, AssignReplicasToDirs of Kafka, KIP-858. In Kafka a full
disk is a failed one.
"""

import logging
from functools import partial
from typing import Protocol

import trio

from kwire.broker.proposals import Decide
from kwire.broker.replica.fetchers import Fetchers
from kwire.broker.replica.follower_partition import FollowerPartition
from kwire.broker.replica.partition_registry import PartitionRegistry
from kwire.budget.threads import Threads
from kwire.errors import KafkaError
from kwire.log.checkpoints import TopicPartition
from kwire.metadata.image import MetadataImage
from kwire.metadata.partition_change import without_replicas

log = logging.getLogger(__name__)


class ReplicasBroker(Protocol):
    """A broker that knows which of its replicas are offline."""

    node_id: int
    image: MetadataImage
    background: trio.Nursery
    threads: Threads
    is_stopping: bool

    @property
    def fetchers(self) -> Fetchers:
        """The tasks that fetch from the leaders of the partitions that this broker follows."""

    async def commit(self, decide: Decide) -> None:
        """Commit the changes that ``decide`` returns; see ``Commits.commit``."""


class OfflineReplicas:
    """The replicas of one broker that can't be used."""

    def __init__(self, broker: ReplicasBroker, hosted: PartitionRegistry) -> None:
        self._set_aside: set[FollowerPartition] = set()
        """The replicas that aren't fetched until their disk has room."""
        self._broker = broker
        self._hosted = hosted
        self._is_committing = False

    def give_up_replicas(self) -> bool:
        """Give up replicas that are offline or on full disks and are still in the ISR; never waits.

        Returns whether to look again although no directory is full any more.
        """
        broker = self._broker
        followed = self._hosted.followed()
        full = {one for one in followed if one.log.health.is_full}
        moved = [one for one in followed if one.is_offline or one in self._set_aside ^ full]
        self._set_aside = full
        if moved:
            broker.fetchers.place(moved)
        if not (self._is_committing or broker.is_stopping):
            self._give_up_what_counts()
        return bool(full)

    def _give_up_what_counts(self) -> None:
        image, hosted = self._broker.image, self._hosted.hosted()
        failed_here = [(one.topic, one.index) for one in hosted if one.is_offline]
        offline = frozenset([*failed_here, *self._hosted.offline()])
        full = frozenset((one.topic, one.index) for one in hosted if one.log.health.is_full)
        if any(self._counts(image, *key) for key in offline) or any(
            self._is_in_sync(image, *key) for key in full
        ):
            self._is_committing = True
            self._broker.background.start_soon(self._commit, offline, full - offline)

    def _counts(self, image: MetadataImage, topic: str, index: int) -> bool:
        """Whether a replica here counts as one with all records, and isn't the only one."""
        row = image.partition(topic, index)
        if row is None:
            return False
        counted = {*row.isr, *row.elr}
        return self._broker.node_id in counted and len(counted) > 1

    def _is_in_sync(self, image: MetadataImage, topic: str, index: int) -> bool:
        """Whether a replica here is in sync, and isn't the only one."""
        row = image.partition(topic, index)
        return row is not None and self._broker.node_id in row.isr and len(row.isr) > 1

    async def _commit(
        self, offline: frozenset[TopicPartition], full: frozenset[TopicPartition]
    ) -> None:
        # A replica on a full disk keeps its records; one that is offline may have lost them.
        assert offline.isdisjoint(full), offline & full
        try:
            for lost, are_whole in ((offline, False), (full, True)):
                if lost:
                    await self._give_up(lost, are_whole=are_whole)
        except KafkaError as error:
            log.warning("cannot give up the replicas that are offline yet: %s", error)
        finally:
            self._is_committing = False

    async def _give_up(self, lost: frozenset[TopicPartition], *, are_whole: bool) -> None:
        broker = self._broker
        await broker.commit(
            lambda image: broker.threads.deciding.run(
                partial(without_replicas, are_whole=are_whole),
                image,
                broker.node_id,
                lambda topic, index: (topic.name, index) in lost,
            )
        )
        why = "have no room" if are_whole else "are offline"
        log.warning("%d replicas of this broker %s: other brokers take over", len(lost), why)
