"""Brokers come and go: who is fenced, who leads, and which epochs grow, as in Kafka."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.changes import (
    FeatureLevelChanged,
    apply,
    from_json,
    snapshot,
    to_json,
)
from kwire.metadata.image import BrokerImage, MetadataImage, PartitionImage
from kwire.metadata.lost_replicas import Replica
from kwire.metadata.registration import (
    elect_controller,
    fence,
    register,
    shut_down,
    unfence,
    unregister,
)
from tests.support.images import topic_created


class Cluster:
    """An image that decisions change."""

    def __init__(self) -> None:
        self.image = MetadataImage()

    def do(self, decide, *arguments):
        """Decide, and apply what a store would give back."""
        changes = decide(self.image, *arguments)
        again = from_json(to_json(changes))
        assert again == changes
        if changes:
            self.image = apply(self.image, again, self.image.revision + 1)
        return changes

    def start(self, *nodes, incarnation="a"):
        """Register and unfence brokers."""
        for node_id in nodes:
            self.do(register, _broker(node_id, incarnation))
            self.do(unfence, node_id, incarnation)

    def add_topic(self, *replicas):
        """A topic; each partition's first replica leads it, and all are in sync."""
        partitions = tuple(PartitionImage(nodes[0], 0, nodes, nodes) for nodes in replicas)
        self.do(lambda image: [topic_created(*partitions)])

    @property
    def states(self):
        """(leader, leader epoch, ISR, partition epoch) of each partition."""
        return [
            (p.leader, p.leader_epoch, p.isr, p.partition_epoch)
            for p in self.image.topics_by_name["t"].partitions
        ]

    @property
    def eligible(self):
        """The ELR of each partition."""
        return [p.elr for p in self.image.topics_by_name["t"].partitions]


def _broker(node_id, incarnation="a", features=()):
    return BrokerImage(node_id, None, (("P", "h", 9092),), incarnation, features=features)


@pytest.fixture
def cluster():
    return Cluster()


def test_a_new_broker_is_fenced_until_it_has_caught_up(cluster):
    """Its epoch is the revision of its registration."""
    cluster.start(1)
    cluster.do(register, _broker(2))
    broker = cluster.image.brokers[2]
    assert (broker.is_fenced, broker.epoch) == (True, cluster.image.revision)
    cluster.do(unfence, 2, "a")
    assert not cluster.image.brokers[2].is_fenced
    assert cluster.do(unfence, 2, "a") == []


def test_a_sole_replica_stays_in_sync_without_a_leader(cluster):
    """Nobody else has its records. It leads again when it is back, with a new leader epoch."""
    cluster.start(1, 2)
    cluster.add_topic((1,), (2,))
    cluster.do(fence, frozenset({1}))
    assert cluster.states == [(-1, 1, (1,), 1), (2, 0, (2,), 0)]
    cluster.do(register, _broker(1, "b"))
    assert cluster.states[0] == (-1, 1, (1,), 1)
    cluster.do(unfence, 1, "b")
    assert cluster.states == [(1, 2, (1,), 2), (2, 0, (2,), 0)]


def test_a_quick_restart_makes_a_new_leader_epoch(cluster):
    """The registration alone ends the leadership of the process before."""
    cluster.start(1)
    cluster.add_topic((1,))
    cluster.do(register, _broker(1, "b"))
    assert cluster.states == [(-1, 1, (1,), 1)]
    cluster.do(unfence, 1, "b")
    assert cluster.states == [(1, 2, (1,), 2)]


def test_with_replicas_another_one_in_sync_leads(cluster):
    """The first of the replicas that is in sync; those out of sync never.

    Those that were in sync last are eligible (KIP-966): whoever of them is back first leads.
    """
    cluster.start(1, 2, 3)
    cluster.add_topic((1, 2, 3), (2, 1, 3), (3, 1))
    cluster.do(fence, frozenset({1}))
    assert cluster.states == [(2, 1, (2, 3), 1), (2, 0, (2, 3), 1), (3, 0, (3,), 1)]
    cluster.do(fence, frozenset({2, 3}))
    assert cluster.states == [(-1, 2, (), 2), (-1, 1, (), 2), (-1, 1, (), 2)]
    assert cluster.eligible == [(2, 3), (2, 3), (3,)]
    cluster.start(1, incarnation="b")
    assert [leader for leader, *_ in cluster.states] == [-1, -1, -1]
    cluster.start(3, incarnation="b")
    assert cluster.states == [(3, 3, (3,), 3), (3, 2, (3,), 3), (3, 2, (3,), 3)]
    assert cluster.eligible == [(), (), ()]


def test_after_a_power_cut_a_replica_is_not_eligible(cluster):
    """It may lack records. If nobody has more, the last leader goes on with what it has."""
    cluster.start(1, 2)
    cluster.add_topic((1, 2), (2,))
    cluster.do(fence, frozenset({2}))
    cluster.do(fence, frozenset({1}))
    assert cluster.eligible == [(1,), ()]
    for node_id in (1, 2):
        cluster.do(lambda i, n=node_id: register(i, _broker(n, "b"), is_unclean=True))
    assert cluster.eligible == [(), ()]
    cluster.do(unfence, 2, "b")
    assert [leader for leader, *_ in cluster.states] == [-1, 2]
    assert cluster.states[1] == (2, 2, (2,), 2)
    cluster.do(unfence, 1, "b")
    first, second = cluster.image.topics_by_name["t"].partitions
    assert (first.leader, first.isr, first.is_recovering) == (1, (1,), True)
    assert not second.is_recovering


