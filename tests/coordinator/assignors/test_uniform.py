"""How much work the uniform assignor has with one that had everything."""

from kwire.coordinator.assignors.spec import AssignedTopic, AssignmentSpec, Subscriber
from kwire.coordinator.assignors.uniform import assign_uniformly
from tests.support.calls import calls_within


def test_few_partitions_are_passed_on_twice():
    """Most go straight to a member that keeps them: everybody waits while this is computed."""
    topics = {bytes([index]) * 16: AssignedTopic(100) for index in range(2)}
    everything = {topic_id: frozenset(range(100)) for topic_id in topics}
    members = {
        f"m{index:02}": Subscriber(
            frozenset(topics if index % 2 == 0 else list(topics)[:1]), {} if index else everything
        )
        for index in range(20)
    }
    spec = AssignmentSpec(members, topics)
    shares = assign_uniformly(spec)
    assert {sum(map(len, share.values())) for share in shares.values()} == {10}
    assert calls_within(lambda: assign_uniformly(spec)) < 65_000


def test_what_is_free_goes_to_the_least_loaded_and_nobody_loses_a_partition():
    """Also where the member with the first id has most: what members have is not passed on."""
    t, u = b"t" * 16, b"u" * 16
    has = {"a": {t: frozenset({8, 9, 10}), u: frozenset({0})}, "b": {t: frozenset({4, 5, 6, 7})}}
    members = {
        name: Subscriber(frozenset({t, u} if name == "a" else {t}), has.get(name, {}))
        for name in "abc"
    }
    topics = {t: AssignedTopic(11), u: AssignedTopic(1)}
    shares = assign_uniformly(AssignmentSpec(members, topics))
    assert {name: shares[name] for name in "ab"} == has
    assert shares["c"] == {t: frozenset(range(4))}


def test_the_least_loaded_is_looked_for_in_every_rack():
    """Its id doesn't count: nobody loses what it has, for nothing is passed on afterwards."""
    t, u = b"t" * 16, b"u" * 16
    racks = frozenset({"x", "y"})
    members = {
        "a": Subscriber(frozenset({t, u}), {t: frozenset({4, 5, 6, 7})}, None, "x"),
        "z": Subscriber(frozenset({t}), {}, None, "y"),
    }
    topics = {t: AssignedTopic(8, (racks,) * 8), u: AssignedTopic(1, (racks,))}
    shares = assign_uniformly(AssignmentSpec(members, topics))
    assert shares["a"] == {t: frozenset({4, 5, 6, 7}), u: frozenset({0})}
    assert shares["z"] == {t: frozenset(range(4))}


def test_of_the_members_near_a_partition_the_one_that_needs_most_gets_it():
    """Not the first one by its id, which could have the other partitions as well."""
    t, x, y = b"t" * 16, frozenset({"x"}), frozenset({"y"})
    racks = (x, x, x, y, y, y, x, frozenset({"z"}), frozenset({"z"}))
    members = {
        "a": Subscriber(frozenset({t}), {t: frozenset({0, 1})}, None, "x"),
        "b": Subscriber(frozenset({t}), {}, None, "x"),
        "c": Subscriber(frozenset({t}), {t: frozenset({3, 4, 5})}, None, "y"),
    }
    shares = assign_uniformly(AssignmentSpec(members, {t: AssignedTopic(9, racks)}))
    assert {name: sorted(share[t]) for name, share in shares.items()} == {
        "a": [0, 1, 7],
        "b": [2, 6, 8],
        "c": [3, 4, 5],
    }


def test_of_equal_partitions_those_of_the_first_topics_are_given_up():
    """In the same order at every broker and in every run, whatever the order in a set."""
    topics = {bytes([number]) * 16: AssignedTopic(1) for number in range(16)}
    everything = {topic_id: frozenset({0}) for topic_id in topics}
    members = {
        "a": Subscriber(frozenset(topics), everything),
        "b": Subscriber(frozenset(topics), {}),
    }
    shares = assign_uniformly(AssignmentSpec(members, topics))
    assert set(shares["b"]) == set(list(topics)[:8])


def test_partitions_are_passed_on_through_members_that_have_one_more_or_less():
    """On the way a member may have fewer than the next one: what it gives comes back at once."""
    t, u, v = (bytes([number]) * 16 for number in range(3))
    members = {
        "a": Subscriber(frozenset({t}), {t: frozenset(range(3))}),
        "b": Subscriber(frozenset({t, u}), {u: frozenset(range(2))}),
        "c": Subscriber(frozenset({u, v}), {v: frozenset(range(3))}),
        "d": Subscriber(frozenset({v}), {}),
    }
    topics = {t: AssignedTopic(3), u: AssignedTopic(2), v: AssignedTopic(3)}
    shares = assign_uniformly(AssignmentSpec(members, topics))
    loads = [sum(map(len, shares[name].values())) for name in "abcd"]
    assert loads == [2, 2, 2, 2]
