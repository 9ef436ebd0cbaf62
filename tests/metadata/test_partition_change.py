"""A partition changes as Kafka's PartitionChangeBuilder and AlterPartition say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.changes import ConfigChanged, apply
from kwire.metadata.image import (
    BrokerImage,
    ConfigResourceType,
    MetadataImage,
    PartitionImage,
)
from kwire.metadata.leader_election import Election, ElectionRules
from kwire.metadata.partition_change import (
    IsrProposal,
    changed_partition,
    proposed_isr,
    with_elected_leader,
    without_brokers,
    without_replicas,
)
from tests.support.images import topic_created

TOPIC = bytes(16)
ALL = frozenset({1, 2, 3, 4})
HEALTHY = PartitionImage(1, 5, (1, 2, 3), (1, 2, 3), 7)


def _image(partition=HEALTHY, **configs):
    brokers = {node: BrokerImage(node, None, (), "a", epoch=10 + node) for node in ALL}
    image = MetadataImage(brokers=brokers)
    changes = [
        ConfigChanged(ConfigResourceType.TOPIC, "t", name.replace("_", "."), value)
        for name, value in configs.items()
    ]
    return apply(image, [topic_created(partition), *changes], 1)


def _row(changes):
    [(_, ((_, row),))] = changes
    return row


def _propose(image, *nodes, **fields):
    before = image.partition("t", 0)
    proposal = IsrProposal(
        before.leader,
        before.leader_epoch,
        before.partition_epoch,
        tuple((node, 10 + node) for node in nodes),
        is_recovered=True,
    )
    return proposed_isr(image, TOPIC, 0, proposal._replace(**fields))


def test_a_shrink_leaves_the_leader_epoch():
    """The partition epoch alone grows, as since KAFKA-15021."""
    assert _row(_propose(_image(), 1, 3)) == HEALTHY._replace(isr=(1, 3), partition_epoch=8)


def test_the_isr_that_is_there_needs_no_change():
    assert _propose(_image(), 1, 2, 3) == []


def test_below_the_minimum_replicas_become_eligible():
    """And are so no longer when enough replicas are in sync."""
    image = _image(min_insync_replicas="2")
    shrunk = _row(_propose(image, 1))
    assert (shrunk.isr, shrunk.elr) == ((1,), (2, 3))
    image = _image(shrunk, min_insync_replicas="2")
    expanded = _row(_propose(image, 1, 2))
    assert (expanded.isr, expanded.elr) == ((1, 2), ())


def test_the_minimum_is_at_most_the_number_of_replicas():
    partition = PartitionImage(1, 0, (1, 2), (1,))
    assert _row(_propose(_image(partition, min_insync_replicas="3"), 1, 2)).elr == ()


@pytest.mark.parametrize(
    ("nodes", "fields", "code"),
    [
        ((1, 2), {"leader_epoch": 4}, ErrorCode.FENCED_LEADER_EPOCH),
        ((2, 3), {"leader": 2}, ErrorCode.FENCED_LEADER_EPOCH),
        ((1, 2), {"partition_epoch": 6}, ErrorCode.INVALID_UPDATE_VERSION),
        ((2, 3), {}, ErrorCode.INVALID_REQUEST),
        ((1, 1), {}, ErrorCode.INVALID_REQUEST),
        ((1, 4), {}, ErrorCode.INVALID_REQUEST),
        ((1,), {"isr": ((1, 11), (2, 11))}, ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_a_proposal_is_checked_as_by_alter_partition(nodes, fields, code):
    with pytest.raises(KafkaError) as refused:
        _propose(_image(), *nodes, **fields)
    assert refused.value.code is code


@pytest.mark.parametrize("state", [{"is_fenced": True}, {"is_shutting_down": True}])
def test_a_broker_that_may_not_lead_does_not_join(state):
    """KIP-841: otherwise it would be elected, or counted, although it goes."""
    image = _image()
    brokers = dict(image.brokers)
    brokers[2] = brokers[2]._replace(**state)
    with pytest.raises(KafkaError) as refused:
        _propose(image._replace(brokers=brokers), 1, 2)
    assert refused.value.code is ErrorCode.INELIGIBLE_REPLICA


@pytest.mark.parametrize(
    ("topic_id", "index", "code"),
    [
        (bytes(15) + b"x", 0, ErrorCode.UNKNOWN_TOPIC_ID),
        (TOPIC, 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_partition_that_is_gone(topic_id, index, code):
    with pytest.raises(KafkaError) as refused:
        proposed_isr(_image(), topic_id, index, IsrProposal(1, 5, 7, ((1, 11),), True))
    assert refused.value.code is code


def test_a_leader_that_recovers_is_alone_until_it_has():
    image = _image(PartitionImage(1, 5, (1, 2), (1,), is_recovering=True))
    with pytest.raises(KafkaError) as refused:
        _propose(image, 1, 2, is_recovered=False)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    row = _row(_propose(image, 1))
    assert (row.isr, row.is_recovering, row.leader_epoch) == ((1,), False, 5)


def test_a_reassignment_completes_with_the_last_added_replica():
    """The removed leader hands over; the leader epoch grows."""
    moving = PartitionImage(1, 5, (3, 4, 1, 2), (1, 2, 3), 7, adding=(3, 4), removing=(1, 2))
    assert _propose(_image(moving), 1, 2, 3) == []
    row = _row(_propose(_image(moving), 1, 2, 3, 4))
    assert row == PartitionImage(3, 6, (3, 4), (3, 4), 8)


def test_a_removed_replica_raises_the_leader_epoch():
    """Although the leader stays: the removed one's fetches have to be refused."""
    before = PartitionImage(1, 5, (1, 2, 3), (1, 3), 7)
    wanted = before._replace(replicas=(1, 2, 3), removing=(3,))
    after = changed_partition(before, wanted, ElectionRules(ALL))
    assert after == PartitionImage(1, 6, (1, 2), (1,), 8)


