"""What a record says, read from its bytes: the slow twin of ``CoordinatorRecord.content``."""

from kwire.coordinator.consumer.member import target_from_record
from kwire.coordinator.consumer.records import (
    TargetAssignmentMemberValue,
    target_assignment_member,
)
from kwire.coordinator.group_coordinator import GroupCoordinator
from kwire.coordinator.modern_records import MemberKey, parse_key
from kwire.coordinator.records import (
    OFFSET_COMMIT_TYPE,
    Content,
    CoordinatorRecord,
    GroupMetadataValue,
    OffsetCommitValue,
    WrittenGroup,
    WrittenOffset,
    WrittenTarget,
    parse_group_metadata_key,
    parse_offset_commit_key,
    parse_value,
    record_type,
)
from kwire.record.records import Record


def content_of(key: bytes, value: bytes) -> Content:
    """What the bytes say."""
    if record_type(key) == OFFSET_COMMIT_TYPE:
        named = parse_offset_commit_key(key)
        read = parse_value(OffsetCommitValue, value)
        return WrittenOffset(named.group, named.topic, named.partition, read)
    if record_type(key) == target_assignment_member.number:
        member = parse_key(MemberKey, key)
        target = target_from_record(parse_value(TargetAssignmentMemberValue, value))
        return WrittenTarget(member.group_id, member.member_id, target)
    return WrittenGroup(parse_group_metadata_key(key).group, parse_value(GroupMetadataValue, value))


def take_in(
    coordinator: GroupCoordinator, written: CoordinatorRecord, offset: int, now_ms: int
) -> Record:
    """Have a coordinator take in what it wrote, as the runtime does; the record.

    What is handed over has to be what would be read.
    """
    key, value, content = written
    record = Record(offset, now_ms, key, value)
    if content is None or value is None:
        assert content is None
        coordinator.replay(record, -1, now_ms, loading=False)
    else:
        assert content == content_of(key, value)
        coordinator.take_in(content, offset, -1, now_ms)
    return record
