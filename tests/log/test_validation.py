"""What a client may append, and with which error the rest is refused."""

import gzip
from contextlib import suppress
from struct import pack_into

import lz4.frame
import pytest
import zstandard
from crc32c import crc32c

from kwire.errors import ErrorCode, KafkaError
from kwire.log.log_config import LogConfig
from kwire.log.validation import (
    INLINE_LIMITS,
    AppendOrigin,
    InvalidBatch,
    checked_batch,
    is_checked_inline,
)
from kwire.record.batch import HEADER_BYTES, LOG_APPEND_TIME, RecordBatch, TooLarge
from kwire.record.compression import MOST_FROM_A_BYTE, Compression
from kwire.record.records import BatchBuilder
from kwire.record.streaming_decompressor import Limits

HOUR_MS = 3_600_000


def patched(batch, position, layout, value, *, right_crc=True):
    """A batch with one field of its header changed."""
    batch = bytearray(batch)
    pack_into(layout, batch, position, value)
    if right_crc:
        pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
    return batch


@pytest.mark.parametrize(
    ("position", "layout", "value", "code"),
    [
        (0, ">q", 5, ErrorCode.INVALID_RECORD),
        (8, ">i", 10, ErrorCode.CORRUPT_MESSAGE),
        (8, ">i", 1000, ErrorCode.INVALID_RECORD),
        (8, ">i", -1, ErrorCode.CORRUPT_MESSAGE),
        (16, ">b", 0, ErrorCode.INVALID_RECORD),
        (16, ">b", 1, ErrorCode.INVALID_RECORD),
        (16, ">b", 3, ErrorCode.CORRUPT_MESSAGE),
        (21, ">h", 0x20, ErrorCode.INVALID_RECORD),
        (21, ">h", 0x10, ErrorCode.INVALID_RECORD),
        (21, ">h", 0x05, ErrorCode.UNKNOWN_SERVER_ERROR),
        (23, ">i", 0, ErrorCode.INVALID_RECORD),
        (23, ">i", -1, ErrorCode.INVALID_RECORD),
        (43, ">q", 9, ErrorCode.INVALID_RECORD),
        (57, ">i", 0, ErrorCode.INVALID_RECORD),
        (57, ">i", -1, ErrorCode.INVALID_RECORD),
        (57, ">i", 3, ErrorCode.INVALID_RECORD),
    ],
)
def test_a_wrong_header_is_refused_and_nothing_is_written(tools, position, layout, value, code):
    """Sizes, magic, attributes, counts, producer fields."""
    log = tools.open()
    batch = patched(tools.batch(b"a", b"b"), position, layout, value)
    with pytest.raises(KafkaError) as refused:
        log.append(batch, leader_epoch=0, now_ms=tools.now_ms)
    assert refused.value.code is code
    assert (log.log_end_offset, log.size_bytes) == (0, 0)


def test_every_changed_byte_under_the_checksum_is_noticed(tools):
    """CORRUPT_MESSAGE wherever it is."""
    log = tools.open()
    good = tools.batch(b"a", b"b")
    for position in range(17, len(good)):
        batch = bytearray(good)
        batch[position] ^= 0x40
        with pytest.raises(KafkaError) as refused:
            log.append(batch, leader_epoch=0, now_ms=tools.now_ms)
        assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    assert log.log_end_offset == 0


def test_exactly_one_batch(tools, refused):
    """None, part of one, and two are refused; what is left over and no batch is left out."""
    log = tools.open()
    one = tools.batch(b"a")
    for data in (b"", one[:-1], one + one, bytes(b"\x02" * 60)):
        with refused(ErrorCode.INVALID_RECORD):
            log.append(bytearray(data), leader_epoch=0, now_ms=tools.now_ms)
    for data in (bytes(100), one + bytes(12)):
        with refused(ErrorCode.CORRUPT_MESSAGE):
            log.append(bytearray(data), leader_epoch=0, now_ms=tools.now_ms)
    log.append(one + one[:-1], leader_epoch=0, now_ms=tools.now_ms)
    assert (log.log_end_offset, log.size_bytes) == (1, len(one))


