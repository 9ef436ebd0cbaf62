"""What is left of a log after a clean: keys, tombstones, offsets, batches."""

import pytest

from kwire.record.batch import LOG_APPEND_TIME
from kwire.record.records import records
from tests.support.time_lookups import max_timestamp, offset_for_timestamp


def test_the_last_value_of_each_key_is_left(compaction):
    """At its own offset, in its own batch; the active segment is left alone."""
    c = compaction()
    for number in range(3):
        for key in "abc":
            c.put(key, f"{key}{number}")
    c.put("d", "d0")
    statistics = c.compact()
    assert c.contents() == [(6, "a", "a2"), (7, "b", "b2"), (8, "c", "c2"), (9, "d", "d0")]
    assert (statistics.messages_read, statistics.messages_written) == (10, 4)
    assert statistics.map_messages_read == 10
    assert c.log.log_end_offset == 10
    assert c.log.first_dirty_offset == 10
    c.put("a", "a3")
    assert c.compact(roll=False) is None
    c.compact()
    assert c.contents() == [(7, "b", "b2"), (8, "c", "c2"), (9, "d", "d0"), (10, "a", "a3")]


@pytest.mark.parametrize("compression", range(5))
def test_a_batch_keeps_all_but_the_records(compaction, compression):
    """Offsets, producer, sequence, epoch, codec and timestamps are those the producer wrote."""
    c = compaction()
    written = [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")]
    c.put_batch(written, compression=compression, producer=(7, 3, 40))
    c.put_batch([("a", "5"), ("d", "6")], producer=(7, 3, 44))
    [before, _] = c.tools.batches(c.log)
    assert c.compact() is not None
    [after, last] = c.tools.batches(c.log)
    for name in [
        "base_offset",
        "last_offset",
        "producer_id",
        "producer_epoch",
        "base_sequence",
        "last_sequence",
        "partition_leader_epoch",
        "attributes",
        "max_timestamp",
        "compression",
    ]:
        assert getattr(after, name) == getattr(before, name), name
    assert list(records(after)) == list(records(before))[1:3]
    assert after.records_count == 2
    assert last.records_count == 2


def test_what_loses_nothing_is_copied_byte_by_byte(compaction):
    """So a clean log can be cleaned again without a trace."""
    c = compaction(segment_bytes=500)
    for key in "abcdef":
        c.put_batch([(key, "x" * 50), (key * 2, "y" * 50)], compression=2)
    before = [bytes(batch.data) for batch in c.tools.batches(c.log)]
    assert c.compact().bytes_written == sum(map(len, before))
    assert [bytes(batch.data) for batch in c.tools.batches(c.log)] == before


def test_the_largest_timestamp_is_that_of_the_records_left(compaction):
    """Retention and the search by time go by it; LogAppendTime stays what it was."""
    c = compaction()
    now = c.now_ms
    c.put_batch([("a", "1"), ("b", "1")], timestamp=now)
    c.put("a", "2", timestamp=now - 10)
    c.put("b", "2", timestamp=now - 5)
    c.put("c", "1", timestamp=now - 20)
    assert c.compact() is not None
    assert c.contents() == [(2, "a", "2"), (3, "b", "2"), (4, "c", "1")]
    assert offset_for_timestamp(c.log, now - 5, end_offset=5)[:2] == (3, now - 5)
    assert offset_for_timestamp(c.log, now, end_offset=5) is None
    assert max_timestamp(c.log)[:2] == (3, now - 5)


def test_log_append_time_is_kept(compaction):
    """Every record of the batch has the time the broker gave it, with a delete horizon as well."""
    c = compaction(log_append_time=True)
    c.put_batch([("a", "1"), ("b", None), ("c", "3")])
    c.put("a", "2")
    assert c.compact() is not None
    [batch, _] = c.tools.batches(c.log)
    assert batch.timestamp_type == LOG_APPEND_TIME
    assert batch.delete_horizon_ms == c.now_ms + 1000
    found = [(record.key, record.timestamp) for record in records(batch)]
    assert found == [(b"b", c.now_ms), (b"c", c.now_ms)]


def test_a_tombstone_goes_after_its_delete_horizon(compaction):
    """KIP-534: the first clean sets it, in the batch; its records keep their timestamps."""
    c = compaction()
    c.put("a", "1")
    c.put_batch([("a", None), ("b", "1")], timestamp=c.now_ms - 70_000)
    assert c.compact() is not None
    assert c.contents() == [(1, "a", None), (2, "b", "1")]
    [batch] = c.tools.batches(c.log)
    horizon = c.now_ms + 1000
    assert batch.delete_horizon_ms == horizon
    assert [r.timestamp for r in records(batch)] == [c.now_ms - 70_000] * 2
    assert batch.max_timestamp == c.now_ms - 70_000
    c.put("c", "1")
    c.now_ms = horizon - 1
    assert c.compact() is not None
    assert c.contents() == [(1, "a", None), (2, "b", "1"), (3, "c", "1")]
    assert c.tools.batches(c.log)[0].delete_horizon_ms == horizon
    c.put("c", "2")
    c.now_ms = horizon
    assert c.compact() is not None
    assert c.contents() == [(2, "b", "1"), (4, "c", "2")]
    assert c.tools.batches(c.log)[0].delete_horizon_ms == horizon


def test_a_tombstone_that_was_overwritten_goes_at_once(compaction):
    """It isn't the last of its key."""
    c = compaction()
    c.put("a", None)
    c.put("a", "1")
    assert c.compact() is not None
    assert c.contents() == [(1, "a", "1")]


def test_records_without_a_key_go(compaction, caplog):
    """Written while the topic wasn't compacted, they can't be found by anything."""
    c = compaction(compact=False)
    c.put_batch([(None, "1"), ("a", "1")])
    c.log.update_config(c.tools.open(**c.settings | {"compact": True}).config)
    statistics = c.compact()
    assert statistics.invalid_messages_read == 1
    assert c.contents() == [(1, "a", "1")]
    assert "removed 1 records without a key" in caplog.text


def test_the_last_offset_is_not_lost(compaction):
    """The batch before the end of what was cleaned stays, if need be empty."""
    c = compaction()
    c.put("a", "1")
    c.put_batch([("b", "1"), ("b", None)])
    assert c.compact() is not None
    c.now_ms += 1000
    c.put("b", "2")
    assert c.compact() is not None
    assert c.shapes() == [(0, 0, 1), (3, 3, 1)]
    c.put("b", None)
    assert c.compact() is not None
    c.now_ms += 1000
    c.put("c", "1")
    c.log.roll(c.now_ms)
    c.put("c", "2")
    c.log.roll(c.now_ms)
    assert c.compact(roll=False) is not None
    assert c.shapes() == [(0, 0, 1), (6, 6, 1)]
    c.put("x", None)
    assert c.compact() is not None
    c.now_ms += 1000
    c.log.first_dirty_offset = 0
    assert c.compact(roll=False) is not None
    assert c.shapes() == [(0, 0, 1), (6, 6, 1), (7, 7, 0)]
    c.reopen()
    assert c.put("y", "1") == 8


def test_a_clean_of_everything_that_is_obsolete_leaves_an_empty_segment(compaction):
    """Segments between others may end up with nothing in them."""
    c = compaction(segment_bytes=130)
    for number in range(6):
        c.put("k", str(number) * 40)
    assert len(c.bases()) == 6
    assert c.compact() is not None
    assert c.contents() == [(5, "k", "5" * 40)]
    c.reopen()
    assert c.contents() == [(5, "k", "5" * 40)]
    assert c.log.log_end_offset == 6


def test_the_time_index_of_a_cleaned_segment_is_its_own(compaction):
    """Relative to the segment's first offset, wherever in the log that is."""
    c = compaction(segment_bytes=400, index_interval_bytes=100)
    for number in range(60):
        c.now_ms += 10
        c.put(f"{number % 40}", "v" * 20)
    assert c.compact() is not None
    cleaned = [segment for segment in c.log.segments if segment.time_index.entries]
    assert len(cleaned) > 3
    for segment in cleaned:
        largest, relative = segment.time_index.last
        header = segment.find(segment.base_offset + relative)
        assert header is not None
        assert (header.last_offset, header.max_timestamp) == (
            segment.base_offset + relative,
            largest,
        )
