"""Both assignors: every partition has one owner that reads it, evenly, and few move."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.coordinator.assignors import ASSIGNORS
from kwire.coordinator.assignors.spec import AssignedTopic, AssignmentSpec, Shares, Subscriber

NOTHING: Mapping[bytes, frozenset[int]] = {}


def topic_id(number: int) -> bytes:
    """A topic's id that sorts by its number."""
    return bytes(15) + bytes([number])


def spec_of(
    sizes: list[int], reads: dict[str, list[int]], has: Shares | None = None, **instances: str
) -> AssignmentSpec:
    """Topics 0, 1, … of these sizes; which member reads which; what they have."""
    members = {
        name: Subscriber(
            frozenset(map(topic_id, topics)),
            (has or {}).get(name, NOTHING),
            instances.get(name),
        )
        for name, topics in reads.items()
    }
    read = set().union(*(member.topics for member in members.values()))
    topics = {
        topic_id(number): AssignedTopic(size)
        for number, size in enumerate(sizes)
        if topic_id(number) in read
    }
    return AssignmentSpec(members, topics)


@st.composite
def specs(draw: st.DrawFn, *, equal: bool = False) -> AssignmentSpec:
    """Any group; what members have may be wrong in every way."""
    sizes = draw(st.lists(st.integers(1, 9), min_size=1, max_size=5))
    some = st.lists(st.integers(0, len(sizes) - 1), unique=True)
    common = draw(some)
    names = draw(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=8, unique=True))
    reads = {name: common if equal else draw(some) for name in names}
    parts = st.dictionaries(
        st.integers(0, 5).map(topic_id), st.frozensets(st.integers(0, 9), min_size=1), max_size=4
    )
    return spec_of(sizes, reads, {name: draw(parts) for name in names})


def sizes_of(shares: Shares) -> dict[str, int]:
    """How many partitions each member is to have."""
    return {m: sum(len(p) for p in topics.values()) for m, topics in shares.items()}


def check_valid(spec: AssignmentSpec, shares: Shares) -> None:
    """Each partition of a topic somebody reads has exactly one owner, which reads it."""
    owned = [
        (topic, index) for topics in shares.values() for topic, p in topics.items() for index in p
    ]
    wanted = {(t, i) for t, topic in spec.topics.items() for i in range(topic.partitions)}
    assert len(owned) == len(set(owned))
    assert set(owned) == wanted
    assert shares.keys() == spec.members.keys()
    for member, topics in shares.items():
        assert topics.keys() <= spec.members[member].topics
        assert all(topics.values())


def can_be_more_even(spec: AssignmentSpec, shares: Shares) -> bool:
    """Whether passing a partition on, over any members, brings two loads closer together."""
    load = sizes_of(shares)
    readers = spec.readers()
    for start in load:
        reached, queue = {start}, [start]
        while queue:
            giver = queue.pop()
            for topic in shares[giver]:
                queue += [m for m in readers[topic] if m not in reached]
                reached.update(readers[topic])
        if any(load[end] <= load[start] - 2 for end in reached):
            return True
    return False


def as_had(spec: AssignmentSpec, shares: Shares) -> AssignmentSpec:
    """The same question, where members have what they were given."""
    return spec._replace(
        members={m: s._replace(has=shares.get(m, NOTHING)) for m, s in spec.members.items()}
    )


@pytest.mark.parametrize("name", ASSIGNORS)
@given(spec=specs() | specs(equal=True))
def test_an_assignment_is_valid_and_stays_as_it_is(name: str, spec: AssignmentSpec) -> None:
    """Whatever members had before."""
    shares = ASSIGNORS[name](spec)
    check_valid(spec, shares)
    assert ASSIGNORS[name](as_had(spec, shares)) == shares


@given(spec=specs() | specs(equal=True))
def test_uniform_can_not_be_more_even(spec: AssignmentSpec) -> None:
    """For equal subscriptions that means a difference of at most one."""
    shares = ASSIGNORS["uniform"](spec)
    assert not can_be_more_even(spec, shares)
    if len({m.topics for m in spec.members.values()}) == 1:
        loads = sizes_of(shares).values()
        assert max(loads) - min(loads) <= 1


@given(spec=specs(equal=True), leaver=st.integers(0, 7))
def test_uniform_survivors_keep_everything(spec: AssignmentSpec, leaver: int) -> None:
    """When a member leaves, the others only get more."""
    before = ASSIGNORS["uniform"](spec)
    gone = sorted(spec.members)[leaver % len(spec.members)]
    rest = as_had(spec, before)._replace()
    members = {m: s for m, s in rest.members.items() if m != gone}
    after = ASSIGNORS["uniform"](rest._replace(members=members))
    for member in members:
        for topic, partitions in before[member].items():
            assert partitions <= after[member][topic]


