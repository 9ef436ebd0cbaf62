"""Fetch, the common request: partitions of this broker, without a session.

This is a fast path. It reads the request without decoding it into objects, and writes the response
as bytes and slices of files. ``answer`` returns None for an uncommon request and leaves nothing
changed. Then ``kwire.handlers.fetch``, the slow and obvious twin, serves the request. Both give the
same bytes, as tests/handlers/test_plain_fetch.py shows.

A request is common if:

- its version is 12 to 18, and it comes from a consumer;
- it has no session and no tagged fields;
- it has at most ``MOST_PARTITIONS`` partitions, and this broker serves them all;
- there is no error, and all records to read are in the page cache.

A request that has to wait for an append keeps its frame, and reads it again when something has
changed. If the request is no longer common then, the twin continues with the time that is left.
"""

from collections.abc import Iterator
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

import trio

from kwire.broker.broker import Broker
from kwire.broker.delayed import Delayed
from kwire.broker.partition import Partition
from kwire.errors import KafkaError
from kwire.handlers.lib.context import ConnectionInfo
from kwire.handlers.lib.waiting import Slow, Unfinished, at_once_or_later, happens
from kwire.handlers.plain_fetch_answer import FetchAnswer
from kwire.log.page_cache import ColdPages
from kwire.protocol.file_slice import FileSlice
from kwire.protocol.frame import RequestHeader
from kwire.protocol.wire import MalformedRequest, read_unsigned_varint

FLEXIBLE_SINCE = 12
TOPIC_IDS_SINCE = 13
REPLICA_STATE_SINCE = 15

READ, TOPIC = 3, 2
"""The operation and the resource of ACLs (``kwire.metadata.acls``), which say who may fetch."""

# Replica id, then the fields as in later versions: wait, min and max bytes, isolation, session.
_BEGIN_WITH_REPLICA = Struct(">iiiibii")
_BEGIN = Struct(">iiibii")
ENTRY = Struct(">iiqiqiB")
"""A partition: index, leader epoch, offset, last epoch, log start, most bytes, no tags."""

_WAIT = Struct(">i")
"""How long a fetch may wait in ms; the first field, except that the replica's id may precede it."""

_NO_TAGS = b"\0"
_NO_ELEMENTS = 1
"""The length of a compact array without elements."""

MOST_PARTITIONS = 250
"""More partitions would take longer than a slice of the event loop: the twin serves them."""

_LONGEST_NAME = 127
_UUID_BYTES = 16
_NONE = -1
_READ_COMMITTED = 1


class Uncommon(Exception):
    """This request is for the slow twin."""


class Topic(NamedTuple):
    """A topic of a request: where it begins, where its partitions begin and end, and its name."""

    begin: int
    partitions: int
    end: int
    name: str


def answer(
    frame: memoryview,
    position: int,
    header: RequestHeader,
    broker: Broker,
    client: ConnectionInfo,
) -> list[bytes | FileSlice] | Unfinished | None:
    """The whole response in parts with its size in front, or an object that gives it or ``Slow``.

    None if the request isn't common. ``position`` is where the body of the request begins.
    """
    version = header.api_version
    if version < FLEXIBLE_SINCE:
        return None
    told = _look(frame, position, version, broker, client)
    if told is None:
        return None
    if told.size_bytes >= told.min_bytes:
        return told.response(header.correlation_id)
    wait = _wait(bytearray(frame), position, header, broker, client, told)
    later: list[bytes | FileSlice] | Slow | Unfinished = at_once_or_later(wait)
    assert not isinstance(later, Slow)
    return later


