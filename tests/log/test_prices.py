"""What it costs to open a batch on the event loop, and which batches need a thread."""

from dataclasses import replace
from random import Random

import lz4.frame
import pytest
from crc32c import crc32c

from kwire.errors import KafkaError
from kwire.log.log_config import LogConfig
from kwire.log.prices import (
    CHEAP_LEVELS,
    CODEC_UNITS,
    COMPRESSING_UNITS,
    COMPRESSION,
    DECOMPRESSION,
    OPENING_UNITS,
    RECOMPRESSED_BYTES,
    RECORD_UNITS,
    is_quick_to_open,
)
from kwire.log.validation import FEW_LIMITS, INLINE_LIMITS, checked_batch, opening_units
from kwire.record.batch import HEADER_BYTES, RecordBatch, TooLarge, build_header
from kwire.record.compression import DEFAULT_LEVELS, Compression


def incompressible(size):
    """Bytes of which no codec makes fewer."""
    return Random(1).randbytes(size)


def payload_bytes(data):
    """How many bytes of a batch aren't its header."""
    return len(data) - HEADER_BYTES


def test_what_is_slow_to_check(tools):
    """Only large batches that have to be opened: those are checked in a thread."""
    small, many, large = (
        tools.batch(*[b"v" * size] * n) for n, size in ((9, 9), (101, 9), (1, 2**15))
    )
    plain, compacted = LogConfig(), LogConfig(compact=True)
    now_ms = tools.now_ms
    units = [opening_units(RecordBatch(data), plain, now_ms) for data in (small, many, large)]
    opened = OPENING_UNITS + RECORD_UNITS + FEW_LIMITS.max_headers // 2
    assert units == [0, 0, opened], "only one of a few records is opened"
    units = [opening_units(RecordBatch(data), compacted, now_ms) for data in (small, many, large)]
    assert units == [OPENING_UNITS + 9 * RECORD_UNITS + payload_bytes(small) // 4, None, None]


def test_headers_cost_as_much_as_fit(tools):
    """The header of a batch doesn't count them; an ordinary small batch costs little more."""
    for size in (0, 20, 50, 1000):
        data = tools.batch(b"v" * size)
        units = opening_units(RecordBatch(data), LogConfig(), tools.now_ms)
        assert units == OPENING_UNITS + RECORD_UNITS + min(payload_bytes(data) // 4, 16)
        units = opening_units(RecordBatch(data), LogConfig(compact=True), tools.now_ms)
        assert units == OPENING_UNITS + RECORD_UNITS + min(payload_bytes(data) // 4, 50)


@pytest.mark.parametrize("codec", list(Compression)[1:])
def test_what_a_codec_costs(tools, codec):
    """Whoever sends a few bytes that decompress to many pays for what they may become, and for
    each byte that is read."""
    now_ms, compacted = tools.now_ms, LogConfig(compact=True)
    prices = []
    for size in (1, 2000):
        data = tools.batch(incompressible(size), compression=codec)
        pace = DECOMPRESSION[codec]
        base = OPENING_UNITS + RECORD_UNITS + CODEC_UNITS
        base += payload_bytes(data) // pace.bytes_per_unit
        few = opening_units(RecordBatch(data), LogConfig(), now_ms)
        assert few == base + FEW_LIMITS.max_headers // 2
        opened = opening_units(RecordBatch(data), compacted, now_ms)
        assert opened == base + INLINE_LIMITS.max_headers // 2
        same = LogConfig(compression=codec)
        assert opening_units(RecordBatch(data), same, now_ms) == few, "nothing is recompressed"
        prices.append(few)
    assert prices[0] < prices[1]
    data = tools.batch(incompressible(pace.most_bytes), compression=codec)
    assert opening_units(RecordBatch(data), compacted, now_ms) is None


@pytest.mark.parametrize(("block_size", "is_large"), [(4, False), (5, True), (6, True), (7, True)])
def test_large_blocks_of_lz4_are_left_to_a_thread(tools, block_size, is_large):
    """A block is decompressed as a whole: a few KiB of it are 4 MiB on the event loop."""
    payload = lz4.frame.compress(bytes(500_000), block_size=block_size)
    batch = RecordBatch(
        build_header(
            payload,
            base_offset=0,
            leader_epoch=-1,
            attributes=Compression.LZ4,
            last_offset_delta=0,
            base_timestamp=tools.now_ms,
            max_timestamp=tools.now_ms,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            records_count=1,
        )
    )
    assert is_quick_to_open(batch) != is_large
    compacted = LogConfig(compact=True)
    assert (opening_units(batch, compacted, tools.now_ms) is None) == is_large
    assert (opening_units(batch, LogConfig(), tools.now_ms) == 0) == is_large, "trusted"


def test_what_is_not_lz4_is_refused(tools):
    """Whatever stands where a frame would say how large its blocks are."""
    for byte in (0x00, 0x40, 0x70, 0xFF):
        garbage = bytes([byte]) * 40
        batch = RecordBatch(tools.batch(b"v"))
        data = bytearray(batch.data[:HEADER_BYTES]) + garbage
        data[8:12] = (len(data) - 12).to_bytes(4)
        data[22] = Compression.LZ4
        data[17:21] = crc32c(bytes(data[21:])).to_bytes(4)
        batch = RecordBatch(bytes(data))
        assert is_quick_to_open(batch)
        with pytest.raises(KafkaError):
            checked_batch(batch, LogConfig(), tools.now_ms, INLINE_LIMITS)


@pytest.mark.parametrize("codec", list(Compression)[1:])
def test_compressing_costs_by_bytes(tools, codec):
    """At Kafka's level, as much as the worst data takes. More is done in a thread, and so is any
    batch at a higher level."""
    default = DEFAULT_LEVELS.get(codec)
    config = LogConfig(compression=codec, compression_level=default)
    pace = COMPRESSION[codec]
    prices = []
    for size in (1, pace.most_bytes - 50):
        batch = RecordBatch(tools.batch(b"v" * size))
        opened = opening_units(batch, LogConfig(compact=True), tools.now_ms)
        units = opening_units(batch, config, tools.now_ms)
        assert units == opened + COMPRESSING_UNITS + len(batch.payload) // pace.bytes_per_unit
        prices.append(units)
        costly = replace(config, compression_level=CHEAP_LEVELS[codec] + 1)
        assert opening_units(batch, costly, tools.now_ms) is None
    assert prices[0] < 64 < prices[1] < 500, "within a slice"
    large = RecordBatch(tools.batch(b"v" * pace.most_bytes))
    assert opening_units(large, config, tools.now_ms) is None


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("old", list(Compression)[1:])
def test_another_codec_costs_by_what_a_batch_may_become(tools, codec, old):
    """A small batch gets another codec on the event loop, as long as it doesn't decompress to so
    much that compressing it would take long."""
    if old == codec:
        return
    config = LogConfig(compression=codec)
    small = RecordBatch(tools.batch(b"v" * 200, compression=old))
    opened = opening_units(small, LogConfig(compact=True), tools.now_ms)
    units = COMPRESSING_UNITS + RECOMPRESSED_BYTES // COMPRESSION[codec].bytes_per_unit
    assert opening_units(small, config, tools.now_ms) == opened + units
    checked = checked_batch(small, config, tools.now_ms, INLINE_LIMITS)
    assert checked.batch.compression == codec
    growing = RecordBatch(tools.batch(b"v" * RECOMPRESSED_BYTES, compression=old))
    with pytest.raises(TooLarge):
        checked_batch(growing, config, tools.now_ms, INLINE_LIMITS)
    assert checked_batch(growing, LogConfig(compact=True), tools.now_ms, INLINE_LIMITS)
    assert checked_batch(growing, config, tools.now_ms).batch.compression == codec
    large = RecordBatch(tools.batch(incompressible(1024), compression=old))
    assert opening_units(large, config, tools.now_ms) is None
