"""Replicas are spread as Kafka's StripedReplicaPlacer spreads them, over racks, then brokers."""

from collections import Counter
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.image import BrokerImage
from kwire.metadata.placement import Placer


def _brokers(racks, fenced=(), stopping=()):
    """One broker for each rack in the list, numbered from 0."""
    return [
        BrokerImage(
            node_id, rack, (), is_fenced=node_id in fenced, is_shutting_down=node_id in stopping
        )
        for node_id, rack in enumerate(racks)
    ]


def _place(brokers, partitions, factor, seed=1, existing=()):
    placer = Placer(brokers, Random(seed), existing)
    return [placer.place(factor) for _ in range(partitions)]


@given(
    st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=1, max_size=9),
    st.sets(st.integers(0, 8)),
    st.integers(1, 40),
    st.integers(1, 9),
    st.integers(0, 99),
)
def test_whatever_the_cluster_a_placement_is_valid(racks, fenced, partitions, factor, seed):
    """Different brokers, an unfenced leader, and no rack twice while another has none."""
    brokers = _brokers(racks, fenced)
    unfenced = {broker.node_id for broker in brokers if not broker.is_fenced}
    if factor > len(brokers) or not unfenced:
        with pytest.raises(KafkaError) as refused:
            _place(brokers, partitions, factor, seed)
        assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
        return
    for replicas in _place(brokers, partitions, factor, seed):
        assert len(set(replicas)) == factor
        assert replicas[0] in unfenced
        used = Counter(racks[node] for node in replicas)
        assert len(used) == min(factor, len(set(racks)))


@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 99))
def test_without_racks_leaders_come_in_turn(brokers, rounds, seed):
    """Every broker leads equally often, and holds equally many replicas."""
    factor = min(3, brokers)
    placed = _place(_brokers([None] * brokers), brokers * rounds, factor, seed)
    leaders = Counter(replicas[0] for replicas in placed)
    assert set(leaders.values()) == {rounds}
    held = Counter(node for replicas in placed for node in replicas)
    assert set(held.values()) == {rounds * factor}


def test_leaders_alternate_between_racks():
    """Each partition begins one rack further than the one before."""
    racks = ["a", "b", "c"] * 3
    placed = _place(_brokers(racks), 9, 3)
    first = [racks[replicas[0]] for replicas in placed]
    assert all(after != before for before, after in pairwise(first))
    assert Counter(first) == {"a": 3, "b": 3, "c": 3}


def test_fenced_brokers_are_taken_last():
    """Only where too few others are there, and never as leaders."""
    brokers = _brokers([None] * 4, fenced={0, 3})
    for replicas in _place(brokers, 10, 2):
        assert set(replicas) == {1, 2}
    for replicas in _place(brokers, 10, 3):
        assert set(replicas[:2]) == {1, 2}
        assert replicas[2] in {0, 3}


def test_a_broker_that_shuts_down_is_taken_last():
    """A topic of one replica can be created during a rolling restart, and always has a leader."""
    brokers = _brokers([None] * 3, fenced={2}, stopping={0})
    assert _place(brokers, 4, 1) == [(1,)] * 4
    assert {replicas[0] for replicas in _place(brokers, 4, 2)} == {1}
    assert _place(_brokers(["a", "b"], stopping={0}), 2, 1) == [(1,)] * 2


def test_more_partitions_go_on_after_the_last_one():
    """Whatever chance says: the next leader is the next broker."""
    brokers = _brokers([None] * 5)
    for seed in range(20):
        (replicas,) = _place(brokers, 1, 2, seed, existing=[(1, 2), (2, 3)])
        assert replicas == (3, 4)
    racks = _brokers(["a", "b", "a", "b"])
    for seed in range(20):
        (replicas,) = _place(racks, 1, 2, seed, existing=[(0, 1)])
        assert replicas == (3, 2)


@pytest.mark.parametrize(
    ("brokers", "factor", "says"),
    [
        (_brokers([None]), 0, "the replication factor must be positive"),
        (_brokers([None, None]), 3, "only 2 broker(s) are registered"),
        (_brokers([None], fenced={0}), 1, "All brokers are currently fenced, or have all"),
        (
            _brokers([None] * 2, fenced={0}, stopping={1}),
            1,
            "All brokers are currently fenced or in controlled shutdown, or have",
        ),
        ([], 1, "All brokers are currently fenced"),
    ],
)
def test_why_nothing_is_placed(brokers, factor, says):
    """The texts are Kafka's."""
    with pytest.raises(KafkaError) as refused:
        _place(brokers, 1, factor)
    assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert says in refused.value.message
