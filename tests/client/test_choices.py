"""What a client decides by itself: the partition of a key, the ranges of members, back-off."""

from random import Random

import pytest

from kwire.client.backoff import Backoff
from kwire.client.partitioner import murmur2, partition_of_key
from kwire.client.range_assignor import assign_ranges


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_keys_are_hashed_as_by_kafka(key: bytes, signed: int) -> None:
    """The values of Kafka's own test, UtilsTest.testMurmur2."""
    assert murmur2(key) == signed & 0xFFFFFFFF
    assert partition_of_key(key, 7) == (signed & 0x7FFFFFFF) % 7


def test_ranges_are_contiguous_and_the_first_members_get_the_rest() -> None:
    """As RangeAssignor of Kafka, topic by topic."""
    subscriptions = {"b": ["t", "u"], "a": ["t"], "c": ["t", "gone"]}
    assert assign_ranges(subscriptions, {"t": 7, "u": 2}) == {
        "a": {"t": [0, 1, 2]},
        "b": {"t": [3, 4], "u": [0, 1]},
        "c": {"t": [5, 6]},
    }
    assert assign_ranges({"a": ["t"], "b": ["t"]}, {"t": 1}) == {"a": {"t": [0]}, "b": {}}


def test_pauses_grow_to_the_longest_and_begin_again_after_a_success() -> None:
    """Each is between a half and the whole of its length."""
    backoff = Backoff(1, 5, Random(1))
    for length in (1, 2, 4, 5, 5):
        assert length / 2 <= backoff.next_s() <= length
    backoff.reset()
    assert backoff.next_s() <= 1
