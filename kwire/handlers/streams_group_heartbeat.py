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
        await check_member_size(list(_texts(request)), len, context)
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


def _texts(request: StreamsGroupHeartbeatRequest) -> Iterator[str]:
    """The texts of a request that a group keeps."""
    yield from (request.member_id, request.instance_id or "", request.rack_id or "")
    yield request.process_id or ""
    if request.user_endpoint is not None:
        yield request.user_endpoint.host
    for tag in request.client_tags or ():
        yield tag.key
        yield tag.value
    for one in request.topology.subtopologies if request.topology else ():
        yield one.subtopology_id
        yield from one.source_topics
        yield from one.repartition_sink_topics
        for topic in (*one.repartition_source_topics, *one.state_changelog_topics):
            yield topic.name
            for config in topic.topic_configs:
                yield config.key
                yield config.value


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
