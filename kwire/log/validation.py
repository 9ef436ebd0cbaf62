"""The checks and corrections of a client's batch before it is appended.

Rules:

- The order is Kafka's: framing, base offset, size, checksum, header, records, size once more.
- A batch is opened, that is, its records are read, if Kafka's semantics need it: for a compacted
  topic (keys), for another codec, for a limit on old timestamps or on the size of decompressed
  records, for impossible timestamps in the header, and for compressed data whose first or last
  bytes claim an impossible size. A batch of a few records is opened too, because that costs no more
  than the append.
  The headers of other batches are trusted as far as they can be true; docs/decisions/0011 says what
  that means for readers.
- An error of a single record carries the record's index in the batch (KIP-467).
- The max timestamp of an opened batch is corrected to that of its records.
- A batch is opened piece by piece, up to ``Limits``. Beyond them TooLarge is raised, and the caller
  checks again with larger limits in a thread. A batch of a few records that need not be opened is
  trusted instead.
- At most ``MOST_RECORD_ERRORS`` wrong records are reported. Kafka reports all of them. For a record
  that isn't reported, Kafka's clients say that its batch was rejected because of other records.

Source: LogValidator, UnifiedLog.analyzeAndValidateRecords and ProduceRequest of Kafka.
"""

from contextlib import suppress
from enum import Enum
from typing import NamedTuple

from kwire.errors import ErrorCode, KafkaError
from kwire.log.inline_limits import (
    RECOMPRESSED_BYTES,
    SLOW_RECORDS,
    has_large_blocks,
    is_quick_to_open,
    is_quick_to_recompress,
)
from kwire.log.log_config import NO_LIMIT, LogConfig
from kwire.record.batch import (
    CREATE_TIME,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    MAGIC,
    NO_TIMESTAMP,
    Buffer,
    InvalidRecords,
    RecordBatch,
    TooLarge,
    set_max_timestamp,
    whole_batch_bytes,
)
from kwire.record.compression import MOST_FROM_A_BYTE, Compression, has_possible_claim
from kwire.record.record_validator import validate_records
from kwire.record.records import recompress, renumbered
from kwire.record.streaming_decompressor import (
    NO_RECORD_LIMIT,
    BetweenPieces,
    Limits,
    do_nothing,
)

FEW_RECORDS = 8
FEW_COMPRESSED_BYTES = 4096
SMALLEST_RECORD_BYTES = 7
MOST_RECORD_ERRORS = 100

INLINE_LIMITS = Limits(
    max_bytes=64 * 1024,
    max_records=SLOW_RECORDS,
    max_headers=100,
    max_recompressed_bytes=RECOMPRESSED_BYTES,
    max_renumbered=0,
)
"""Limits for batches that are opened on the event loop."""

FEW_LIMITS = INLINE_LIMITS._replace(max_headers=32)
"""Limits for batches of a few records that are trusted beyond them."""

FULL_LIMITS = Limits(100 * 1024 * 1024, 1_000_000, 1_000_000)
"""The defaults of ``kwire.decompressed.max.bytes`` and ``kwire.decompressed.max.records``."""

_MULTIPLE = 4
"""A batch may always decompress to this multiple of ``max.message.bytes``."""


class AppendOrigin(Enum):
    """The source of an append: clients' batches are validated."""

    CLIENT = "client"
    COORDINATOR = "coordinator"


class InvalidBatch(KafkaError):
    """A batch that is rejected because of some of its records.

    ``record_errors`` are pairs of (index in the batch, message).
    """

    def __init__(self, code: ErrorCode, message: str, record_errors: list[tuple[int, str]]) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


class _Seen(NamedTuple):
    """The result of reading a batch's records; ``largest`` is the largest timestamp in ms."""

    largest: int
    is_in_order: bool


