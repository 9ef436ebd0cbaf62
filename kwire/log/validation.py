"""What a batch must be like before it is appended for a client.

Rules:

- The header, the sizes and the checksum are always checked; records are opened only where Kafka's
  semantics need it: a compacted topic (keys), another codec, a timestamp out of bounds (which one).
- A handful of uncompressed records is walked through, since that costs no more than the append
  itself; in larger batches the count is only checked to be possible.
- Errors that belong to records carry their place in the batch (KIP-467).

Source: LogValidator and UnifiedLog of Kafka.
"""

from kwire.errors import ErrorCode, KafkaError
from kwire.log.log_config import NO_LIMIT, LogConfig
from kwire.record.batch import CREATE_TIME, HEADER_BYTES, NO_TIMESTAMP, Buffer, RecordBatch
from kwire.record.compression import Compression
from kwire.record.records import recompress, records, verify_records

FEW_RECORDS = 8
SMALLEST_RECORD_BYTES = 7


class InvalidBatch(KafkaError):
    """A batch that is refused because of some of its records.

    ``record_errors`` are (place in the batch, message).
    """

    def __init__(self, code: ErrorCode, message: str, record_errors: list[tuple[int, str]]) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


def client_batch(records: Buffer) -> RecordBatch:
    """The one batch that a client may bring for a partition; KafkaError (INVALID_RECORD, or as
    RecordBatch raises) where it is something else."""
    if not len(records):
        raise KafkaError(ErrorCode.INVALID_RECORD, "A produce request without a record batch")
    batch = RecordBatch(records)
    if batch.size_bytes != len(records):
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            "A produce request holds exactly one record batch for each partition",
        )
    return batch


def check_batch(batch: RecordBatch, config: LogConfig, now_ms: int) -> None:
    """Raise KafkaError unless a client may append this batch.

    CORRUPT_MESSAGE, INVALID_RECORD, MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, INVALID_TIMESTAMP,
    UNSUPPORTED_COMPRESSION_TYPE.
    """
    _check_size(batch, config)
    batch.verify_crc()
    if batch.base_offset:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"A record batch that begins at {batch.base_offset}, not 0"
        )
    if batch.is_control:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, "Clients are not allowed to write control records"
        )
    _check_count(batch)
    _check_producer(batch)
    if batch.timestamp_type != CREATE_TIME:
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP,
            "Invalid timestamp type in message: it is for the broker to set LogAppendTime",
        )
    if not config.log_append_time:
        _check_timestamps(batch, config, now_ms)
    if config.compact:
        _check_keys(batch)


def check_replicated(batch: RecordBatch, log_end_offset: int) -> None:
    """Raise KafkaError (CORRUPT_MESSAGE) unless a leader's batch may follow what is there."""
    batch.verify_crc()
    if batch.base_offset < log_end_offset:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"{batch!r} overlaps the log's end at {log_end_offset}"
        )


def _check_size(batch: RecordBatch, config: LogConfig) -> None:
    if batch.size_bytes > config.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch has {batch.size_bytes} bytes, "
            f"max.message.bytes allows {config.max_message_bytes}.",
        )
    if batch.size_bytes > config.segment_bytes:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"The record batch has {batch.size_bytes} bytes, "
            f"segment.bytes allows {config.segment_bytes}.",
        )


def _check_count(batch: RecordBatch) -> None:
    count = batch.records_count
    if count <= 0:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"A record batch with {count} records")
    if batch.last_offset_delta != count - 1:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"A record batch with {count} records and a last offset delta of "
            f"{batch.last_offset_delta}",
        )
    if batch.compression > Compression.ZSTD:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Unknown compression {batch.compression}"
        )
    if batch.compression == Compression.NONE:
        if count * SMALLEST_RECORD_BYTES > batch.size_bytes - HEADER_BYTES:
            raise KafkaError(ErrorCode.INVALID_RECORD, f"{count} records do not fit into the batch")
        if count <= FEW_RECORDS:
            verify_records(batch)


def _check_producer(batch: RecordBatch) -> None:
    if batch.has_producer_id:
        if batch.producer_epoch < 0 or batch.base_sequence < 0:
            raise KafkaError(
                ErrorCode.INVALID_RECORD,
                f"Producer {batch.producer_id} with epoch {batch.producer_epoch} "
                f"and sequence {batch.base_sequence}",
            )
    elif batch.is_transactional:
        raise KafkaError(ErrorCode.INVALID_RECORD, "A transactional batch without a producer id")


def _check_timestamps(batch: RecordBatch, config: LogConfig, now_ms: int) -> None:
    after, before = config.timestamp_after_max_ms, config.timestamp_before_max_ms
    too_late = batch.max_timestamp - now_ms > after
    if not too_late and before == NO_LIMIT:
        return
    wrong = [
        (place, f"Timestamp {record.timestamp} is out of range")
        for place, record in enumerate(records(batch))
        if record.timestamp != NO_TIMESTAMP
        and (record.timestamp - now_ms > after or now_ms - record.timestamp > before)
    ]
    if wrong or too_late:
        raise InvalidBatch(
            ErrorCode.INVALID_TIMESTAMP,
            f"Timestamps must be at most {after} ms after and {before} ms before the "
            f"broker's time {now_ms} (message.timestamp.after.max.ms, "
            "message.timestamp.before.max.ms)",
            wrong,
        )


def _check_keys(batch: RecordBatch) -> None:
    wrong = [
        (place, "Compacted topic cannot accept message without key")
        for place, record in enumerate(records(batch))
        if record.key is None
    ]
    if wrong:
        raise InvalidBatch(
            ErrorCode.INVALID_RECORD, "One or more records have no key in a compacted topic", wrong
        )


def writable_batch(
    batch: RecordBatch, config: LogConfig
) -> tuple[RecordBatch, bytearray | memoryview]:
    """The batch in the codec that the topic wants, and its buffer, which can be written to.

    Raises KafkaError: CORRUPT_MESSAGE, INVALID_RECORD, MESSAGE_TOO_LARGE when it has to be
    compressed anew.
    """
    wanted = config.compression
    if wanted is not None and wanted != batch.compression:
        verify_records(batch)
        batch = RecordBatch(recompress(batch, wanted, config.compression_level))
        _check_size(batch, config)
    buffer = batch.buffer
    if isinstance(buffer, bytes) or (isinstance(buffer, memoryview) and buffer.readonly):
        buffer = batch.buffer = bytearray(buffer)
    return batch, buffer
