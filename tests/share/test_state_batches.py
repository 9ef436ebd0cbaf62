"""Persistent states are merged as if each offset had its own: the greater count and state wins."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kwire.share.state_batches import StateBatch, merge_batches

BATCH = st.builds(
    lambda first, size, state, count: StateBatch(first, first + size, state, count),
    st.integers(0, 30),
    st.integers(0, 10),
    st.sampled_from([0, 2, 4]),
    st.integers(1, 3),
)


def states(batches):
    """The count and state of each offset."""
    return {
        offset: (one.delivery_count, one.delivery_state)
        for one in batches
        for offset in range(one.first_offset, one.last_offset + 1)
    }


@given(st.lists(st.tuples(st.lists(BATCH, max_size=4), st.integers(0, 20)), max_size=6))
def test_batches_say_of_each_offset_what_was_written_with_the_greatest_count(writes):
    kept, model, start = [], {}, 0
    for new, moved in writes:
        start = max(start, moved)
        merge_batches(kept, new, start)
        for batch in new:
            for offset, told in states([batch]).items():
                model[offset] = max(told, model.get(offset, told))
        model = {offset: told for offset, told in model.items() if offset >= start}
        assert states(kept) == model


@given(st.lists(BATCH, max_size=10))
def test_batches_are_in_order_apart_and_as_few_as_possible(new):
    kept: list[StateBatch] = []
    merge_batches(kept, new, 0)
    for one, after in pairwise(kept):
        assert one.first_offset <= one.last_offset < after.first_offset
        assert one.last_offset + 1 < after.first_offset or one[2:] != after[2:]
