"""The header of a record batch, and the few fields of the header that a broker may change.

Format (big endian, magic 2, KIP-98)::

    base_offset int64 | batch_length int32 | partition_leader_epoch int32 | magic int8 |
    crc uint32 | attributes int16 | last_offset_delta int32 | base_timestamp int64 |
    max_timestamp int64 | producer_id int64 | producer_epoch int16 | base_sequence int32 |
    records_count int32 | records…

Rules:

- ``batch_length`` counts from ``partition_leader_epoch`` on; a batch is 12 bytes longer.
- The CRC-32C covers everything from ``attributes`` to the end. Base offset, length, leader epoch
  and magic lie outside it, so a broker assigns offsets without touching the checksum.
- Attributes: bits 0-2 compression, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon.
- ``last_offset_delta`` stays when compaction removes the last record, so offsets never go back.
"""

from collections.abc import Iterator
from struct import Struct
from typing import TypeAlias

from kwire.errors import ErrorCode, KafkaError
from kwire.record.checksum import crc32c

Buffer: TypeAlias = bytes | bytearray | memoryview

HEADER_BYTES = 61
"""Size of a batch without records."""

LOG_OVERHEAD_BYTES = 12
"""Base offset and length, which ``batch_length`` doesn't count."""

MIN_BATCH_LENGTH = HEADER_BYTES - LOG_OVERHEAD_BYTES
MAGIC = 2
NO_PRODUCER_ID = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
MAX_SEQUENCE = 0x7FFFFFFF

CREATE_TIME = 0
LOG_APPEND_TIME = 1

COMPRESSION_MASK = 0x07
TIMESTAMP_TYPE_MASK = 0x08
TRANSACTIONAL_MASK = 0x10
CONTROL_MASK = 0x20
DELETE_HORIZON_MASK = 0x40

_HEADER = Struct(">qiibIhiqqqhii")
_OFFSET_LENGTH_MAGIC = Struct(">qiib")
_BASE_OFFSET = Struct(">q")
_INT8 = Struct(">b")
_INT32 = Struct(">i")
_INT64 = Struct(">q")
_UINT32 = Struct(">I")
_INT16 = Struct(">h")

_MIN_LENGTH_OF_ANY_MAGIC = 14

_LEADER_EPOCH_AT = 12
_MAGIC_AT = 16
_CRC_AT = 17
ATTRIBUTES_AT = 21
"""Position in a batch of the first byte that the checksum covers."""

_BASE_TIMESTAMP_AT = 27
_MAX_TIMESTAMP_AT = 35


class InvalidRecords(KafkaError):
    """Bytes that should be record batches but are not."""


class TooLarge(InvalidRecords):
    """Records that are more, or decompress to more, than the caller allows.

    MESSAGE_TOO_LARGE: Kafka's own producer splits the batch then, and no client sends the same
    batch again.
    """

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.MESSAGE_TOO_LARGE, message)


