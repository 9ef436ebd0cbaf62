"""Finds the partition and the broker of a coordinator, by the leaders of an internal topic.

Rules:

- The records of a group or transactional id are in partition ``hash(key) % partitions``. The hash
  is that of Java's strings, so every broker finds the same partition. Partitions that are added to
  the topic later don't count. Kafka counts them from its next start on, and then looks for groups
  in the wrong partitions.
- The broker that leads a partition is the coordinator of all groups or ids in it. Other brokers
  answer NOT_COORDINATOR, and FindCoordinator names the leader.
- The first request for a coordinator creates the topic. Workers of one machine wait until all
  workers serve, so that the partitions are spread over all of them.
- A partition that is offline, or that couldn't be loaded, has no coordinator.
- If the cluster has fewer brokers than the topic shall have replicas, the topic can't be created,
  and clients only see that they wait. So the log says it, once for each number of brokers. Other
  reasons for which it can't have its replicas are in the log once each.
"""

import logging
from collections.abc import Iterator, Sequence
from struct import unpack
from typing import TYPE_CHECKING

from kwire.broker.partition import Partition
from kwire.broker.topic_auto_creation import create_if_missing, default_replicas
from kwire.broker.view import BrokerView
from kwire.config.internal_topics import FACTORS, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from kwire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kwire.broker.delayed_response import CommittedRecords

log = logging.getLogger(__name__)

_NO_ABSOLUTE_VALUE = 1 << 31

_SERVES = {TRANSACTIONS_TOPIC: "transactions", SHARE_STATE_TOPIC: "share groups"}


def partition_for(key: str, partitions: int) -> int:
    """A key's partition: the absolute value of Java's String.hashCode, modulo ``partitions``.

    The one hash code without an absolute value counts as 0, as in Kafka's Utils.abs.
    """
    units: Sequence[int]
    if key.isascii():
        units = key.encode()
    else:
        packed = key.encode("utf-16-be", "surrogatepass")
        units = unpack(f">{len(packed) // 2}H", packed)
    code = 0
    for unit in units:
        code = (31 * code + unit) & 0xFFFFFFFF
    if code == _NO_ABSOLUTE_VALUE:
        return 0
    return min(code, (1 << 32) - code) % partitions


