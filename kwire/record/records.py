"""Reading the records of a batch one by one, and building batches.

Format of a record (KIP-98); varints are zigzag, deltas are to the base of the batch::

    length varint | attributes int8 | timestamp_delta varlong | offset_delta varint |
    key length varint, key | value length varint, value | headers count varint |
    (key length varint, key | value length varint, value)…        length -1 stands for null

Rules:

- Records are read only if Kafka's semantics need it; see docs/decisions.
- InvalidRecords is raised unless the bytes are exactly ``records_count`` records.
- With LOG_APPEND_TIME every record has the batch's max timestamp.
- As in Kafka, an offset may lie outside its batch, and a negative length of a key or value means
  null. A header's name that isn't UTF-8 is no error; it is kept, with surrogates.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple, TypeAlias

from kwire.errors import ErrorCode
from kwire.record.batch import (
    CONTROL_MASK,
    CREATE_TIME,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    Buffer,
    InvalidRecords,
    RecordBatch,
    TooLarge,
    build_header,
)
from kwire.record.compression import STRETCH_BYTES, compress, compressed, decompressed
from kwire.record.streaming_decompressor import (
    NO_LIMITS,
    BetweenPieces,
    Limits,
    StreamingDecompressor,
    do_nothing,
    invalid,
)
from kwire.record.varint import append_varint, read_varint

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]

AT_ONCE_BYTES = 1024 * 1024
"""Up to this size, records are recompressed in one piece."""

INT32_MAX = 0x7FFF_FFFF
_INT64_MAX = 0x7FFF_FFFF_FFFF_FFFF


class Record(NamedTuple):
    """One record as a consumer sees it; ``timestamp`` in ms since the epoch."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class ProducerState(NamedTuple):
    """The fields that an idempotent or transactional producer writes into its batches' headers."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = -1
    base_sequence: int = NO_SEQUENCE


NO_PRODUCER = ProducerState()


def records(
    batch: RecordBatch, limits: Limits = NO_LIMITS, between: BetweenPieces = do_nothing
) -> Iterator[Record]:
    """Every record of a batch, in order. The batch is decompressed during the iteration.

    Raises InvalidRecords (CORRUPT_MESSAGE or INVALID_RECORD) if the bytes don't match the batch's
    header, TooLarge beyond the limits.
    """
    stream = StreamingDecompressor(batch, limits, between)
    append_time = batch.max_timestamp if batch.timestamp_type == LOG_APPEND_TIME else None
    for _ in range(batch.records_count):
        end = stream.next_record()
        yield _read_record(stream, end, batch, append_time)
        stream.position = end
    if not stream.is_at_end():
        raise invalid("bytes follow the last record")


def _read_record(
    stream: StreamingDecompressor, end: int, batch: RecordBatch, append_time: int | None
) -> Record:
    """The record from the stream's position, just after its length field, to ``end``."""
    buffer, position = stream.buffer, stream.position
    length = end - position
    try:
        timestamp_delta, position = read_varint(buffer, position + 1)
        offset_delta, position = read_varint(buffer, position)
        key, position = _read_bytes(buffer, position, end)
        value, position = _read_bytes(buffer, position, end)
        headers, position = _read_headers(stream, position, end)
    except IndexError as error:
        raise invalid("the records are cut short") from error
    if position != end:
        raise invalid(f"a record of {length} bytes has {end - position} bytes left over")
    offset = batch.base_offset + offset_delta
    timestamp = batch.base_timestamp + timestamp_delta if append_time is None else append_time
    if not -_INT64_MAX <= timestamp <= _INT64_MAX:
        raise invalid(f"timestamp {timestamp} does not fit into 64 bits")
    return Record(offset, timestamp, key, value, headers)


def _read_headers(stream: StreamingDecompressor, position: int, end: int) -> tuple[Headers, int]:
    buffer = stream.buffer
    count, position = read_varint(buffer, position)
    if count == 0:
        return (), position
    stream.count_headers(count, end - position)
    headers = []
    for _ in range(count):
        key, position = _read_bytes(buffer, position, end)
        if key is None:
            raise invalid("a header has no key")
        value, position = _read_bytes(buffer, position, end)
        headers.append((key.decode(errors="surrogateescape"), value))
    return tuple(headers), position


