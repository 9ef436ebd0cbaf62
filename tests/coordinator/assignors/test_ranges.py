"""The range assignor with racks: as balanced and as joinable as without, and more is near."""

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from kwire.coordinator.assignors import rack_exchange
from kwire.coordinator.assignors.ranges import assign_ranges
from kwire.coordinator.assignors.spec import AssignedTopic, AssignmentSpec, Shares, Subscriber

T0, T1 = bytes(16), bytes(15) + b"\1"
RACKS = "wxyz"


@st.composite
def racked(draw: st.DrawFn, *, most: int = 9, equal: bool = False) -> AssignmentSpec:
    """Any group with racks: of some members and topics, or of replicas that nobody is near."""
    replicas = st.frozensets(st.sampled_from(RACKS), max_size=3)
    topics = {}
    size = draw(st.integers(1, most))
    for number in range(draw(st.integers(1, 4))):
        count = size if equal else draw(st.just(size) | st.integers(1, most))
        racks = draw(st.just(()) | st.tuples(*[replicas] * count))
        topics[bytes(15) + bytes([number])] = AssignedTopic(count, racks)
    reads = st.just(frozenset(topics))
    if not equal:
        reads |= st.frozensets(st.sampled_from(sorted(topics)))
    member = st.builds(
        Subscriber,
        topics=reads,
        has=st.just({}),
        instance_id=st.none(),
        rack_id=st.none() | st.sampled_from([*RACKS, "far", ""]),
    )
    members = draw(st.dictionaries(st.sampled_from("abcdefgh"), member, min_size=1))
    read = frozenset[bytes]().union(*(m.topics for m in members.values()))
    return AssignmentSpec(members, {t: topic for t, topic in topics.items() if t in read})


def without_racks(spec: AssignmentSpec) -> AssignmentSpec:
    """The same question, where nobody knows racks."""
    topics = {t: AssignedTopic(topic.partitions) for t, topic in spec.topics.items()}
    return spec._replace(topics=topics)


def matches(spec: AssignmentSpec, shares: Shares) -> int:
    """How many partitions have a replica in the rack of their member."""
    return sum(
        spec.is_near(m, (t, index))
        for m, ts in shares.items()
        for t, p in ts.items()
        for index in p
    )


def counts(shares: Shares) -> dict[str, dict[bytes, int]]:
    """How many partitions of each topic a member is to have."""
    return {m: {t: len(p) for t, p in topics.items()} for m, topics in shares.items()}


def two_racks(*topics: str) -> AssignmentSpec:
    """Members a and b in racks x and y; topics whose partitions are in the racks spelled."""
    ids = (T0, T1)[: len(topics)]
    return AssignmentSpec(
        {
            "a": Subscriber(frozenset(ids), {}, rack_id="x"),
            "b": Subscriber(frozenset(ids), {}, rack_id="y"),
        },
        {
            topic_id: AssignedTopic(len(racks), tuple(map(frozenset, racks)))
            for topic_id, racks in zip(ids, topics, strict=True)
        },
    )


@given(spec=racked())
def test_racks_change_who_has_which_but_not_how_many(spec: AssignmentSpec) -> None:
    """Every partition has one owner; each member has as many of each topic as without racks."""
    shares, plain = assign_ranges(spec), assign_ranges(without_racks(spec))
    assert counts(shares) == counts(plain)
    for topic_id, topic in spec.topics.items():
        owned = [index for topics in shares.values() for index in topics.get(topic_id, ())]
        assert sorted(owned) == list(range(topic.partitions))


@given(spec=racked())
def test_no_fewer_partitions_are_near_than_without_racks(spec: AssignmentSpec) -> None:
    """And where as many were near already, nothing moves."""
    shares, plain = assign_ranges(spec), assign_ranges(without_racks(spec))
    assert matches(spec, shares) >= matches(spec, plain)
    if matches(spec, shares) == matches(spec, plain):
        assert shares == plain


