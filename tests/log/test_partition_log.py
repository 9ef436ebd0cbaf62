"""Appending, reading, rolling and closing one partition's log."""

import os
from struct import unpack

import pytest

from kwire.errors import ErrorCode, KafkaError
from kwire.log.replication import append_replicated
from kwire.log.retention import remove_doomed
from kwire.log.truncation import truncate_log
from kwire.record.batch import complete_batches
from tests.support.log_state import base_offsets, known_producers, leader_epochs, segment_sizes
from tests.support.old_segments import delete_old_segments


def test_offsets_and_epochs_are_stamped_in_place(tools):
    """The buffer that was given is patched, the checksum stays right, nothing is copied."""
    log = tools.open()
    tools.append(log, b"a", b"b")
    buffer = tools.batch(b"c", b"d", b"e")
    info = log.append(memoryview(buffer), leader_epoch=7, now_ms=tools.now_ms)
    assert (info.first_offset, info.last_offset, info.log_append_time_ms) == (2, 4, -1)
    assert unpack(">q", buffer[:8]) == (2,)
    last = tools.batches(log)[-1]
    assert (last.base_offset, last.partition_leader_epoch) == (2, 7)
    assert leader_epochs(log) == [(0, 0), (7, 2)]


@pytest.mark.parametrize("kind", [bytes, lambda data: memoryview(bytes(data))])
def test_a_buffer_that_cannot_be_written_is_left_alone(tools, kind):
    """Read-only records are appended all the same."""
    log = tools.open()
    tools.append(log, b"a")
    data = kind(tools.batch(b"b"))
    before = bytes(data)
    log.append(data, leader_epoch=0, now_ms=tools.now_ms)
    assert bytes(data) == before
    assert tools.values(log) == [(0, b"a"), (1, b"b")]


def test_reading_begins_with_the_batch_that_holds_the_offset(tools):
    """Every offset of many batches in several segments finds its batch, before and after reopen."""
    log = tools.open(segment_bytes=8_000, index_interval_bytes=500)
    for number in range(300):
        tools.append(log, *[b"%d" % number] * (number % 4 + 1))
    assert len(base_offsets(log)) > 2
    for _ in range(2):
        for offset in range(0, log.log_end_offset, 7):
            found = next(iter(complete_batches(tools.fetch(log, offset, 1))))
            assert found.base_offset <= offset <= found.last_offset
        log.close(tools.now_ms)
        log = tools.open(segment_bytes=8_000, index_interval_bytes=500)


def test_max_bytes_may_cut_the_last_batch_but_never_the_first(tools):
    """KIP-74: a first batch that is too large comes whole, if the caller wants progress."""
    log = tools.open()
    tools.append(log, b"x" * 100)
    tools.append(log, b"y" * 100)
    first = tools.batches(log)[0].size_bytes
    end = log.log_end_offset
    assert log.read(0, first + 10, end_offset=end, min_one_batch=False).size_bytes == first + 10
    assert log.read(0, 10, end_offset=end, min_one_batch=True).size_bytes == first
    assert log.read(0, 10, end_offset=end, min_one_batch=False) is None
    assert log.read(0, 0, end_offset=end, min_one_batch=False) is None


def test_nothing_beyond_the_end_offset_is_read(tools):
    """The high watermark bounds a read, in the active segment and in older ones."""
    log = tools.open(segment_bytes=1000)
    for number in range(30):
        tools.append(log, b"%d" % number, b"z" * 50)
    for end in range(0, log.log_end_offset, 2):
        for start in range(0, end, 2):
            data = tools.fetch(log, start, end_offset=end)
            assert [batch.last_offset < end for batch in complete_batches(data)] != []
            assert all(batch.last_offset < end for batch in complete_batches(data))
        assert log.read(end, 1000, end_offset=end, min_one_batch=True) is None


@pytest.mark.parametrize("offset", [-1, 4, 100])
def test_offsets_outside_the_log_are_refused(tools, refused, offset):
    """Below the log start offset or beyond the log end offset: OFFSET_OUT_OF_RANGE."""
    log = tools.open()
    tools.append(log, b"a", b"b", b"c")
    log.advance_log_start_offset(1)
    with refused(ErrorCode.OFFSET_OUT_OF_RANGE):
        log.read(offset, 10, end_offset=3, min_one_batch=True)
    with refused(ErrorCode.OFFSET_OUT_OF_RANGE):
        log.read(0, 10, end_offset=3, min_one_batch=True)
    assert log.read(3, 10, end_offset=3, min_one_batch=True) is None


def test_log_append_time_is_the_brokers_and_has_a_right_checksum(tools):
    """message.timestamp.type=LogAppendTime: every record has the broker's time."""
    log = tools.open(log_append_time=True)
    info = log.append(tools.batch(b"a", b"b", timestamp=5), leader_epoch=0, now_ms=tools.now_ms + 9)
    assert info.log_append_time_ms == tools.now_ms + 9
    assert {record.timestamp for record in tools.records(log)} == {tools.now_ms + 9}


