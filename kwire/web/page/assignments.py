"""The partitions that a group's members have, as the coordinator knows them.

A partition that a member has counts for the group's lag from its first record on, until the group
commits an offset for it.
"""

from collections.abc import Iterable, Iterator

from kwire.coordinator.classic_group import ClassicGroup
from kwire.coordinator.consumer.group import ConsumerGroup
from kwire.coordinator.consumer_subscription import CONSUMER_PROTOCOL_TYPE
from kwire.metadata.image import MetadataImage
from kwire.protocol.codec import decoder
from kwire.protocol.messages.consumer_protocol import ConsumerProtocolAssignment
from kwire.protocol.wire import MalformedRequest

MAX_BYTES = 64 * 1024
"""The largest assignment that is read: it is read in one step of the broker's event loop."""

ByTopic = list[tuple[str, list[int]]]


def assignment_of(content: bytes) -> ByTopic:
    """The partitions in a classic member's assignment; empty if too large, or unreadable."""
    version = int.from_bytes(content[:2], signed=True)
    if not 2 <= len(content) <= MAX_BYTES or version < 0:
        return []
    try:
        decode = decoder(ConsumerProtocolAssignment, min(version, 3))
        assigned = decode(content, 2)[0].assigned_partitions
    except MalformedRequest:
        return []
    return [(one.topic, one.partitions) for one in assigned]


def assigned_partitions(group: object, image: MetadataImage) -> Iterator[tuple[str, int]]:
    """Every partition that a member of a group of consumers has."""
    if isinstance(group, ConsumerGroup):
        for member in list(group.members.values()):
            for topic_id, partitions in member.assigned.items():
                topic = image.topics_by_id.get(topic_id)
                if topic is not None:
                    yield from ((topic.name, index) for index in partitions)
    elif isinstance(group, ClassicGroup) and group.protocol_type == CONSUMER_PROTOCOL_TYPE:
        for assignment in [member.assignment for member in group.members.values()]:
            yield from partitions_of(assignment_of(assignment), image)


def partitions_of(
    by_topic: Iterable[tuple[str, list[int]]], image: MetadataImage
) -> Iterator[tuple[str, int]]:
    """Each partition that exists: the leader of a classic group may assign any numbers."""
    for name, indexes in by_topic:
        topic = image.topics_by_name.get(name)
        count = len(topic.partitions) if topic is not None else 0
        yield from ((name, index) for index in indexes if 0 <= index < count)
