"""Fetch by a follower: the common case, a further request of its session.

This is a fast path. It reads the request where it lies in memory, and writes the response as bytes
and slices of files. ``answer`` returns None for an uncommon request and leaves nothing changed.
Then ``kwire.handlers.replica_fetch``, the slow and obvious twin, serves the request. Both answer
alike, as tests/handlers/test_plain_replica_fetch.py shows.

A request is common if:

- its version is 18;
- it continues a session in the same broker epoch;
- it names at most ``MOST_AT_ONCE`` partitions, and the session has them all;
- it has no forgotten partitions, no rack, and no tagged fields but the follower's own;
- the broker has no authorizer, and has a poller.

Format of a request: see ``plain_fetch``. A partition has no tagged field, or its high watermark
(tag 1, int64). The request has one tagged field (tag 1): the follower's id as int32, its broker
epoch as int64, and no tagged fields.
"""

from collections.abc import Coroutine
from struct import Struct
from struct import error as StructError
from typing import Any, TypeAlias

from kwire.broker.broker import Broker
from kwire.broker.delayed import Delayed
from kwire.broker.replica_fetch_connection import Watcher
from kwire.broker.replica_sessions import NOT_TOLD, ReplicaPosition, ReplicaSession
from kwire.errors import ErrorCode
from kwire.handlers.lib.waiting import Unfinished, Wait, at_once_or_later
from kwire.handlers.plain_replica_answer import HEAD, TOLD, Look, Uncommon
from kwire.handlers.replica_fetch import (
    MOST_AT_ONCE,
    WATERMARK_DELAY_S,
    Answer,
    Wish,
    when_due,
)
from kwire.protocol.file_slice import FileSlice
from kwire.protocol.frame import RequestHeader
from kwire.protocol.messages.fetch import PartitionData
from kwire.protocol.wire import MalformedRequest, append_unsigned_varint, read_unsigned_varint

WATERMARK_SINCE = 18

_BEGIN = Struct(">iiibii")
"""Wait, min and max bytes, isolation, session id, session epoch."""

_ENTRY = Struct(">iiqiqiB")
"""A partition: index, leader epoch, offset, last epoch, log start, most bytes, number of tags."""

_WATERMARK = Struct(">BBq")
_WATERMARK_TAG = (1, 8)
_REPLICA = Struct(">BBBiqB")
"""The end of a request: one tag, its number and size; the follower's id, broker epoch, no tags."""

_REPLICA_TAG = (1, 1, 13)
_NOTHING_BETWEEN = b"\1\1"
"""No forgotten partitions and no rack."""

_UUID_BYTES = 16
_NO_ELEMENTS = 1
_NO_TAGS = b"\0"

_NO_TOPICS = b"\1\0"
"""An empty array, and no tags."""

_DIVERGING = Struct(">BBBiqB")
"""One tag, its number and size; the diverging epoch, its end offset, no tags."""


_Named: TypeAlias = tuple[ReplicaPosition, tuple[int, ...]]
"""A partition of a request, and the arguments of ``ReplicaPosition.want``."""


_Fetch: TypeAlias = tuple[ReplicaSession, Wish, list[_Named]]
"""A request: its session, how long it waits, and its partitions with the follower's positions."""


def answer(
    frame: memoryview, position: int, header: RequestHeader, broker: Broker
) -> list[bytes | FileSlice] | Unfinished | None:
    """The whole response in parts with its size in front, or an object that gives it later.

    None if the request isn't common. ``position`` is where the body of the request begins.
    """
    watcher = broker.watcher
    if header.api_version < WATERMARK_SINCE or broker.authorizer is not None or watcher is None:
        return None
    try:
        session, wish, named = _read(frame, position, broker)
    except (Uncommon, StructError, IndexError, MalformedRequest):
        return None
    session.go_on()
    watcher.expects_nothing = True
    for one, told in named:
        one.want(*told)
    return _Pending(session, wish, header.correlation_id, broker, watcher).begin()


class _Pending:
    """A fetch until it is answered. ``Unfinished`` resumes it like a coroutine.

    Each time it looks for news. If a look is uncommon, the slow twin carries on: ``_twin``.
    """

    __slots__ = (
        *("_broker", "_change", "_correlation_id", "_max_bytes", "_session", "_twin"),
        *("_watcher", "_wish"),
    )

    def __init__(
        self,
        session: ReplicaSession,
        wish: Wish,
        correlation_id: int,
        broker: Broker,
        watcher: Watcher,
    ) -> None:
        self._broker = broker
        self._watcher = watcher
        self._correlation_id = correlation_id
        self._session = session
        self._wish = wish
        self._max_bytes = min(wish.max_bytes, broker.integer("fetch.max.bytes"))
        self._change = Delayed(session.arrives(watcher.now_s, wish.max_wait_ms))
        self._twin: Coroutine[Wait, Any, list[bytes | FileSlice]] | None = None

    def begin(self) -> list[bytes | FileSlice] | Unfinished:
        """Look for the first time; the response, or what gives it later."""
        session = self._session
        session.change = self._change
        session.hastened = self
        try:
            told = self._look(is_late=False)
        except Uncommon:
            return at_once_or_later(self._by_twin())
        return Unfinished(self, self._change) if told is None else told

    def send(self, result: Any) -> Wait:
        """Look again after a change or at the deadline, or let the twin go on.

        Returns what to wait for. Raises StopIteration with the response.
        """
        if self._twin is not None:
            return self._twin.send(result)
        change = self._change
        is_late, change.is_set = not change.is_set, False
        try:
            told = self._look(is_late)
        except Uncommon:
            self._twin = self._by_twin()
            return self._twin.send(None)
        if told is not None:
            raise StopIteration(told)
        return self._change

    def throw(self, error: BaseException) -> Wait:
        """Only the twin does work that may fail."""
        assert self._twin is not None
        return self._twin.throw(error)

    def close(self) -> None:
        """Drop the fetch, because the follower can't get the response any more."""
        if self._twin is not None:
            self._twin.close()
        self._session.change = self._session.hastened = None

    def hasten(self) -> None:
        """Answer after ``WATERMARK_DELAY_S`` at the latest."""
        change = self._change
        soon_s = self._watcher.now_s + WATERMARK_DELAY_S
        if soon_s < change.deadline_s:
            change.deadline_s = soon_s
            self._watcher.deadlines.hasten(change)

    def _look(self, is_late: bool) -> list[bytes | FileSlice] | None:
        """The response, None if it is not due yet. Raises Uncommon."""
        session, change = self._session, self._change
        found = Look(session, self._broker, self._max_bytes)
        if (
            found.size_bytes >= min(self._wish.min_bytes, self._max_bytes)
            or found.is_urgent
            or is_late
        ):
            session.change = session.hastened = None
            return found.answer(self._correlation_id)
        found.wait()
        if found.lacks_watermark:
            self.hasten()
        change.is_set = False  # it happened before its partition was looked at
        return None

    async def _by_twin(self) -> list[bytes | FileSlice]:
        session, deadline_s = self._session, self._change.deadline_s
        session.hastened = None
        try:
            found = await when_due(session, self._wish, self._broker, None, deadline_s)
        finally:
            session.change = None
        if session.session_id not in self._broker.replica_sessions:
            size = HEAD.size - 4 + 2
            code = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            return [HEAD.pack(size, self._correlation_id, 0, 0, code, 0) + _NO_TOPICS]
        return _told(session, found, self._correlation_id)


