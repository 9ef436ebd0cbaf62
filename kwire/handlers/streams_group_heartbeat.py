"""StreamsGroupHeartbeat: a member of a streams group joins, stays, or leaves (KIP-1071).

Behavior: the answer comes at once, unless internal topics have to be created first. It says when
the member has to send its next heartbeat: soon while the group is unsettled.
"""

from collections.abc import Iterable, Iterator
from functools import partial

from kwire.coordinator.group_coordinator import GroupCoordinator
from kwire.coordinator.streams.coordinator import StreamsGroups
from kwire.coordinator.streams.topology.configured import StatusCode
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.member_size import check_member_size
from kwire.handlers.lib.modern_groups import heartbeat, subscribed_topics
from kwire.handlers.lib.rights import GROUP, READ, once
from kwire.handlers.lib.streams_groups import check_streams_protocol
from kwire.handlers.lib.streams_internal_topics import create_internal_topics
from kwire.handlers.lib.waiting import later
from kwire.metadata.controller import check_topic_name
from kwire.metadata.image import INTERNAL_TOPICS
from kwire.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Topology,
)

BYTES_PER_NUMBER = 16
"""The memory that a number takes in a list, roughly."""

_refused = partial(StreamsGroupHeartbeatResponse, status=[])


async def handle(
    request: StreamsGroupHeartbeatRequest, context: RequestContext
) -> StreamsGroupHeartbeatResponse:
    """Take the member one step further, and create internal topics that it finds missing."""
    taken: list[StreamsGroups] = []

    def streams_of(groups: GroupCoordinator) -> StreamsGroups:
        taken.append(groups.streams)
        return groups.streams

    async def check_ahead() -> None:
        check_streams_protocol(context.broker)
        await check_member_size(_kept(request), context)
        if request.topology is not None:
            _check_topics(request.topology)

    response = await heartbeat(request, context, _refused, streams_of, check_ahead)
    for status in response.status or ():
        if status.status_code == StatusCode.MISSING_INTERNAL_TOPICS:
            missing = taken[0].missing_topics(request.group_id)
            if missing:
                creation = partial(create_internal_topics, missing, context)
                status.status_detail += await later(creation)
    return response


def _kept(request: StreamsGroupHeartbeatRequest) -> Iterator[int]:
    """The bytes of each item of a request that a group keeps, or looks at in one step."""
    host = request.user_endpoint.host if request.user_endpoint else ""
    for text in (request.member_id, request.instance_id, request.rack_id, request.process_id, host):
        yield len(text or "")
    for tag in request.client_tags or ():
        yield len(tag.key) + len(tag.value)
    for tasks in (request.active_tasks, request.standby_tasks, request.warmup_tasks):
        for ids in tasks or ():
            yield len(ids.subtopology_id) + len(ids.partitions) * BYTES_PER_NUMBER
    for task in (*(request.task_offsets or ()), *(request.task_end_offsets or ())):
        yield len(task.subtopology_id)
    for one in request.topology.subtopologies if request.topology else ():
        yield len(one.subtopology_id)
        yield from map(len, one.source_topics)
        yield from map(len, one.repartition_sink_topics)
        for topic in (*one.repartition_source_topics, *one.state_changelog_topics):
            yield len(topic.name)
            yield from (len(config.key) + len(config.value) for config in topic.topic_configs)
        for group in one.copartition_groups:
            indexes = (
                group.source_topics,
                group.source_topic_regex,
                group.repartition_source_topics,
            )
            yield sum(map(len, indexes)) * BYTES_PER_NUMBER


def _subscribed(request: StreamsGroupHeartbeatRequest) -> Iterable[str]:
    return _topics(request.topology) if request.topology else ()


def _topics(topology: Topology) -> Iterator[str]:
    """The names of the topics of a topology."""
    for one in topology.subtopologies:
        yield from one.source_topics
        yield from one.repartition_sink_topics
        for topic in (*one.repartition_source_topics, *one.state_changelog_topics):
            yield topic.name


def _check_topics(topology: Topology) -> None:
    """Raise KafkaError (STREAMS_INVALID_TOPOLOGY) for names of topics that may not be there."""
    names = list(_topics(topology))
    prohibited = [name for name in names if name in INTERNAL_TOPICS]
    if prohibited:
        raise KafkaError(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"Use of Kafka internal topics {','.join(prohibited)} in a Kafka Streams topology is "
            "prohibited.",
        )
    invalid = [name for name in names if not _is_valid(name)]
    if invalid:
        raise KafkaError(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"Topic names {','.join(invalid)} are not valid topic names.",
        )


def _is_valid(name: str) -> bool:
    try:
        check_topic_name(name)
    except KafkaError:
        return False
    return True


RIGHTS = (
    once(READ, of=GROUP),
    subscribed_topics(
        _refused,
        _subscribed,
        "DESCRIBE on every topic of the topology; CREATE on the internal topics that are missing",
    ),
)
