"""Indexes that were emptied, cut or extended while the broker was away, the segments being sound.

The promise: every offset and every time is found all the same, retention deletes nothing early, and
a clean start doesn't read through the segments to make sure of it.
"""

import struct
from pathlib import Path

import pytest

from kwire.log.disk import Disk
from tests.support.log_state import base_offsets
from tests.support.old_segments import delete_old_segments
from tests.support.time_lookups import max_timestamp, offset_for_timestamp

SETTINGS = {"segment_bytes": 3000, "index_interval_bytes": 200}
ASCENDING = list(range(120))
NEWEST_FIRST = [500 - n if n % 40 < 3 else n for n in range(120)]
PEAKS = [1000 + n if n % 20 == 12 else (n % 20 if n % 20 < 12 else 0) for n in range(120)]
HOUR_MS = 3_600_000


def emptied(data: bytes, entry: int) -> bytes:
    """Nothing is left."""
    return b""


def zeroed(data: bytes, entry: int) -> bytes:
    """As long as it was, and all zeros."""
    return bytes(len(data))


def one_entry(data: bytes, entry: int) -> bytes:
    """Only the first entry is left."""
    return data[:entry]


def without_the_last(data: bytes, entry: int) -> bytes:
    """The last entry is gone."""
    return data[:-entry]


def half(data: bytes, entry: int) -> bytes:
    """The second half of the entries is gone."""
    return data[: len(data) // entry // 2 * entry]


def beyond(data: bytes, entry: int) -> bytes:
    """There is one more entry, for an offset that the segment doesn't have."""
    more = struct.pack(">ii", 5000, 50) if entry == 8 else struct.pack(">qi", 1 << 60, 5000)
    return data + more


def shifted(data: bytes, entry: int) -> bytes:
    """Every position of an offset index is wrong."""
    if entry == 12:
        return data
    rows = struct.iter_unpack(">ii", data)
    return b"".join(struct.pack(">ii", offset, position + 7) for offset, position in rows)


DAMAGES = [emptied, zeroed, one_entry, without_the_last, half, beyond, shifted]
ORDERS = [
    pytest.param(ASCENDING, id="ascending"),
    pytest.param(NEWEST_FIRST, id="newest first"),
    pytest.param(PEAKS, id="peaks"),
]


def write(tools, times):
    """A log with several segments, closed cleanly."""
    log = tools.open(**SETTINGS)
    for number, time in enumerate(times):
        tools.append(log, b"%d" % number + b"v" * 60, timestamp=tools.now_ms + time)
    assert len(base_offsets(log)) > 3
    log.close(tools.now_ms)


def damage(directory: Path, suffix: str, change) -> None:
    """Change every index of a kind; some have too few entries for it to matter."""
    for path in directory.glob(f"*.{suffix}"):
        path.write_bytes(change(path.read_bytes(), 8 if suffix == "index" else 12))


@pytest.mark.parametrize("times", ORDERS)
@pytest.mark.parametrize("change", DAMAGES)
@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_every_offset_and_time_is_found(tools, suffix, change, times):
    """By the first lookup after a clean start."""
    write(tools, times)
    damage(tools.directory, suffix, change)
    log = tools.open(**SETTINGS)
    assert [offset for offset, _ in tools.values(log)] == ASCENDING
    for offset in ASCENDING:
        header = log.segments[log.segments.index_of(offset)].find(offset)
        assert header is not None
        assert header.base_offset == offset
    for wanted in sorted({*times, *(time + 1 for time in times)}):
        expected = next((n for n, time in enumerate(times) if time >= wanted), None)
        found = offset_for_timestamp(log, tools.now_ms + wanted, end_offset=len(times))
        assert (None if found is None else found.offset) == expected
    newest = max_timestamp(log)
    assert newest is not None
    assert newest.offset == times.index(max(times))


def test_the_first_lookup_may_be_that_of_the_newest_time(tools):
    """Nobody has asked for a segment's times before, and its time index lacks the newest."""
    write(tools, PEAKS)
    for peak in range(12, 120, 20):
        damage(tools.directory, "timeindex", one_entry)
        log = tools.open(**SETTINGS)
        found = offset_for_timestamp(log, tools.now_ms + PEAKS[peak], end_offset=len(PEAKS))
        assert found is not None
        assert found.offset == peak
        log.close(tools.now_ms)


@pytest.mark.parametrize("change", DAMAGES)
def test_retention_deletes_nothing_early(tools, change):
    """The newest record of a segment counts, also where the time index doesn't know it."""
    times = [time * HOUR_MS // 2000 for time in PEAKS]
    write(tools, times)
    damage(tools.directory, "timeindex", change)
    log = tools.open(**SETTINGS, retention_ms=1000)
    segments = len(base_offsets(log))
    now_ms = tools.now_ms + HOUR_MS // 2
    assert delete_old_segments(log, now_ms, len(times), tools.disk, now_ms) == 0
    assert len(base_offsets(log)) == segments


@pytest.mark.parametrize("change", [emptied, zeroed, beyond])
@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_what_is_seen_to_be_wrong_is_made_anew_once(tools, suffix, change, caplog):
    """The start says so, and the next start finds nothing to do."""
    write(tools, ASCENDING)
    before = {path.name: path.read_bytes() for path in tools.directory.glob("*index")}
    damage(tools.directory, suffix, change)
    log = tools.open(**SETTINGS)
    log.close(tools.now_ms)
    assert {path.name: path.read_bytes() for path in tools.directory.glob("*index")} == before
    assert f"{0:020d}.log: " in caplog.text or suffix == "index" or change is zeroed
    caplog.clear()
    tools.open(**SETTINGS).close(tools.now_ms)
    assert "anew" not in caplog.text


class CountingDisk(Disk):
    """Counts the bytes that are read."""

    read_bytes_count = 0

    def pread(self, fd: int, size_bytes: int, position: int) -> bytes:
        """Read and count."""
        data = super().pread(fd, size_bytes, position)
        self.read_bytes_count += len(data)
        return data


@pytest.mark.parametrize("times", ORDERS)
def test_a_clean_start_does_not_read_the_segments(tools, times):
    """Whatever the order of the timestamps: the end of each is enough."""
    log = tools.open(segment_bytes=200_000, index_interval_bytes=4096)
    for number, time in enumerate(times):
        tools.append(log, b"%d" % number + b"v" * 10_000, timestamp=tools.now_ms + time)
    size_bytes = log.size_bytes
    log.close(tools.now_ms)
    tools.disk = disk = CountingDisk()
    log = tools.open(segment_bytes=200_000, index_interval_bytes=4096)
    assert log.size_bytes == size_bytes
    assert disk.read_bytes_count < size_bytes / 5
