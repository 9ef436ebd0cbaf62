"""The check of a plain batch in one step: the first branch of a client's append.

Most batches of clients need no change, and a look at the header and at the few bytes before each
record shows that. ``is_plain`` says so only of a batch that ``checked_batch``
(``kwire.log.validation``) would accept unchanged, as tests/log/test_plain_batch.py shows. Of any
other batch ``checked_batch`` finds out what it needs, or what is wrong with it.

Two kinds of batches are plain, both only for a topic whose settings change nothing in a batch:
uncompressed batches of few records without headers, and batches of so many records that
``checked_batch`` trusts the batch header.
"""

from kwire.errors import KafkaError
from kwire.log.log_config import LogConfig
from kwire.log.validation import FEW_RECORDS, SMALLEST_RECORD_BYTES
from kwire.protocol.wire import MalformedRequest, read_unsigned_varint
from kwire.record.batch import ATTRIBUTES_AT, COMPRESSION_MASK, HEADER_BYTES, RecordBatch
from kwire.record.checksum import crc32c
from kwire.record.compression import MOST_FROM_A_BYTE, Compression, has_possible_claim

_LAST_CODEC = int(Compression.ZSTD)
_OTHER_ATTRIBUTES = ~COMPRESSION_MASK


def is_plain(batch: RecordBatch, config: LogConfig, now_ms: int) -> bool:
    """Whether a batch, alone in a writable buffer, can be appended unchanged."""
    if not config.takes_plain:
        return False
    records = batch.buffer
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
        or type(records) is not memoryview
        or records.readonly
    ):
        return False
    if count > FEW_RECORDS:
        if attributes > _LAST_CODEC:
            return False
        room = (size_bytes - HEADER_BYTES) * MOST_FROM_A_BYTE[attributes]
        if count * SMALLEST_RECORD_BYTES > room:
            return False
        if attributes and not has_possible_claim(
            attributes, records[HEADER_BYTES:], count * SMALLEST_RECORD_BYTES
        ):
            return False
    else:
        longest_ms = max_timestamp - batch.base_timestamp
        if count < 1 or attributes or not _are_plain_records(records, count, longest_ms):
            return False
    return bool(crc32c(records[ATTRIBUTES_AT:]) == batch.crc)


def plain_batch(records: memoryview, config: LogConfig, now_ms: int) -> RecordBatch | None:
    """The batch in ``records`` if it is plain."""
    try:
        batch = RecordBatch(records)
    except KafkaError:
        return None
    return batch if is_plain(batch, config, now_ms) else None


def _are_plain_records(records: memoryview, count: int, longest_ms: int) -> bool:
    """Whether the payload holds ``count`` records in order, without headers, and the newest is
    ``longest_ms`` after the batch's base timestamp.

    Numbers are zigzag varints, in which odd means negative. Numbers of one or two bytes are decoded
    inline, because a call for each would cost more than everything else here.
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
    """The position after the key and the value that start at ``position``."""
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
    """The number that starts with ``first``, just before ``position``, and the position after."""
    more = records[position]
    if more > 0x7F:
        return read_unsigned_varint(records, position - 1)
    return first & 0x7F | more << 7, position + 1
