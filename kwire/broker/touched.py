"""Which partitions and settings a list of changes may have touched; pure.

A broker compares these with the newest image, and never acts on a change itself.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from kwire.metadata.changes import (
    Change,
    ConfigChanged,
    PartitionsAdded,
    PartitionsChanged,
    TopicCreated,
    TopicDeleted,
)
from kwire.metadata.image import ConfigResourceType


@dataclass(slots=True)
class Touched:
    """What changes touched.

    ``partitions`` has the numbers of the partitions by topic id; None stands for every partition.
    ``configs`` are the names of the topics with other settings; None stands for every topic.
    """

    partitions: dict[bytes, set[int] | None] = field(default_factory=dict)
    deleted: dict[bytes, None] = field(default_factory=dict)
    configs: dict[str, None] | None = field(default_factory=dict)


def touched_by(changes: Iterable[Change]) -> Touched:
    """What these changes touched, each thing once, in their order."""
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
