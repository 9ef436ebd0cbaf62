"""What the scripts don't reach: records of other versions of Kafka, and steps one by one."""

import pytest

from kwire.coordinator.consumer.group import ConsumerGroup
from kwire.coordinator.consumer.member import ConsumerMember, Description, MemberState
from kwire.coordinator.consumer.reconciliation import Target, check_state, reconcile
from kwire.coordinator.consumer.records import (
    CurrentMemberAssignmentValue,
    MetadataValue,
    OwnedPartitions,
    metadata,
    partition_metadata,
)
from kwire.coordinator.consumer.replaying import CONSUMER_GROUPS
from kwire.coordinator.group import Group
from kwire.errors import ErrorCode, KafkaError
from kwire.record.records import Record

T = b"t" * 16
U = b"u" * 16


def target(epoch, partitions, *, owned=(), subscribed=(T, U)):
    """A target; ``owned`` are the partitions somebody has."""
    return Target(epoch, partitions, set(subscribed), lambda t, p: (t, p) in owned)


def member(**given):
    """A member at epoch 5 that has two partitions."""
    has = {"assigned": {T: {0: 4, 1: 5}}, "epoch": 5, "previous_epoch": 4, **given}
    return ConsumerMember("a", Description(topics=("t",)), **has)


def test_a_state_nobody_knows_begins_anew():
    """Once the member says that it owns nothing; until then it is fenced."""
    unknown = member(state=MemberState(42))
    assert unknown.state is MemberState.UNKNOWN
    for reported in (None, {T: frozenset({0})}):
        with pytest.raises(KafkaError) as refused:
            check_state(unknown, reported)
        assert refused.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    after = reconcile(unknown, target(6, {T: frozenset({1})}), {}, resubscribed=False)
    assert (after.epoch, after.state, after.assigned) == (6, MemberState.STABLE, {T: {1: 5}})


def test_what_is_kept_keeps_its_epoch():
    """Only what is new is of the target's epoch."""
    wanted = target(6, {T: frozenset({0, 1, 2})}, owned={(T, 0), (T, 1)})
    after = reconcile(member(), wanted, None, resubscribed=False)
    assert after.assigned == {T: {0: 4, 1: 5, 2: 6}}
    assert (after.epoch, after.previous_epoch) == (6, 5)


def test_what_a_member_does_not_own_needs_no_revocation():
    """It goes to the next epoch at once where it says so."""
    wanted = target(6, {T: frozenset({0})}, owned={(T, 0), (T, 1)})
    stays = reconcile(member(), wanted, {T: frozenset({0, 1})}, resubscribed=False)
    assert (stays.epoch, stays.state) == (5, MemberState.UNREVOKED_PARTITIONS)
    assert stays.revoking == {T: {1: 5}}
    goes_on = reconcile(member(), wanted, {T: frozenset({0})}, resubscribed=False)
    assert (goes_on.epoch, goes_on.state) == (6, MemberState.STABLE)


def test_nothing_is_given_that_is_not_subscribed():
    """Whatever the target, which may be older, says."""
    wanted = target(6, {T: frozenset({0, 1}), U: frozenset({0})}, subscribed=(T,))
    assert reconcile(member(), wanted, None, resubscribed=True).assigned.keys() == {T}


def test_a_member_at_its_target_is_the_same():
    """There is nothing to write."""
    settled = member()
    wanted = target(5, {T: frozenset({0, 1})})
    assert reconcile(settled, wanted, None, resubscribed=False) is settled


def test_records_of_before_kip_1251_say_no_epochs():
    """Then a commit of any epoch will do."""
    value = CurrentMemberAssignmentValue(
        member_epoch=3, assigned_partitions=[OwnedPartitions(topic_id=T, partitions=[0, 1])]
    )
    assert ConsumerMember("a").with_assignment(value).assigned == {T: {0: 0, 1: 0}}


def test_a_description_of_topics_that_kafka_4_0_wrote_is_done_away_with():
    """The hash in the group's record has taken its place."""
    groups: dict[str, Group] = {}
    key, value, _ = metadata("g", MetadataValue(epoch=3))
    CONSUMER_GROUPS.replay_into(groups, 3, Record(0, 0, key, value), loading=True)
    tombstone = partition_metadata("g", None)
    old = Record(1, 0, tombstone.key, b"\0\0\1\0")
    CONSUMER_GROUPS.replay_into(groups, partition_metadata.number, old, loading=True)
    group = groups["g"]
    assert isinstance(group, ConsumerGroup)
    assert tombstone in group.tombstones()
    CONSUMER_GROUPS.replay_into(
        groups, partition_metadata.number, Record(2, 0, tombstone.key, None), loading=True
    )
    assert tombstone not in group.tombstones()