def test_a_broker_that_shuts_down_hands_over(cluster):
    """It leads nothing, and isn't fenced yet."""
    cluster.start(1, 2)
    cluster.add_topic((1, 2), (1,))
    cluster.do(shut_down, 1, "a")
    assert cluster.states == [(2, 1, (2,), 1), (-1, 1, (1,), 1)]
    broker = cluster.image.brokers[1]
    assert (broker.is_fenced, broker.is_shutting_down, broker.is_active) == (False, True, False)
    assert cluster.do(shut_down, 1, "a") == []


def test_a_broker_is_fenced_once(cluster):
    """A controller that sees the same silence again commits nothing."""
    cluster.start(1, 2)
    cluster.do(fence, frozenset({1}))
    assert cluster.do(fence, frozenset({1, 77})) == []


def test_a_process_that_was_replaced_decides_nothing(cluster):
    """Another one has registered with its node id."""
    cluster.start(1)
    cluster.do(register, _broker(1, "b"))
    for decide in (unfence, shut_down):
        with pytest.raises(KafkaError) as refused:
            cluster.do(decide, 1, "a")
        assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_a_broker_leaves_for_good(cluster):
    """Its partitions have no leader, and its id is unknown."""
    cluster.start(1, 2)
    cluster.add_topic((1,))
    cluster.do(unregister, 1)
    assert set(cluster.image.brokers) == {2}
    assert cluster.states == [(-1, 1, (1,), 1)]
    with pytest.raises(KafkaError) as refused:
        cluster.do(unregister, 1)
    assert refused.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED


def test_a_broker_that_comes_back_after_it_has_left_is_not_eligible(cluster):
    """Its node id may have an old disk or an empty one now, and nothing in the image tells."""
    cluster.start(1, 2)
    cluster.add_topic((1, 2))
    cluster.do(fence, frozenset({1, 2}))
    assert cluster.eligible == [(1, 2)]
    cluster.do(unregister, 2)
    old = Replica("another directory", 0)
    cluster.do(lambda image: register(image, _broker(2, "b"), lambda *_: old))
    assert cluster.eligible == [(1,)]
    cluster.do(unfence, 2, "b")
    assert [(leader, isr) for leader, _, isr, _ in cluster.states] == [(-1, ())]
    cluster.start(1, incarnation="b")
    assert [(leader, isr) for leader, _, isr, _ in cluster.states] == [(1, (1,))]


def test_a_broker_that_lacks_a_feature_level_is_refused(cluster):
    """The text says which, and what to do."""
    cluster.do(lambda image: [FeatureLevelChanged("metadata.version", 30)])
    with pytest.raises(KafkaError, match=r"metadata\.version from 7 to 29.*level 30") as refused:
        cluster.do(register, _broker(1, features=(("metadata.version", 7, 29),)))
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION
    cluster.do(register, _broker(1, features=(("metadata.version", 7, 30),)))
    assert cluster.image.brokers[1].features == (("metadata.version", 7, 30),)


def test_the_controller_is_in_the_image(cluster):
    """Each election has a higher epoch."""
    cluster.do(elect_controller, 2)
    cluster.do(elect_controller, 1)
    assert (cluster.image.controller_id, cluster.image.controller_epoch) == (1, 2)


def test_a_broker_that_shuts_down_leads_nothing_when_it_is_unfenced(cluster):
    """It lost its session in the middle of its shutdown, and nobody else may lead."""
    cluster.start(1, 2, 3)
    cluster.add_topic((2, 1, 3))
    cluster.do(fence, frozenset({1, 3}))
    cluster.do(shut_down, 2, "a")
    cluster.do(fence, frozenset({2}))
    cluster.do(unfence, 2, "a")
    [partition] = cluster.image.topics_by_name["t"].partitions
    assert (partition.leader, partition.isr) == (-1, ())


_NODES = st.integers(1, 4)
_EVENTS = st.one_of(
    st.tuples(st.sampled_from([register, unfence, shut_down, unregister]), _NODES),
    st.tuples(st.just(fence), st.frozensets(_NODES)),
)


@given(
    st.lists(st.permutations([1, 2, 3, 4]).map(lambda n: tuple(n[:3])), min_size=1, max_size=3),
    st.lists(_EVENTS, max_size=30),
)
def test_whatever_happens_leaders_are_in_sync_and_epochs_grow(replicas, events):
    """And a snapshot restores the image."""
    cluster = Cluster()
    cluster.start(1, 2, 3, 4)
    cluster.add_topic(*replicas)
    for decide, subject in events:
        before = cluster.image.topics_by_name["t"].partitions
        try:
            if decide is register:
                cluster.do(register, _broker(subject))
            elif decide in (unfence, shut_down):
                cluster.do(decide, subject, "a")
            else:
                cluster.do(decide, subject)
        except KafkaError:
            continue
        image = cluster.image
        for old, new in zip(before, image.topics_by_name["t"].partitions, strict=True):
            assert new.isr or new.elr or new.last_known_elr
            assert set(new.isr) | set(new.elr) <= set(new.replicas)
            assert not set(new.isr) & set(new.elr)
            assert all(map(image.is_active, new.isr))
            assert new.leader == -1 or (new.leader in new.isr and image.is_active(new.leader))
            assert (new.partition_epoch > old.partition_epoch) == (new != old)
            assert (new.leader_epoch > old.leader_epoch) == (new.leader != old.leader)
        assert apply(MetadataImage(), snapshot(image), image.revision) == image
