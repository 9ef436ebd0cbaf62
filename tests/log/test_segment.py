"""Where a batch lies: what is known of the end of the log in memory, and what the index says."""

from random import Random

import pytest

from kwire.log.truncation import truncate_log


@pytest.mark.parametrize("seed", range(4))
def test_the_end_of_the_log_is_found_as_all_the_rest_is(tools, seed):
    """For every offset: by the tail where that knows it, by the index from the start, by a scan."""
    random = Random(seed)
    settings = {
        "index_interval_bytes": random.choice([0, 500, 5000, 1 << 20]),
        "segment_bytes": 90_000,
    }
    log = tools.open(**settings)
    for step in range(400):
        tools.append(log, *[random.randbytes(9)] * random.choice([1, 1, 1, 7]))
        chance = random.random()
        if chance < 0.01:
            truncate_log(log, log.log_end_offset * 3 // 4, tools.now_ms, tools.disk, tools.now_ms)
        elif chance < 0.02:
            log.close(tools.now_ms)
            log = tools.open(**settings)
        if step % 100 == 99:
            compare(log.segments[-1], log.log_end_offset)


def compare(segment, end_offset):
    """What ``find`` gives and what its slow twins do, for all offsets of a segment and beyond."""
    headers = list(segment.headers())
    place = 0
    for offset in range(segment.base_offset, end_offset + 2):
        while place < len(headers) and headers[place].last_offset < offset:
            place += 1
        expected = headers[place] if place < len(headers) else None
        assert segment.find(offset) == expected
        position = segment.position_before(offset)
        by_index = (h for h in segment.headers(position) if h.last_offset >= offset)
        assert next(by_index, None) == expected


def test_a_time_that_comes_again_has_no_second_entry(tools):
    """Of records with the same timestamp, the first is the one to find."""
    log = tools.open(index_interval_bytes=0)
    for _ in range(3):
        tools.append(log, b"v", timestamp=tools.now_ms)
    [segment] = log.segments
    assert segment.offset_index.entries > 1
    assert (segment.time_index.entries, segment.time_index.last) == (1, (tools.now_ms, 0))