@given(spec=specs(equal=True))
def test_uniform_newcomers_take_no_more_than_their_share(spec: AssignmentSpec) -> None:
    """Partitions move to the newcomer alone, and only as many as it is to have."""
    before = ASSIGNORS["uniform"](spec)
    newcomer = Subscriber(next(iter(spec.members.values())).topics, NOTHING)
    rest = as_had(spec, before)
    after = ASSIGNORS["uniform"](rest._replace(members={**rest.members, "new": newcomer}))
    for member in before:
        for topic, partitions in after[member].items():
            assert partitions <= before[member].get(topic, frozenset())


@given(spec=specs(), moved=st.integers(0, 30))
def test_uniform_moves_little_where_subscriptions_differ(spec: AssignmentSpec, moved: int) -> None:
    """After one partition has gone astray, at most a chain of partitions moves."""
    before = ASSIGNORS["uniform"](spec)
    all_owned = [(m, t, i) for m, ts in before.items() for t, p in ts.items() for i in p]
    if not all_owned:
        return
    member, topic, index = all_owned[moved % len(all_owned)]
    before_less = {**before, member: {**before[member], topic: before[member][topic] - {index}}}
    after = ASSIGNORS["uniform"](as_had(spec, before_less))
    kept = sum(
        len(p & after[m].get(t, frozenset()))
        for m, ts in before_less.items()
        for t, p in ts.items()
    )
    assert kept >= len(all_owned) - 1 - len(spec.members)


def test_uniform_passes_partitions_on_over_others() -> None:
    """a can't help c, but it can help b, which can help c."""
    has = {
        "a": {topic_id(0): frozenset({0, 1, 2})},
        "b": {topic_id(1): frozenset({0, 1})},
        "c": {topic_id(1): frozenset({2})},
    }
    spec = spec_of([3, 3], {"a": [0], "b": [0, 1], "c": [1]}, has)
    assert sizes_of(ASSIGNORS["uniform"](spec)) == {"a": 2, "b": 2, "c": 2}


def test_range_cuts_topics_at_the_same_places() -> None:
    """Equal topics are joined; the first members have one more."""
    shares = ASSIGNORS["range"](spec_of([5, 5], {"a": [0, 1], "b": [0, 1]}))
    assert shares["a"] == {topic_id(0): frozenset({0, 1, 2}), topic_id(1): frozenset({0, 1, 2})}
    assert shares["b"] == {topic_id(0): frozenset({3, 4}), topic_id(1): frozenset({3, 4})}


def test_range_goes_by_instance() -> None:
    """A static member that comes back under another id has its range again."""
    first = ASSIGNORS["range"](spec_of([4], {"a": [0], "b": [0]}, a="one", b="two"))
    again = ASSIGNORS["range"](spec_of([4], {"z": [0], "b": [0]}, z="one", b="two"))
    assert first["a"] == again["z"]
    assert first["b"] == again["b"]


def test_more_members_than_partitions() -> None:
    """Some have nothing, and that is an answer too."""
    for assign in ASSIGNORS.values():
        shares = assign(spec_of([1], {"a": [0], "b": [0]}))
        assert sorted(sizes_of(shares).values()) == [0, 1]


def test_uniform_gives_partitions_to_members_near_them() -> None:
    """With racks known, each member gets what has a replica in its own."""
    racks = tuple(frozenset({"x"}) if index % 2 else frozenset({"y"}) for index in range(8))
    topics = {topic_id(0): AssignedTopic(8, racks)}
    reads = frozenset(topics)
    for has in (NOTHING, {topic_id(0): frozenset(range(8))}):
        members = {
            "a": Subscriber(reads, has, rack_id="x"),
            "b": Subscriber(reads, NOTHING, rack_id="y"),
        }
        shares = ASSIGNORS["uniform"](AssignmentSpec(members, topics))
        assert shares["a"] == {topic_id(0): frozenset({1, 3, 5, 7})}
        assert shares["b"] == {topic_id(0): frozenset({0, 2, 4, 6})}


def test_racks_matter_less_than_balance() -> None:
    """Where everything is in one rack the others get their share all the same."""
    near_x = (frozenset({"x"}),) * 4
    spec = AssignmentSpec(
        {
            "a": Subscriber(frozenset({topic_id(0)}), NOTHING, rack_id="x"),
            "b": Subscriber(frozenset({topic_id(0)}), NOTHING, rack_id="y"),
            "c": Subscriber(frozenset({topic_id(0), topic_id(1)}), NOTHING, rack_id="y"),
        },
        {topic_id(0): AssignedTopic(4, near_x), topic_id(1): AssignedTopic(2, ())},
    )
    assert sizes_of(ASSIGNORS["uniform"](spec)) == {"a": 2, "b": 2, "c": 2}
