"""What members of the classic protocol say and are told inside JoinGroup and SyncGroup.

Format: an int16, the version, then the message; topics go by name. A version that is newer than
what is known here begins as the newest known one does. Source: ConsumerProtocol of Kafka.
"""

from struct import Struct
from typing import TypeVar

from kwire.coordinator.consumer.member import ConsumerMember, Partitions
from kwire.coordinator.consumer.topics import Topics
from kwire.protocol.codec import MalformedRequest, decoder, encode
from kwire.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from kwire.protocol.types import Schema

_M = TypeVar("_M", bound=Schema)
_VERSION = Struct(">h")


def parse_subscription(packed: bytes) -> ConsumerProtocolSubscription:
    """What a member subscribes to; MalformedRequest for anything that isn't a subscription."""
    return _parse(ConsumerProtocolSubscription, packed)


def parse_assignment(packed: bytes, topics: Topics) -> Partitions:
    """What a member was given, of topics that exist; MalformedRequest for what isn't that."""
    if not packed:
        return {}
    return to_partitions(_parse(ConsumerProtocolAssignment, packed).assigned_partitions, topics)


def has_user_data(packed: bytes) -> bool:
    """Whether an assignment has something in it for an assignor; MalformedRequest as above."""
    return bool(packed) and bool(_parse(ConsumerProtocolAssignment, packed).user_data)


def to_partitions(named: list[TopicPartition], topics: Topics) -> Partitions:
    """Partitions by topic id, of topics that exist."""
    found: dict[bytes, frozenset[int]] = {}
    for element in named:
        topic = topics.by_name(element.topic)
        if topic is not None and element.partitions:
            found[topic.topic_id] = found.get(topic.topic_id, frozenset()).union(element.partitions)
    return found


def pack_assignment(member: ConsumerMember, topics: Topics) -> bytes:
    """What a member has, in the version of its subscription; of topics that exist."""
    assert member.about.classic is not None
    version = min(_version(member.about.classic.protocols[0][1]), _last(ConsumerProtocolAssignment))
    named = [
        TopicPartition(topic=topic.name, partitions=sorted(partitions))
        for topic_id, partitions in member.assigned.items()
        if (topic := topics.by_id(topic_id)) is not None
    ]
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=sorted(named, key=lambda element: element.topic)
    )
    return _VERSION.pack(version) + encode(assignment, version)


def _parse(schema: type[_M], packed: bytes) -> _M:
    return decoder(schema, min(_version(packed), _last(schema)))(packed, _VERSION.size)[0]


def _version(packed: bytes) -> int:
    if len(packed) < _VERSION.size:
        raise MalformedRequest("no version")
    version: int = _VERSION.unpack_from(packed)[0]
    if version < 0:
        raise MalformedRequest(f"version {version}")
    return version


def _last(schema: type[Schema]) -> int:
    return schema.VERSIONS[1]
