"""What members of a classic consumer group say to each other through the coordinator.

Versions 0 to 3, never flexible. Both messages are preceded by their version as an int16, which
is not part of them. What they brought:

- 1: the subscription gains ``owned_partitions``.
- 2: the subscription gains ``generation_id``.
- 3: the subscription gains ``rack_id``.
"""

from kwire.protocol.types import (
    Nested,
    Schema,
    array,
    binary,
    int32,
    string,
)


class TopicPartition(Nested):
    """An element of ``assigned_partitions`` or ``owned_partitions``."""

    topic: str = string()
    partitions: list[int] = array(int32)


class ConsumerProtocolSubscription(Schema, versions=(0, 3), flexible=None):
    """What a member wants: its topics, and what it owns already."""

    topics: list[str] = array(string)
    user_data: bytes | None = binary(nullable=True, default=None)
    owned_partitions: list[TopicPartition] = array(TopicPartition, since=1, ignorable=True)
    generation_id: int = int32(since=2, default=-1, ignorable=True)
    rack_id: str | None = string(since=3, nullable=True, default=None, ignorable=True)


class ConsumerProtocolAssignment(Schema, versions=(0, 3), flexible=None):
    """What a member gets from the leader of the group."""

    assigned_partitions: list[TopicPartition] = array(TopicPartition)
    user_data: bytes | None = binary(nullable=True, default=None)