class CoordinatorLookup:
    """Finds the coordinators whose records are in one internal topic, as this broker sees it."""

    def __init__(self, broker: BrokerView, topic: str) -> None:
        self.topic = topic
        self._broker = broker
        self._damaged: dict[int, Partition] = {}
        self._told_of = -1
        """The number of brokers in the last warning that there are too few of them."""
        self._told: set[str] = set()
        """The other reasons of which a warning has told."""

    @property
    def topic_exists(self) -> bool:
        """Whether the topic exists."""
        return self.topic in self._broker.image.topics_by_name

    async def ensure_topic(self) -> None:
        """Create the topic if it is missing; KafkaError (COORDINATOR_NOT_AVAILABLE)."""
        if self.topic_exists:
            return
        workers = self._broker.integer("kwire.workers")
        if workers > 1:
            active = sum(one.is_active for one in self._broker.image.brokers.values())
            if active < workers:
                raise KafkaError(
                    ErrorCode.COORDINATOR_NOT_AVAILABLE,
                    f"{self.topic} is created when all {workers} workers serve, not {active}",
                )
        try:
            await create_if_missing(self._broker, self.topic)
        except KafkaError as error:
            if error.code == ErrorCode.INVALID_REPLICATION_FACTOR:
                self._tell_why_not(error.message)
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"cannot create {self.topic}: {error}"
            ) from error

    def _tell_why_not(self, reason: str) -> None:
        """Warn that the topic can't have its replicas, once for each reason."""
        setting, brokers = FACTORS[self.topic], len(self._broker.image.brokers)
        factor = default_replicas(self._broker, setting)
        if factor > brokers:
            if brokers != self._told_of:
                self._told_of = brokers
                self._tell_of_too_few_brokers(setting, factor, brokers)
        elif reason not in self._told:
            self._told.add(reason)
            log.warning("cannot create %s: %s", self.topic, reason)

    def _tell_of_too_few_brokers(self, setting: str, factor: int, brokers: int) -> None:
        log.warning(
            "%s can't be created with fewer brokers than replicas: %s is %d, and the cluster has "
            "%d broker(s). Until then no broker serves %s: start more brokers, or set %s=%d for "
            "each broker, and restart it",
            self.topic,
            setting,
            factor,
            brokers,
            _SERVES.get(self.topic, "groups"),
            setting,
            brokers,
        )

    def partition_of(self, key: str) -> int:
        """The partition of a key; KafkaError (NOT_COORDINATOR) if the topic doesn't exist."""
        topic = self._broker.image.topics_by_name.get(self.topic)
        if topic is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return partition_for(key, topic.hashed_partitions)

    def leader_for(self, key: str) -> int:
        """The node id of a key's coordinator; KafkaError (COORDINATOR_NOT_AVAILABLE)."""
        broker = self._broker
        topic = broker.image.topics_by_name.get(self.topic)
        if topic is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{self.topic} doesn't exist")
        index = partition_for(key, topic.hashed_partitions)
        leader = topic.partitions[index].leader
        why = self.why_not_here(index) if leader == broker.node_id else ""
        if leader < 0:
            why = f"{self.topic}-{index} has no leader"
        if why:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, why)
        return leader

    def why_not_here(self, index: int) -> str:
        """Why this broker can't coordinate the groups or ids of a partition; empty if it can."""
        broker, topic = self._broker, self.topic
        partition = broker.partition_if_served(topic, index)
        if partition is not None:
            if self._damaged.get(index) is partition:
                return f"{topic}-{index} could not be loaded; the broker's log says why"
            return ""
        if broker.is_offline(topic, index):
            return f"{topic}-{index} is offline"
        image = broker.image.partition(topic, index)
        if image is None or image.leader != broker.node_id:
            return f"this broker doesn't lead {topic}-{index}"
        return ""  # its log is being opened

    def empty_partition(self, index: int) -> Partition:
        """A partition of this broker that needs no loading, because it is empty.

        KafkaError: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
        """
        why = self.why_not_here(index)
        if why:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, why)
        partition = self._broker.partition_if_served(self.topic, index)
        if partition is None or has_records(partition):
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return partition

    def partitions_here(self) -> list[int]:
        """The partitions whose coordinators belong on this broker."""
        topic = self._broker.image.topics_by_name.get(self.topic)
        indexes = range(len(topic.partitions) if topic else 0)
        return [index for index in indexes if not self.why_not_here(index)]

    def partitions_to_load(self) -> Iterator[Partition]:
        """The partitions here that have records to load; each is looked up just before its turn."""
        for index in self.partitions_here():
            partition = self._broker.partition_if_served(self.topic, index)
            if partition is not None and has_records(partition) and not self.why_not_here(index):
                yield partition

    def is_here(self, partition: Partition) -> bool:
        """Whether this broker still serves this partition, as the same leader."""
        served = self._broker.partition_if_served(partition.topic, partition.index)
        return served is partition

    def committed_of(
        self, partition: Partition, timeout: str = "offsets.commit.timeout.ms"
    ) -> "CommittedRecords | None":
        """What a coordinator's answers rest on, None at replication factor 1.

        ``timeout`` is the setting that says for how long an answer waits.
        """
        if partition.__class__ is Partition:
            return None
        from kwire.broker.delayed_response import CommittedRecords

        timeout_ms = self._broker.integer(timeout)
        return CommittedRecords(partition, self.is_here, timeout_ms / 1000)

    def mark_damaged(self, partition: Partition) -> None:
        """Note that a partition can't be loaded."""
        self._damaged[partition.index] = partition


def has_records(partition: Partition) -> bool:
    """Whether a partition has records to load."""
    return partition.log.log_end_offset > partition.log.log_start_offset
