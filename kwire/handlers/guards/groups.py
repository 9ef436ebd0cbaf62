"""The rights for the APIs of groups: READ for members, DESCRIBE to describe, DELETE to delete.

Source: KafkaApis of Kafka.
"""

from collections.abc import Callable
from typing import Any

from kwire.handlers.guards.authorization import FAILED, Authorization, Guard
from kwire.handlers.lib.context import NOT_ASKED
from kwire.handlers.lib.slices import distinct, give_way, pieces
from kwire.metadata.acls import AclOperation, ResourceType
from kwire.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kwire.protocol.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from kwire.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kwire.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from kwire.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kwire.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kwire.protocol.messages.heartbeat import HeartbeatResponse
from kwire.protocol.messages.join_group import JoinGroupResponse
from kwire.protocol.messages.leave_group import LeaveGroupResponse
from kwire.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kwire.protocol.messages.sync_group import SyncGroupResponse

GROUP, TRANSACTION = 0, 1
BATCHED_SINCE = 4
NULL_NAMES_SINCE = 7

_FAILED = FAILED[ResourceType.GROUP]


def _member(refuse: Callable[[Authorization], Any]) -> Guard:
    """The guard of an API for members of a group: READ, or the response that ``refuse`` makes."""

    async def guard(request: Any, rights: Authorization) -> Any:
        if rights.may(AclOperation.READ, ResourceType.GROUP, request.group_id):
            return await rights.serve(request)
        return refuse(rights)

    guard.__doc__ = "READ on the group."
    return guard


def _no_join(rights: Authorization) -> JoinGroupResponse:
    name = None if rights.context.api_version >= NULL_NAMES_SINCE else ""
    return JoinGroupResponse(error_code=_FAILED, protocol_name=name)


join_group = _member(_no_join)
sync_group = _member(lambda _: SyncGroupResponse(error_code=_FAILED))
heartbeat = _member(lambda _: HeartbeatResponse(error_code=_FAILED))
leave_group = _member(lambda _: LeaveGroupResponse(error_code=_FAILED))