async def _wait(
    frame: bytearray,
    position: int,
    header: RequestHeader,
    broker: Broker,
    client: ConnectionInfo,
    told: FetchAnswer,
) -> list[bytes | FileSlice] | Slow:
    """Wait for ``min_bytes`` or the deadline; ``told`` is the answer before the wait."""
    version = header.api_version
    wait_at = position if version >= REPLICA_STATE_SINCE else position + _WAIT.size
    (wait_ms,) = _WAIT.unpack_from(frame, wait_at)
    partitions = _partitions(memoryview(frame), position, version, broker)
    change = Delayed(trio.current_time() + max(wait_ms, 0) / 1000, len(partitions))
    for partition in partitions:
        partition.waiters.add(change)
    try:
        while not broker.is_stopping and await happens(change):
            now = _look(memoryview(frame), position, version, broker, client)
            if now is None:
                left_ms = int((change.deadline_s - trio.current_time()) * 1000)
                _WAIT.pack_into(frame, wait_at, max(left_ms, 0))
                return Slow(memoryview(frame), position)
            told = now
            if told.size_bytes >= told.min_bytes:
                break
    finally:
        for partition in partitions:
            partition.waiters.discard(change)
    return told.response(header.correlation_id)


def _look(
    frame: memoryview, position: int, version: int, broker: Broker, client: ConnectionInfo
) -> FetchAnswer | None:
    """The answer as of now; None if the request isn't common."""
    try:
        told, at = _begin(frame, position, version, broker)
        end = _tell(frame, at, version, broker, client, told)
        _check_end(frame, end, broker)
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
    return told


def _partitions(frame: memoryview, position: int, version: int, broker: Broker) -> list[Partition]:
    """The partitions of a request that ``_look`` has read before."""
    _, at = _begin(frame, position, version, broker)
    return [
        broker.partition(topic.name, index)
        for topic in topics(frame, at, version, broker)
        for index, *_ in ENTRY.iter_unpack(frame[topic.partitions : topic.end])
    ]


def _begin(
    frame: memoryview, position: int, version: int, broker: Broker
) -> tuple[FetchAnswer, int]:
    """An empty answer, and the position where the topics begin."""
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
    told = FetchAnswer(least, max_bytes, read_committed=isolation == _READ_COMMITTED)
    return told, position


def _check_end(frame: memoryview, at: int, broker: Broker) -> None:
    """Check the fields after the topics: no forgotten topics, a rack, no tags.

    If leaders send consumers to the nearest replica, a rack matters, and the twin serves the
    request.
    """
    forgotten, rack = frame[at], frame[at + 1]
    if forgotten != _NO_ELEMENTS or not 1 <= rack <= _LONGEST_NAME:
        raise Uncommon
    end = at + 1 + rack
    if rack > 1:
        if broker.selects_nearest:
            raise Uncommon
        str(frame[at + 2 : end], "utf-8")  # the twin accepts only UTF-8
    if frame[end:] != _NO_TAGS:
        raise Uncommon


def _tell(
    frame: memoryview,
    at: int,
    version: int,
    broker: Broker,
    client: ConnectionInfo,
    told: FetchAnswer,
) -> int:
    """Add every partition to the answer; return the position where the topics end.

    A topic begins in a response as in the request: its name or id, and how many partitions.
    """
    done = at
    authorizer = broker.authorizer
    for topic in topics(frame, at, version, broker):
        if authorizer is not None and (
            authorizer.notes_allowed or not authorizer.allows(client, READ, TOPIC, topic.name)
        ):
            raise Uncommon
        told.add_bytes(bytes(frame[done : topic.partitions]))
        for index, epoch, offset, _, _, most, tags in ENTRY.iter_unpack(
            frame[topic.partitions : topic.end]
        ):
            partition = broker.partition_if_served(topic.name, index)
            if partition is None or tags:
                raise Uncommon
            if epoch != _NONE and epoch != partition.leader_epoch:
                raise Uncommon
            told.add(partition, offset, most)
        done = topic.end
    told.add_bytes(_NO_TAGS)
    return done + 1


def topics(frame: memoryview, at: int, version: int, broker: Broker) -> Iterator[Topic]:
    """The topics of a request; their array begins at ``at``. One byte separates two topics."""
    count, at = read_unsigned_varint(frame, at)
    if count <= _NO_ELEMENTS:
        raise Uncommon
    former = ""
    left = MOST_PARTITIONS
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
        left -= partitions - 1
        if partitions <= _NO_ELEMENTS or left < 0 or frame[end] or name == former:
            raise Uncommon  # the twin merges two entries of the same topic
        yield Topic(begin, at, end, name)
        former = name
        at = end + 1
