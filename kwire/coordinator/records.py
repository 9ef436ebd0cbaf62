"""The records of ``__consumer_offsets``, in Kafka's formats.

Format: key and value begin with an int16. In a key it is the record's type, in a value the version
of its schema. A null value is a tombstone. Types 0 and 1 are offset commits, and 2 is a classic
group. ``kwire.coordinator.consumer.records`` has consumer groups. Other types are skipped.

Source: GroupCoordinatorRecordHelpers of Kafka; offset commits are written in version 4 (1 where the
client said how long to keep them) and groups in version 3, as Kafka 4.3 does.
"""

from collections.abc import Mapping
from struct import Struct
from typing import NamedTuple, TypeAlias, TypeVar

from kwire.protocol.codec import decoder, encode, encoder
from kwire.protocol.types import (
    ZERO_UUID,
    Nested,
    Schema,
    array,
    binary,
    int32,
    int64,
    string,
    uuid,
)
from kwire.protocol.wire import MalformedRequest

_M = TypeVar("_M", bound=Schema)

LEGACY_OFFSET_COMMIT_TYPE = 0
OFFSET_COMMIT_TYPE = 1
GROUP_METADATA_TYPE = 2
SHARE_GROUP_TYPES = range(10, 16)
"""The types of every record of a share group (``kwire.coordinator.share.records``)."""
STREAMS_GROUP_TYPES = (17, 19, 20, 21, 22, 23)
"""The types of every record of a streams group (``kwire.coordinator.streams.records``)."""

OFFSET_COMMIT_VERSION = 4
EXPIRING_OFFSET_COMMIT_VERSION = 1
GROUP_METADATA_VERSION = 3

_VERSION = Struct(">h")


class OffsetCommitKey(Schema, versions=(0, 1), flexible=None):
    """A group's offset in a partition."""

    group: str = string()
    topic: str = string()
    partition: int = int32()


class OffsetCommitValue(Schema, versions=(0, 4), flexible=4):
    """The offset of the next record to read; times in ms since the epoch."""

    offset: int = int64()
    leader_epoch: int = int32(since=3, default=-1, ignorable=True)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64(since=1, until=1, default=-1, ignorable=True)
    topic_id: bytes = uuid(since=4, tag=0, default=ZERO_UUID, ignorable=True)


class GroupMetadataKey(Schema, versions=(2, 2), flexible=None):
    """A classic group."""

    group: str = string()


class GroupMetadataMember(Nested):
    """A member of a classic group and its assignment."""

    member_id: str = string()
    group_instance_id: str | None = string(since=3, nullable=True, default=None, ignorable=True)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32(since=1, default=-1, ignorable=True)
    session_timeout: int = int32()
    subscription: bytes = binary()
    assignment: bytes = binary()


class GroupMetadataValue(Schema, versions=(0, 4), flexible=4):
    """A generation of a classic group."""

    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable=True)
    leader: str | None = string(nullable=True)
    current_state_timestamp: int = int64(since=2, default=-1, ignorable=True)
    members: list[GroupMetadataMember] = array(GroupMetadataMember)


class WrittenGroup(NamedTuple):
    """The content of the record of a classic group's generation."""

    group: str
    value: GroupMetadataValue


class WrittenOffset(NamedTuple):
    """The content of the record of a committed offset."""

    group: str
    topic: str
    partition: int
    value: OffsetCommitValue


class WrittenTarget(NamedTuple):
    """The content of the record of a consumer group member's target, by topic id."""

    group: str
    member_id: str
    partitions: Mapping[bytes, frozenset[int]]


Content: TypeAlias = WrittenGroup | WrittenOffset | WrittenTarget
"""The content of a record, as a parser of the record would give it."""


class CoordinatorRecord(NamedTuple):
    """A record to write: bytes, or None for a tombstone.

    ``content`` is the content of those bytes, for the most frequent records, so that the writer
    needn't parse them again. None: parse the bytes.
    """

    key: bytes
    value: bytes | None
    content: Content | None = None


WRITTEN: tuple[tuple[type[Schema], int], ...] = (
    (OffsetCommitKey, 1),
    (OffsetCommitValue, OFFSET_COMMIT_VERSION),
    (GroupMetadataKey, 2),
    (GroupMetadataValue, GROUP_METADATA_VERSION),
)
"""The schemas of this module, and the versions in which they are written."""


def record_type(key: bytes) -> int:
    """The type of a record; -1 for a key that is too short for a type."""
    return int(_VERSION.unpack_from(key)[0]) if len(key) >= _VERSION.size else -1


def offset_commit(
    group: str, topic: str, partition: int, value: OffsetCommitValue | None
) -> CoordinatorRecord:
    """The record of a committed offset, or its tombstone."""
    key = OffsetCommitKey(group=group, topic=topic, partition=partition)
    packed = _VERSION.pack(OFFSET_COMMIT_TYPE) + encode(key, 1)
    if value is None:
        return CoordinatorRecord(packed, None)
    if value.expire_timestamp >= 0:
        # The older version leaves some fields out, so its content has to be parsed.
        return CoordinatorRecord(packed, _with_version(value, EXPIRING_OFFSET_COMMIT_VERSION))
    content = WrittenOffset(group, topic, partition, value)
    return CoordinatorRecord(packed, _with_version(value, OFFSET_COMMIT_VERSION), content)


def group_metadata(group: str, value: GroupMetadataValue | None) -> CoordinatorRecord:
    """The record of a classic group's generation, or its tombstone."""
    key = _VERSION.pack(GROUP_METADATA_TYPE) + encode(GroupMetadataKey(group=group), 2)
    if value is None:
        return CoordinatorRecord(key, None)
    packed = _with_version(value, GROUP_METADATA_VERSION)
    return CoordinatorRecord(key, packed, WrittenGroup(group, value))


def new_record(kind: int, key: Schema, value: Schema | None) -> CoordinatorRecord:
    """A record with key and value in version 0, or its tombstone."""
    packed = None if value is None else _with_version(value, 0)
    return CoordinatorRecord(_VERSION.pack(kind) + encode(key, 0), packed)


def parse_offset_commit_key(key: bytes) -> OffsetCommitKey:
    """The key of an offset commit; MalformedRequest for any other bytes."""
    return decoder(OffsetCommitKey, 1)(key, _VERSION.size)[0]


def parse_group_metadata_key(key: bytes) -> GroupMetadataKey:
    """The key of a classic group; MalformedRequest for any other bytes."""
    return decoder(GroupMetadataKey, 2)(key, _VERSION.size)[0]


def parse_value(schema: type[_M], value: bytes) -> _M:
    """A value in the version in which it was written; MalformedRequest for unreadable bytes."""
    if len(value) < _VERSION.size:
        raise MalformedRequest("a value without a version")
    (version,) = _VERSION.unpack_from(value)
    first, last = schema.VERSIONS
    if not first <= version <= last:
        raise MalformedRequest(f"{schema.__name__} has no version {version}")
    return decoder(schema, version)(value, _VERSION.size)[0]


def _with_version(value: Schema, version: int) -> bytes:
    out = bytearray(_VERSION.pack(version))
    encoder(type(value), version)(value, out, [])
    return bytes(out)
