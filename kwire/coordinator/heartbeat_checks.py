"""Checks of heartbeats that the kinds of modern groups have in common.

Source: GroupCoordinatorService and GroupMetadataManager of Kafka 4.4.
"""

from typing import Any

from kwire.coordinator.modern_group import STATIC_LEAVING_EPOCH, ModernGroup, ModernMember
from kwire.coordinator.static_group import StaticMember
from kwire.errors import ErrorCode, KafkaError


def invalid(message: str) -> KafkaError:
    """The error of a request that is invalid whatever the state of its group."""
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def check_filled(*texts: tuple[str, str | None]) -> None:
    """Raise KafkaError (INVALID_REQUEST) if a text that is given, with its name, is blank."""
    for name, value in texts:
        if value is not None and not value.strip():
            raise invalid(f"{name} can't be empty.")


def check_room(
    group: ModernGroup[Any, Any], member_id: str, instance_id: str | None, most: int
) -> None:
    """Raise KafkaError (GROUP_MAX_SIZE_REACHED) unless the group has room for this member."""
    is_known = member_id in group.members or group.static_member(instance_id) is not None
    if len(group.members) >= most and not is_known:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The {group.kind.value} group has reached its maximum capacity of {most} members.",
        )


def check_instance_is_free(in_place: StaticMember, member_id: str) -> None:
    """Raise KafkaError (UNRELEASED_INSTANCE_ID) unless the present static member is away."""
    if in_place.epoch != STATIC_LEAVING_EPOCH:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {in_place.about.instance_id} cannot join "
            f"the group because the instance id is owned by {in_place.member_id} member.",
        )


def fenced(kind: str, member: ModernMember, epoch: int, also: str = "") -> KafkaError:
    """The error of a member with an epoch that isn't its own; ``also`` says what else is wrong."""
    size = "greater" if epoch > member.epoch else "smaller"
    return KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The {kind} group member has a {size} member epoch ({epoch}) than the one known by the "
        f"group coordinator ({member.epoch}){also}. The member must abandon all its partitions and "
        "rejoin.",
    )
