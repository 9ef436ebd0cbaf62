"""What stays by the offsets alone is what stays by the keys: the same bytes, the same counts."""

import time
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from kwire.log.compaction import segment_reader
from kwire.log.compaction.cleaner import Cleaner
from kwire.log.compaction.offset_map import OffsetMap
from kwire.log.compaction.throttle import Throttle


def some_log(compaction, chance):
    """A log with a clean part, transactions, tombstones, and records without a key."""
    c = compaction(segment_bytes=chance.choice([700, 3000]), delete_retention_ms=50)
    open_producers = set()
    sequences = dict.fromkeys(range(1, 4), 0)
    for number in range(chance.randrange(20, 120)):
        items = [
            (
                chance.choice([None, *"abcdefghijklmnop"]) if chance.random() < 0.2 else "k",
                None if chance.random() < 0.2 else "v" * chance.choice([1, 100]),
            )
            for _ in range(chance.randrange(1, 6))
        ]
        producer = chance.randrange(6)
        options = {"compression": chance.choice([0, 0, 4])}
        if producer in sequences:
            options |= {"producer": (producer, 0, sequences[producer]), "transactional": True}
            open_producers.add(producer)
            sequences[producer] += len(items)
        # As if the topic hadn't been compacted yet, for records without a key.
        c.log.update_config(replace(c.log.config, compact=False))
        c.put_batch(items, **options)
        c.log.update_config(replace(c.log.config, compact=True))
        if open_producers and chance.random() < 0.3:
            c.end(open_producers.pop(), commit=chance.random() < 0.5)
        c.now_ms += chance.choice([0, 10])
        if number == 15 and not open_producers:
            c.compact()
    for producer in open_producers:
        c.end(producer, commit=False)
    c.log.roll(c.now_ms)
    return c


def cleaned(job, disk):
    """All files of one clean, and its statistics without times."""
    cleaner = Cleaner(
        job,
        disk,
        clock=time.monotonic,
        throttle=Throttle(float("inf"), time.monotonic, time.sleep),
    )
    groups = list(cleaner.run())
    files, directory = {}, Path(job.directory)
    for name in sorted(disk.names(directory)):
        if name.endswith(".cleaned"):
            files[name] = disk.read_bytes(directory / name)
    end_offset, statistics = cleaner.result
    return groups, files, end_offset, replace(statistics, map_s=0.0, total_s=0.0)


@pytest.mark.parametrize("seed", range(10))
def test_by_offset_as_by_key(compaction, seed, monkeypatch):
    """Whatever the log, however large the map and the buffer."""
    chance = Random(seed)
    c = some_log(compaction, chance)
    monkeypatch.setattr(segment_reader, "LEAST_BUFFER_BYTES", chance.choice([61, 200, 1 << 16]))
    monkeypatch.setattr(segment_reader, "PEEK_BYTES", chance.choice([61, 150]))
    clean = c.next_clean()
    job = replace(
        clean.job,
        map_bytes=24 * chance.choice([4, 1000, 100_000]),
        buffer_bytes=chance.choice([1, 1 << 20]),
        first_dirty_offset=chance.choice([clean.job.first_dirty_offset, c.log.log_end_offset // 2]),
    )
    by_offset = cleaned(job, c.tools.disk)
    monkeypatch.setattr(OffsetMap, "last_offsets", lambda self: None)
    by_key = cleaned(job, c.tools.disk)
    assert by_offset == by_key
    assert any(by_offset[1].values())


def test_a_record_without_a_key_goes_though_it_is_the_last(compaction, monkeypatch):
    """By the keys too: the map knows the log up to and with that record."""
    monkeypatch.setattr(OffsetMap, "last_offsets", lambda self: None)
    c = compaction()
    c.log.update_config(replace(c.log.config, compact=False))
    c.put_batch([("a", "1"), (None, "2")])
    c.log.update_config(replace(c.log.config, compact=True))
    assert c.compact() is not None
    assert c.contents() == [(0, "a", "1")]