def test_counts_that_cannot_be_are_refused(tools, refused):
    """A few records must fill their batch exactly; many need at least seven bytes each."""
    log = tools.open()
    batch = patched(tools.batch(b"a"), 57, ">i", 1000)
    batch = patched(batch, 23, ">i", 999)
    with refused(ErrorCode.INVALID_RECORD):
        log.append(batch, leader_epoch=0, now_ms=tools.now_ms)
    for count in (1, 2, 4, 5):
        batch = patched(tools.batch(b"a", b"b", b"c" * 100), 57, ">i", count)
        batch = patched(batch, 23, ">i", count - 1)
        with refused(ErrorCode.INVALID_RECORD):
            log.append(batch, leader_epoch=0, now_ms=tools.now_ms)


def test_sizes(tools, refused):
    """max.message.bytes and segment.bytes, at the limit and one beyond, compressed anew or not."""
    size = len(tools.batch(b"a" * 100))
    log = tools.open(max_message_bytes=size)
    tools.append(log, b"a" * 100)
    with refused(ErrorCode.MESSAGE_TOO_LARGE):
        tools.append(log, b"a" * 101)
    log.update_config(type(log.config)(segment_bytes=size))
    tools.append(log, b"a" * 100)
    with refused(ErrorCode.RECORD_LIST_TOO_LARGE):
        tools.append(log, b"a" * 101)
    log.update_config(type(log.config)(max_message_bytes=size, compression=Compression.NONE))
    with refused(ErrorCode.MESSAGE_TOO_LARGE):
        tools.append(log, b"a" * 1000, compression=Compression.GZIP)


@pytest.mark.parametrize("later_ms", [HOUR_MS + 1, 10 * HOUR_MS])
def test_timestamps_in_the_future_are_refused(tools, later_ms):
    """message.timestamp.after.max.ms, with the place of each wrong record (KIP-467)."""
    log = tools.open()
    tools.append(log, b"a", timestamp=tools.now_ms + HOUR_MS)
    with pytest.raises(InvalidBatch) as refused:
        tools.append(log, b"a", b"b", timestamp=tools.now_ms + later_ms)
    assert refused.value.code is ErrorCode.INVALID_TIMESTAMP
    assert [place for place, _ in refused.value.record_errors] == [0, 1]


def test_timestamps_in_the_past_are_refused_where_that_is_limited(tools):
    """message.timestamp.before.max.ms; records without a timestamp are exempt."""
    log = tools.open(timestamp_before_max_ms=1000)
    tools.append(log, b"a", timestamp=tools.now_ms - 1000)
    tools.append(log, b"a", timestamp=-1)
    with pytest.raises(InvalidBatch) as refused:
        tools.append(log, b"a", timestamp=tools.now_ms - 1001)
    assert refused.value.code is ErrorCode.INVALID_TIMESTAMP


def test_log_append_time_topics_take_any_timestamp_but_no_foreign_stamp(tools, refused):
    """Only the broker says LogAppendTime."""
    log = tools.open(log_append_time=True, timestamp_before_max_ms=1000)
    tools.append(log, b"a", timestamp=5)
    with refused(ErrorCode.INVALID_TIMESTAMP):
        batch = patched(tools.batch(b"a"), 21, ">h", 0x08)
        log.append(batch, leader_epoch=0, now_ms=tools.now_ms)


@pytest.mark.parametrize("compression", list(Compression))
def test_compacted_topics_refuse_records_without_a_key(tools, compression):
    """INVALID_RECORD with the places of the keyless ones, inside compressed batches too."""
    log = tools.open(compact=True)
    tools.append(log, b"a", compression=compression)
    keys = (b"k", None, b"k", None)
    with pytest.raises(InvalidBatch) as refused:
        tools.append(log, b"a", b"b", b"c", b"d", keys=keys, compression=compression)
    assert refused.value.code is ErrorCode.INVALID_RECORD
    assert [place for place, _ in refused.value.record_errors] == [1, 3]
    assert log.log_end_offset == 1


