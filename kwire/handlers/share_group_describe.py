"""ShareGroupDescribe: members and assignments of share groups (KIP-932).

Behavior: an unknown group, or a group of another kind, is GROUP_ID_NOT_FOUND. Deleted topics are
left out. The groups' offsets are in DescribeShareGroupOffsets.
"""

from collections.abc import Iterable, Mapping
from functools import partial

from kwire.broker.broker import Broker
from kwire.coordinator.consumer.topics import Topics
from kwire.coordinator.share.member import ShareMember
from kwire.coordinator.share.update import ASSIGNOR
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.modern_groups import (
    bytes_of_member,
    describe_groups,
    described_topics,
    topics_of_members,
)
from kwire.handlers.lib.rights import DESCRIBE, GROUP, each, operations
from kwire.handlers.lib.share_groups import check_share_protocol
from kwire.protocol.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)


async def handle(
    request: ShareGroupDescribeRequest, context: RequestContext
) -> ShareGroupDescribeResponse:
    """Describe every group that the request names."""
    size_of = partial(bytes_of_member, assignments_of=_assignments_of)
    groups = await describe_groups(request, context, DescribedGroup, _describe, size_of)
    return ShareGroupDescribeResponse(groups=groups)


def _assignments_of(member: Member) -> tuple[Assignment, ...]:
    return (member.assignment,)


def _describe(group_id: str, broker: Broker) -> tuple[DescribedGroup, Iterable[Member]]:
    check_share_protocol(broker)
    group = broker.groups.coordinator(group_id).coordinator.share.group(group_id)
    topics = broker.groups.surroundings.topics()
    described = DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=ASSIGNOR,
    )
    return described, (_member(member, topics) for member in group.members.values())


def _member(member: ShareMember, topics: Topics) -> Member:
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        assignment=_assignment(member.assigned, topics),
    )


def _assignment(partitions: Mapping[bytes, Iterable[int]], topics: Topics) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=sorted(indexes))
            for topic_id, indexes in sorted(partitions.items())
            if (topic := topics.by_id(topic_id)) is not None
        ]
    )


RIGHTS = (
    each("group_ids", DESCRIBE, GROUP, is_first=True),
    described_topics(partial(topics_of_members, assignments_of=_assignments_of)),
    operations("groups", GROUP, named="group_id", told="authorized_operations"),
)
