"""ShareGroupDescribe: members and assignments of share groups (KIP-932).

Behavior: an unknown group, or a group of another kind, is GROUP_ID_NOT_FOUND. Deleted topics are
left out. The groups' offsets are in DescribeShareGroupOffsets.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kwire.coordinator.consumer.topics import Topics
from kwire.coordinator.share.group import ShareGroup
from kwire.coordinator.share.member import ShareMember
from kwire.coordinator.share.update import ASSIGNOR
from kwire.errors import KafkaError
from kwire.handlers.lib.context import GROUP_OPERATIONS, NOT_ASKED, RequestContext
from kwire.handlers.lib.rights import DESCRIBE, FAILED, GROUP, TOPIC, Serve, each, operations, right
from kwire.handlers.lib.share_groups import check_share_protocol
from kwire.handlers.lib.slices import give_way
from kwire.protocol.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from kwire.handlers.lib.authorization import Authorization

BYTES = 50
"""The bytes that each part of a response has without its names and numbers."""


async def handle(
    request: ShareGroupDescribeRequest, context: RequestContext
) -> ShareGroupDescribeResponse:
    """Describe every group that the request names."""
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NOT_ASKED
    work = context.work
    described: dict[str, tuple[DescribedGroup, int]] = {}
    groups = []
    for group_id in request.group_ids:
        await give_way(work)
        if group_id not in described:
            group = _description_or_error(group_id, operations, context)
            size_bytes = BYTES + sum(map(_size_bytes, group.members))
            described[group_id] = group, size_bytes
        group, size_bytes = described[group_id]
        work.answer(size_bytes)
        groups.append(group)
    return ShareGroupDescribeResponse(groups=groups)


def _size_bytes(member: Member) -> int:
    """The approximate size of a member in the response."""
    names_bytes = sum(map(len, member.subscribed_topic_names))
    partitions = sum(BYTES + 4 * len(t.partitions) for t in member.assignment.topic_partitions)
    return BYTES + names_bytes + partitions


def _description_or_error(
    group_id: str, operations: int, context: RequestContext
) -> DescribedGroup:
    try:
        check_share_protocol(context.broker)
        home = context.broker.groups.coordinator(group_id)
        group = _describe(
            home.groups.share.group(group_id), context.broker.groups.surroundings.topics()
        )
        group.authorized_operations = operations
    except KafkaError as error:
        group = DescribedGroup(
            group_id=group_id, error_code=error.code, error_message=error.message or None
        )
    return group


def _describe(group: ShareGroup, topics: Topics) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=ASSIGNOR,
        members=[_member(member, topics) for member in group.members.values()],
    )


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


@right("on every topic that its members have or subscribe to")
async def _describe_topics(
    request: ShareGroupDescribeRequest, rights: "Authorization", serve: Serve
) -> Any:
    response: ShareGroupDescribeResponse = await serve(request)
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
        names.update(topic.topic_name for topic in member.assignment.topic_partitions)
    return names


RIGHTS = (
    each("group_ids", DESCRIBE, GROUP, is_first=True),
    _describe_topics,
    operations("groups", GROUP, named="group_id", told="authorized_operations"),
)