class AppendInfo(NamedTuple):
    """The result of an append; ``log_append_time_ms`` is -1 if the client's timestamps stay."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    is_duplicate: bool = False


class CheckedBatch(NamedTuple):
    """A batch that may be appended and whose buffer is writable.

    ``log_append_time_ms`` is -1 if the client's timestamps are kept.
    """

    batch: RecordBatch
    log_append_time_ms: int


def client_batch(records: Buffer, *, knows_zstd: bool = True) -> RecordBatch:
    """The one batch that a client may send for a partition.

    Bytes after it that aren't a complete batch are dropped, as in Kafka. Raises KafkaError:
    INVALID_RECORD, CORRUPT_MESSAGE, and UNSUPPORTED_COMPRESSION_TYPE for zstd from a client that
    doesn't know it (Produce before version 7).
    """
    try:
        batch = RecordBatch(records)
    except KafkaError as error:
        raise _no_batch(records) or error from error
    size_bytes = batch.size_bytes
    if not knows_zstd and batch.compression == Compression.ZSTD:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7 or later"
        )
    if len(records) > size_bytes:
        if whole_batch_bytes(records, size_bytes) is not None:
            raise KafkaError(
                ErrorCode.INVALID_RECORD,
                "A produce request must hold exactly one record batch for each partition",
            )
        batch.buffer = records[:size_bytes]
    return batch


def _no_batch(records: Buffer) -> KafkaError | None:
    """Kafka's error for bytes that no batch begins with; None for a batch that is damaged."""
    if whole_batch_bytes(records, 0) is None:
        return KafkaError(ErrorCode.INVALID_RECORD, "A produce request without a record batch")
    if records[16] == MAGIC:
        return None
    return KafkaError(
        ErrorCode.INVALID_RECORD,
        f"message format {records[16]} was removed in Kafka 4.0; use a client of format 2",
    )


def limits_of(config: LogConfig, max_bytes: int, max_records: int) -> Limits:
    """The limits for a topic with this config and these broker settings.

    Headers are limited to the same number as records.
    """
    most_bytes = max(max_bytes, _MULTIPLE * config.max_message_bytes)
    return Limits(
        most_bytes,
        max_records,
        max_records,
        max_record_bytes=config.max_decompressed_message_bytes,
    )


def is_checked_inline(batch: RecordBatch, config: LogConfig, now_ms: int) -> bool:
    """Whether the event loop may check a batch itself, as far as the header shows."""
    if not _has_to_be_opened(batch, config, now_ms):
        return True
    if not is_quick_to_open(batch):
        return False
    codec = config.compression
    if codec is None or codec == batch.compression:
        return True
    return is_quick_to_recompress(batch, codec, config.compression_level)


def checked_batch(
    batch: RecordBatch,
    config: LogConfig,
    now_ms: int,
    limits: Limits = FULL_LIMITS,
    between: BetweenPieces = do_nothing,
) -> CheckedBatch:
    """The batch as it has to be appended; may be called in a thread.

    Raises KafkaError: CORRUPT_MESSAGE, INVALID_RECORD, MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE,
    INVALID_TIMESTAMP, and, as Kafka does, UNKNOWN_SERVER_ERROR if records can't be decompressed.
    Raises TooLarge if the batch has to be opened and exceeds ``limits``.
    """
    if batch.base_offset:
        raise _invalid(f"A record batch that begins at {batch.base_offset}, not 0")
    check_size(batch, config)
    batch.verify_crc()
    _check_header(batch)
    seen = None
    if config.compression is not None and config.compression != batch.compression:
        limits = limits._replace(max_bytes=min(limits.max_bytes, limits.max_recompressed_bytes))
    if _has_to_be_opened(batch, config, now_ms):
        limits = limits._replace(max_record_bytes=config.max_decompressed_message_bytes)
        seen = _check_records(batch, config, now_ms, limits, between)
    elif _has_few_records(batch):
        with suppress(TooLarge):
            seen = _check_records(batch, config, now_ms, FEW_LIMITS, between)
    return _put_right(batch, seen, config, now_ms, limits, between)


