"""The map of keys: what it finds, and that it never grows."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.log.compaction.offset_map import ENTRY_BYTES, OffsetMap


@given(st.lists(st.tuples(st.binary(max_size=3), st.integers(0, 2**63 - 1)), max_size=60))
def test_it_finds_the_last_offset_of_each_key(puts):
    """As a dict would."""
    offsets = OffsetMap(64 * ENTRY_BYTES, 1.0, 1000)
    wanted = {}
    for key, offset in puts:
        assert offsets.put_all([key], [offset]) == 1
        wanted[key] = offset
        assert offsets.latest_offset == offset
    assert {key: offsets.get(key) for key in wanted} == wanted
    assert offsets.entries == len(wanted)
    assert offsets.get(b"four") == -1
    assert offsets.utilization == len(wanted) / 64


@pytest.mark.parametrize(("load_factor", "most"), [(0.9, 900), (0.5, 500), (1.0, 999), (0.0, 1)])
def test_it_is_full_at_its_load_factor(load_factor, most):
    """Then nothing is taken, of keys that it has neither; one slot is always free."""
    offsets = OffsetMap(1000 * ENTRY_BYTES + 7, load_factor, 10**9)
    for number in range(most):
        assert not offsets.is_full
        assert offsets.put_all([None, b"%d" % number], [number, number]) == 2
    assert offsets.is_full
    assert offsets.put_all([None, b"0", b"other"], [12345] * 3) == 1
    assert [offsets.get(b"%d" % n) for n in range(most)] == list(range(most))
    assert offsets.get(b"unknown") == -1


def test_the_memory_is_what_was_given_or_what_is_needed():
    """Keys move into the table when they take too much; a small log doesn't take 128 MB."""
    size = 1 << 20
    full = OffsetMap(size, 0.9, 10**9)
    small = OffsetMap(size, 0.9, 10)
    assert small.used_bytes < 1000
    assert OffsetMap(size, 0.9, 5000).max_entries >= 5000
    chance = random.Random(1)
    most = 0
    while not full.is_full:
        keys = [chance.randbytes(8) for _ in range(100)]
        full.put_all(keys, range(full.latest_offset + 1, full.latest_offset + 101))
        most = max(most, full.used_bytes)
    assert full.entries == int(size // ENTRY_BYTES * 0.9)
    assert most <= size + 100
    assert full.last_offsets() is None


@pytest.mark.parametrize("max_bytes", [1 << 20, 24 * 900])
@given(
    st.lists(st.lists(st.one_of(st.none(), st.binary(max_size=2)), max_size=8), max_size=40),
    st.integers(1, 400),
)
def test_many_at_once_are_as_one_by_one(max_bytes, batches, most):
    """Kept as they are, in the table, and full in the middle of it; a dict tells what is right."""
    offsets = OffsetMap(max_bytes, most / (max_bytes // ENTRY_BYTES), 10**9)
    known: dict[bytes, int] = {}
    next_offset = 0
    for keys in batches:
        numbers = range(next_offset, next_offset + len(keys))
        next_offset += len(keys)
        taken = offsets.put_all(keys, numbers)
        for key, number in zip(keys[:taken], numbers, strict=False):
            if key is not None:
                assert len(known) < offsets.max_entries
                known[key] = number
        assert offsets.entries == len(known)
        if taken < len(keys):
            assert offsets.is_full
            assert keys[taken] is not None
            break
    keys = [*known, None, b"unknown"]
    assert offsets.get_all(keys) == [known.get(key, -1) for key in keys]
    assert [offsets.get(key) for key in known] == list(known.values())
    last = offsets.last_offsets()
    if last is not None:
        for start in (0, 1, next_offset // 2, next_offset):
            wanted = sorted(number for number in known.values() if start <= number <= start + 5)
            assert list(last.within(start, start + 5)) == wanted


def test_large_keys_count_as_large():
    """One that is as large as all the memory is kept as its hash."""
    offsets = OffsetMap(100_000, 0.9, 10**9)
    offsets.put_all([b"small"] * 10, range(10))
    assert offsets.last_offsets() is not None
    offsets.put_all([b"small", bytes(100_000), b"small"], range(10, 13))
    assert offsets.last_offsets() is None
    assert offsets.get_all([b"small", bytes(100_000), b"other"]) == [12, 11, -1]
