"""ConsumerGroupDescribe: members, assignments and targets of consumer groups (KIP-848).

Behavior: an unknown group, or a group of another kind, is GROUP_ID_NOT_FOUND. From version 1 on, a
member's protocol is shown. A partition that a member has to give back is shown as assigned until
the member has given it back. Deleted topics are left out.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kwire.broker.broker import Broker
from kwire.coordinator.consumer.group import ConsumerGroup
from kwire.coordinator.consumer.member import (
    CLASSIC_MEMBER_TYPE,
    CONSUMER_MEMBER_TYPE,
    ConsumerMember,
)
from kwire.coordinator.consumer.topics import Topics
from kwire.coordinator.group import GroupType
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import GROUP_OPERATIONS, NOT_ASKED, RequestContext
from kwire.handlers.lib.rights import DESCRIBE, FAILED, GROUP, TOPIC, Serve, each, operations, right
from kwire.handlers.lib.slices import give_way
from kwire.metadata.features import GROUP_VERSION
from kwire.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

if TYPE_CHECKING:
    from kwire.handlers.lib.authorization import Authorization

BYTES = 50


async def handle(
    request: ConsumerGroupDescribeRequest, context: RequestContext
) -> ConsumerGroupDescribeResponse:
    """Describe every group that the request names."""
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NOT_ASKED
    work = context.work
    described: dict[str, tuple[DescribedGroup, int]] = {}
    groups = []
    for group_id in request.group_ids:
        await give_way(work)
        if group_id not in described:
            group = _description_or_error(group_id, operations, context)
            size_bytes = BYTES + sum(_size_bytes(member) for member in group.members)
            described[group_id] = group, size_bytes
        group, size_bytes = described[group_id]
        work.answer(size_bytes)
        groups.append(group)
    return ConsumerGroupDescribeResponse(groups=groups)


def _size_bytes(member: Member) -> int:
    """The approximate size of a member in the response."""
    size_bytes = BYTES + sum(len(name) for name in member.subscribed_topic_names)
    for assignment in (member.assignment, member.target_assignment):
        size_bytes += sum(BYTES + 4 * len(t.partitions) for t in assignment.topic_partitions)
    return size_bytes


def _description_or_error(
    group_id: str, operations: int, context: RequestContext
) -> DescribedGroup:
    try:
        group = _describe(group_id, context)
        group.authorized_operations = operations
    except KafkaError as error:
        group = DescribedGroup(
            group_id=group_id, error_code=error.code, error_message=error.message or None
        )
    return group


def _describe(group_id: str, context: RequestContext) -> DescribedGroup:
    check_consumer_protocol(context.broker)
    group = context.broker.groups.coordinator(group_id).groups.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        what = "not found" if group is None else "is not a consumer group"
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {what}.")
    surroundings = context.broker.groups.surroundings
    default = surroundings.settings_of(group_id).assignors[0]
    topics = surroundings.topics()
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.preferred_assignor(default),
        members=[_member(group, member, topics) for member in group.members.values()],
    )


def _member(group: ConsumerGroup, member: ConsumerMember, topics: Topics) -> Member:
    about = member.about
    return Member(
        member_id=member.member_id,
        instance_id=about.instance_id,
        rack_id=about.rack_id,
        member_epoch=member.epoch,
        client_id=about.client_id,
        client_host=about.client_host,
        subscribed_topic_names=list(about.topics),
        subscribed_topic_regex=about.regex,
        assignment=_assignment(member.owned, topics),
        target_assignment=_assignment(group.target_of(member.member_id), topics),
        member_type=CLASSIC_MEMBER_TYPE if member.is_classic else CONSUMER_MEMBER_TYPE,
    )


def _assignment(partitions: Mapping[bytes, Iterable[int]], topics: Topics) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=sorted(indexes))
            for topic_id, indexes in partitions.items()
            if (topic := topics.by_id(topic_id)) is not None
        ]
    )


def check_consumer_protocol(broker: Broker) -> None:
    """Raise KafkaError (UNSUPPORTED_VERSION) if the consumer group protocol is switched off.

    The setting ``group.coordinator.rebalance.protocols`` or the feature ``group.version`` decides.
    """
    allowed = broker.setting("group.coordinator.rebalance.protocols")
    assert isinstance(allowed, Iterable)
    if GroupType.CONSUMER.value not in allowed or not broker.image.feature_level(GROUP_VERSION):
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, "The consumer group protocol is switched off."
        )


@right("on every topic that its members have or subscribe to")
async def _describe_topics(
    request: ConsumerGroupDescribeRequest, rights: "Authorization", serve: Serve
) -> Any:
    response: ConsumerGroupDescribeResponse = await serve(request)
    with_members, _ = await rights.split(lambda group: bool(group.members), response.groups)
    for group in with_members:
        names = await _topics_of(group, rights)
        if names - await rights.allowed_names(DESCRIBE, TOPIC, names, tells_denied=False):
            group.error_code = FAILED[TOPIC]
            group.error_message = (
                "The group has described topic(s) that the client is not authorized to describe."
            )
            group.members = []
    return response


async def _topics_of(group: DescribedGroup, rights: "Authorization") -> set[str]:
    """The names of all topics in the description of a group."""
    names: set[str] = set()
    for member in group.members:
        await give_way(rights.context.work)
        names.update(member.subscribed_topic_names)
        for assignment in (member.assignment, member.target_assignment):
            names.update(topic.topic_name for topic in assignment.topic_partitions)
    return names


RIGHTS = (
    each("group_ids", DESCRIBE, GROUP, is_first=True),
    _describe_topics,
    operations("groups", GROUP, named="group_id", told="authorized_operations"),
)