def test_leaders_come_from_the_isr_then_from_the_elr():
    before = PartitionImage(1, 5, (1, 2, 3), (1,), elr=(2,))
    lost = changed_partition(before, before._replace(isr=()), ElectionRules({2, 3}, 2))
    assert (lost.leader, lost.isr, lost.elr) == (2, (2,), (1,))
    nobody = changed_partition(before, before._replace(isr=()), ElectionRules({3}, 2))
    assert (nobody.leader, nobody.elr, nobody.last_known_elr) == (-1, (1, 2), (1,))


def test_the_last_leader_leads_when_nobody_is_eligible():
    """It recovers then. Another replica leads only in an unclean election."""
    before = PartitionImage(-1, 6, (1, 2, 3), (), last_known_elr=(2,))
    assert changed_partition(before, before, ElectionRules({1, 3})) is None
    after = changed_partition(before, before, ElectionRules({1, 2, 3}))
    assert (after.leader, after.isr, after.last_known_elr) == (2, (2,), ())
    assert after.is_recovering
    unclean = changed_partition(before, before, ElectionRules({1, 3}, election=Election.UNCLEAN))
    assert (unclean.leader, unclean.isr, unclean.is_recovering) == (1, (1,), True)


def test_unclean_elections_by_config_are_for_several_replicas():
    """An only replica that is lost stays so until an administrator gives it up."""
    partition = PartitionImage(2, 5, (1, 2), (2,), 7)
    image = _image(partition, unclean_leader_election_enable="true")
    row = _row(without_brokers(image, frozenset({2}), are_doubtful=True))
    assert (row.leader, row.isr, row.is_recovering) == (1, (1,), True)
    only = PartitionImage(-1, 5, (1,), (), 7)
    assert changed_partition(only, only, ElectionRules(ALL)) is None
    given_up = with_elected_leader(only, ElectionRules(ALL), unclean=True)
    assert (given_up.leader, given_up.isr, given_up.is_recovering) == (1, (1,), False)


def test_the_preferred_leader_is_elected_if_it_is_in_sync():
    before = PartitionImage(2, 5, (1, 2, 3), (1, 2))
    assert with_elected_leader(before, ElectionRules(ALL), unclean=False).leader == 1
    assert (
        with_elected_leader(before._replace(isr=(2, 3)), ElectionRules(ALL), unclean=False) is None
    )
    assert with_elected_leader(before, ElectionRules({2, 3}), unclean=False) is None


def test_a_failed_replica_leads_no_longer_if_another_can():
    """It isn't eligible. A partition that nobody else can lead waits for it."""
    row = _row(without_replicas(_image(min_insync_replicas="3"), 1, lambda topic, index: True))
    assert (row.leader, row.isr, row.elr) == (2, (2, 3), ())
    alone = HEALTHY._replace(isr=(1,))
    assert without_replicas(_image(alone), 1, lambda topic, index: True) == []
    assert without_replicas(_image(), 1, lambda topic, index: False) == []
    assert without_replicas(_image(), 4, lambda topic, index: True) == []


_SETS = st.frozensets(st.integers(1, 4))


def test_a_replica_without_room_leads_no_longer_and_stays_eligible():
    """It has its records; without another one in sync it goes on leading."""

    def full(image):
        return without_replicas(image, 1, lambda topic, index: True, are_whole=True)

    row = _row(full(_image(min_insync_replicas="3")))
    assert (row.leader, row.isr, row.elr) == (2, (2, 3), (1,))
    alone = HEALTHY._replace(isr=(1,), elr=(2, 3))
    assert full(_image(alone, min_insync_replicas="3")) == []
    out = HEALTHY._replace(leader=2, isr=(2,), elr=(1, 3))
    assert full(_image(out, min_insync_replicas="3")) == []


@given(
    st.permutations([1, 2, 3, 4]).flatmap(lambda n: st.integers(1, 4).map(lambda k: tuple(n[:k]))),
    st.integers(1, 4),
    st.lists(st.tuples(_SETS, _SETS, _SETS, st.sampled_from(Election)), max_size=12),
)
def test_whatever_changes_the_rules_hold(replicas, min_isr, steps):
    """ISR and ELR are apart and of the replicas, leaders are in the ISR, and epochs grow."""
    before = PartitionImage(replicas[0], 0, replicas, replicas)
    for lost, active, doubtful, election in steps:
        isr = tuple(node for node in before.isr if node not in lost and node in active)
        wanted = before._replace(isr=isr)
        after = changed_partition(
            before, wanted, ElectionRules(active, min_isr, election, doubtful)
        )
        if after is None:
            continue
        assert not set(after.isr) & set(after.elr)
        assert set(after.isr) | set(after.elr) <= set(replicas)
        assert after.leader == -1 or (after.leader in after.isr and after.leader in active)
        assert after.partition_epoch == before.partition_epoch + 1
        is_new = after.leader != before.leader
        assert after.leader_epoch == before.leader_epoch + is_new
        if len(after.isr) >= min(min_isr, len(replicas)):
            assert after.elr == ()
        before = after
