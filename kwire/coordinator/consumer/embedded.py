"""The messages inside JoinGroup and SyncGroup: subscriptions and assignments of consumers.

Format: an int16, the version, then the message; topics go by name. An unknown newer version begins
with the fields of the newest known version. Source: ConsumerProtocol of Kafka.
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
    """The subscription of a member; MalformedRequest for bytes that aren't a subscription."""
    return _parse(ConsumerProtocolSubscription, packed)


def parse_assignment(packed: bytes, topics: Topics) -> Partitions:
    """The assigned partitions of topics that exist; MalformedRequest for unreadable bytes."""
    if not packed:
        return {}
    return to_partitions(_parse(ConsumerProtocolAssignment, packed).assigned_partitions, topics)


def has_user_data(packed: bytes) -> bool:
    """Whether an assignment holds data of an assignor; MalformedRequest for unreadable bytes."""
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
    """A member's assignment in the version of its subscription, for topics that exist."""
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
