"""Searching by time a piece at a time: bounded steps, headers that lie, and a log that changes."""

from struct import pack_into

import pytest
from crc32c import crc32c

from kwire.log.page_cache import ColdPages, populate
from kwire.log.replication import append_replicated
from kwire.log.time_search import HEADERS_PER_STEP, MOST_OPENED, LargestSearch, TimeSearch
from kwire.record.batch import InvalidRecords, TooLarge, build_header
from kwire.record.compression import Compression
from kwire.record.streaming_decompressor import NO_LIMITS, Limits, do_nothing
from tests.support.log_state import close_files
from tests.support.page_cache import PageCache
from tests.support.time_lookups import max_timestamp, offset_for_timestamp

MAX_TIMESTAMP_AT, CRC_AT, CHECKED_FROM = 35, 17, 21


def append_lie(tools, log, max_timestamp_ms, records=9):
    """A batch whose header says that a record is newer than any is."""
    batch = bytearray(tools.batch(*[b"v"] * records, timestamp=tools.now_ms))
    pack_into(">q", batch, MAX_TIMESTAMP_AT, max_timestamp_ms)
    pack_into(">I", batch, CRC_AT, crc32c(bytes(batch[CHECKED_FROM:])))
    log.append(batch, leader_epoch=0, now_ms=tools.now_ms)


def finish(search):
    """Search to the end; how many steps it took, and how many batches were opened."""
    steps = opened = 0
    while not search.is_done:
        opening = search.step()
        steps += 1
        assert search.seen_headers <= HEADERS_PER_STEP
        if opening is not None:
            opened += 1
            search.add_result(search.search_in_batch(opening, NO_LIMITS, do_nothing))
    return steps, opened


def test_many_headers_are_looked_at_in_many_steps(tools):
    """A lie at the start has every later header looked at, but only some in one step."""
    log = tools.open(segment_bytes=60_000, index_interval_bytes=1 << 20)
    append_lie(tools, log, tools.now_ms + 1000)
    for _ in range(3000):
        tools.append(log, b"v", timestamp=tools.now_ms)
    append_lie(tools, log, tools.now_ms + 1000)
    search = TimeSearch(log, tools.now_ms + 500)
    steps, opened = finish(search)
    assert opened == 2
    assert steps < 20
    assert search.found is None


def test_batches_that_compaction_has_emptied_are_no_lies(tools):
    """However many of them a log has, the record behind them is found."""
    log = tools.open()
    for producer_id in range(MOST_OPENED + 5):
        empty = build_header(
            b"",
            base_offset=log.log_end_offset,
            leader_epoch=0,
            attributes=0,
            last_offset_delta=0,
            base_timestamp=-1,
            max_timestamp=tools.now_ms,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            records_count=0,
        )
        append_replicated(log, empty, leader_epoch=0, now_ms=tools.now_ms)
    offset = tools.append(log, b"v", timestamp=tools.now_ms)
    found = offset_for_timestamp(log, tools.now_ms, end_offset=offset + 1)
    assert found[:2] == (offset, tools.now_ms)


def test_a_lie_leads_to_the_next_batch(tools):
    """The record that is searched is found behind headers that have promised it."""
    log = tools.open()
    for _ in range(5):
        append_lie(tools, log, tools.now_ms + 1000)
    offset = tools.append(log, b"v", timestamp=tools.now_ms + 700)
    assert offset_for_timestamp(log, tools.now_ms + 600, end_offset=100)[:2] == (
        offset,
        tools.now_ms + 700,
    )


def test_after_many_lies_the_next_header_is_believed(tools):
    """No log has a lookup open all of its batches."""
    log = tools.open()
    for _ in range(MOST_OPENED + 5):
        append_lie(tools, log, tools.now_ms + 1000)
    search = TimeSearch(log, tools.now_ms + 500)
    _, opened = finish(search)
    assert opened == MOST_OPENED
    assert search.found[:2] == (MOST_OPENED * 9, tools.now_ms + 1000)


def test_the_largest_timestamp_of_a_log_whose_headers_lie(tools):
    """The header is believed in the end, as one that can't be checked is."""
    log = tools.open()
    tools.append(log, b"v", timestamp=tools.now_ms + 5)
    append_lie(tools, log, tools.now_ms + 1000)
    tools.append(log, b"v", timestamp=tools.now_ms + 7)
    assert max_timestamp(log)[:2] == (1, tools.now_ms + 1000)


def test_the_largest_timestamp_is_found_with_few_batches_opened(tools):
    """Where the largest lies before the log start offset, headers say which of the others is."""
    log = tools.open(segment_bytes=2000)
    tools.append(log, b"first", b"second", timestamp=tools.now_ms + 5000)
    for number in range(300):
        tools.append(log, b"v", timestamp=tools.now_ms + number)
    log.advance_log_start_offset(1)
    search = LargestSearch(log)
    _, opened = finish(search)
    assert (search.found[:2], opened) == ((1, tools.now_ms + 5000), 1)
    log.advance_log_start_offset(2)
    search = LargestSearch(log)
    _, opened = finish(search)
    assert (search.found[:2], opened) == ((301, tools.now_ms + 299), 1)


def test_a_bomb_counts_by_its_header(tools):
    """What is more than may be opened is no reason to find nothing."""
    log = tools.open()
    values = [bytes(1000)] * 1000
    tools.append(log, *values, timestamp=tools.now_ms, compression=Compression.ZSTD)
    search = TimeSearch(log, tools.now_ms)
    opening = search.step()
    for limits in (Limits(max_bytes=10_000), Limits(max_records=999)):
        with pytest.raises(TooLarge):
            search.search_in_batch(opening, Limits(0, 0), do_nothing)
        assert issubclass(TooLarge, InvalidRecords), limits
    search.add_result(opening.unread())
    assert search.found[:2] == (0, tools.now_ms)
    for wanted in ({"start_offset": 1}, {"timestamp": tools.now_ms + 1}):
        assert opening._replace(**wanted).unread() is None


@pytest.mark.parametrize("opened_before", [0, 1, 3])
def test_the_log_may_change_between_two_steps(tools, opened_before):
    """Segments that are gone are passed over, new ones are seen; nothing is found twice."""
    log = tools.open(segment_bytes=1000)
    for _ in range(6):
        append_lie(tools, log, tools.now_ms + 1000)
        log.roll(tools.now_ms)
    search = TimeSearch(log, tools.now_ms + 500)
    for _ in range(opened_before):
        search.add_result(search.step().search_in_batch())
    log.advance_log_start_offset(36)
    for segment in log.segments[:4]:
        segment.delete_later()
    del log.segments[:4]
    offset = tools.append(log, b"v", timestamp=tools.now_ms + 600)
    finish(search)
    assert search.found[:2] == (offset, tools.now_ms + 600)


def test_pages_that_are_not_in_memory_are_asked_for_and_the_step_made_again(tools, monkeypatch):
    """A step that met a cold page goes on where it was."""
    log = tools.open(segment_bytes=3000, index_interval_bytes=100)
    times = [tools.now_ms + number for number in range(100)]
    for time in times:
        tools.append(log, b"v" * 50, timestamp=time)
    close_files(log)
    PageCache(monkeypatch)
    cold = 0
    search = TimeSearch(log, times[73])
    while not search.is_done:
        try:
            with log.hurry:
                opening = search.step()
        except ColdPages as missing:
            populate(missing.fd, missing.position, missing.size_bytes)
            cold += 1
            continue
        if opening is not None:
            search.add_result(opening.search_in_batch())
    assert search.found[:2] == (73, times[73])
    assert cold > 1
