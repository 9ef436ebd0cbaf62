"""ShareGroupHeartbeat: checks of requests, a member's description, and parts of the answer.

Source: GroupCoordinatorService.throwIfShareGroupHeartbeatRequestIsInvalid and
GroupMetadataManager.shareGroupHeartbeat of Kafka 4.4, and what a broker of Kafka 4.4.0 answers.
"""

from kwire.coordinator.heartbeat_checks import check_filled, fenced, invalid
from kwire.coordinator.joining import Client
from kwire.coordinator.modern_group import JOINING_EPOCH, LEAVING_EPOCH
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
    check_filled(
        ("MemberId", request.member_id),
        ("GroupId", request.group_id),
        ("RackId", request.rack_id),
    )
    if request.member_epoch == JOINING_EPOCH and not request.subscribed_topic_names:
        raise invalid("SubscribedTopicNames must be set in first request.")
    if request.member_epoch < LEAVING_EPOCH:
        raise invalid("MemberEpoch is invalid.")


def check_epoch(member: ShareMember, epoch: int) -> None:
    """Raise KafkaError (FENCED_MEMBER_EPOCH) unless a member may continue at an epoch.

    A member with the previous epoch may have missed an answer.
    """
    if epoch in (JOINING_EPOCH, member.epoch, member.previous_epoch):
        return
    also = f", and it does not match the previous member epoch ({member.previous_epoch})"
    raise fenced("share", member, epoch, "" if epoch > member.epoch else also)


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
