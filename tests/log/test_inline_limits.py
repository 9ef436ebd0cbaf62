"""Which batches the event loop opens or recompresses itself, and which need a thread."""

from dataclasses import replace
from random import Random

import lz4.frame
import pytest
from crc32c import crc32c

from kwire.errors import KafkaError
from kwire.log.inline_limits import (
    CHEAP_LEVELS,
    COMPRESSION_BYTES,
    DECOMPRESSION_BYTES,
    RECOMPRESSED_BYTES,
    is_quick_to_open,
)
from kwire.log.log_config import LogConfig
from kwire.log.validation import INLINE_LIMITS, checked_batch, is_checked_inline
from kwire.record.batch import HEADER_BYTES, RecordBatch, TooLarge, build_header
from kwire.record.compression import DEFAULT_LEVELS, Compression


def incompressible(size):
    """Bytes of which no codec makes fewer."""
    return Random(1).randbytes(size)


def test_what_is_slow_to_check(tools):
    """Only large batches that have to be opened: those are checked in a thread."""
    small, many, large = (
        tools.batch(*[b"v" * size] * n) for n, size in ((9, 9), (101, 9), (1, 2**15))
    )
    plain, compacted = LogConfig(), LogConfig(compact=True)

    def inline(config):
        batches = (small, many, large)
        return [is_checked_inline(RecordBatch(one), config, tools.now_ms) for one in batches]

    assert inline(plain) == [True, True, True], "not opened"
    assert inline(compacted) == [True, False, False]


@pytest.mark.parametrize("codec", list(Compression)[1:])
def test_few_compressed_bytes_are_read_inline(tools, codec):
    """Whatever they decompress to: limits hold while they are opened."""
    now_ms, compacted = tools.now_ms, LogConfig(compact=True)
    for size, is_inline in ((1, True), (2000, True), (DECOMPRESSION_BYTES[codec], False)):
        batch = RecordBatch(tools.batch(incompressible(size), compression=codec))
        assert is_checked_inline(batch, compacted, now_ms) == is_inline
        assert is_checked_inline(batch, LogConfig(), now_ms), "not opened"
        assert is_checked_inline(batch, LogConfig(compression=codec), now_ms), "nor recompressed"


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
    assert is_checked_inline(batch, compacted, tools.now_ms) != is_large
    assert is_checked_inline(batch, LogConfig(), tools.now_ms), "trusted"


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
def test_few_bytes_are_compressed_inline(tools, codec):
    """At Kafka's level. More is done in a thread, and so is any batch at a higher level."""
    config = LogConfig(compression=codec, compression_level=DEFAULT_LEVELS.get(codec))
    most_bytes = COMPRESSION_BYTES[codec]
    for size, is_inline in ((1, True), (most_bytes - 50, True), (most_bytes, False)):
        batch = RecordBatch(tools.batch(b"v" * size))
        assert is_checked_inline(batch, config, tools.now_ms) == is_inline
        slow = replace(config, compression_level=CHEAP_LEVELS[codec] + 1)
        assert not is_checked_inline(batch, slow, tools.now_ms)


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("old", list(Compression)[1:])
def test_a_small_batch_gets_another_codec_inline(tools, codec, old):
    """A small batch gets another codec on the event loop, as long as it doesn't decompress to so
    much that compressing it would take long."""
    if old == codec:
        return
    config = LogConfig(compression=codec)
    small = RecordBatch(tools.batch(b"v" * 200, compression=old))
    assert is_checked_inline(small, config, tools.now_ms)
    checked = checked_batch(small, config, tools.now_ms, INLINE_LIMITS)
    assert checked.batch.compression == codec
    growing = RecordBatch(tools.batch(b"v" * RECOMPRESSED_BYTES, compression=old))
    with pytest.raises(TooLarge):
        checked_batch(growing, config, tools.now_ms, INLINE_LIMITS)
    assert checked_batch(growing, LogConfig(compact=True), tools.now_ms, INLINE_LIMITS)
    assert checked_batch(growing, config, tools.now_ms).batch.compression == codec
    large = RecordBatch(tools.batch(incompressible(1024), compression=old))
    assert not is_checked_inline(large, config, tools.now_ms)