def test_many_records_are_opened_only_where_there_is_a_reason(tools, refused):
    """A wrong count of nine passes, unless keys, a codec or times have to be looked at."""
    values = [b"v"] * 10
    wrong = patched(patched(tools.batch(*values), 57, ">i", 9), 23, ">i", 8)
    log = tools.open()
    log.append(bytearray(wrong), leader_epoch=0, now_ms=tools.now_ms)
    assert log.log_end_offset == 9
    config = type(log.config)
    for reason in (
        config(compact=True),
        config(compression=Compression.LZ4),
        config(timestamp_before_max_ms=1000),
        config(timestamp_after_max_ms=-1),
    ):
        log.update_config(reason)
        with refused(ErrorCode.INVALID_RECORD):
            log.append(bytearray(wrong), leader_epoch=0, now_ms=tools.now_ms)


def test_new_offsets_are_given_in_a_thread(tools):
    """To write every record anew takes longer than to read it, and the header doesn't show that it
    is necessary."""
    data = bytearray(tools.batch(b"v"))
    data[HEADER_BYTES + 3] = 2  # the offset delta of the only record is 1
    batch = RecordBatch(patched(data, 57, ">i", 1))
    config = LogConfig(compression=Compression.GZIP)
    with pytest.raises(TooLarge, match="other offsets"):
        checked_batch(batch, config, tools.now_ms, INLINE_LIMITS)
    assert checked_batch(batch, config, tools.now_ms).batch.compression == Compression.GZIP


def test_empty_snappy_blocks_are_refused_within_the_limits(tools):
    """They decompress to nothing, but each takes its time. A few of them are no harm."""
    good = tools.batch(b"v", compression=Compression.SNAPPY)
    for count, is_taken in ((50, True), (3000, False)):
        payload = good[HEADER_BYTES:] + b"\0\0\0\1\0" * count
        data = good[:HEADER_BYTES] + payload
        batch = RecordBatch(patched(data, 8, ">i", len(data) - 12))
        config = LogConfig(compact=True)
        assert is_checked_inline(batch, config, tools.now_ms)
        if is_taken:
            checked_batch(batch, config, tools.now_ms, INLINE_LIMITS)
        else:
            with pytest.raises(TooLarge, match="more than 128 frames or blocks"):
                checked_batch(batch, config, tools.now_ms, INLINE_LIMITS)


def test_a_few_compressed_records_that_grow_large_are_believed(tools):
    """Nobody makes the broker decompress much by sending little."""
    log = tools.open()
    batch = tools.batch(bytes(3 * 2**20), compression=Compression.ZSTD)
    assert len(batch) < 1000
    log.append(patched(batch, 35, ">q", tools.now_ms + 5), leader_epoch=0, now_ms=tools.now_ms)
    assert tools.batches(log)[0].max_timestamp == tools.now_ms + 5


def test_the_first_hundred_wrong_records_are_named(tools):
    """An answer doesn't grow with what a few bytes decompress to; the message says how many."""
    log = tools.open(compact=True)
    for count, named in ((100, 100), (5000, 100)):
        keys = (None,) * count
        with pytest.raises(InvalidBatch) as refused:
            tools.append(log, *[b""] * count, keys=keys, compression=Compression.ZSTD)
        assert [place for place, _ in refused.value.record_errors] == list(range(named))
        assert str(count) in refused.value.message
        assert ("are named" in refused.value.message) == (count > named)


@pytest.mark.parametrize("compression", list(Compression)[1:])
@pytest.mark.parametrize(
    "reason", [{"compact": True}, {"compression": Compression.NONE, "max_message_bytes": 10**7}]
)
def test_what_has_to_be_opened_is_limited(tools, compression, reason):
    """MESSAGE_TOO_LARGE beyond the limits in bytes and in records, which Kafka's clients don't
    send again."""
    config = LogConfig(**reason)
    values = [b"v" * 1000] * 1000
    batch = RecordBatch(tools.batch(*values, keys=(b"k",) * 1000, compression=compression))
    for limits in (Limits(max_bytes=1_000_000), Limits(max_records=999)):
        with pytest.raises(TooLarge) as refused:
            checked_batch(batch, config, tools.now_ms, limits)
        assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert checked_batch(batch, config, tools.now_ms).batch.records_count == 1000


