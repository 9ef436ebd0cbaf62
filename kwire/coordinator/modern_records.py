"""The records that all kinds of modern groups have in ``__consumer_offsets``, in Kafka's formats.

Format: as in ``kwire.coordinator.records``: a key of an int16 type and fields, a value of an int16
version (0 in all of these) and fields, a null value for a tombstone. Each kind of group has five
records: itself, the description of a member, the epoch of its target, the target of a member, and
what a member has. Each kind has types of its own for them. The keys are alike in all kinds, and so
is the record of the target's epoch.

Source: GroupCoordinatorRecordHelpers, StreamsCoordinatorRecordHelpers and the schemas of Kafka 4.4.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from kwire.coordinator.records import CoordinatorRecord, new_record
from kwire.protocol.codec import decoder
from kwire.protocol.types import Schema, int32, int64, string

_S = TypeVar("_S", bound=Schema)

_INT16 = Struct(">h")


class GroupKey(Schema, versions=(0, 0), flexible=None):
    """The key of a record of which each group has one."""

    group_id: str = string()


class MemberKey(Schema, versions=(0, 0), flexible=None):
    """The key of a record of which each member has one."""

    group_id: str = string()
    member_id: str = string()


class TargetAssignmentMetadataValue(Schema, versions=(0, 0), flexible=0):
    """The epoch of a group's target assignment, and when it was computed."""

    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0)


WRITTEN: tuple[tuple[type[Schema], int], ...] = (
    (GroupKey, 0),
    (MemberKey, 0),
    (TargetAssignmentMetadataValue, 0),
)
"""The schemas of this module, and the versions in which they are written."""


class RecordType(Generic[_S]):
    """A type of record; without the schema of a value, the value is never read."""

    key: ClassVar[type[Schema]]

    def __init__(self, number: int, value: type[_S] | None) -> None:
        self.number = number
        self.value = value


class GroupRecord(RecordType[_S]):
    """A record of which each group has one."""

    key = GroupKey

    def __call__(self, group_id: str, value: _S | None) -> CoordinatorRecord:
        """The record of a group, or its tombstone."""
        assert value is None or isinstance(value, self.value or ()), (self.number, value)
        return new_record(self.number, GroupKey(group_id=group_id), value)


class MemberRecord(RecordType[_S]):
    """A record of which each member has one."""

    key = MemberKey

    def __call__(self, group_id: str, member_id: str, value: _S | None) -> CoordinatorRecord:
        """The record of a member, or its tombstone."""
        assert value is None or isinstance(value, self.value or ()), (self.number, value)
        key = MemberKey(group_id=group_id, member_id=member_id)
        return new_record(self.number, key, value)


class ModernRecords(NamedTuple):
    """The types of the records that each kind of modern group has."""

    metadata: GroupRecord[Any]
    member_metadata: MemberRecord[Any]
    target_assignment_metadata: GroupRecord[TargetAssignmentMetadataValue]
    target_assignment_member: MemberRecord[Any]
    current_member_assignment: MemberRecord[Any]

    def member_tombstones(
        self, group_id: str, member_ids: Iterable[str]
    ) -> list[CoordinatorRecord]:
        """The tombstones of members: of what they have, their targets, and their descriptions."""
        ids = list(member_ids)
        of_a_member = (
            *(self.current_member_assignment, self.target_assignment_member),
            self.member_metadata,
        )
        return [make(group_id, member_id, None) for make in of_a_member for member_id in ids]


def parse_key(schema: type[_S], key: bytes) -> _S:
    """The key of a record without its type; MalformedRequest for any other bytes."""
    return decoder(schema, 0)(key, _INT16.size)[0]