async def consumer_group_heartbeat(
    request: ConsumerGroupHeartbeatRequest, rights: Authorization
) -> ConsumerGroupHeartbeatResponse:
    """READ on the group, and DESCRIBE on every topic that the member subscribes to by name."""
    if not rights.may(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return ConsumerGroupHeartbeatResponse(error_code=_FAILED)
    names = set(request.subscribed_topic_names or ())
    if names - await rights.allowed_names(AclOperation.DESCRIBE, ResourceType.TOPIC, names):
        return ConsumerGroupHeartbeatResponse(error_code=FAILED[ResourceType.TOPIC])
    response: ConsumerGroupHeartbeatResponse = await rights.serve(request)
    return response


async def describe_groups(
    request: DescribeGroupsRequest, rights: Authorization
) -> DescribeGroupsResponse:
    """DESCRIBE on each group."""
    allowed = await rights.allowed_names(AclOperation.DESCRIBE, ResourceType.GROUP, request.groups)
    request.groups, denied = await rights.split(allowed.__contains__, request.groups)
    others = await rights.make_each(
        lambda group_id: DescribedGroup(error_code=_FAILED, group_id=group_id), denied
    )
    response: DescribeGroupsResponse = await rights.serve(request)
    await _tell_operations(response.groups, rights)
    response.groups[:0] = others
    return response


async def consumer_group_describe(
    request: ConsumerGroupDescribeRequest, rights: Authorization
) -> ConsumerGroupDescribeResponse:
    """DESCRIBE on each group, and on every topic that its members have or subscribe to."""
    allowed = await rights.allowed_names(
        AclOperation.DESCRIBE, ResourceType.GROUP, request.group_ids
    )
    request.group_ids, denied = await rights.split(allowed.__contains__, request.group_ids)
    others = await rights.make_each(
        lambda group_id: DescribedConsumerGroup(error_code=_FAILED, group_id=group_id), denied
    )
    response: ConsumerGroupDescribeResponse = await rights.serve(request)
    await _tell_operations(response.groups, rights)
    with_members, _ = await rights.split(lambda group: bool(group.members), response.groups)
    for group in with_members:
        names = await _topics_of(group, rights)
        if names - await rights.allowed_names(
            AclOperation.DESCRIBE, ResourceType.TOPIC, names, tells_denied=False
        ):
            group.error_code = FAILED[ResourceType.TOPIC]
            group.error_message = (
                "The group has described topic(s) that the client is not authorized to describe."
            )
            group.members = []
    response.groups[:0] = others
    return response


async def _topics_of(group: DescribedConsumerGroup, rights: Authorization) -> set[str]:
    """The names of all topics in the description of a group."""
    names: set[str] = set()
    for member in group.members:
        await give_way(rights.context.work)
        names.update(member.subscribed_topic_names)
        for assignment in (member.assignment, member.target_assignment):
            names.update(topic.topic_name for topic in assignment.topic_partitions)
    return names


async def _tell_operations(groups: list[Any], rights: Authorization) -> None:
    """Fill in the operations that the client may do to groups, if the request asks for them."""
    for piece in pieces(groups):
        await give_way(rights.context.work)
        for group in piece:
            if group.authorized_operations != NOT_ASKED:
                group.authorized_operations = rights.operations(ResourceType.GROUP, group.group_id)


async def list_groups(request: ListGroupsRequest, rights: Authorization) -> ListGroupsResponse:
    """DESCRIBE on the cluster for every group, otherwise DESCRIBE on each group that is listed."""
    response: ListGroupsResponse = await rights.serve(request)
    if not rights.may_on_cluster(AclOperation.DESCRIBE, tells_denied=False):
        ids = await rights.make_each(lambda group: group.group_id, response.groups)
        allowed = await rights.allowed_names(
            AclOperation.DESCRIBE, ResourceType.GROUP, ids, tells_denied=False
        )
        response.groups, _ = await rights.split(
            lambda group: group.group_id in allowed, response.groups
        )
    return response


async def delete_groups(
    request: DeleteGroupsRequest, rights: Authorization
) -> DeleteGroupsResponse:
    """DELETE on each group."""
    allowed = await rights.allowed_names(
        AclOperation.DELETE, ResourceType.GROUP, request.groups_names
    )
    request.groups_names, denied = await rights.split(allowed.__contains__, request.groups_names)
    others = await rights.make_each(
        lambda group_id: DeletableGroupResult(group_id=group_id, error_code=_FAILED),
        list(await distinct(denied, rights.context.work)),
    )
    response: DeleteGroupsResponse = await rights.serve(request)
    response.results += others
    return response


async def find_coordinator(
    request: FindCoordinatorRequest, rights: Authorization
) -> FindCoordinatorResponse:
    """DESCRIBE on each group or transactional id."""
    if request.key_type not in (GROUP, TRANSACTION):
        answer: FindCoordinatorResponse = await rights.serve(request)
        return answer
    kind = ResourceType.GROUP if request.key_type == GROUP else ResourceType.TRANSACTIONAL_ID
    if rights.context.api_version < BATCHED_SINCE:
        if rights.may(AclOperation.DESCRIBE, kind, request.key):
            single: FindCoordinatorResponse = await rights.serve(request)
            return single
        return FindCoordinatorResponse(error_code=FAILED[kind], node_id=-1, host="", port=-1)
    allowed = await rights.allowed_names(AclOperation.DESCRIBE, kind, request.coordinator_keys)
    keys, denied = await rights.split(allowed.__contains__, request.coordinator_keys)
    request.coordinator_keys = keys
    others = await rights.make_each(
        lambda key: Coordinator(key=key, node_id=-1, host="", port=-1, error_code=FAILED[kind]),
        denied,
    )
    response: FindCoordinatorResponse = await rights.serve(request)
    response.coordinators += others
    return response