def _read_bytes(buffer: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = read_varint(buffer, position)
    if length < 0:
        return None, position
    stop = position + length
    if stop > end:
        raise invalid(f"a key or value of {length} bytes does not fit into the record")
    return buffer[position:stop], stop


class BatchBuilder:
    """Collects the records of one batch, whose offsets ascend and may have gaps.

    ``base_offset`` is the batch's; timestamps are milliseconds since the epoch.
    """

    __slots__ = (
        "_body",
        "_count",
        "_first_timestamp",
        "_last_delta",
        "_max_timestamp",
        "base_offset",
    )

    def __init__(self, base_offset: int = 0) -> None:
        self.base_offset = base_offset
        self._body = bytearray()
        self._count = 0
        self._last_delta = -1
        self._first_timestamp = NO_TIMESTAMP
        self._max_timestamp = NO_TIMESTAMP

    def add(
        self,
        timestamp: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Headers = (),
        offset: int | None = None,
    ) -> None:
        """Add one record, at the next offset unless ``offset`` is given."""
        if self._count == 0:
            self._first_timestamp = timestamp
        delta = self._last_delta + 1 if offset is None else offset - self.base_offset
        time_delta = timestamp - self._first_timestamp
        _append_record(self._body, time_delta, delta, key, value, headers)
        self._count += 1
        self._last_delta = delta
        if timestamp > self._max_timestamp:
            self._max_timestamp = timestamp

    def build(
        self,
        *,
        compression: int = 0,
        level: int | None = None,
        leader_epoch: int = -1,
        timestamp_type: int = CREATE_TIME,
        producer: ProducerState = NO_PRODUCER,
        transactional: bool = False,
        control: bool = False,
        last_offset_delta: int | None = None,
    ) -> bytearray:
        """Build the batch; ``last_offset_delta`` is given for a batch that compaction has cut."""
        attributes = compression
        attributes |= TIMESTAMP_TYPE_MASK if timestamp_type == LOG_APPEND_TIME else 0
        attributes |= TRANSACTIONAL_MASK if transactional else 0
        attributes |= CONTROL_MASK if control else 0
        return build_header(
            compress(compression, self._body, level),
            base_offset=self.base_offset,
            leader_epoch=leader_epoch,
            attributes=attributes,
            last_offset_delta=self._last_delta if last_offset_delta is None else last_offset_delta,
            base_timestamp=self._first_timestamp,
            max_timestamp=self._max_timestamp,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=producer.base_sequence,
            records_count=self._count,
        )


def build_batch(
    items: Iterable[Record],
    *,
    base_offset: int = 0,
    compression: int = 0,
    producer: ProducerState = NO_PRODUCER,
    transactional: bool = False,
    leader_epoch: int = -1,
) -> bytearray:
    """A batch of ``items``; their offsets are stored relative to ``base_offset``."""
    builder = BatchBuilder(base_offset)
    for item in items:
        builder.add(item.timestamp, item.key, item.value, item.headers, item.offset)
    return builder.build(
        compression=compression,
        producer=producer,
        transactional=transactional,
        leader_epoch=leader_epoch,
    )


def recompress(
    batch: RecordBatch,
    compression: int,
    level: int | None = None,
    *,
    limits: Limits = NO_LIMITS,
    max_size_bytes: int = INT32_MAX,
    between: BetweenPieces = do_nothing,
) -> bytearray:
    """The same batch with its records compressed by another codec.

    Unknown attributes, and those that only compaction sets, are left out. Raises TooLarge for a
    batch beyond the limits, MESSAGE_TOO_LARGE if the result would exceed ``max_size_bytes``.
    """
    kept = batch.attributes & (TIMESTAMP_TYPE_MASK | TRANSACTIONAL_MASK | CONTROL_MASK)
    max_bytes = limits.max_bytes if batch.compression else batch.size_bytes
    stretches = decompressed(batch.compression, batch.payload, max_bytes)
    return build_header(
        _compress_all(stretches, compression, level, max_size_bytes, between),
        base_offset=batch.base_offset,
        leader_epoch=batch.partition_leader_epoch,
        attributes=kept | compression,
        last_offset_delta=batch.last_offset_delta,
        base_timestamp=batch.base_timestamp,
        max_timestamp=batch.max_timestamp,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        records_count=batch.records_count,
    )


def renumbered(
    batch: RecordBatch,
    compression: int,
    level: int | None = None,
    *,
    limits: Limits = NO_LIMITS,
    max_size_bytes: int = INT32_MAX,
    between: BetweenPieces = do_nothing,
) -> bytearray:
    """A batch of the same records with consecutive offsets and effective timestamps.

    It replaces a batch whose own offsets or timestamp type can't be kept. Raises InvalidRecords and
    TooLarge as ``recompress`` does.
    """
    if batch.records_count > limits.max_renumbered:
        raise TooLarge(f"more than {limits.max_renumbered} records that need other offsets")
    times = [NO_TIMESTAMP, NO_TIMESTAMP]  # of the first record, and the largest
    stretches = _renumbered_records(records(batch, limits, between), times)
    payload = _compress_all(stretches, compression, level, max_size_bytes, between)
    return build_header(
        payload,
        base_offset=batch.base_offset,
        leader_epoch=batch.partition_leader_epoch,
        attributes=compression | (batch.attributes & TRANSACTIONAL_MASK),
        last_offset_delta=batch.records_count - 1,
        base_timestamp=times[0],
        max_timestamp=times[1],
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        records_count=batch.records_count,
    )


def _renumbered_records(found: Iterator[Record], times: list[int]) -> Iterator[bytes]:
    """The bytes of renumbered records, in pieces; fills in ``times``."""
    out = bytearray()
    for place, record in enumerate(found):
        if place == 0:
            times[0] = record.timestamp
        times[1] = max(times[1], record.timestamp)
        time_delta = record.timestamp - times[0]
        _append_record(out, time_delta, place, record.key, record.value, record.headers)
        if len(out) >= STRETCH_BYTES:
            yield bytes(out)
            out.clear()
    yield bytes(out)


def _compress_all(
    stretches: Iterator[bytes],
    compression: int,
    level: int | None,
    max_size_bytes: int,
    between: BetweenPieces,
) -> bytes:
    """A compressed payload that fits into a batch of ``max_size_bytes``, or MESSAGE_TOO_LARGE.

    A small payload is compressed in one piece, so that zstd and lz4 can write its size.
    """
    first: list[bytes] = []
    have = 0
    for stretch in stretches:
        between()
        first.append(stretch)
        have += len(stretch)
        if have > AT_ONCE_BYTES:
            break
    else:
        return compress(compression, b"".join(first), level)
    out: list[bytes] = []
    left = max_size_bytes - HEADER_BYTES
    for part in compressed(compression, chain(first, stretches), level):
        between()
        out.append(part)
        left -= len(part)
        if left < 0:
            raise InvalidRecords(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"the recompressed batch has more than {max_size_bytes} bytes",
            )
    return b"".join(out)


def _append_record(
    out: bytearray,
    time_delta: int,
    offset_delta: int,
    key: Buffer | None,
    value: Buffer | None,
    headers: Headers,
) -> None:
    record = bytearray(1)  # the attributes
    append_varint(record, time_delta)
    append_varint(record, offset_delta)
    _append_bytes(record, key)
    _append_bytes(record, value)
    append_varint(record, len(headers))
    for name, content in headers:
        _append_bytes(record, name.encode(errors="surrogateescape"))
        _append_bytes(record, content)
    append_varint(out, len(record))
    out += record


def _append_bytes(out: bytearray, value: Buffer | None) -> None:
    if value is None:
        out.append(1)
    else:
        append_varint(out, len(value))
        out += value
