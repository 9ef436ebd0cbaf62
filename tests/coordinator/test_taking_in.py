"""What is taken in without being read is what would be read.

Every script of a group compares both too, see ``written``.
"""

import pytest

from kwire.coordinator.consumer.member import target_record
from kwire.coordinator.group_coordinator import GroupCoordinator
from kwire.coordinator.records import (
    GroupMetadataMember,
    GroupMetadataValue,
    OffsetCommitValue,
    group_metadata,
    offset_commit,
)
from kwire.coordinator.settings import GroupSettings
from kwire.record.records import Record
from tests.coordinator.written import content_of

FULL_OFFSET = OffsetCommitValue(
    offset=5, leader_epoch=3, metadata="m\u00fc", commit_timestamp=8, topic_id=bytes(range(16))
)
FULL_GROUP = GroupMetadataValue(
    protocol_type="consumer",
    generation=4,
    protocol="range",
    leader="a",
    current_state_timestamp=7,
    members=[
        GroupMetadataMember(
            member_id="a",
            group_instance_id="i",
            client_id="c",
            client_host="/h",
            rebalance_timeout=1,
            session_timeout=2,
            subscription=b"s",
            assignment=b"p0",
        )
    ],
)


@pytest.mark.parametrize(
    "written",
    [
        offset_commit("g", "t", 1, FULL_OFFSET),
        offset_commit("g", "t", 1, OffsetCommitValue()),
        group_metadata("g", FULL_GROUP),
        group_metadata("g", GroupMetadataValue()),
        target_record("g", "m", {b"t" * 16: frozenset({1, 0}), b"u" * 16: frozenset()}),
        target_record("g", "m", {}),
    ],
)
def test_the_content_of_a_record_is_what_its_bytes_say(written):
    """Field by field, whatever is set."""
    assert written.content == content_of(written.key, written.value)


@pytest.mark.parametrize(
    "written",
    [
        offset_commit("g", "t", 1, OffsetCommitValue(expire_timestamp=9, leader_epoch=3)),
        offset_commit("g", "t", 1, None),
        group_metadata("g", None),
    ],
)
def test_what_is_not_all_written_is_read(written):
    """The form of an offset that expires leaves fields out; a tombstone says nothing."""
    assert written.content is None


@pytest.mark.parametrize("producer_id", [-1, 7])
def test_an_offset_is_taken_in_as_it_is_replayed(producer_id):
    """Pending until its transaction ends, if it is in one."""
    written = offset_commit("g", "t", 1, FULL_OFFSET)
    fast, slow = (GroupCoordinator(GroupSettings(), lambda: "") for _ in range(2))
    fast.take_in(written.content, 12, producer_id, 100)
    record = Record(12, 100, written.key, written.value)
    slow.replay(record, producer_id, 100, loading=False)
    for coordinator in (fast, slow):
        assert coordinator.offsets.is_pending("g", "t", 1) == (producer_id != -1)
        coordinator.replay_end_transaction(producer_id, committed=True)
    assert fast.offsets.of("g").items() == slow.offsets.of("g").items() != []
