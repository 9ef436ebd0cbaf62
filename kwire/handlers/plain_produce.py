"""Produce, the common request: one plain batch for one partition whose records nobody waits for.

This is a fast path. It reads the request without decoding it into objects, and writes the response
as bytes. ``answer`` returns None for an uncommon request and leaves nothing changed. Then
``kwire.handlers.produce``, the slow and obvious twin, serves the request. Both give the same bytes
and append the same bytes, as tests/handlers/test_plain_produce.py shows.

A request is common if:

- its version is 9 to 13, and it names one partition;
- acks is 1, or all and the partition has no other replica;
- it has no transactional id and no tagged fields;
- its topic exists and isn't internal;
- its batch is plain (``kwire.log.plain_batch``) and not very large, and there is no error.
"""

from struct import Struct
from struct import error as StructError

from kwire.broker.broker import Broker
from kwire.broker.partition import ACKS_ALL, Partition
from kwire.handlers.lib.context import ConnectionInfo
from kwire.log.inline_limits import AT_ONCE_BYTES
from kwire.log.plain_batch import plain_batch
from kwire.metadata.image import INTERNAL_TOPICS
from kwire.protocol.frame import RequestHeader
from kwire.protocol.wire import MalformedRequest, read_unsigned_varint

TOPIC_IDS_SINCE = 13
FLEXIBLE_SINCE = 9

WRITE, TOPIC = 4, 2
"""The operation and the resource of ACLs (``kwire.metadata.acls``), which say who may produce."""

_ONE = 2
"""The length of a compact array with one element."""

_SHORTEST_NAME = 2
_LONGEST_NAME = 127
"""The bytes of a name and of the byte that holds its length."""

_UUID_BYTES = 16

# No transactional id, acks, timeout, one topic, and the first byte of the topic.
_BEGIN = Struct(">BhiBB")
_TOPIC_AT = _BEGIN.size - 1
# One partition, its index, the first two bytes of the length of its records.
_PARTITION = Struct(">BiBB")
# Size, correlation id, no tags, one topic.
_RESPONSE_BEGIN = Struct(">iiBB")
# One partition: index, error code, base offset, log append time, log start offset, empty fields.
_RESPONSE_END = Struct(">Bihqqq9s")
_EMPTY_FIELDS = b"\1" + bytes(8)
"""No record errors, message, tags; no tags of the topic; throttle time 0; no tags at the end."""

_NO_TAGS = b"\0\0\0"


def answer(
    frame: memoryview,
    position: int,
    header: RequestHeader,
    broker: Broker,
    client: ConnectionInfo,
) -> bytes | None:
    """The whole response with its size in front; None if the request isn't common.

    ``position`` is where the body of the request begins.
    """
    version = header.api_version
    if version < FLEXIBLE_SINCE:
        return None
    try:
        no_id, acks, _timeout_ms, topics, length = _BEGIN.unpack_from(frame, position)
        if no_id or (acks != -1 and acks != 1):
            return None
        topic_at = position + _TOPIC_AT
        topic_end = topic_at + (length if version < TOPIC_IDS_SINCE else _UUID_BYTES)
        partitions, index, length, more = _PARTITION.unpack_from(frame, topic_end)
        if topics != _ONE or partitions != _ONE:
            return None
        records_at = topic_end + _PARTITION.size
        if length > 0x7F and more <= 0x7F:
            length = length & 0x7F | more << 7
        else:
            length, records_at = read_unsigned_varint(frame, records_at - 2)
    except (StructError, IndexError, MalformedRequest):
        return None
    records_end = records_at + length - 1
    if length > AT_ONCE_BYTES or frame[records_end:] != _NO_TAGS:
        return None
    topic = frame[topic_at:topic_end]
    partition = _partition(topic, index, version, broker, client)
    if partition is None or not _waits_for_nobody(partition, acks):
        return None
    batch = plain_batch(frame[records_at:records_end], partition.log.config, broker.now_ms())
    if batch is None:
        return None
    first_offset = partition.append_plain(batch, acks)
    if first_offset < 0:
        return None
    start_offset = partition.log.log_start_offset
    size = 6 + len(topic) + _RESPONSE_END.size
    return b"".join(
        (
            _RESPONSE_BEGIN.pack(size, header.correlation_id, 0, _ONE),
            topic,
            _RESPONSE_END.pack(_ONE, index, 0, first_offset, -1, start_offset, _EMPTY_FIELDS),
        )
    )


def _waits_for_nobody(partition: Partition, acks: int) -> bool:
    """Whether neither other replicas nor a large batch that is being written are waited for."""
    has_to_wait = acks == ACKS_ALL and type(partition) is not Partition
    return partition.writing is None and not has_to_wait


def _partition(
    topic: memoryview, index: int, version: int, broker: Broker, client: ConnectionInfo
) -> Partition | None:
    """The partition; None unless this broker serves it and the client may write to it."""
    if version < TOPIC_IDS_SINCE:
        if len(topic) < _SHORTEST_NAME or topic[0] > _LONGEST_NAME:
            return None
        try:
            name = str(topic[1:], "utf-8")
        except UnicodeDecodeError:
            return None
    else:
        found = broker.image.topics_by_id.get(bytes(topic))
        if found is None:
            return None
        name = found.name
    if name in INTERNAL_TOPICS:
        return None
    authorizer = broker.authorizer
    if authorizer is not None and (
        authorizer.notes_allowed or not authorizer.allows(client, WRITE, TOPIC, name)
    ):
        return None
    return broker.partition_if_served(name, index)
