"""DescribeShareGroupOffsets: how far share groups are, and how many records they have left.

Behavior:

- Without topics, the answer has every partition with a share state. A topic or partition that
  doesn't exist, or has no state, has start offset -1.
- A partition's lag counts the records after its start offset that no member has finished
  (KIP-1226); it is -1 if the leader doesn't know a start offset yet. ``share.isolation.level`` says
  which records count.
- A group isn't looked for: one that doesn't exist has no states.
"""

from functools import partial
from typing import TYPE_CHECKING, Any

from kwire.broker.latest_offsets import Place
from kwire.broker.share_lag import ShareLag, share_lags
from kwire.budget.work import Work
from kwire.coordinator.share.group import ShareGroup
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import DESCRIBE, GROUP, TOPIC, Serve, denied, each, right
from kwire.handlers.lib.share_groups import check_share_protocol
from kwire.handlers.lib.slices import give_way
from kwire.handlers.lib.waiting import later
from kwire.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from kwire.share.key import SharePartitionKey
from kwire.share.state_coordinator import NO_STATE

if TYPE_CHECKING:
    from kwire.handlers.lib.authorization import Authorization

BYTES = 40
"""The approximate bytes of a partition in the response."""

_UNKNOWN = ShareLag(NO_STATE, None)


async def handle(
    request: DescribeShareGroupOffsetsRequest, context: RequestContext
) -> DescribeShareGroupOffsetsResponse:
    """Describe every group that the request names."""
    groups = []
    for wanted in request.groups:
        await give_way(context.work)
        try:
            check_share_protocol(context.broker)
            topics = await _describe(wanted, context)
            group = DescribeShareGroupOffsetsResponseGroup(group_id=wanted.group_id, topics=topics)
        except KafkaError as error:
            group = DescribeShareGroupOffsetsResponseGroup(
                group_id=wanted.group_id,
                topics=[],
                error_code=error.code,
                error_message=error.message or None,
            )
        groups.append(group)
    return DescribeShareGroupOffsetsResponse(groups=groups)


async def _describe(
    wanted: DescribeShareGroupOffsetsRequestGroup, context: RequestContext
) -> list[DescribeShareGroupOffsetsResponseTopic]:
    group_id, broker = wanted.group_id, context.broker
    known = broker.groups.surroundings.topics()
    asked: list[tuple[str, list[int]]] = []
    if wanted.topics is not None:
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        asked = [(topic.topic_name, topic.partitions) for topic in wanted.topics]
    elif group_id:
        group = broker.groups.coordinator(group_id).coordinator.groups.get(group_id)
        if isinstance(group, ShareGroup):
            states = group.states.initialized.values()
            asked = sorted((state.name, sorted(state.partitions)) for state in states)
    keys: dict[SharePartitionKey, Place] = {}
    topics = []
    for name, indexes in asked:
        await give_way(context.work)
        topic = known.by_name(name)
        told = DescribeShareGroupOffsetsResponseTopic(topic_name=name, partitions=[])
        if topic is not None:
            told.topic_id = topic.topic_id
        for index in indexes:
            await give_way(context.work)
            context.work.answer(BYTES)
            row = DescribeShareGroupOffsetsResponsePartition(partition_index=index, start_offset=-1)
            told.partitions.append(row)
            if topic is not None and 0 <= index < topic.partitions:
                keys[SharePartitionKey(group_id, topic.topic_id, index)] = name, index
        topics.append(told)
    if keys:
        await _fill_in(group_id, topics, keys, context)
    return topics


async def _fill_in(
    group_id: str,
    topics: list[DescribeShareGroupOffsetsResponseTopic],
    keys: dict[SharePartitionKey, Place],
    context: RequestContext,
) -> None:
    """Fill in what the states say, and the lag."""
    lags = await later(partial(share_lags, context.broker, group_id, keys))
    for topic in topics:
        for row in topic.partitions:
            await give_way(context.work)
            key = SharePartitionKey(group_id, topic.topic_id, row.partition_index)
            summary, lag = lags.get(key, _UNKNOWN)
            if isinstance(summary, KafkaError):
                row.error_code, row.error_message = summary.code, summary.message or None
                continue
            row.start_offset, row.leader_epoch = summary.start_offset, summary.leader_epoch
            if lag is not None:
                row.lag = lag


@right("DESCRIBE on each group, and on each topic, of which others aren't shown")
async def _describe_each(
    request: DescribeShareGroupOffsetsRequest, rights: "Authorization", serve: Serve
) -> Any:
    return await each("groups", DESCRIBE, GROUP, named="group_id", is_first=True).serve(
        request, rights, partial(_serve_visible, rights=rights, serve=serve)
    )


async def _serve_visible(
    request: DescribeShareGroupOffsetsRequest, rights: "Authorization", serve: Serve
) -> Any:
    """Serve the topics that the client may see; those it named otherwise are refused."""
    refused: dict[str, list[DescribeShareGroupOffsetsResponseTopic]] = {}
    shows_all = {group.group_id for group in request.groups if group.topics is None}
    work = rights.context.work
    for group in request.groups:
        names: set[str] = set()
        for topic in group.topics or ():
            await give_way(work)
            names.add(topic.topic_name)
        allowed = await rights.allowed_names(DESCRIBE, TOPIC, names)
        if names - allowed:
            kept = []
            for topic in group.topics or ():
                if topic.topic_name in allowed:
                    await give_way(work)
                    kept.append(topic)
                else:
                    refused.setdefault(group.group_id, []).append(await _refused(topic, work))
            group.topics = kept
    response: DescribeShareGroupOffsetsResponse = await serve(request)
    for told in response.groups:
        await give_way(work)
        if told.group_id in shows_all:
            names = {topic.topic_name for topic in told.topics}
            allowed = await rights.allowed_names(DESCRIBE, TOPIC, names, tells_denied=False)
            told.topics = [topic for topic in told.topics if topic.topic_name in allowed]
        told.topics += refused.get(told.group_id, [])
    return response


async def _refused(
    topic: DescribeShareGroupOffsetsRequestTopic, work: Work
) -> DescribeShareGroupOffsetsResponseTopic:
    error = denied(TOPIC)
    rows = []
    for index in topic.partitions:
        await give_way(work)
        rows.append(
            DescribeShareGroupOffsetsResponsePartition(
                partition_index=index, error_code=error.code, error_message=error.message
            )
        )
    return DescribeShareGroupOffsetsResponseTopic(topic_name=topic.topic_name, partitions=rows)


RIGHTS = (_describe_each,)