@pytest.mark.parametrize("compression", list(Compression)[1:])
@pytest.mark.parametrize("size", [900, 300_000])
def test_a_record_may_decompress_to_so_many_bytes(tools, refused, compression, size):
    """max.decompressed.message.bytes counts all of a record, within a piece and across pieces;
    records that come uncompressed may be larger."""
    data = tools.batch(b"small", bytes(size), compression=compression)
    config = LogConfig(max_decompressed_message_bytes=size + 20)
    assert checked_batch(RecordBatch(data), config, tools.now_ms).batch.records_count == 2
    config = LogConfig(max_decompressed_message_bytes=size)
    with refused(ErrorCode.INVALID_RECORD):
        checked_batch(RecordBatch(data), config, tools.now_ms)
    uncompressed = RecordBatch(tools.batch(bytes(size)))
    assert checked_batch(uncompressed, config, tools.now_ms).batch.records_count == 1


def test_a_batch_that_becomes_too_large_is_given_up_on_the_way(tools, refused):
    """compression.type=uncompressed makes no more bytes than max.message.bytes allows."""
    config = LogConfig(compression=Compression.NONE)
    batch = RecordBatch(tools.batch(*[bytes(10_000)] * 1000, compression=Compression.ZSTD))
    with refused(ErrorCode.MESSAGE_TOO_LARGE):
        checked_batch(batch, config, tools.now_ms)


def test_records_that_no_codec_makes_of_so_few_bytes_are_refused(tools, refused):
    """The header of a compressed batch is held to what its bytes can become."""
    log = tools.open()
    for codec in list(Compression)[1:]:
        good = tools.batch(*[b""] * 10, compression=codec)
        most = (len(good) - 61) * MOST_FROM_A_BYTE[codec] // 7
        for count, is_taken in ((most, True), (most + 1, False)):
            batch = patched(patched(good, 57, ">i", count), 23, ">i", count - 1)
            with refused(ErrorCode.INVALID_RECORD) as caught:
                log.append(batch, leader_epoch=0, now_ms=tools.now_ms)
            # What could fit is opened, because it claims fewer bytes.
            assert ("do not fit" in caught.error.message) != is_taken


_XERIAL = b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"
_FOUR_GB = b"\xff\xff\xff\xff\x0f"
_SIZED_LZ4 = lz4.frame.compress(b"\x0e\0\0\0\1\2v\0" * 9, store_size=True)


def _claiming(size_bytes):
    """An lz4 frame that claims this size, with the one checksum of a header that fits."""
    for checksum in range(256):
        frame = _SIZED_LZ4[:6] + size_bytes.to_bytes(8, "little") + bytes([checksum])
        with suppress(RuntimeError):
            lz4.frame.get_frame_info(frame + _SIZED_LZ4[15:])
            return frame + _SIZED_LZ4[15:]
    raise AssertionError


@pytest.mark.parametrize("count", [1, 9, 100])
@pytest.mark.parametrize(
    ("codec", "payload"),
    [
        (Compression.SNAPPY, _FOUR_GB + bytes(39)),
        (Compression.SNAPPY, _XERIAL + b"\0\0\0\x18" + _FOUR_GB + bytes(19)),
        (Compression.SNAPPY, _XERIAL),
        (Compression.SNAPPY, _XERIAL + b"\0\0\0\1\0"),
        (Compression.LZ4, _claiming(2**63)),
        (Compression.LZ4, _claiming(2**64 - 1)),
        (Compression.LZ4, lz4.frame.compress(b"")),
        (Compression.LZ4, lz4.frame.compress(b"", store_size=False)),
        (Compression.GZIP, gzip.compress(b"", mtime=0)),
        (Compression.ZSTD, zstandard.compress(b"")),
        (Compression.GZIP, b"nothing that a codec writes" * 3),
        (Compression.LZ4, b"nothing that a codec writes" * 3),
        (Compression.ZSTD, b"nothing that a codec writes" * 3),
    ],
)
def test_what_claims_an_impossible_size_is_refused(tools, codec, payload, count):
    """Stored, no consumer could read it, nor what comes after it. Kafka opens every batch."""
    log = tools.open()
    header = bytearray(tools.batch(b"v")[:HEADER_BYTES])
    data = bytes(header) + payload
    data = patched(data, 8, ">i", len(data) - 12)
    for position, layout, value in ((21, ">h", codec), (57, ">i", count), (23, ">i", count - 1)):
        data = patched(data, position, layout, value)
    with pytest.raises(KafkaError) as caught:
        log.append(data, leader_epoch=0, now_ms=tools.now_ms)
    assert caught.value.code in (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.INVALID_RECORD)
    assert log.log_end_offset == 0


