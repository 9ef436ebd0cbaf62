"""A broker's role for each partition, and the partitions that a metadata change concerns; pure.

Rules:

- The broker with the only replica of a partition serves the partition while it has the records,
  even if the metadata names no leader: no other broker has the records.
- Of several replicas, one leads and the others follow it. Without a leader, they all wait.
- A broker never acts on the content of a change. It only looks up the concerned partitions in the
  newest image.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from kwire.metadata.changes import (
    Change,
    ConfigChanged,
    PartitionsAdded,
    PartitionsChanged,
    TopicCreated,
    TopicDeleted,
)
from kwire.metadata.image import ConfigResourceType, PartitionImage


class Role(Enum):
    """The role of a broker for a partition."""

    NONE = "none"
    SOLE = "sole"
    LEADER = "leader"
    FOLLOWER = "follower"


def role_of(partition: PartitionImage | None, node_id: int) -> Role:
    """The role of a broker; None stands for a partition that doesn't exist."""
    if partition is None or node_id not in partition.replicas:
        return Role.NONE
    if len(partition.replicas) == 1:
        return Role.SOLE
    return Role.LEADER if partition.leader == node_id else Role.FOLLOWER


def may_begin(partition: PartitionImage, node_id: int) -> bool:
    """Whether a replica that has no log may create an empty one.

    The only replica of a partition may not do so while the ISR is empty. Its records are lost then,
    and an empty log would look as if there had never been any. A follower may create an empty log,
    because it copies the leader's records.
    """
    return bool(partition.isr) or role_of(partition, node_id) is Role.FOLLOWER


@dataclass(slots=True)
class Touched:
    """The partitions and topics that metadata changes concern.

    ``partitions`` has the numbers of the partitions by topic id; None stands for every partition.
    ``configs`` are the names of the topics with other settings; None stands for every topic.
    """

    partitions: dict[bytes, set[int] | None] = field(default_factory=dict)
    deleted: dict[bytes, None] = field(default_factory=dict)
    configs: dict[str, None] | None = field(default_factory=dict)


def touched_by(changes: Iterable[Change]) -> Touched:
    """The partitions and topics of these changes, each one once, in the order of the changes."""
    touched = Touched()
    for change in changes:
        if isinstance(change, TopicCreated):
            touched.partitions[change.topic.topic_id] = None
        elif isinstance(change, PartitionsAdded):
            touched.partitions[change.topic_id] = None
        elif isinstance(change, PartitionsChanged):
            indexes = touched.partitions.setdefault(change.topic_id, set())
            if indexes is not None:
                indexes.update(index for index, _ in change.rows)
        elif isinstance(change, TopicDeleted):
            touched.deleted[change.topic_id] = None
        elif isinstance(change, ConfigChanged):
            _note_config(touched, change)
    return touched


def _note_config(touched: Touched, change: ConfigChanged) -> None:
    if change.resource_type == ConfigResourceType.BROKER:
        touched.configs = None
    elif change.resource_type == ConfigResourceType.TOPIC and touched.configs is not None:
        touched.configs[change.resource_name] = None
