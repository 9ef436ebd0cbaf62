"""The partitions of which this broker has a replica, by their roles.

Rules:

- ``partition`` and ``all`` return only partitions that this broker leads. So a handler that uses
  them answers NOT_LEADER_OR_FOLLOWER for any other partition of the cluster. ``hosted`` returns led
  and followed partitions.
- A partition whose log can't be opened is offline.
- Clients see a partition that is offline here without a leader, and its replica here as offline,
  like the replicas of brokers that are fenced or gone.
"""

from typing import TYPE_CHECKING, TypeAlias, Union

import trio

from kwire.broker.partition import Partition
from kwire.errors import ErrorCode, KafkaError
from kwire.log.checkpoints import TopicPartition
from kwire.metadata.image import MetadataImage, TopicImage, unreachable_brokers

if TYPE_CHECKING:
    from kwire.broker.replica.follower_partition import FollowerPartition

Hosted: TypeAlias = Union[Partition, "FollowerPartition"]


class Gone:
    """The counters of partitions no longer led here. They keep the totals from shrinking."""

    def __init__(self) -> None:
        self.messages_in = self.bytes_in = self.bytes_out = 0

    def add(self, partition: Partition) -> None:
        """Add the counters of a partition whose role ends."""
        self.messages_in += partition.messages_in
        self.bytes_in += partition.bytes_in
        self.bytes_out += partition.bytes_out


class PartitionRegistry:
    """The replicas of one broker. ``compacts`` is set when the first compacted log is opened."""

    def __init__(self, node_id: int) -> None:
        self.compacts = trio.Event()
        self.gone = Gone()
        self._node_id = node_id
        self._image = MetadataImage()
        self._unreachable: frozenset[int] = frozenset()
        self._partitions: dict[TopicPartition, Partition] = {}
        self._followers: dict[TopicPartition, FollowerPartition] = {}
        self._by_topic: dict[bytes, dict[int, Hosted]] = {}
        self._offline: dict[TopicPartition, bool] = {}

    def offline(self) -> list[TopicPartition]:
        """The partitions whose logs can't be opened."""
        return list(self._offline)

    def partition(self, topic: str, index: int) -> Partition:
        """A partition by name that this broker leads.

        Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER if another broker
        leads it, or KAFKA_STORAGE_ERROR if it is offline.
        """
        partition = self._partitions.get((topic, index))
        if partition is not None and partition.log.health.failure is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{topic}-{index} is offline")
        if partition is None:
            if (topic, index) in self._offline:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{topic}-{index} is offline")
            if self._image.partition(topic, index) is not None:
                raise KafkaError(
                    ErrorCode.NOT_LEADER_OR_FOLLOWER, f"another broker leads {topic}-{index}"
                )
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"no partition {topic}-{index} here"
            )
        return partition

    def partition_if_served(self, topic: str, index: int) -> Partition | None:
        """A partition by name, None where ``partition`` raises an error."""
        partition = self._partitions.get((topic, index))
        if partition is None or partition.log.health.failure is not None:
            return None
        return partition

    def follower(self, topic: str, index: int) -> "FollowerPartition | None":
        """A partition by name that this broker follows."""
        return self._followers.get((topic, index))

    def replica(self, topic: str, index: int) -> Hosted | None:
        """A partition by name that this broker leads or follows."""
        key = (topic, index)
        return self._partitions.get(key) or self._followers.get(key)

    def is_offline(self, topic: str, index: int) -> bool:
        """Whether a partition has a replica on this broker that can't be used."""
        key = (topic, index)
        replica = self._partitions.get(key) or self._followers.get(key)
        return key in self._offline if replica is None else replica.log.is_offline

    def leader_of(self, topic: TopicImage, index: int) -> int:
        """The node id of a partition's leader, -1 if the partition is offline."""
        leader = topic.partitions[index].leader
        if leader == self._node_id and self.is_offline(topic.name, index):
            return -1
        return leader

    def offline_replicas(self, topic: TopicImage, index: int) -> list[int]:
        """The offline replicas of a partition: on brokers that are fenced or gone, or here."""
        own = self.is_offline(topic.name, index)
        if self._unreachable:
            return self._offline_among(topic.partitions[index].replicas, own)
        return [self._node_id] if own else []

    def _offline_among(self, replicas: tuple[int, ...], own: bool) -> list[int]:
        unreachable = self._unreachable
        offline = [node for node in replicas if node in unreachable]
        return [self._node_id, *offline] if own else offline

    def _record_image(self, image: MetadataImage) -> None:
        """Note the image, which names the brokers of the other replicas."""
        before = self._image
        assert image.revision >= before.revision, (image.revision, before.revision)
        if image.brokers is not before.brokers:
            self._unreachable = unreachable_brokers(image, before, self._unreachable)
        self._image = image

    def all(self) -> list[Partition]:
        """Every partition that this broker leads."""
        return list(self._partitions.values())

    def followed(self) -> "list[FollowerPartition]":
        """Every partition that this broker follows."""
        return list(self._followers.values())

    def hosted(self) -> list[Hosted]:
        """Every partition that this broker leads or follows.

        Any thread may call it: the values of a dict get into a list in one step of the interpreter.
        """
        return [*self._partitions.values(), *self._followers.values()]

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """The high watermarks of all these partitions; threads that write checkpoints call it."""
        return {(one.topic, one.index): one.high_watermark for one in self.hosted()}

    def stable_offset(self, key: TopicPartition) -> int | None:
        """The offset up to which compaction may clean; None while it may not clean at all."""
        replica = self.replica(*key)
        if replica is None or replica.is_offline:
            return None
        if not isinstance(replica, Partition) and replica.cutting is not None:
            return None
        return replica.last_stable_offset

    def of_topic(self, topic_id: bytes) -> list[Hosted]:
        """Every partition of a topic that this broker leads or follows."""
        return list(self._by_topic.get(topic_id, {}).values())

    def host(self, replica: Hosted) -> None:
        """Give a partition a new role, and end its former role."""
        key = (replica.topic, replica.index)
        self.end_role(key)
        assert not replica.is_deleted, key  # a role that has ended never begins again
        if isinstance(replica, Partition):
            self._partitions[key] = replica
        else:
            self._followers[key] = replica
        self._by_topic.setdefault(replica.topic_id, {})[replica.index] = replica

    def end_role(self, key: TopicPartition) -> Hosted | None:
        """End the role of a partition. Requests that wait for it then look for its new role."""
        led, followed = self._partitions.pop(key, None), self._followers.pop(key, None)
        assert led is None or followed is None, key  # it has one role
        ended = led or followed
        if ended is not None:
            of_topic = self._by_topic[ended.topic_id]
            assert of_topic[ended.index] is ended, key
            del of_topic[ended.index]
            if not of_topic:
                del self._by_topic[ended.topic_id]
            ended.delete()
        if led is not None:
            self.gone.add(led)
        return ended