def check_size(batch: RecordBatch, config: LogConfig) -> None:
    """Raise KafkaError (MESSAGE_TOO_LARGE) for more than ``max.message.bytes``."""
    if batch.size_bytes > config.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch has {batch.size_bytes} bytes, "
            f"max.message.bytes allows {config.max_message_bytes}.",
        )


def check_segment_size(batch: RecordBatch, config: LogConfig) -> None:
    """Raise KafkaError (RECORD_LIST_TOO_LARGE) for more than ``segment.bytes``."""
    if batch.size_bytes > config.segment_bytes:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"The record batch has {batch.size_bytes} bytes, "
            f"segment.bytes allows {config.segment_bytes}.",
        )


def check_of_coordinator(batch: RecordBatch, config: LogConfig, now_ms: int) -> None:
    """Check the size of a coordinator's batch, and apply the topic's timestamp type.

    A marker is never too large, because it must be possible to end every transaction.
    """
    if not batch.is_control:
        check_size(batch, config)
        check_segment_size(batch, config)
    if config.log_append_time:
        set_max_timestamp(batch, LOG_APPEND_TIME, now_ms)


def _check_header(batch: RecordBatch) -> None:
    count = batch.records_count
    if batch.compression > Compression.ZSTD:
        raise _unreadable(f"Unknown compression {batch.compression}")
    if count <= 0:
        raise _invalid(f"A record batch with {count} records")
    if batch.last_offset_delta != count - 1:
        raise _invalid(
            f"A record batch with {count} records and a last offset delta of "
            f"{batch.last_offset_delta}"
        )
    if batch.is_control:
        raise _invalid("Clients are not allowed to write control records")
    if batch.has_producer_id and batch.base_sequence < 0:
        raise _invalid(f"Producer {batch.producer_id} with sequence {batch.base_sequence}")
    if batch.is_transactional and not batch.has_producer_id:
        raise _invalid("A transactional batch without a producer id")
    room = batch.size_bytes - HEADER_BYTES
    if not room and batch.compression not in (Compression.NONE, Compression.ZSTD):
        raise _unreadable("A compressed stream of no bytes")  # which zstd alone can read
    if count * SMALLEST_RECORD_BYTES > room * MOST_FROM_A_BYTE[batch.compression]:
        raise _invalid(f"{count} records do not fit into the batch")


def _has_to_be_opened(batch: RecordBatch, config: LogConfig, now_ms: int) -> bool:
    """Whether the header alone is not enough for the checks that Kafka's semantics need."""
    if config.compact or batch.timestamp_type != CREATE_TIME:
        return True
    if config.compression is not None and config.compression != batch.compression:
        return True
    if batch.compression and config.max_decompressed_message_bytes != NO_RECORD_LIMIT:
        return True
    if batch.compression and not has_possible_claim(
        batch.compression, batch.payload, batch.records_count * SMALLEST_RECORD_BYTES
    ):
        return True
    if config.log_append_time:
        return False
    return (
        config.timestamp_before_max_ms != NO_LIMIT
        or batch.max_timestamp - now_ms > config.timestamp_after_max_ms
        or batch.max_timestamp < batch.base_timestamp
    )


def _has_few_records(batch: RecordBatch) -> bool:
    if batch.records_count > FEW_RECORDS:
        return False
    return batch.compression == Compression.NONE or (
        batch.size_bytes <= FEW_COMPRESSED_BYTES and not has_large_blocks(batch)
    )


