"""The fast path of Produce for plain batches in several partitions.

``kwire.handlers.plain_produce`` is the fast path for one partition. Both have the same slow and
obvious twin: ``kwire.handlers.produce``. This fast path reads every batch before it appends the
first. It appends nothing, and the twin serves the request, if:

- a batch isn't plain, a partition doesn't exist, or a partition occurs twice;
- an append would make files or rename them, as the first batch of a segment or of a leader epoch
  does;
- it is large (``MOST_TOPICS`` and the limits behind it): this fast path can't wait
  between two batches, the twin can.

If ``append_plain`` refuses a batch, it is appended as in the twin, with the same errors.
"""

from itertools import islice
from struct import Struct
from struct import error as StructError

from kwire.broker.broker import Broker
from kwire.broker.partition import ACKS_ALL, UNACKED, Partition
from kwire.errors import KafkaError
from kwire.handlers.lib.context import ConnectionInfo
from kwire.handlers.lib.waiting import Unfinished
from kwire.handlers.produce import told_log_start
from kwire.log.plain_batch import plain_batch
from kwire.log.rolling import note_room_if_any
from kwire.log.validation import FEW_RECORDS, CheckedBatch
from kwire.metadata.image import INTERNAL_TOPICS
from kwire.protocol.frame import RequestHeader
from kwire.protocol.wire import MalformedRequest, append_unsigned_varint, read_unsigned_varint
from kwire.record.batch import NO_TIMESTAMP, RecordBatch

TOPIC_IDS_SINCE = 13
WRITE, TOPIC = 4, 2
MOST_TOPICS = 128
MOST_PARTITIONS = 128
MOST_RECORDS = 640
"""Of batches with so few records that each one is read."""

MOST_BYTES = 512 * 1024
"""What is larger is left to the twin. So much takes about a millisecond."""

PRODUCE_KEY = 0

_LONGEST_NAME = 127
_UUID_BYTES = 16
_TOPICS_AT = 7

# A partition's index, and the first two bytes of the length of its records.
_PARTITION = Struct(">iBB")
# Size, correlation id, no tags.
_RESPONSE_BEGIN = Struct(">iiB")
# Index, error code, base offset, log append time, log start offset, empty fields.
_APPENDED = Struct(">ihqqq3s")
_ERROR_CODE_AT = 4
_EMPTY_FIELDS = b"\1\0\0"
"""No record errors, no error message, no tags."""

# The same fields up to the log start offset, and no record errors.
_REFUSED = Struct(">ihqqqB")
_NO_TAGS = b"\0"
_RESPONSE_END = bytes(5)
"""Throttle time, no tags."""


class Uncommon(Exception):
    """The slow twin has to serve this request."""


