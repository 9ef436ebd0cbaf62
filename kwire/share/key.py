"""A share partition: a partition of a topic as one share group reads it.

Format: FindCoordinator names a share partition ``group:topic id:partition``, with the id as Kafka
prints it. The same text decides in which partition of ``__share_group_state`` its state is. A group
may have colons in its name.

Source: SharePartitionKey of Kafka.
"""

from typing import NamedTuple

from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.types import uuid_from_str, uuid_to_str


class SharePartitionKey(NamedTuple):
    """A group, and one of its partitions by topic id."""

    group_id: str
    topic_id: bytes
    partition: int

    @property
    def coordinator_key(self) -> str:
        """The name by which the coordinator of its state is found."""
        return f"{self.group_id}:{uuid_to_str(self.topic_id)}:{self.partition}"


def check_coordinator_key(text: str) -> None:
    """Raise KafkaError (INVALID_REQUEST) unless a text names a share partition."""
    try:
        group_id, topic_id, partition = text.rsplit(":", 2)
        uuid_from_str(topic_id)
        is_valid = bool(group_id) and int(partition) >= 0
    except ValueError:
        is_valid = False
    if not is_valid:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Invalid share partition key: {text[:200]}")
