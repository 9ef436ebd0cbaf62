"""What is left of a log after a clean: keys, tombstones, offsets, batches."""


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