class Batches:
    """The batches of a request, all of them plain; ``at`` is the position of the next byte to read.

    ``topics`` holds a pair for each topic: the beginning of its part of the response, which is its
    name or id and the number of its partitions, and that number. ``batches`` has the partitions of
    all topics in the order of the request.
    """

    __slots__ = (
        "_broker",
        "_client",
        "_frame",
        "_now_ms",
        "_partitions",
        "_records",
        "_version",
        "at",
        "batches",
        "topics",
        "unacked",
    )

    def __init__(
        self, frame: memoryview, at: int, version: int, broker: Broker, client: ConnectionInfo
    ) -> None:
        self._frame = frame
        self._version = version
        self._broker = broker
        self._client = client
        self._now_ms = broker.now_ms()
        self.at = at
        self._partitions = self._records = 0
        self.topics: list[tuple[bytes, int]] = []
        self.batches: dict[Partition, RecordBatch] = {}
        self.unacked: list[tuple[Partition, int, int]] = []

    def read(self) -> None:
        """Read and check the whole request; Uncommon, or the error of reading malformed bytes."""
        if len(self._frame) > MOST_BYTES:
            raise Uncommon
        count, self.at = read_unsigned_varint(self._frame, self.at)
        if count - 1 > MOST_TOPICS:
            raise Uncommon
        for _ in range(count - 1):
            self._read_topic()
        if not self.batches or self._frame[self.at :] != _NO_TAGS:
            raise Uncommon

    def _read_topic(self) -> None:
        frame, begin = self._frame, self.at
        name = self._name()
        head = bytearray(frame[begin : self.at])
        count, self.at = read_unsigned_varint(frame, self.at)
        if count < 1:
            raise Uncommon
        append_unsigned_varint(head, count)
        self._partitions += count - 1
        if self._partitions > MOST_PARTITIONS:
            raise Uncommon
        for _ in range(count - 1):
            self._read_partition(name)
        if frame[self.at]:
            raise Uncommon
        self.at += 1
        self.topics.append((bytes(head), count - 1))

    def _name(self) -> str:
        """The name of the topic that begins here."""
        frame, begin = self._frame, self.at
        if self._version >= TOPIC_IDS_SINCE:
            self.at = begin + _UUID_BYTES
            found = self._broker.image.topics_by_id.get(bytes(frame[begin : self.at]))
            if found is None:
                raise Uncommon
            name = found.name
        else:
            length = frame[begin]
            if not 1 < length <= _LONGEST_NAME:
                raise Uncommon
            self.at = begin + length
            name = str(frame[begin + 1 : self.at], "utf-8")
        if name in INTERNAL_TOPICS:
            raise Uncommon
        authorizer = self._broker.authorizer
        if authorizer is not None and (
            authorizer.notes_allowed or not authorizer.allows(self._client, WRITE, TOPIC, name)
        ):
            raise Uncommon
        return name

    def _read_partition(self, topic: str) -> None:
        frame, at = self._frame, self.at
        index, length, more = _PARTITION.unpack_from(frame, at)
        at += _PARTITION.size
        if length > 0x7F and more <= 0x7F:
            length = length & 0x7F | more << 7
        else:
            length, at = read_unsigned_varint(frame, at - 2)
        end = at + length - 1
        partition = self._broker.partition_if_served(topic, index)
        if partition is None or partition in self.batches or length < 1 or frame[end]:
            raise Uncommon
        batch = plain_batch(frame[at:end], partition.log.config, self._now_ms)
        if batch is None:
            raise Uncommon
        log = partition.log
        segment = log.segments[-1]
        if segment.room_bytes < 0:
            note_room_if_any(segment, log.config)
        epochs = log.leader_epochs.entries
        if (
            segment.size_bytes + batch.size_bytes > segment.room_bytes
            or batch.max_timestamp > segment.room_timestamp
            or log.log_end_offset + batch.last_offset_delta > segment.room_offset
            or not epochs
            or partition.leader_epoch > epochs[-1][0]
        ):
            raise Uncommon  # the append makes files, or may do so
        if 1 < batch.records_count <= FEW_RECORDS:
            self._records += batch.records_count
            if self._records > MOST_RECORDS:
                raise Uncommon
        self.batches[partition] = batch
        self.at = end + 1

    def append(self, acks: int) -> bytes:
        """Append all batches; return the topics of the response.

        ``unacked`` then has the partitions that wait for replicas, see ``Unacked.add``.
        """
        parts: list[bytes] = []
        batches = iter(self.batches.items())
        for head, count in self.topics:
            parts.append(head)
            for partition, batch in islice(batches, count):
                first_offset = partition.append_plain(batch, acks)
                if first_offset < 0:
                    if first_offset > UNACKED:
                        parts.append(self._append_slowly(partition, batch, acks, parts))
                        continue
                    first_offset = UNACKED - first_offset
                    self._note_unacked(partition, first_offset + batch.records_count, parts)
                index, start = partition.index, partition.log.log_start_offset
                parts.append(_APPENDED.pack(index, 0, first_offset, -1, start, _EMPTY_FIELDS))
            parts.append(_NO_TAGS)
        return b"".join(parts)

    def _note_unacked(self, partition: Partition, end_offset: int, parts: list[bytes]) -> None:
        place = sum([len(part) for part in parts]) + _ERROR_CODE_AT
        self.unacked.append((partition, end_offset, place))

    def _append_slowly(
        self, partition: Partition, batch: RecordBatch, acks: int, parts: list[bytes]
    ) -> bytes:
        """Append a batch as the twin does; return its part of the response, or its error there."""
        index, start = partition.index, partition.log.log_start_offset
        checked = CheckedBatch(batch, NO_TIMESTAMP)
        try:
            info = partition.append_checked(checked, now_ms=self._now_ms, required_acks=acks)
        except KafkaError as error:
            start = told_log_start(error, start)
            self._broker.counters.errors[PRODUCE_KEY, error.code] += 1
            refused = bytearray(_REFUSED.pack(index, error.code, -1, -1, start, 1))
            message = error.message.encode()
            append_unsigned_varint(refused, len(message) + 1 if message else 0)
            return bytes(refused + message + _NO_TAGS)
        if acks == ACKS_ALL and type(partition) is not Partition:
            self._note_unacked(partition, info.last_offset + 1, parts)
        first_offset, time_ms, start = (
            info.first_offset,
            info.log_append_time_ms,
            info.log_start_offset,
        )
        return _APPENDED.pack(index, 0, first_offset, time_ms, start, _EMPTY_FIELDS)


def answer_many(
    frame: memoryview,
    position: int,
    header: RequestHeader,
    broker: Broker,
    client: ConnectionInfo,
    request: tuple[int, int],
) -> bytes | Unfinished | None:
    """The whole response with its size in front, or an object that gives it later.

    None if the twin has to serve the request. ``position`` is where the body begins; ``request`` is
    the acks and the timeout. The caller has checked that there is no transactional id.
    """
    acks, timeout_ms = request
    batches = Batches(frame, position + _TOPICS_AT, header.api_version, broker, client)
    try:
        batches.read()
    except (Uncommon, StructError, IndexError, MalformedRequest, UnicodeDecodeError):
        return None
    count = bytearray()
    append_unsigned_varint(count, len(batches.topics) + 1)
    body = batches.append(acks)
    size = _RESPONSE_BEGIN.size - 4 + len(count) + len(body) + len(_RESPONSE_END)
    begin = _RESPONSE_BEGIN.pack(size, header.correlation_id, 0)
    ready = b"".join((begin, count, body, _RESPONSE_END))
    if not batches.unacked:
        return ready
    from kwire.handlers.lib.unacked import Unacked

    unacked = Unacked(timeout_ms, header, broker, client)
    for partition, end_offset, place in batches.unacked:
        unacked.add(partition, end_offset, len(begin) + len(count) + place)
    return unacked.answer(ready)
