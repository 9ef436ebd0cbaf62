"""Members and lag of all groups: a few requests for each broker, however many groups it has."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kwire.client.cluster import Cluster, check
from kwire.client.errors import NotSupported
from kwire.client.groups import GroupView, view_of_classic, view_of_modern
from kwire.client.leaders import TopicPartition
from kwire.client.offsets import EARLIEST, LATEST, list_offsets
from kwire.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kwire.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kwire.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
)
from kwire.protocol.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kwire.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from kwire.protocol.messages.share_group_describe import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from kwire.protocol.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)

_FIRST_FOR_MANY_GROUPS = 8
_NEWEST_WITH_NAMES = 9
_SHARE = "share"


class GroupOverview(NamedTuple):
    """A group in a list; members and lag are None if they are not known.

    The lag counts partitions with a committed offset and, from the first record on, those that
    a member has without one. Of a share group it counts the records that are not done.
    """

    listed: ListedGroup
    members: int | None
    lag: int | None


class _Members(NamedTuple):
    """How many members a group has, and the partitions that they have."""

    members: int
    partitions: frozenset[TopicPartition] = frozenset()


async def types_of_groups(cluster: Cluster) -> dict[str, str]:
    """The type of every group by its id, empty if it isn't known; KafkaError."""
    await cluster.metadata()
    found = [one for node in await cluster.nodes() for one in await _list_groups(cluster, node)]
    return {group.group_id: group.group_type for group in found}


async def overview_of_groups(cluster: Cluster) -> list[GroupOverview]:
    """The groups of every broker, sorted by id; KafkaError."""
    await cluster.metadata()
    listed: list[ListedGroup] = []
    members: dict[str, _Members] = {}
    committed: dict[str, dict[TopicPartition, int]] = {}
    left: dict[str, int] = {}
    for node in await cluster.nodes():
        mine = await _list_groups(cluster, node)
        listed += mine
        for kind in {group.group_type for group in mine}:
            names = [group.group_id for group in mine if group.group_type == kind]
            members |= await _members(cluster, node, kind, names)
        names = [group.group_id for group in mine if group.group_type != _SHARE]
        committed |= await _committed(cluster, node, names)
        names = [group.group_id for group in mine if group.group_type == _SHARE]
        left |= await _left_in_share_groups(cluster, node, names)
    uncommitted = {
        one
        for name, found in members.items()
        for one in found.partitions - committed.get(name, {}).keys()
    }
    starts = await list_offsets(cluster, dict.fromkeys(uncommitted, EARLIEST), once=True)
    partitions = uncommitted.union(*committed.values())
    ends = await list_offsets(cluster, dict.fromkeys(partitions, LATEST), once=True)

    def lag(name: str) -> int | None:
        if name in left:
            return left[name]
        offsets = {one: starts[one] for one in _assigned(members, name) if one in starts}
        known = [
            max(end - offset, 0)
            for one, offset in (offsets | committed.get(name, {})).items()
            if isinstance(end := ends[one], int) and isinstance(offset, int)
        ]
        return sum(known) if known else None

    return [
        GroupOverview(
            group,
            members[group.group_id].members if group.group_id in members else None,
            lag(group.group_id),
        )
        for group in sorted(listed, key=lambda group: group.group_id)
    ]


def _assigned(members: Mapping[str, _Members], name: str) -> frozenset[TopicPartition]:
    return members[name].partitions if name in members else frozenset()


async def _list_groups(cluster: Cluster, node: int) -> list[ListedGroup]:
    async def attempt() -> ListGroupsResponse:
        answer = await cluster.ask(ListGroupsRequest(), ListGroupsResponse, node=node)
        check(answer.error_code, f"groups of broker {node}")
        return answer

    return (await cluster.retrying(attempt)).groups


async def _members(
    cluster: Cluster, node: int, kind: str, names: Sequence[str]
) -> dict[str, _Members]:
    """The members of each group of one type; without groups that may not be described."""
    ids = list(names)
    answer: ShareGroupDescribeResponse | StreamsGroupDescribeResponse
    try:
        if kind == "consumer":
            described = await cluster.ask(
                ConsumerGroupDescribeRequest(group_ids=ids),
                ConsumerGroupDescribeResponse,
                node=node,
            )
            found = (row for row in described.groups if not row.error_code)
            return _of(view_of_modern(row, kind, node) for row in found)
        if kind == _SHARE:
            answer = await cluster.ask(
                ShareGroupDescribeRequest(group_ids=ids), ShareGroupDescribeResponse, node=node
            )
        elif kind == "streams":
            answer = await cluster.ask(
                StreamsGroupDescribeRequest(group_ids=ids), StreamsGroupDescribeResponse, node=node
            )
        else:
            classic = await cluster.ask(
                DescribeGroupsRequest(groups=ids), DescribeGroupsResponse, node=node
            )
            return _of(view_of_classic(row, node) for row in classic.groups if not row.error_code)
    except NotSupported:
        return {}
    return {row.group_id: _Members(len(row.members)) for row in answer.groups if not row.error_code}


def _of(groups: Iterable[GroupView]) -> dict[str, _Members]:
    return {
        group.group: _Members(
            len(group.members),
            frozenset(one for member in group.members for one in member.partitions),
        )
        for group in groups
    }


async def _left_in_share_groups(
    cluster: Cluster, node: int, names: Sequence[str]
) -> dict[str, int]:
    """How many records share groups have left, as far as that is known."""
    if not names:
        return {}
    request = DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id=name, topics=None) for name in names]
    )
    try:
        answer = await cluster.ask(request, DescribeShareGroupOffsetsResponse, node=node)
    except NotSupported:
        return {}
    known = {
        group.group_id: [
            row.lag
            for topic in group.topics
            for row in topic.partitions
            if not row.error_code and row.lag >= 0
        ]
        for group in answer.groups
        if not group.error_code
    }
    return {name: sum(lags) for name, lags in known.items() if lags}


async def _committed(
    cluster: Cluster, node: int, names: Sequence[str]
) -> dict[str, dict[TopicPartition, int]]:
    """The committed offsets of groups; without those that may not be read."""
    peer = await cluster.peer(node)
    newest = (await peer.served()).ranges.get(OffsetFetchRequest.API_KEY, (0, 0))[1]
    if not names or newest < _FIRST_FOR_MANY_GROUPS:
        return {}
    request = OffsetFetchRequest(
        group_id="",
        groups=[OffsetFetchRequestGroup(group_id=name, topics=None) for name in names],
    )
    answer = await peer.ask(request, OffsetFetchResponse, at_most=_NEWEST_WITH_NAMES)
    return {
        group.group_id: {
            TopicPartition(topic.name, row.partition_index): row.committed_offset
            for topic in group.topics
            for row in topic.partitions
            if not row.error_code and row.committed_offset >= 0
        }
        for group in answer.groups
        if not group.error_code
    }