def test_records_are_compressed_anew_where_the_topic_says_so(tools):
    """compression.type other than producer."""
    log = tools.open(compression=1)
    tools.append(log, b"a" * 1000, b"b")
    tools.append(log, b"c", compression=1)
    assert {batch.compression for batch in tools.batches(log)} == {1}
    assert tools.values(log) == [(0, b"a" * 1000), (1, b"b"), (2, b"c")]


def test_segments_roll_by_size_age_and_full_index(tools):
    """segment.bytes; segment.ms by the timestamps of the records; segment.index.bytes."""
    log = tools.open(segment_bytes=500)
    for _ in range(6):
        tools.append(log, b"x" * 100)
    assert max(segment_sizes(log)) <= 500
    assert len(base_offsets(log)) == 3
    log.close(tools.now_ms)

    log = tools.open(segment_ms=1000)
    for later in (0, 900, 1100):
        tools.append(log, b"x", timestamp=tools.now_ms + later)
    assert len(base_offsets(log)) == 4
    log.close(tools.now_ms)

    log = tools.open(index_interval_bytes=0, segment_index_bytes=48)
    before = len(base_offsets(log))
    for _ in range(22):
        tools.append(log, b"x")
    # Six entries of eight bytes fit; the first batch of a segment has none.
    assert len(base_offsets(log)) == before + 3


def test_age_counts_from_the_first_batch_also_after_a_restart(tools):
    """segment.ms is measured from the segment's first batch, not from when it was opened."""
    log = tools.open(segment_ms=1000)
    tools.append(log, b"x")
    log.close(tools.now_ms)
    log = tools.open(segment_ms=1000)
    tools.append(log, b"x", timestamp=tools.now_ms + 1001)
    assert base_offsets(log) == [0, 1]


def test_an_empty_segment_is_not_rolled(tools):
    """Two segments never begin at the same offset."""
    log = tools.open()
    log.roll(tools.now_ms)
    tools.append(log, b"a")
    log.roll(tools.now_ms)
    log.roll(tools.now_ms)
    assert base_offsets(log) == [0, 1]


def test_files_are_those_of_kafka(tools):
    """Names, preallocated indexes while written, trimmed ones after roll and clean close."""
    log = tools.open(segment_index_bytes=4096, index_interval_bytes=100)
    for _ in range(20):
        tools.append(log, b"x" * 100)
    log.roll(tools.now_ms)
    for _ in range(20):
        tools.append(log, b"x" * 100)
    sizes = {path.name: path.stat().st_size for path in tools.directory.iterdir()}
    assert sizes[f"{0:020d}.index"] == 8 * 19
    # A time index has entries only where the largest timestamp went up.
    assert sizes[f"{0:020d}.timeindex"] == 12
    assert sizes[f"{20:020d}.index"] == 4096
    assert sizes[f"{20:020d}.timeindex"] == 4092
    log.close(tools.now_ms)
    sizes = {path.name: path.stat().st_size for path in tools.directory.iterdir()}
    assert sizes[f"{20:020d}.index"] == 8 * 19
    assert sizes[f"{20:020d}.timeindex"] == 12
    assert set(sizes) == {
        f"{base:020d}{suffix}" for base in (0, 20) for suffix in (".log", ".index", ".timeindex")
    } | {
        f"{20:020d}.snapshot",
        f"{40:020d}.snapshot",
        "leader-epoch-checkpoint",
        "partition.metadata",
    }


def test_a_slice_of_a_deleted_segment_stays_readable(tools):
    """Whoever is sending from a segment keeps its file open."""
    log = tools.open(segment_bytes=200, retention_bytes=0, file_delete_delay_ms=0)
    for number in range(5):
        tools.append(log, b"%d" % number * 60)
    found = log.read(0, 1000, end_offset=5, min_one_batch=True)
    before = os.pread(found.fd, found.size_bytes, found.position)
    assert delete_old_segments(log, tools.now_ms, 5, tools.disk, tools.now_ms) == 5
    remove_doomed(log, tools.now_ms, tools.disk)
    assert not (tools.directory / f"{0:020d}.log").exists()
    assert os.pread(found.fd, found.size_bytes, found.position) == before


def test_truncation_forgets_everything_after_the_offset(tools):
    """Segments, indexes, epochs and producers are as if the batches had never been."""
    log = tools.open(segment_bytes=1000, index_interval_bytes=100)
    for number in range(40):
        log.append(
            tools.batch(b"x" * 100, producer=(5, 0, number)),
            leader_epoch=number // 10,
            now_ms=tools.now_ms,
        )
    truncate_log(log, 17, tools.now_ms, tools.disk, tools.now_ms)
    assert log.log_end_offset == 17
    assert leader_epochs(log) == [(0, 0), (1, 10)]
    assert known_producers(log)[5].last_sequence == 16
    assert tools.append(log, b"again", producer=(5, 0, 17)) == 17
    assert [offset for offset, _ in tools.values(log)] == list(range(18))
    truncate_log(log, 0, tools.now_ms, tools.disk, tools.now_ms)
    assert (log.log_end_offset, log.size_bytes) == (0, 0)
    assert tools.append(log, b"new") == 0