def _check_records(
    batch: RecordBatch, config: LogConfig, now_ms: int, limits: Limits, between: BetweenPieces
) -> _Seen:
    """Check every record; InvalidBatch if there are records that Kafka rejects one by one."""
    earliest = now_ms - config.timestamp_before_max_ms
    latest = now_ms + config.timestamp_after_max_ms
    keeps_times, compact = not config.log_append_time, config.compact
    is_stamped = batch.timestamp_type == LOG_APPEND_TIME
    wrong = _WrongRecords()
    largest, is_in_order = NO_TIMESTAMP, True
    try:
        for place, (timestamp, delta, has_key) in enumerate(
            validate_records(batch, limits, between)
        ):
            if timestamp > largest:
                largest = timestamp
            if delta != place:
                is_in_order = False
            if compact and not has_key:
                wrong.add(place, "Compacted topic cannot accept message without key")
            elif timestamp != NO_TIMESTAMP and keeps_times:
                if not earliest <= timestamp <= latest:
                    text = f"Timestamp {timestamp} is not in {earliest} to {latest}"
                    wrong.add(place, text, ErrorCode.INVALID_TIMESTAMP)
            elif is_stamped:
                text = "Only the broker may set the timestamp type LogAppendTime"
                wrong.add(place, text, ErrorCode.INVALID_TIMESTAMP)
    except InvalidRecords as error:
        if error.code is ErrorCode.CORRUPT_MESSAGE:
            raise _unreadable(error.message) from error
        raise
    wrong.check()
    return _Seen(largest, is_in_order)


class _WrongRecords:
    """The wrong records of a batch; the first ``MOST_RECORD_ERRORS`` are kept."""

    def __init__(self) -> None:
        self._first: list[tuple[int, str]] = []
        self._count = 0
        self._code = ErrorCode.INVALID_RECORD

    def add(self, place: int, text: str, code: ErrorCode = ErrorCode.INVALID_RECORD) -> None:
        """Add a wrong record."""
        self._count += 1
        if self._count <= MOST_RECORD_ERRORS:
            self._first.append((place, text))
        if code is ErrorCode.INVALID_TIMESTAMP:
            self._code = code

    def check(self) -> None:
        """Raise InvalidBatch if there are any."""
        if not self._count:
            return
        if self._code is ErrorCode.INVALID_TIMESTAMP:
            message = "One or more records have been rejected due to invalid timestamp"
        else:
            message = (
                f"{self._count} records have been rejected, the first one: {self._first[0][1]}"
            )
        if self._count > len(self._first):
            message += f" (the first {len(self._first)} of {self._count} wrong records are named)"
        raise InvalidBatch(self._code, message, self._first)


def _put_right(
    batch: RecordBatch,
    seen: _Seen | None,
    config: LogConfig,
    now_ms: int,
    limits: Limits,
    between: BetweenPieces,
) -> CheckedBatch:
    """The batch with the codec, the timestamps and the order of offsets that the topic needs."""
    wanted = config.compression
    if wanted is not None and wanted != batch.compression:
        assert seen is not None
        is_kept = seen.is_in_order and batch.timestamp_type == CREATE_TIME
        batch = RecordBatch(
            (recompress if is_kept else renumbered)(
                batch,
                wanted,
                config.compression_level,
                limits=limits,
                max_size_bytes=config.max_message_bytes,
                between=between,
            )
        )
        check_size(batch, config)
    elif seen is not None and not seen.is_in_order and batch.compression != Compression.NONE:
        raise _unreadable("The offsets of the records do not ascend one by one")
    buffer = batch.buffer
    if isinstance(buffer, bytes) or (isinstance(buffer, memoryview) and buffer.readonly):
        batch.buffer = bytearray(buffer)
    if config.log_append_time:
        set_max_timestamp(batch, LOG_APPEND_TIME, now_ms)
    elif seen is not None and (
        seen.largest != batch.max_timestamp or batch.timestamp_type != CREATE_TIME
    ):
        set_max_timestamp(batch, CREATE_TIME, seen.largest)
    return CheckedBatch(batch, now_ms if config.log_append_time else NO_TIMESTAMP)


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)


def _unreadable(message: str) -> KafkaError:
    # Kafka's error for a failing codec. Clients retry after CORRUPT_MESSAGE but not after this.
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, message)