def _read(frame: memoryview, position: int, broker: Broker) -> _Fetch:
    """Read a request; raises Uncommon or another exception if it isn't common."""
    wait_ms, min_bytes, max_bytes, _, session_id, epoch = _BEGIN.unpack_from(frame, position)
    session = broker.replica_sessions.peek(session_id, epoch)
    if session is None:
        raise Uncommon
    named: list[_Named] = []
    count, at = read_unsigned_varint(frame, position + _BEGIN.size)
    for _ in range(count - 1):
        topic_id = bytes(frame[at : at + _UUID_BYTES])
        partitions, at = read_unsigned_varint(frame, at + _UUID_BYTES)
        if len(session.dirty) + len(named) + partitions > MOST_AT_ONCE:
            raise Uncommon
        for _ in range(partitions - 1):
            one, at = _read_partition(frame, at, topic_id, session)
            named.append(one)
        if frame[at]:
            raise Uncommon
        at += 1
    if count < _NO_ELEMENTS or frame[at : at + 2] != _NOTHING_BETWEEN:
        raise Uncommon
    *tag, node_id, broker_epoch, no_tags = _REPLICA.unpack_from(frame, at + 2)
    is_whole = at + 2 + _REPLICA.size == len(frame)
    if tuple(tag) != _REPLICA_TAG or no_tags or not is_whole or node_id != session.node_id:
        raise Uncommon
    if len(session.dirty) > MOST_AT_ONCE or broker_epoch != session.broker_epoch:
        raise Uncommon
    return session, Wish(wait_ms, min_bytes, max_bytes), named


def _read_partition(
    frame: memoryview, at: int, topic_id: bytes, session: ReplicaSession
) -> tuple[_Named, int]:
    """A partition with the follower's position in it, and the place after it in the frame."""
    index, *told, tags = _ENTRY.unpack_from(frame, at)
    at += _ENTRY.size
    watermark = NOT_TOLD
    if tags:
        *tag, watermark = _WATERMARK.unpack_from(frame, at)
        if tags != 1 or tuple(tag) != _WATERMARK_TAG:
            raise Uncommon
        at += _WATERMARK.size
    known = session.positions.get(("", topic_id, index))
    if known is None:
        raise Uncommon
    return (known, (*told, watermark)), at


def _told(session: ReplicaSession, found: Answer, correlation_id: int) -> list[bytes | FileSlice]:
    """The response of the twin in parts, its size first."""
    by_topic: dict[bytes, list[tuple[ReplicaPosition, PartitionData]]] = {}
    for one in found.told:
        by_topic.setdefault(one[0].key[1], []).append(one)
    parts: list[bytes | FileSlice] = []
    out = bytearray(HEAD.size)
    append_unsigned_varint(out, len(by_topic) + 1)
    size = 0
    for topic_id, partitions in by_topic.items():
        out += topic_id
        append_unsigned_varint(out, len(partitions) + 1)
        for position, data in partitions:
            position.record_answer(data)
            out += TOLD.pack(
                data.partition_index,
                data.error_code,
                data.high_watermark,
                data.last_stable_offset,
                data.log_start_offset,
                0,
                -1,
            )
            records = data.records
            if isinstance(records, FileSlice):
                append_unsigned_varint(out, records.size_bytes + 1)
                parts += (bytes(out), records)
                size += len(out) + records.size_bytes
                out = bytearray()
            else:
                out.append(_NO_ELEMENTS)
            diverging = data.diverging_epoch
            if diverging is None:
                out += _NO_TAGS
            else:
                out += _DIVERGING.pack(1, 0, 13, diverging.epoch, diverging.end_offset, 0)
        out += _NO_TAGS
    out += _NO_TAGS
    size += len(out)
    parts.append(bytes(out))
    head = HEAD.pack(size - 4, correlation_id, 0, 0, 0, session.session_id)
    first = parts[0]
    assert not isinstance(first, FileSlice)
    parts[0] = head + first[HEAD.size :]
    return parts
