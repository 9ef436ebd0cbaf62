"""The assignor of share groups: every partition has members, evenly, and few move."""

from hypothesis import given
from hypothesis import strategies as st

from kwire.coordinator.assignors.simple import ShareSpec, assign_simply
from kwire.coordinator.assignors.spec import Shares

NOTHING: Shares = {}


def topic_id(number: int) -> bytes:
    """A topic's id that sorts by its number."""
    return bytes(15) + bytes([number])


def spec_of(sizes: list[int], reads: dict[str, list[int]], has: Shares = NOTHING) -> ShareSpec:
    """Topics 0, 1, … of these sizes; which member reads which; what they have."""
    return ShareSpec(
        {name: frozenset(map(topic_id, topics)) for name, topics in reads.items()},
        has,
        {topic_id(number): range(size) for number, size in enumerate(sizes)},
    )


@st.composite
def specs(draw: st.DrawFn, *, equal: bool = False) -> ShareSpec:
    """Any group; what members have may be wrong in every way."""
    sizes = draw(st.lists(st.integers(0, 9), min_size=1, max_size=5))
    some = st.lists(st.integers(0, len(sizes) - 1), unique=True, min_size=1)
    common = draw(some)
    names = draw(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=8, unique=True))
    reads = {name: common if equal else draw(some) for name in names}
    parts = st.dictionaries(
        st.integers(0, 5).map(topic_id), st.frozensets(st.integers(0, 9), min_size=1), max_size=4
    )
    return spec_of(sizes, reads, {name: draw(parts) for name in names})


def holders_of(shares: Shares) -> dict[tuple[bytes, int], int]:
    """How many members have each partition."""
    holders: dict[tuple[bytes, int], int] = {}
    for topics in shares.values():
        for topic, indexes in topics.items():
            for index in indexes:
                holders[topic, index] = holders.get((topic, index), 0) + 1
    return holders


def sizes_of(shares: Shares) -> list[int]:
    """How many partitions each member has."""
    return [sum(map(len, topics.values())) for topics in shares.values()]


@given(spec=specs() | specs(equal=True))
def test_every_partition_that_is_read_has_a_member(spec: ShareSpec) -> None:
    """And members have only partitions of topics that they read."""
    shares = assign_simply(spec)
    assert shares.keys() == spec.reads.keys()
    read = frozenset().union(*spec.reads.values())
    wanted = {(t, i) for t in read for i in spec.topics.get(t, ())}
    assert holders_of(shares).keys() == wanted
    for member, topics in shares.items():
        assert topics.keys() <= spec.reads[member]
        assert all(topics.values())


@given(spec=specs() | specs(equal=True))
def test_a_second_assignment_takes_nothing_away(spec: ShareSpec) -> None:
    """Whatever members had before the first one; it may add partitions."""
    shares = assign_simply(spec)
    again = assign_simply(spec._replace(has=shares))
    for member, topics in shares.items():
        assert all(indexes <= again[member][topic] for topic, indexes in topics.items()), member


@given(spec=specs(equal=True))
def test_members_and_partitions_are_shared_evenly(spec: ShareSpec) -> None:
    """Members have the same number of partitions but for one; no partition has more than needed."""
    shares = assign_simply(spec)
    sizes = sizes_of(shares)
    [read] = set(spec.reads.values())
    partitions = sum(len(spec.topics.get(topic, ())) for topic in read)
    if partitions:
        sharing = -(-len(shares) // partitions)
        assert max(holders_of(shares).values()) <= sharing
        assert max(sizes) <= -(-sharing * partitions // len(shares))
        if len(shares) <= partitions:
            assert max(sizes) - min(sizes) <= 1


def test_more_members_than_partitions_share_them() -> None:
    """As in KIP-932: five members of two partitions, each partition has three or two of them."""
    shares = assign_simply(spec_of([2], {name: [0] for name in "abcde"}))
    assert sorted(holders_of(shares).values()) == [3, 3]
    assert sorted(sizes_of(shares)) == [1, 1, 1, 1, 2]


def test_a_member_that_joins_takes_only_its_share() -> None:
    """The others keep the rest of what they have."""
    before = assign_simply(spec_of([6], {"a": [0], "b": [0]}))
    after = assign_simply(spec_of([6], {"a": [0], "b": [0], "c": [0]}, before))
    assert sizes_of(after) == [2, 2, 2]
    for name in "ab":
        assert after[name][topic_id(0)] < before[name][topic_id(0)]
