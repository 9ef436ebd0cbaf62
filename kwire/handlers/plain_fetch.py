"""Fetch, the common request: partitions that are here, without a session, and nothing to wait for.

A fast path: the request is read where it lies and the answer is written as bytes and slices of
files, without the objects in between. ``answer`` gives None for everything that isn't common,
having done nothing; then ``kwire.handlers.fetch``, its slow, obvious twin, serves the request. Both
answer the same bytes, which tests/handlers/test_plain_fetch.py shows.

Common are: versions 12 to 18, a consumer, no session, no tagged fields, partitions that are served,
no error, and at least ``min_bytes`` that are in memory.
"""

from collections.abc import Iterator
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from kwire.broker.broker import Broker
from kwire.errors import KafkaError
from kwire.handlers.plain_fetch_answer import FetchAnswer
from kwire.log.page_cache import ColdPages
from kwire.protocol.file_slice import FileSlice
from kwire.protocol.frame import RequestHeader
from kwire.protocol.wire import MalformedRequest, read_unsigned_varint

FLEXIBLE_SINCE = 12
TOPIC_IDS_SINCE = 13
REPLICA_STATE_SINCE = 15

# Replica id; then, as in later versions: wait, least and most bytes, isolation level, session.
_BEGIN_WITH_REPLICA = Struct(">iiiibii")
_BEGIN = Struct(">iiibii")
ENTRY = Struct(">iiqiqiB")
"""A partition: index, leader epoch, offset, last epoch, log start, most bytes, no tags."""

_NO_TAGS = b"\0"
_NO_ELEMENTS = 1
"""The length of a compact array without elements."""

_LONGEST_NAME = 127
_UUID_BYTES = 16
_NONE = -1
_READ_COMMITTED = 1


class Uncommon(Exception):
    """A request for the slow twin."""


class Topic(NamedTuple):
    """Where a topic of a request begins, where its partitions do and end; its name."""

    begin: int
    partitions: int
    end: int
    name: str


def answer(
    frame: memoryview, position: int, header: RequestHeader, broker: Broker
) -> list[bytes | FileSlice] | None:
    """The whole response in parts, its size first; None where this isn't the common request.

    ``position`` is where the request's body begins.
    """
    version = header.api_version
    if version < FLEXIBLE_SINCE:
        return None
    try:
        min_bytes, told, at = _begin(frame, position, version, broker)
        end = _tell(frame, at, version, broker, told)
        _check_end(frame, end)
    except (
        Uncommon,
        KafkaError,
        ColdPages,
        StructError,
        IndexError,
        MalformedRequest,
        UnicodeDecodeError,
    ):
        return None
    return told.response(header.correlation_id) if told.size_bytes >= min_bytes else None


def _begin(
    frame: memoryview, position: int, version: int, broker: Broker
) -> tuple[int, FetchAnswer, int]:
    """How many bytes are to come at least, an empty answer, and where the topics begin."""
    if version < REPLICA_STATE_SINCE:
        replica, _, least, most, isolation, session, epoch = _BEGIN_WITH_REPLICA.unpack_from(
            frame, position
        )
        position += _BEGIN_WITH_REPLICA.size
    else:
        _, least, most, isolation, session, epoch = _BEGIN.unpack_from(frame, position)
        replica = _NONE
        position += _BEGIN.size
    if replica >= 0 or session or epoch != _NONE:
        raise Uncommon
    max_bytes = min(most, broker.integer("fetch.max.bytes"))
    return (
        min(least, max_bytes),
        FetchAnswer(max_bytes, read_committed=isolation == _READ_COMMITTED),
        position,
    )


def _check_end(frame: memoryview, at: int) -> None:
    """What stands behind the topics: nothing is forgotten, a rack, no tags."""
    forgotten, rack = frame[at], frame[at + 1]
    if forgotten != _NO_ELEMENTS or not 1 <= rack <= _LONGEST_NAME:
        raise Uncommon
    if frame[at + 1 + rack :] != _NO_TAGS:
        raise Uncommon


def _tell(frame: memoryview, at: int, version: int, broker: Broker, told: FetchAnswer) -> int:
    """Tell of every partition; where the topics end.

    A topic begins in a response as in the request: its name or id, and how many partitions.
    """
    done = at
    for topic in topics(frame, at, version, broker):
        told.add_bytes(bytes(frame[done : topic.partitions]))
        for index, epoch, offset, _, _, most, tags in ENTRY.iter_unpack(
            frame[topic.partitions : topic.end]
        ):
            partition = broker.partition_if_served(topic.name, index)
            if partition is None or tags or epoch not in (_NONE, partition.leader_epoch):
                raise Uncommon
            told.add(partition, offset, most)
        done = topic.end
    told.add_bytes(_NO_TAGS)
    return done + 1


def topics(frame: memoryview, at: int, version: int, broker: Broker) -> Iterator[Topic]:
    """The topics of a request; ``at`` is where their array begins. One byte is between two."""
    count, at = read_unsigned_varint(frame, at)
    if count <= _NO_ELEMENTS:
        raise Uncommon
    former = ""
    for _ in range(count - 1):
        begin = at
        if version >= TOPIC_IDS_SINCE:
            at += _UUID_BYTES
            image = broker.image.topics_by_id.get(bytes(frame[begin:at]))
            if image is None:
                raise Uncommon
            name = image.name
        else:
            length = frame[at]
            if not 1 < length <= _LONGEST_NAME:
                raise Uncommon
            at += length
            name = str(frame[begin + 1 : at], "utf-8")
        partitions, at = read_unsigned_varint(frame, at)
        end = at + (partitions - 1) * ENTRY.size
        if partitions <= _NO_ELEMENTS or frame[end] or name == former:
            raise Uncommon  # the twin puts the same topic together
        yield Topic(begin, at, end, name)
        former = name
        at = end + 1
