"""Modern groups whose members may be static, and own what they have: all but share groups.

Rules:

- A static member is known by its instance id. It may leave for a while, and come back under another
  member id to what it had.
- A member owns what it has until it gives it back, so a group is on its way to its target until
  every member has reached it.

Source: ConsumerGroup and StreamsGroup of Kafka 4.4.
"""

from typing import Any, Protocol, Self, TypeVar

from kwire.coordinator.consumer.layered_dict import LayeredDict
from kwire.coordinator.group import EMPTY_STATE
from kwire.coordinator.modern_group import ModernGroup, ModernMember, T
from kwire.errors import ErrorCode, KafkaError

ASSIGNING_STATE = "Assigning"
RECONCILING_STATE = "Reconciling"
STABLE_STATE = "Stable"


class StaticMember(ModernMember, Protocol):
    """A member that may be static; ``about`` is its description, with its ``instance_id``."""

    @property
    def about(self) -> Any:
        """The member's description of itself."""
        ...

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Whether the member has exactly what an epoch's target says."""
        ...


_M = TypeVar("_M", bound=StaticMember)


class StaticGroup(ModernGroup[_M, T]):
    """One group; ``static_members`` has the ids of static members by instance id."""

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.static_members: LayeredDict[str, str] = LayeredDict()

    def copy(self) -> Self:
        """A copy for an update; it shares what doesn't come from records with the original."""
        group = super().copy()
        group.static_members = self.static_members.copy()
        return group

    def _count(self, member: _M) -> None:
        super()._count(member)
        if member.about.instance_id is not None:
            self.static_members[member.about.instance_id] = member.member_id

    def _uncount(self, member: _M) -> None:
        super()._uncount(member)
        instance_id = member.about.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member.member_id:
            del self.static_members[instance_id]

    @property
    def state_name(self) -> str:
        """Kafka's name of the group's state."""
        if not self.members:
            return EMPTY_STATE
        if self.epoch > self.target_epoch:
            return ASSIGNING_STATE
        if all(member.is_reconciled_to(self.target_epoch) for member in self.members.values()):
            return STABLE_STATE
        return RECONCILING_STATE

    @property
    def may_expire(self) -> bool:
        """Whether the group has no members."""
        return not self.members

    def static_member(self, instance_id: str | None) -> _M | None:
        """The static member of an instance."""
        return self.members.get(self.static_members.get(instance_id or "", ""))

    def validate_member(self, member_id: str, instance_id: str | None) -> _M:
        """The member with these ids; KafkaError (UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID)."""
        if instance_id is None:
            return self.member(member_id)
        member = self.static_member(instance_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        if member.member_id != member_id:
            raise KafkaError(
                ErrorCode.FENCED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} was fenced by member "
                f"{member.member_id}.",
            )
        return member

    # Offsets

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Check that a member may fetch offsets; clients that aren't members may always.

        Raises KafkaError: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH (ILLEGAL_GENERATION in the classic
        protocol).
        """
        if member_id is None and member_epoch < 0:
            return
        member = self.member(member_id or "")
        if member_epoch != member.epoch:
            raise self._stale(
                member,
                f"The received member epoch {member_epoch} does not match the expected member "
                f"epoch {member.epoch}.",
            )

    def check_offset_delete(self) -> None:
        """Allow it: offsets of topics that no member reads may be deleted."""

    def _stale(self, member: _M, text: str) -> KafkaError:
        """The error of a member with another epoch than its own."""
        return KafkaError(ErrorCode.STALE_MEMBER_EPOCH, text)
