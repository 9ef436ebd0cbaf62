"""The common batch of a client, told by one look at it.

A fast path: ``plain_batch`` gives the batch that its slow, obvious twin (``client_batch`` and
``checked_batch`` of ``kwire.log.validation``) would let pass unchanged, or None where it can't
tell: then the twin looks. It never lets pass what the twin refuses or changes, which
tests/log/test_plain_batch.py shows.

Plain are: uncompressed batches of few records without headers, and batches of so many records that
the twin believes their header, in a topic that wants nothing done to what it is given.
"""

from kwire.errors import KafkaError
from kwire.log.log_config import LogConfig
from kwire.log.validation import FEW_RECORDS, SMALLEST_RECORD_BYTES
from kwire.protocol.wire import MalformedRequest, read_unsigned_varint
from kwire.record.batch import ATTRIBUTES_AT, COMPRESSION_MASK, HEADER_BYTES, RecordBatch
from kwire.record.checksum import crc32c
from kwire.record.compression import MOST_FROM_A_BYTE, Compression

_LAST_CODEC = int(Compression.ZSTD)
_OTHER_ATTRIBUTES = ~COMPRESSION_MASK


def plain_batch(records: memoryview, config: LogConfig, now_ms: int) -> RecordBatch | None:
    """The batch that ``records`` is, if it may be appended as it is; its buffer can be written."""
    if not config.takes_plain:
        return None
    try:
        batch = RecordBatch(records)
    except KafkaError:
        return None
    count, size_bytes, attributes = batch.records_count, batch.size_bytes, batch.attributes
    max_timestamp = batch.max_timestamp
    if (
        attributes & _OTHER_ATTRIBUTES
        or batch.base_offset
        or size_bytes != len(records)
        or size_bytes > config.max_message_bytes
        or size_bytes > config.segment_bytes
        or batch.last_offset_delta != count - 1
        or (batch.producer_id >= 0 and batch.base_sequence < 0)
        or not 0 <= batch.base_timestamp <= max_timestamp
        or max_timestamp > now_ms + config.timestamp_after_max_ms
    ):
        return None
    if count > FEW_RECORDS:
        if attributes > _LAST_CODEC:
            return None
        room = (size_bytes - HEADER_BYTES) * MOST_FROM_A_BYTE[attributes]
        if count * SMALLEST_RECORD_BYTES > room:
            return None
    else:
        longest_ms = max_timestamp - batch.base_timestamp
        if count < 1 or attributes or not _are_plain_records(records, count, longest_ms):
            return None
    return batch if crc32c(records[ATTRIBUTES_AT:]) == batch.crc else None


def _are_plain_records(records: memoryview, count: int, longest_ms: int) -> bool:
    """Whether the payload is ``count`` records without headers in their order, the newest of them
    ``longest_ms`` after the batch's base timestamp.

    Numbers are zigzag: odd ones are negative. Those of one or two bytes are read on the spot, for
    a call for each would cost more than all the rest.
    """
    end = len(records)
    position, newest = HEADER_BYTES, 0
    try:
        for place in range(count):
            length = records[position]
            position += 1
            if length > 0x7F:
                length, position = _longer(records, position, length)
            record_end = position + (length >> 1)
            delta = records[position + 1]  # after the attributes
            position += 2
            if delta > 0x7F:
                delta, position = _longer(records, position, delta)
            if delta > newest:
                newest = delta
            if (length | delta) & 1 or records[position] != place << 1:
                return False
            if _end_of_value(records, position + 1) != record_end - 1 or records[record_end - 1]:
                return False
            position = record_end
    except (IndexError, MalformedRequest):
        return False
    return position == end and newest >> 1 == longest_ms


def _end_of_value(records: memoryview, position: int) -> int:
    """Where the key and value that begin at ``position`` end."""
    length = records[position]
    position += 1
    if length > 0x7F:
        length, position = _longer(records, position, length)
    if not length & 1:
        position += length >> 1
    length = records[position]
    position += 1
    if length > 0x7F:
        more = records[position]
        if more > 0x7F:
            length, position = read_unsigned_varint(records, position - 1)
        else:
            length, position = length & 0x7F | more << 7, position + 1
    return position if length & 1 else position + (length >> 1)


def _longer(records: memoryview, position: int, first: int) -> tuple[int, int]:
    """The number whose ``first`` byte lies before ``position``, and the position after it."""
    more = records[position]
    if more > 0x7F:
        return read_unsigned_varint(records, position - 1)
    return first & 0x7F | more << 7, position + 1
