"""The common batch of a client, told by one look at it.

A fast path: ``plain_batch`` gives the batch that its slow, obvious twin (``client_batch`` and
``checked_batch`` of ``kwire.log.validation``) would let pass unchanged, or None where it can't
tell: then the twin looks. It never lets pass what the twin refuses or changes, which
tests/log/test_plain_batch.py shows.

Plain are: uncompressed batches of one record without headers, and batches of so many records that
the twin believes their header, in a topic that wants nothing done to what it is given.
"""

from kwire.errors import KafkaError
from kwire.log.log_config import LogConfig
from kwire.log.validation import FEW_RECORDS, SMALLEST_RECORD_BYTES
from kwire.record.batch import COMPRESSION_MASK, HEADER_BYTES, RecordBatch
from kwire.record.compression import Compression
from kwire.record.varint import read_varint


def plain_batch(records: memoryview, config: LogConfig, now_ms: int) -> RecordBatch | None:
    """The batch that ``records`` is, if it may be appended as it is; its buffer can be written."""
    if not config.takes_plain:
        return None
    try:
        batch = RecordBatch(records)
    except KafkaError:
        return None
    count, size_bytes = batch.records_count, batch.size_bytes
    if (
        batch.attributes & ~COMPRESSION_MASK
        or batch.base_offset
        or size_bytes != len(records)
        or size_bytes > config.max_message_bytes
        or size_bytes > config.segment_bytes
        or batch.last_offset_delta != count - 1
        or (batch.producer_id >= 0 and batch.base_sequence < 0)
        or not 0 <= batch.base_timestamp <= batch.max_timestamp
        or batch.max_timestamp > now_ms + config.timestamp_after_max_ms
    ):
        return None
    if count > FEW_RECORDS:
        if batch.attributes > Compression.ZSTD:
            return None
        room = size_bytes - HEADER_BYTES
        if not batch.attributes and count * SMALLEST_RECORD_BYTES > room:
            return None
    elif count != 1 or batch.attributes or not _is_plain_record(batch):
        return None
    return batch if batch.crc_is_right() else None


def _is_plain_record(batch: RecordBatch) -> bool:
    """Whether the payload is one record without headers, with the batch's timestamp."""
    if batch.base_timestamp != batch.max_timestamp:
        return False
    buffer, end = batch.buffer, batch.size_bytes
    try:
        length, position = read_varint(buffer, HEADER_BYTES)
        # After the attributes come timestamp and offset deltas, both 0 in one byte.
        if position + length != end or buffer[position + 1] or buffer[position + 2]:
            return False
        length, position = read_varint(buffer, position + 3)
        length, position = read_varint(buffer, position + max(length, 0))
        position += max(length, 0)
        return position == end - 1 and buffer[position] == 0
    except (IndexError, KafkaError):
        return False
