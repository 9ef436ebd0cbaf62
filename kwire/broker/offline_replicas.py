"""Giving up the replicas of a failed data directory, so that others lead in their place.

Rules:

- A replica that can't be used leaves the ISR, and its leadership goes to another in-sync replica.
  It isn't fetched any more: what a follower of which the disk is gone says, must not bring it back
  into the ISR.
- A partition without another replica that has all records stays as it is, and answers
  KAFKA_STORAGE_ERROR: nobody else has what is on that disk.
- Who looks compares the image with the disks, at each failure and every second. So a change that
  the metadata store didn't take is tried again.

Source: ReplicaManager.handleLogDirFailure, AssignReplicasToDirs of Kafka, KIP-858.
"""

import logging
from typing import Protocol

import trio

from kwire.broker.commits import Decide
from kwire.broker.fetchers import Fetchers
from kwire.broker.hosted_partitions import HostedPartitions
from kwire.budget.threads import Threads
from kwire.errors import KafkaError
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
        """The tasks that fetch from the leaders of what this broker follows."""

    async def commit(self, decide: Decide) -> None:
        """Make a decision true; see ``Commits.commit``."""


class OfflineReplicas:
    """The replicas of one broker that can't be used."""

    def __init__(self, broker: ReplicasBroker, hosted: HostedPartitions) -> None:
        self._broker = broker
        self._hosted = hosted
        self._is_committing = False

    def look(self) -> None:
        """Give up what is offline and still counts; never waits."""
        broker = self._broker
        failed = [one for one in self._hosted.followed() if one.is_offline]
        if failed:
            broker.fetchers.place(failed)
        if self._is_committing or broker.is_stopping:
            return
        failed_here = [(one.topic, one.index) for one in self._hosted.hosted() if one.is_offline]
        offline = frozenset([*failed_here, *self._hosted.offline()])
        if any(self._counts(broker.image, *key) for key in offline):
            self._is_committing = True
            broker.background.start_soon(self._commit, offline)

    def _counts(self, image: MetadataImage, topic: str, index: int) -> bool:
        """Whether a replica here counts as one with all records, and isn't the only one."""
        row = image.partition(topic, index)
        if row is None:
            return False
        counted = {*row.isr, *row.elr}
        return self._broker.node_id in counted and len(counted) > 1

    async def _commit(self, offline: frozenset[tuple[str, int]]) -> None:
        broker = self._broker
        try:
            await broker.commit(
                lambda image: broker.threads.computing.run(
                    without_replicas,
                    image,
                    broker.node_id,
                    lambda topic, index: (topic.name, index) in offline,
                )
            )
            log.warning("%d replicas of this broker are offline: others take over", len(offline))
        except KafkaError as error:
            log.warning("cannot give up the replicas that are offline yet: %s", error)
        finally:
            self._is_committing = False