def test_what_claims_little_and_is_right_is_taken(tools):
    """Two members of gzip, of which only the last one says its size at the end."""
    log = tools.open()
    records = gzip.decompress(tools.batch(*[b"v"] * 9, compression=Compression.GZIP)[HEADER_BYTES:])
    payload = gzip.compress(records) + gzip.compress(b"")
    header = tools.batch(*[b"v"] * 9, compression=Compression.GZIP)[:HEADER_BYTES]
    data = bytes(header) + payload
    log.append(patched(data, 8, ">i", len(data) - 12), leader_epoch=0, now_ms=tools.now_ms)
    assert log.log_end_offset == 9


def test_many_headers_are_not_walked_through_on_the_event_loop(tools):
    """A record of a megabyte of headers is believed where nothing has to be looked at."""
    for few, count in ((True, 33), (False, 101), (False, 400_000)):
        builder = BatchBuilder()
        builder.add(tools.now_ms, b"k", b"v", (("", None),) * count)
        batch = RecordBatch(patched(builder.build(), 35, ">q", tools.now_ms + 5))
        if few:
            checked_batch(batch, LogConfig(compact=True), tools.now_ms, INLINE_LIMITS)
            batch = RecordBatch(patched(builder.build(), 35, ">q", tools.now_ms + 5))
        else:
            with pytest.raises(TooLarge):
                checked_batch(batch, LogConfig(compact=True), tools.now_ms, INLINE_LIMITS)
        assert checked_batch(batch, LogConfig(), tools.now_ms).batch is batch
        assert batch.max_timestamp == tools.now_ms + 5, "believed, not corrected"


@pytest.mark.parametrize("compression", list(Compression))
@pytest.mark.parametrize("settings", [{"compact": True}, {"compression": Compression.LZ4}])
def test_text_that_compresses_well_is_taken(tools, compression, settings):
    """A megabyte of JSON that becomes a few kilobytes, by topics that open it, in every codec."""
    line = b'{"sensor": "a-%d", "state": "unchanged"}'
    values = [line * 20 % ((n % 7,) * 20) for n in range(1250)]
    log = tools.open(max_message_bytes=3_000_000, **settings)
    tools.append(log, *values, keys=(b"k",) * len(values), compression=compression)
    assert [value for _, value in tools.values(log)] == values


def test_a_coordinator_is_held_to_the_sizes_but_its_markers_are_not(tools, refused):
    """max.message.bytes and segment.bytes count for it too; a transaction always ends."""
    log = tools.open(max_message_bytes=70, log_append_time=True)
    with refused(ErrorCode.MESSAGE_TOO_LARGE):
        tools.append_marker(log, tools.batch(b"v" * 100))
    log.update_config(LogConfig(segment_bytes=70, log_append_time=True))
    with refused(ErrorCode.RECORD_LIST_TOO_LARGE):
        tools.append_marker(log, tools.batch(b"v" * 100))
    log.append(
        tools.marker(7, 0, commit=True),
        leader_epoch=0,
        now_ms=tools.now_ms + 9,
        origin=AppendOrigin.COORDINATOR,
    )
    (marker,) = tools.batches(log)
    assert (marker.timestamp_type, marker.max_timestamp) == (LOG_APPEND_TIME, tools.now_ms + 9)
