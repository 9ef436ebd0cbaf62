"""The common request of a follower and the common answer, as bytes without objects in between.

This is a fast path. ``request`` writes the next request of a session. ``answer`` reads an answer
without copying it. Both return None if the request or answer is uncommon, and then leave nothing
changed. Then ``Fetching.request`` and ``Fetching.take`` do the work, the slow and obvious twins.
Requests and results of both twins are the same, as tests/broker/test_plain_fetching.py shows.

A request is common if it has version 18, continues a session, and names at most ``MOST_NAMED``
partitions, all of them followed, none of which was paused. An answer is common if it has no errors,
no diverging epochs and no other tagged fields.

Format: see ``kwire.protocol.messages.fetch``.
"""

from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from kwire.broker.fetching import FIRST_EPOCH, Fetching, Key, Limits, Position
from kwire.broker.follower_partition import FollowerPartition
from kwire.protocol.wire import MalformedRequest, append_unsigned_varint, read_unsigned_varint
from kwire.record.batch import Buffer

FETCH_KEY, VERSION = 1, 18

MOST_NAMED = 200
"""The most partitions of a request. A larger request may not fit into a socket's buffer."""

_HEADER = Struct(">ihhih")
"""Size, API key, version, correlation id, and the length of the client id, which follows."""

_BEGIN = Struct(">iiibii")
"""Wait, min and max bytes, isolation, session id, session epoch."""

_ENTRY = Struct(">iiqiqiBBBq")
"""A partition: index, leader epoch, offset, last epoch, log start, most bytes; one tag, its number
and size, the high watermark."""

_REPLICA = Struct(">BBBBBiqB")
"""No forgotten partitions, no rack, one tag, its number and size; the follower's id, broker epoch,
no tags."""

_ANSWER = Struct(">iBihi")
"""Correlation id, no tags, throttle time, error code, session id."""

_FETCHED = Struct(">ihqqqBi")
"""Index, error code, high watermark, last stable offset, log start, aborted transactions (null),
preferred replica."""

_SIZE = Struct(">i")
_UUID_BYTES = 16
_NO_TAGS = 0
_SIZE_BYTES = 4


class Sender(NamedTuple):
    """The broker that fetches: its client id, node id, and the epoch of its registration."""

    client_id: bytes
    node_id: int
    broker_epoch: int


class Fetched(NamedTuple):
    """One partition of an answer; ``records`` is a view of the answer."""

    partition: FollowerPartition
    records: Buffer
    high_watermark: int
    log_start_offset: int


def request(
    fetching: Fetching[FollowerPartition],
    limits: Limits,
    sender: Sender,
    correlation_id: int,
    now_s: float,
) -> bytearray | None:
    """The next request, its size in front; None if it isn't common, or without partitions."""
    if fetching.epoch == FIRST_EPOCH or not fetching.told:
        return None
    if len(fetching.to_look_at) > MOST_NAMED:
        return None
    for until_s in fetching.resting.values():
        if until_s <= now_s:
            return None
    named: dict[bytes, list[tuple[Key, FollowerPartition, Position]]] = {}
    for key in fetching.to_look_at:
        partition = fetching.partitions.get(key)
        if partition is None or key in fetching.resting:
            return None
        position = partition.position
        if fetching.told.get(key) != position:
            named.setdefault(key[0], []).append((key, partition, position))
    out = bytearray(_HEADER.pack(0, FETCH_KEY, VERSION, correlation_id, len(sender.client_id)))
    out += sender.client_id
    out.append(_NO_TAGS)
    out += _BEGIN.pack(
        fetching.wait_ms(limits.max_wait_ms, now_s),
        limits.min_bytes,
        limits.max_bytes,
        0,
        fetching.session_id,
        fetching.epoch,
    )
    append_unsigned_varint(out, len(named) + 1)
    for topic_id, rows in named.items():
        out += topic_id
        append_unsigned_varint(out, len(rows) + 1)
        for key, partition, position in rows:
            fetching.told[key] = position
            watermark = partition.high_watermark
            out += _ENTRY.pack(
                partition.index, *position, limits.partition_max_bytes, 1, 1, 8, watermark
            )
        out.append(_NO_TAGS)
    out += _REPLICA.pack(1, 1, 1, 1, 13, sender.node_id, sender.broker_epoch, _NO_TAGS)
    fetching.to_look_at.clear()
    _SIZE.pack_into(out, 0, len(out) - _SIZE_BYTES)
    return out


def answer(fetching: Fetching[FollowerPartition], frame: memoryview) -> list[Fetched] | None:
    """The partitions of the answer to the last request; ``frame`` is without its size."""
    try:
        found = _read(fetching, frame)
    except (StructError, IndexError, MalformedRequest):
        return None
    if found is None:
        return None
    fetching.go_on()
    wanted: list[Fetched] = []
    for key, one in found:
        fetching.to_look_at[key] = None
        if one.partition.position == fetching.told[key]:
            fetching.errors.pop(key, None)
            wanted.append(one)
    return wanted


def _read(
    fetching: Fetching[FollowerPartition], frame: memoryview
) -> list[tuple[Key, Fetched]] | None:
    _, tags, _, error_code, session_id = _ANSWER.unpack_from(frame, 0)
    if tags or error_code or session_id != fetching.session_id or fetching.epoch == FIRST_EPOCH:
        return None
    found: list[tuple[Key, Fetched]] = []
    topics, at = read_unsigned_varint(frame, _ANSWER.size)
    for _ in range(topics - 1):
        topic_id = bytes(frame[at : at + _UUID_BYTES])
        partitions, at = read_unsigned_varint(frame, at + _UUID_BYTES)
        for _ in range(partitions - 1):
            index, error_code, watermark, _, start, aborted, _ = _FETCHED.unpack_from(frame, at)
            length, at = read_unsigned_varint(frame, at + _FETCHED.size)
            end = at + length - 1
            if error_code or aborted or length == 0 or frame[end] != _NO_TAGS:
                return None
            key = (topic_id, index)
            partition = fetching.partitions.get(key)
            if partition is None or key not in fetching.told or key in fetching.resting:
                return None
            found.append((key, Fetched(partition, frame[at:end], watermark, start)))
            at = end + 1
        if frame[at] != _NO_TAGS:
            return None
        at += 1
    return found if topics and len(frame) == at + 1 and frame[at] == _NO_TAGS else None