def test_truncation_below_the_first_segment_starts_anew(tools):
    """A follower may have to begin before everything it has."""
    log = tools.open(log_start_offset=100)
    assert tools.append(log, b"a") == 100
    truncate_log(log, 40, tools.now_ms, tools.disk, tools.now_ms)
    assert (log.log_start_offset, log.log_end_offset) == (40, 40)
    assert tools.append(log, b"b") == 40
    assert tools.values(log) == [(40, b"b")]


def test_replicated_batches_keep_their_offsets_and_epochs(tools, refused):
    """A follower writes what its leader wrote, gaps of compaction included, and nothing twice."""
    log = tools.open()
    data = bytearray()
    for base, epoch in ((3, 1), (7, 2)):
        batch = tools.batch(b"a", b"b")
        batch[:8] = base.to_bytes(8, "big")
        batch[12:16] = epoch.to_bytes(4, "big")
        data += batch
    append_replicated(log, data, leader_epoch=9, now_ms=0)
    append_replicated(log, data, leader_epoch=9, now_ms=0)
    assert [offset for offset, _ in tools.values(log)] == [3, 4, 7, 8]
    assert leader_epochs(log) == [(1, 3), (2, 7)]
    overlapping = tools.batch(b"a", b"b")
    overlapping[:8] = (8).to_bytes(8, "big")
    with refused(ErrorCode.CORRUPT_MESSAGE):
        append_replicated(log, overlapping, leader_epoch=9, now_ms=0)


def test_the_log_says_when_a_flush_is_due(tools):
    """After flush.messages, after flush.ms, after a roll; a flush moves the recovery point."""
    log = tools.open(flush_messages=3)
    tools.append(log, b"a")
    tools.append(log, b"a")
    assert not log.flush_is_due
    tools.append(log, b"a")
    assert log.flush_is_due
    log.flush(tools.now_ms)
    assert not log.flush_is_due
    tools.append(log, b"a")
    assert log.recovery_point == 3
    log.close(tools.now_ms)
    log = tools.open()
    assert not log.flush_time_is_due(tools.now_ms)
    tools.append(log, b"a")
    assert log.recovery_point == 4
    assert not log.flush_time_is_due(tools.now_ms + 1000)
    log.roll(tools.now_ms)
    assert log.recovery_point == 4
    assert log.flush_time_is_due(tools.now_ms)
    log.flush_rolled()
    assert log.recovery_point == 5
    log.update_config(type(log.config)(flush_ms=1000))
    assert not log.flush_time_is_due(tools.now_ms + 1000)
    tools.append(log, b"b")
    assert not log.flush_time_is_due(tools.now_ms + 999)
    assert log.flush_time_is_due(tools.now_ms + 1000)
    log.flush(tools.now_ms + 1000)
    assert log.recovery_point == 6


def test_a_flush_at_the_steady_clocks_zero_counts(tools):
    """A machine that has just started may have one: flush.ms counts from there."""
    log = tools.open(flush_ms=1000)
    log.flush(0)
    tools.append(log, b"a")
    assert not log.flush_time_is_due(999)
    assert log.flush_time_is_due(1000)


def test_a_deleted_log_refuses_every_use(tools):
    """Whoever still holds it can't touch the files of a topic that takes its name."""
    log = tools.open()
    tools.append(log, b"a")
    log.abandon()
    with pytest.raises(KafkaError) as appended:
        tools.append(log, b"b")
    with pytest.raises(KafkaError) as read:
        log.read(0, 10, end_offset=1, min_one_batch=True)
    assert appended.value.code is read.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_end_offsets_of_epochs(tools):
    """LeaderEpochFileCache.endOffsetFor: known, between, older than all, newer than all."""
    log = tools.open(log_start_offset=10)
    for epoch in (2, 2, 5):
        log.append(tools.batch(b"a"), leader_epoch=epoch, now_ms=tools.now_ms)
    assert log.end_offset_for_epoch(5) == (5, 13)
    assert log.end_offset_for_epoch(2) == (2, 12)
    assert log.end_offset_for_epoch(3) == (2, 12)
    assert log.end_offset_for_epoch(1) == (1, 10)
    assert log.end_offset_for_epoch(6) == (-1, -1)
    assert log.end_offset_for_epoch(-1) == (-1, -1)


def test_what_grows_while_it_is_flushed_is_flushed_again(tools):
    """A flush in a thread counts what was there when it began, also where a roll comes between."""
    log = tools.open(segment_bytes=200)
    tools.append(log, b"a")
    synced, sync = [], tools.disk.sync

    def sync_while_it_grows(fd):
        synced.append(log.log_end_offset)
        if len(synced) == 1:
            tools.append(log, b"b" * 50)
            log.roll(tools.now_ms)
        sync(fd)

    tools.disk.sync = sync_while_it_grows
    log.flush(tools.now_ms)
    assert log.recovery_point == 1
    assert log.flush_time_is_due(tools.now_ms)
    log.flush_rolled()
    assert log.recovery_point == 2
    assert not log.flush_time_is_due(tools.now_ms)
