"""Metadata records of topics: their partitions and their configs.

Each class has the fields of one record in all its versions, under Kafka's names.
"""

from kwire.protocol.types import Schema, array, int8, int32, string, uuid


class TopicRecord(Schema, versions=(0, 0), flexible=0):
    """A topic was created; its partitions follow as PartitionRecords."""

    name: str = string()
    topic_id: bytes = uuid()


class PartitionRecord(Schema, versions=(0, 2), flexible=0):
    """The whole state of a partition."""

    partition_id: int = int32(default=-1)
    topic_id: bytes = uuid()
    replicas: list[int] = array(int32)
    isr: list[int] = array(int32)
    removing_replicas: list[int] = array(int32)
    adding_replicas: list[int] = array(int32)
    leader: int = int32(default=-1)
    leader_recovery_state: int = int8(tag=0)
    leader_epoch: int = int32(default=-1)
    partition_epoch: int = int32(default=-1)
    directories: list[bytes] = array(uuid, since=1)
    eligible_leader_replicas: list[int] | None = array(
        int32, since=2, nullable=True, default=None, tag=1
    )
    last_known_elr: list[int] | None = array(int32, since=2, nullable=True, default=None, tag=2)


class PartitionChangeRecord(Schema, versions=(0, 2), flexible=0):
    """The changed fields of a partition; None, and -2 for the leader, stand for no change."""

    partition_id: int = int32(default=-1)
    topic_id: bytes = uuid()
    isr: list[int] | None = array(int32, nullable=True, default=None, tag=0)
    leader: int = int32(default=-2, tag=1)
    replicas: list[int] | None = array(int32, nullable=True, default=None, tag=2)
    removing_replicas: list[int] | None = array(int32, nullable=True, default=None, tag=3)
    adding_replicas: list[int] | None = array(int32, nullable=True, default=None, tag=4)
    leader_recovery_state: int = int8(default=-1, tag=5)
    directories: list[bytes] | None = array(uuid, since=1, nullable=True, default=None, tag=8)
    eligible_leader_replicas: list[int] | None = array(
        int32, since=2, nullable=True, default=None, tag=6
    )
    last_known_elr: list[int] | None = array(int32, since=2, nullable=True, default=None, tag=7)


class RemoveTopicRecord(Schema, versions=(0, 0), flexible=0):
    """A topic was deleted, with its partitions."""

    topic_id: bytes = uuid()


class ConfigRecord(Schema, versions=(0, 0), flexible=0):
    """A dynamic config of a resource has a new value; None removes the config."""

    resource_type: int = int8()
    resource_name: str = string()
    name: str = string()
    value: str | None = string(nullable=True)


class ClearElrRecord(Schema, versions=(0, 0), flexible=0):
    """A topic loses its eligible leader replicas; an empty name stands for all topics."""

    topic_name: str = string()
