"""ConsumerGroupDescribe: members, assignments and targets of consumer groups (KIP-848).

Behavior: an unknown group, or a group of another kind, is GROUP_ID_NOT_FOUND. From version 1 on, a
member's protocol is shown. A partition that a member has to give back is shown as assigned until
the member has given it back. Deleted topics are left out.
"""

from collections.abc import Iterable, Mapping
from functools import partial

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
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.modern_groups import (
    bytes_of_member,
    describe_groups,
    described_topics,
    topics_of_members,
)
from kwire.handlers.lib.rights import DESCRIBE, GROUP, each, operations
from kwire.metadata.features import GROUP_VERSION
from kwire.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)


async def handle(
    request: ConsumerGroupDescribeRequest, context: RequestContext
) -> ConsumerGroupDescribeResponse:
    """Describe every group that the request names."""
    size_of = partial(bytes_of_member, assignments_of=_assignments_of)
    groups = await describe_groups(request, context, DescribedGroup, _describe, size_of)
    return ConsumerGroupDescribeResponse(groups=groups)


def _assignments_of(member: Member) -> tuple[Assignment, ...]:
    return member.assignment, member.target_assignment


def _describe(group_id: str, broker: Broker) -> tuple[DescribedGroup, Iterable[Member]]:
    check_consumer_protocol(broker)
    group = broker.groups.coordinator(group_id).coordinator.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        what = "not found" if group is None else "is not a consumer group"
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {what}.")
    surroundings = broker.groups.surroundings
    default = surroundings.settings_of(group_id).assignors[0]
    topics = surroundings.topics()
    described = DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.preferred_assignor(default),
    )
    now = group.copy()  # the group may change while its members are described
    return described, (_member(now, member, topics) for member in now.members.values())


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


RIGHTS = (
    each("group_ids", DESCRIBE, GROUP, is_first=True),
    described_topics(partial(topics_of_members, assignments_of=_assignments_of)),
    operations("groups", GROUP, named="group_id", told="authorized_operations"),
)