@given(spec=racked(most=5, equal=True))
def test_as_many_partitions_are_near_as_can_be(spec: AssignmentSpec) -> None:
    """No other way to deal partitions, alike for all topics, brings more near."""
    plain = assign_ranges(without_racks(spec))
    if not spec.topics:
        return
    first = next(iter(spec.topics))
    owners = {index: m for m, topics in plain.items() for index in topics.get(first, ())}
    best = max(
        sum(spec.is_near(owners[i], (t, p)) for t in spec.topics for i, p in enumerate(order))
        for order in permutations(range(spec.topics[first].partitions))
    )
    assert matches(spec, assign_ranges(spec)) == best


@given(spec=racked())
def test_topics_with_the_same_size_and_readers_are_shared_out_alike(spec: AssignmentSpec) -> None:
    """Wherever their replicas are: they can be joined."""
    shares, readers = assign_ranges(spec), spec.readers()
    for one, topic in spec.topics.items():
        for other in spec.topics:
            same_size = topic.partitions == spec.topics[other].partitions
            if same_size and readers[one] == readers[other]:
                assert all(topics.get(one) == topics.get(other) for topics in shares.values())


@given(spec=racked())
def test_the_answer_is_the_same_in_any_order_and_whatever_members_have(
    spec: AssignmentSpec,
) -> None:
    """Asked again with the answer as what members have, nothing changes."""
    shares = assign_ranges(spec)
    members = {
        m: spec.members[m]._replace(has=shares[m]) for m in sorted(spec.members, reverse=True)
    }
    topics = {t: spec.topics[t] for t in sorted(spec.topics, reverse=True)}
    assert assign_ranges(AssignmentSpec(members, topics)) == shares


@given(spec=racked())
def test_replicas_everywhere_are_as_no_racks(spec: AssignmentSpec) -> None:
    """Nothing can be won, so the ranges stay whole."""
    everywhere = {
        t: AssignedTopic(topic.partitions, (frozenset(RACKS),) * topic.partitions)
        for t, topic in spec.topics.items()
    }
    assert assign_ranges(spec._replace(topics=everywhere)) == assign_ranges(without_racks(spec))


@given(spec=racked())
def test_members_without_racks_have_plain_ranges(spec: AssignmentSpec) -> None:
    """Replicas' racks alone move nothing."""
    members = {m: member._replace(rack_id=None) for m, member in spec.members.items()}
    assert assign_ranges(spec._replace(members=members)) == assign_ranges(without_racks(spec))


def test_members_get_what_is_near() -> None:
    """Every second partition is in a's rack, the others are in b's."""
    shares = assign_ranges(two_racks("yxyx"))
    assert shares == {"a": {T0: frozenset({1, 3})}, "b": {T0: frozenset({0, 2})}}


def test_topics_that_are_joined_stay_so_where_racks_disagree() -> None:
    """What is won for one topic isn't taken from the other: a tie leaves the ranges whole."""
    shares = assign_ranges(two_racks("yx", "xy"))
    assert shares == {m: {T0: frozenset({i}), T1: frozenset({i})} for i, m in enumerate("ab")}


def test_three_racks_pass_on_in_a_ring() -> None:
    """No two members win by exchanging, but all three do."""
    members = {
        m: Subscriber(frozenset({T0}), {}, rack_id=r) for m, r in zip("abc", "xyz", strict=True)
    }
    topic = AssignedTopic(3, tuple(map(frozenset, ("xy", "yz", "x"))))
    shares = assign_ranges(AssignmentSpec(members, {T0: topic}))
    assert shares == {
        "a": {T0: frozenset({2})},
        "b": {T0: frozenset({0})},
        "c": {T0: frozenset({1})},
    }


def test_a_search_that_ends_early_keeps_what_it_has_won(monkeypatch):
    """Every number of rings is better than the one before, and always valid."""
    spec = two_racks("yyxxyxxxxyyy")
    near = []
    for rings in range(5):
        monkeypatch.setattr(rack_exchange, "MOST_STEPS", rings * 2**3)
        shares = assign_ranges(spec)
        assert shares["a"][T0] | shares["b"][T0] == frozenset(range(12))
        near.append(matches(spec, shares))
    assert near == sorted(near)
    assert near[0] == matches(spec, assign_ranges(without_racks(spec)))
    assert near[-1] == 12
