"""ShareGroupHeartbeat: checks of requests, a member's description, and parts of the answer.

Source: GroupCoordinatorService.throwIfShareGroupHeartbeatRequestIsInvalid and
GroupMetadataManager.shareGroupHeartbeat of Kafka 4.4, and what a broker of Kafka 4.4.0 answers.
"""

from kwire.coordinator.joining import Client
from kwire.coordinator.modern_group import JOINING_EPOCH, LEAVING_EPOCH
from kwire.coordinator.share.group import ShareGroup
from kwire.coordinator.share.member import ShareMember
from kwire.coordinator.share.settings import LONGEST_MEMBER_ID
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    TopicPartitions,
)


def check_request(request: ShareGroupHeartbeatRequest) -> None:
    """Raise KafkaError (INVALID_REQUEST) for an invalid request."""
    if not 0 < len(request.member_id) <= LONGEST_MEMBER_ID:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    for name, value in (
        ("MemberId", request.member_id),
        ("GroupId", request.group_id),
        ("RackId", request.rack_id),
    ):
        if value is not None and not value.strip():
            raise _invalid(f"{name} can't be empty.")
    if request.member_epoch == JOINING_EPOCH and not request.subscribed_topic_names:
        raise _invalid("SubscribedTopicNames must be set in first request.")
    if request.member_epoch < LEAVING_EPOCH:
        raise _invalid("MemberEpoch is invalid.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def check_room(group: ShareGroup, member_id: str, most: int) -> None:
    """Raise KafkaError (GROUP_MAX_SIZE_REACHED) unless the group has room for this member."""
    if len(group.members) >= most and member_id not in group.members:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The share group has reached its maximum capacity of {most} members.",
        )


def check_epoch(member: ShareMember, epoch: int) -> None:
    """Raise KafkaError (FENCED_MEMBER_EPOCH) unless a member may continue at an epoch.

    A member with the previous epoch may have missed an answer.
    """
    if epoch in (JOINING_EPOCH, member.epoch, member.previous_epoch):
        return
    abandon = "The member must abandon all its partitions and rejoin."
    if epoch > member.epoch:
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The share group member has a greater member epoch ({epoch}) than the one known by "
            f"the group coordinator ({member.epoch}). {abandon}",
        )
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The share group member has a smaller member epoch ({epoch}) than the one known by the "
        f"group coordinator ({member.epoch}), and it does not match the previous member epoch "
        f"({member.previous_epoch}). {abandon}",
    )


def described(
    member: ShareMember, request: ShareGroupHeartbeatRequest, client: Client
) -> ShareMember:
    """A member as its client describes it; a field that a request leaves out stays as it was."""
    names = request.subscribed_topic_names
    return member._replace(
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        client_id=client.client_id,
        client_host=client.host,
        topics=member.topics if names is None else tuple(sorted(set(names))),
    )


def is_full(request: ShareGroupHeartbeatRequest) -> bool:
    """Whether a request has all fields, as after an error; then the answer has all fields too."""
    return request.member_epoch == JOINING_EPOCH or request.subscribed_topic_names is not None


def assignment_of(member: ShareMember) -> Assignment:
    """A member's partitions, for its answer."""
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in sorted(member.assigned.items())
        ]
    )
