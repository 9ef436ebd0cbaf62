"""Committed offsets, and those of transactions that are still open."""

from types import SimpleNamespace

import pytest

from kwire.coordinator.effects import Effects
from kwire.coordinator.group import Committer
from kwire.coordinator.group_offsets import GroupOffsets
from kwire.coordinator.offsets import NO_PRODUCER_ID, CommittedOffset, OffsetStore
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.types import ZERO_UUID


def _offset(offset: int, record_offset: int = 0) -> CommittedOffset:
    return CommittedOffset(offset, -1, "", 0, record_offset=record_offset)


def test_offsets_of_a_transaction_hold_once_it_is_committed():
    """Until then they are pending, and an abort forgets them."""
    store = OffsetStore()
    store.put("g", "t", 0, _offset(1), NO_PRODUCER_ID)
    store.put("g", "t", 0, _offset(2, 1), 7)
    assert store.is_pending("g", "t", 0)
    assert store.of("g").get("t", 0) == _offset(1)
    store.end_transaction(7, committed=False)
    assert not store.is_pending("g", "t", 0)
    store.put("g", "t", 0, _offset(3, 2), 7)
    store.end_transaction(7, committed=True)
    assert store.of("g").get("t", 0) == _offset(3, 2)
    assert not store.is_pending("g", "t", 0)


def test_a_younger_commit_wins_over_an_older_one_of_a_transaction():
    """What stands later in the log is what the group meant last."""
    store = OffsetStore()
    store.put("g", "t", 0, _offset(2, 5), 7)
    store.put("g", "t", 0, _offset(9, 6), NO_PRODUCER_ID)
    store.end_transaction(7, committed=True)
    assert store.of("g").get("t", 0) == _offset(9, 6)


def test_a_tombstone_takes_pending_offsets_too():
    """A group is known as long as something of it is left."""
    store = OffsetStore()
    store.put("g", "t", 0, _offset(2), 7)
    assert store.has("g")
    assert store.group_ids() == ["g"]
    assert store.partitions_of("g") == {("t", 0)}
    store.remove("g", "t", 0)
    assert not store.has("g")
    store.end_transaction(7, committed=True)
    assert not store.of("g")


def test_the_end_of_an_unknown_transaction_changes_nothing():
    """Most transactions commit no offsets."""
    store = OffsetStore()
    store.end_transaction(7, committed=True)
    assert store.group_ids() == []


def test_an_offset_belongs_to_the_topic_it_was_committed_for():
    """An older record doesn't say which; it is given the benefit of the doubt."""
    known = _offset(1)._replace(topic_id=b"1" * 16)
    assert known.belongs_to(b"1" * 16)
    assert known.belongs_to(ZERO_UUID)
    assert not known.belongs_to(b"2" * 16)
    assert _offset(1).belongs_to(b"2" * 16)


def test_a_member_commits_for_no_group_that_nobody_knows():
    """Also one of generation 0; whoever names no generation needs no group."""
    committed = GroupOffsets(
        SimpleNamespace(groups={}, check_room=lambda offsets_only: None), OffsetStore()
    )
    committed.check_commit("g", Committer("", -1, None, 10), 0)
    for generation in (0, 1):
        with pytest.raises(KafkaError) as refused:
            committed.check_commit("g", Committer("m", generation, None, 10), 0)
        assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(("most", "deleted"), [(1, 1), (2, 2), (3, 3), (4, 3)])
def test_a_piece_of_a_group_s_deletion_has_as_many_offsets_as_it_may(most, deleted):
    """And is the last one only if these are all."""
    store, effects = OffsetStore(), Effects(is_atomic=False)
    for partition in range(3):
        store.put("g", "t", partition, _offset(1), NO_PRODUCER_ID)
    committed = GroupOffsets(SimpleNamespace(), store)
    assert committed.tombstones("g", most, effects) == (most >= 3)
    assert len(effects.records) == deleted
