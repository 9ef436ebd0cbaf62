"""Replicas move as KIP-455 says, and never so that nobody in sync is left."""

import pytest

from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.cordons import is_cordoned
from kwire.metadata.image import BrokerImage, ConfigResourceType, MetadataImage, PartitionImage
from kwire.metadata.leader_election import ElectionRules
from kwire.metadata.reassignment import cancelled, is_reassigning, reassigned

ALL = frozenset({1, 2, 3, 4, 5})
IMAGE = MetadataImage(brokers={node: BrokerImage(node, None, ()) for node in ALL})
BEFORE = PartitionImage(1, 5, (1, 2, 3), (1, 2, 3), 7)
MOVING = PartitionImage(1, 5, (3, 4, 1, 2), (1, 2, 3), 8, adding=(4,), removing=(1, 2))


def _move(before, *replicas, **options):
    return reassigned(IMAGE, before, replicas, ElectionRules(ALL), **options)


def test_a_move_begins_with_the_replicas_of_both():
    """The leader stays, and the leader epoch, until the last replica has caught up."""
    after = _move(BEFORE, 3, 4)
    assert after == MOVING
    assert is_reassigning(after)
    assert is_reassigning(_move(BEFORE, 1, 2, 3, 4))
    assert not is_reassigning(BEFORE)


def test_nothing_new_comes_to_a_broker_without_a_directory():
    """What it has may stay there, while other replicas come and go."""
    brokers = {**IMAGE.brokers, 3: BrokerImage(3, None, (), is_cordoned=True)}
    brokers[4] = BrokerImage(4, None, (), log_dirs=("/x", "/y"))
    configs = {(ConfigResourceType.BROKER, "4"): {"cordoned.log.dirs": "/x, /y"}}
    image = IMAGE._replace(brokers=brokers, configs=configs)
    for wanted in ((3, 1, 2), (1, 3, 5)):
        assert reassigned(image, BEFORE, wanted, ElectionRules(ALL)) is not None
    before = BEFORE._replace(replicas=(1, 2), isr=(1, 2))
    for wanted, cordoned in (((1, 3), 3), ((1, 4), 4)):
        with pytest.raises(KafkaError, match=rf"broker {cordoned}, but all") as refused:
            reassigned(image, before, wanted, ElectionRules(ALL))
        assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.parametrize(
    ("directories", "cordoned", "expected"),
    [
        (("/x", "/y"), "/y", False),
        (("/x",), "/y", False),
        (("/x",), "/x,/y", True),
        (("/x", "/y"), "*", True),
        (("/x",), "", False),
        ((), "/x", False),
    ],
)
def test_which_directories_are_cordoned_counts(directories, cordoned, expected):
    """Not how many: one that is offline, or no longer the broker's, may be among them."""
    broker = BrokerImage(1, None, (), directories=("i",), log_dirs=directories)
    configs = {(ConfigResourceType.BROKER, "1"): {"cordoned.log.dirs": cordoned}}
    image = IMAGE._replace(brokers={1: broker}, configs=configs)
    assert is_cordoned(image, broker) is expected


def test_another_order_is_complete_at_once():
    assert _move(BEFORE, 2, 1, 3) == BEFORE._replace(replicas=(2, 1, 3), partition_epoch=8)
    assert _move(BEFORE, 1, 2, 3) is None


def test_fewer_replicas_are_complete_at_once():
    """The leader goes, too; who is removed can't fetch any more: the leader epoch grows."""
    assert _move(BEFORE, 2) == PartitionImage(2, 6, (2,), (2,), 8)
    assert _move(BEFORE, 1, 2) == PartitionImage(1, 6, (1, 2), (1, 2), 8)


def test_fewer_replicas_wait_for_one_in_sync():
    """Those that stay have to catch up first."""
    after = _move(BEFORE._replace(isr=(1,)), 2, 3)
    assert (after.replicas, after.isr, after.removing) == ((2, 3, 1), (1,), (1,))


def test_a_cancelled_move_leaves_what_was():
    """The order is that of the wanted replicas."""
    caught_up = MOVING._replace(isr=(1, 2, 3, 4))
    after = cancelled(caught_up, ElectionRules(ALL))
    assert after == PartitionImage(1, 6, (3, 1, 2), (1, 2, 3), 9)
    with pytest.raises(KafkaError) as refused:
        cancelled(BEFORE, ElectionRules(ALL))
    assert refused.value.code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_another_move_drops_who_was_to_come():
    """And can still be cancelled."""
    after = _move(MOVING, 5, 1)
    assert after == PartitionImage(1, 6, (5, 1, 2, 3), (1, 2, 3), 9, (5,), (2, 3))
    assert cancelled(after, ElectionRules(ALL)).replicas == (1, 2, 3)
    back = _move(MOVING, 1, 2, 3)
    assert back == PartitionImage(1, 6, (1, 2, 3), (1, 2, 3), 9)


def test_who_came_and_is_the_only_one_in_sync_stays():
    """A cancellation would need an unclean election."""
    only = MOVING._replace(leader=4, isr=(4,))
    for decide in (lambda: cancelled(only, ElectionRules(ALL)), lambda: _move(only, 1, 2)):
        with pytest.raises(KafkaError) as refused:
            decide()
        assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.parametrize("replicas", [(), (1, 1), (1, 9), (-1,)])
def test_replicas_that_cannot_be(replicas):
    with pytest.raises(KafkaError) as refused:
        _move(BEFORE, *replicas)
    assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_another_number_of_replicas_can_be_refused():
    """KIP-860; while a move is under way, its number counts."""
    for before, replicas in ((BEFORE, (1, 2)), (MOVING, (1, 2, 3))):
        with pytest.raises(KafkaError) as refused:
            _move(before, *replicas, may_change_factor=False)
        assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert _move(MOVING, 3, 5, may_change_factor=False).adding == (5,)


def test_an_older_level_of_changes_knows_no_moves():
    """Not even of an only replica: it has two until it is complete."""
    older = IMAGE._replace(features={"kwire.changes": 1})
    only = PartitionImage(1, 5, (1,), (1,), 7)
    with pytest.raises(KafkaError) as refused:
        reassigned(older, only, (2,), ElectionRules(ALL))
    assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