class RecordBatch:
    """The parsed header of the batch at ``position`` of ``buffer``; its records stay bytes.

    Sizes are bytes, timestamps milliseconds since the epoch. Raises InvalidRecords: CORRUPT_MESSAGE
    if the buffer does not hold the complete batch, UNSUPPORTED_FOR_MESSAGE_FORMAT for magics 0 and
    1, which Kafka 4 dropped. With ``header_only`` the buffer need not hold the records, and the
    caller must not read them.
    """

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "buffer",
        "crc",
        "last_offset_delta",
        "magic",
        "max_timestamp",
        "partition_leader_epoch",
        "position",
        "producer_epoch",
        "producer_id",
        "records_count",
        "size_bytes",
    )

    attributes: int
    base_offset: int
    base_sequence: int
    base_timestamp: int
    crc: int
    last_offset_delta: int
    magic: int
    max_timestamp: int
    partition_leader_epoch: int
    producer_epoch: int
    producer_id: int
    records_count: int
    size_bytes: int

    def __init__(self, buffer: Buffer, position: int = 0, header_only: bool = False) -> None:
        left = len(buffer) - position
        if left < HEADER_BYTES:
            raise _too_short(buffer, position, left)
        (
            self.base_offset,
            length,
            self.partition_leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.records_count,
        ) = _HEADER.unpack_from(buffer, position)
        self.buffer = buffer
        self.position = position
        self.size_bytes = length + LOG_OVERHEAD_BYTES
        if self.magic != MAGIC:
            raise _wrong_magic(self.magic)
        if not HEADER_BYTES <= self.size_bytes <= left and not (
            header_only and self.size_bytes >= HEADER_BYTES
        ):
            raise InvalidRecords(
                ErrorCode.CORRUPT_MESSAGE,
                f"batch length {length} does not fit: {left - LOG_OVERHEAD_BYTES} bytes are left",
            )

    @property
    def last_offset(self) -> int:
        """Offset of the last record, whether or not compaction has removed it."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after this batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record, -1 if the batch has none; 0 follows 2**31 - 1."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & MAX_SEQUENCE

    @property
    def compression(self) -> int:
        """The codec's number in the attributes, see ``kwire.record.compression.Compression``."""
        return self.attributes & COMPRESSION_MASK

    @property
    def timestamp_type(self) -> int:
        """CREATE_TIME or LOG_APPEND_TIME."""
        return LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE_MASK else CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL_MASK)

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a control record, which consumers don't see."""
        return bool(self.attributes & CONTROL_MASK)

    @property
    def has_producer_id(self) -> bool:
        """Whether an idempotent or transactional producer wrote the batch."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may remove the batch's tombstones; None while no time is set."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_MASK else None

    @property
    def data(self) -> memoryview:
        """All bytes of the batch, not copied."""
        return memoryview(self.buffer)[self.position : self.position + self.size_bytes]

    @property
    def payload(self) -> memoryview:
        """The records as they are, compressed or not, not copied."""
        start = self.position + HEADER_BYTES
        return memoryview(self.buffer)[start : self.position + self.size_bytes]

    def crc_is_right(self) -> bool:
        """Whether the checksum matches the bytes that it covers."""
        start = self.position + ATTRIBUTES_AT
        covered = memoryview(self.buffer)[start : self.position + self.size_bytes]
        return bool(crc32c(covered) == self.crc)

    def verify_crc(self) -> None:
        """Raise InvalidRecords (CORRUPT_MESSAGE) unless the checksum is right."""
        if not self.crc_is_right():
            raise InvalidRecords(
                ErrorCode.CORRUPT_MESSAGE,
                f"record batch at offset {self.base_offset} fails its checksum {self.crc:#010x}",
            )

    def __repr__(self) -> str:
        return (
            f"RecordBatch(base_offset={self.base_offset}, last_offset={self.last_offset}, "
            f"records_count={self.records_count}, size_bytes={self.size_bytes})"
        )


def batches(buffer: Buffer, position: int = 0) -> Iterator[RecordBatch]:
    """Every batch from ``position`` to the end, which must be the end of a batch.

    Raises InvalidRecords as RecordBatch does; the caller verifies checksums.
    """
    end = len(buffer)
    while position < end:
        batch = RecordBatch(buffer, position)
        position += batch.size_bytes
        yield batch


def complete_batches(buffer: Buffer, position: int = 0) -> Iterator[RecordBatch]:
    """Like ``batches``, but ends before an incomplete last batch, which a fetch may contain."""
    end = len(buffer)
    while position + HEADER_BYTES <= end:
        length = _INT32.unpack_from(buffer, position + 8)[0]
        if position + LOG_OVERHEAD_BYTES + length > end:
            return
        batch = RecordBatch(buffer, position)
        position += batch.size_bytes
        yield batch


def whole_batch_bytes(buffer: Buffer, position: int) -> int | None:
    """Size of the batch at ``position``, of any magic; None if the batch is incomplete.

    Raises InvalidRecords (CORRUPT_MESSAGE) for bytes that can't be the start of a batch.
    """
    left = len(buffer) - position
    if left < LOG_OVERHEAD_BYTES:
        return None
    (length,) = _INT32.unpack_from(buffer, position + 8)
    if length < _MIN_LENGTH_OF_ANY_MAGIC:
        raise InvalidRecords(ErrorCode.CORRUPT_MESSAGE, f"a record batch of length {length}")
    if left <= _MAGIC_AT:
        return None
    (magic,) = _INT8.unpack_from(buffer, position + _MAGIC_AT)
    if not 0 <= magic <= MAGIC:
        raise _wrong_magic(magic)
    return length + LOG_OVERHEAD_BYTES if length + LOG_OVERHEAD_BYTES <= left else None


def assign_offsets(batch: RecordBatch, base_offset: int, leader_epoch: int) -> None:
    """Set base offset and leader epoch of a batch, in its buffer too; the CRC stays right."""
    _BASE_OFFSET.pack_into(batch.buffer, batch.position, base_offset)
    _INT32.pack_into(batch.buffer, batch.position + _LEADER_EPOCH_AT, leader_epoch)
    batch.base_offset, batch.partition_leader_epoch = base_offset, leader_epoch


def set_max_timestamp(batch: RecordBatch, timestamp_type: int, max_timestamp: int) -> None:
    """Set timestamp type and max timestamp of a batch, in its buffer too, with a new CRC."""
    buffer, position = batch.buffer, batch.position
    batch.attributes &= ~TIMESTAMP_TYPE_MASK
    if timestamp_type == LOG_APPEND_TIME:
        batch.attributes |= TIMESTAMP_TYPE_MASK
    batch.max_timestamp = max_timestamp
    _INT16.pack_into(buffer, position + ATTRIBUTES_AT, batch.attributes)
    _INT64.pack_into(buffer, position + _MAX_TIMESTAMP_AT, max_timestamp)
    batch.crc = crc32c(memoryview(buffer)[position + ATTRIBUTES_AT : position + batch.size_bytes])
    _UINT32.pack_into(buffer, position + _CRC_AT, batch.crc)


def build_header(  # one argument for each field of the format
    payload: bytes,
    *,
    base_offset: int,
    leader_epoch: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    records_count: int,
) -> bytearray:
    """A complete batch: the header for ``payload``, with its CRC, and the payload."""
    out = bytearray(
        _HEADER.pack(
            base_offset,
            MIN_BATCH_LENGTH + len(payload),
            leader_epoch,
            MAGIC,
            0,
            attributes,
            last_offset_delta,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            records_count,
        )
    )
    out += payload
    _UINT32.pack_into(out, _CRC_AT, crc32c(memoryview(out)[ATTRIBUTES_AT:]))
    return out


def _too_short(buffer: Buffer, position: int, left: int) -> InvalidRecords:
    if left > _MAGIC_AT:
        magic = _OFFSET_LENGTH_MAGIC.unpack_from(buffer, position)[3]
        if magic in (0, 1):
            return _wrong_magic(magic)
    return InvalidRecords(
        ErrorCode.CORRUPT_MESSAGE, f"{left} bytes are too few for the header of a record batch"
    )


def _wrong_magic(magic: int) -> InvalidRecords:
    if magic in (0, 1):
        return InvalidRecords(
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            f"message format {magic} was removed in Kafka 4.0; use a client that writes format 2",
        )
    return InvalidRecords(ErrorCode.CORRUPT_MESSAGE, f"record batch with unknown magic {magic}")
