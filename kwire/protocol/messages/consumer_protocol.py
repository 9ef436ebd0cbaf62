"""The messages that members of a classic consumer group exchange through the coordinator.

Versions 0 to 3, never flexible. Both messages are preceded by their version as an int16, which
is not part of them. Changes by version:

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
    """A member's subscription: its topics, and the partitions that it owns already."""

    topics: list[str] = array(string)
    user_data: bytes | None = binary(nullable=True, default=None)
    owned_partitions: list[TopicPartition] = array(TopicPartition, since=1, ignorable=True)
    generation_id: int = int32(since=2, default=-1, ignorable=True)
    rack_id: str | None = string(since=3, nullable=True, default=None, ignorable=True)


class ConsumerProtocolAssignment(Schema, versions=(0, 3), flexible=None):
    """The partitions that the leader of the group assigns to a member."""

    assigned_partitions: list[TopicPartition] = array(TopicPartition)
    user_data: bytes | None = binary(nullable=True, default=None)
