"""The map of keys: what it finds, and that it never grows."""

import random
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.log.compaction.offset_map import ENTRY_BYTES, LEAST_SLOTS, OffsetMap


@given(st.lists(st.tuples(st.binary(max_size=3), st.integers(0, 2**63 - 1)), max_size=60))
def test_it_finds_the_last_offset_of_each_key(puts):
    """As a dict would."""
    offsets = OffsetMap(64 * ENTRY_BYTES, 1.0, 1000)
    wanted = {}
    for key, offset in puts:
        offsets.put(key, offset)
        wanted[key] = offset
        assert offsets.latest_offset == offset
    assert {key: offsets.get(key) for key in wanted} == wanted
    assert offsets.entries == len(wanted)
    assert offsets.get(b"four") == -1
    assert offsets.utilization == len(wanted) / 64


@pytest.mark.parametrize(("load_factor", "most"), [(0.9, 900), (0.5, 500), (1.0, 999), (0.0, 1)])
def test_it_is_full_at_its_load_factor(load_factor, most):
    """Other offsets of the keys it has are still taken; one slot is always free."""
    offsets = OffsetMap(1000 * ENTRY_BYTES + 7, load_factor, 10**9)
    for number in range(most):
        assert not offsets.is_full
        offsets.put(b"%d" % number, number)
    assert offsets.is_full
    offsets.put(b"0", 12345)
    assert offsets.get(b"0") == 12345
    assert [offsets.get(b"%d" % n) for n in range(1, most)] == list(range(1, most))
    assert offsets.get(b"unknown") == -1


def test_the_memory_is_what_was_given_or_what_is_needed():
    """A small log doesn't take 128 MB."""
    size = 1 << 20
    full = OffsetMap(size, 0.9, 10**9)
    assert sys.getsizeof(full._table) <= size + 100
    small = OffsetMap(size, 0.9, 10)
    assert sys.getsizeof(small._table) == pytest.approx(LEAST_SLOTS * ENTRY_BYTES, abs=100)
    assert OffsetMap(size, 0.9, 5000).max_entries >= 5000
    chance = random.Random(1)
    while not full.is_full:
        full.put(chance.randbytes(8), 1)
    assert full.entries == int(size // ENTRY_BYTES * 0.9)
    assert sys.getsizeof(full._table) <= size + 100
