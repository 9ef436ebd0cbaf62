"""ConsumerGroupHeartbeat: checks of requests, a member's description, and parts of the answer.

Source: GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid and
GroupMetadataManager.consumerGroupHeartbeat of Kafka 4.3; KIP-848, KIP-1082.
"""

from kwire.coordinator.consumer.member import (
    ConsumerMember,
    Description,
    Owned,
    Partitions,
)
from kwire.coordinator.heartbeat_checks import check_filled, fenced, invalid
from kwire.coordinator.joining import Client
from kwire.coordinator.modern_group import JOINING_EPOCH, LEAVING_EPOCH, STATIC_LEAVING_EPOCH
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)

CLIENT_MADE_IDS_SINCE = 1
"""The first version in which members make their own ids."""


def check_request(
    request: ConsumerGroupHeartbeatRequest, api_version: int, assignors: tuple[str, ...]
) -> None:
    """Raise KafkaError (INVALID_REQUEST, UNSUPPORTED_ASSIGNOR) for an invalid request."""
    epoch = request.member_epoch
    needs_id = api_version >= CLIENT_MADE_IDS_SINCE or epoch > 0 or epoch == LEAVING_EPOCH
    if needs_id and not request.member_id.strip():
        raise invalid("MemberId can't be empty.")
    check_filled(
        ("GroupId", request.group_id),
        ("InstanceId", request.instance_id),
        ("RackId", request.rack_id),
    )
    if epoch == JOINING_EPOCH:
        _check_joining(request)
    elif epoch == STATIC_LEAVING_EPOCH and request.instance_id is None:
        raise invalid("InstanceId can't be null.")
    elif epoch < STATIC_LEAVING_EPOCH:
        raise invalid("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(assignors)}.",
        )


def _check_joining(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise invalid(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining."
        )


def described(
    about: Description, request: ConsumerGroupHeartbeatRequest, client: Client
) -> Description:
    """The description of a member; a field that a request leaves out stays as it was."""
    names = request.subscribed_topic_names
    regex = request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    return Description(
        instance_id=about.instance_id if request.instance_id is None else request.instance_id,
        rack_id=about.rack_id if request.rack_id is None else request.rack_id,
        client_id=client.client_id,
        client_host=client.host,
        topics=about.topics if names is None else tuple(sorted(set(names))),
        regex=about.regex if regex is None else regex,
        rebalance_timeout_ms=about.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        assignor=about.assignor if request.server_assignor is None else request.server_assignor,
    )


def reported_partitions(request: ConsumerGroupHeartbeatRequest) -> Partitions | None:
    """The partitions that a member says it owns; None if it says nothing."""
    if request.topic_partitions is None:
        return None
    return {t.topic_id: frozenset(t.partitions) for t in request.topic_partitions}


def check_epoch(member: ConsumerMember, epoch: int, reported: Partitions | None) -> None:
    """Raise KafkaError (FENCED_MEMBER_EPOCH) unless a member may continue at an epoch.

    A member with the previous epoch may have missed an answer. It may continue if it owns only
    partitions that are assigned to it.
    """
    if epoch in (JOINING_EPOCH, member.epoch):
        return
    is_behind = epoch == member.previous_epoch and epoch < member.epoch
    if not is_behind or not _has_no_more(reported, member.assigned):
        raise fenced("consumer", member, epoch)


def _has_no_more(reported: Partitions | None, assigned: Owned) -> bool:
    return reported is not None and all(
        topic_id in assigned and partitions <= assigned[topic_id].keys()
        for topic_id, partitions in reported.items()
    )


def is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether a request has all fields, as after an error; then the answer has all fields too."""
    if request.member_epoch == JOINING_EPOCH:
        return True
    subscribes = (request.subscribed_topic_names, request.subscribed_topic_regex) != (None, None)
    return (
        request.rebalance_timeout_ms != -1 and subscribes and request.topic_partitions is not None
    )


def assignment_of(member: ConsumerMember) -> Assignment:
    """A member's partitions, for its answer."""
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in sorted(member.assigned.items())
        ]
    )


def has_other_partitions(old: ConsumerMember, new: ConsumerMember) -> bool:
    """Whether a member has gained or lost partitions."""
    return {t: p.keys() for t, p in old.assigned.items()} != {
        t: p.keys() for t, p in new.assigned.items()
    }
