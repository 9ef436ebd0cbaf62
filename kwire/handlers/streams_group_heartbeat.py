"""StreamsGroupHeartbeat: a member of a streams group joins, stays, or leaves (KIP-1071).

Behavior: the answer comes at once, unless internal topics have to be created first. It says when
the member has to send its next heartbeat: soon while the group is unsettled.
"""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from kwire.coordinator.joining import Client
from kwire.coordinator.streams.topology.configured import StatusCode
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.member_size import check_member_size
from kwire.handlers.lib.replies import answer
from kwire.handlers.lib.rights import DESCRIBE, FAILED, GROUP, READ, TOPIC, Serve, once, right
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
from kwire.runtime import Reply

if TYPE_CHECKING:
    from kwire.handlers.lib.authorization import Authorization


async def handle(
    request: StreamsGroupHeartbeatRequest, context: RequestContext
) -> StreamsGroupHeartbeatResponse:
    """Take the member one step further, and create internal topics that it finds missing."""
    client = Client(context.client_id or "", context.client_host, context.api_version)
    reply = Reply()
    groups = context.broker.groups
    try:
        check_streams_protocol(context.broker)
        await check_member_size(list(_texts(request)), len, context)
        if request.topology is not None:
            _check_topics(request.topology)
        home = groups.coordinator_or_empty(request.group_id)
        home.carry_out(home.groups.streams.heartbeat(request, client, reply, groups.now_ms()))
    except KafkaError as error:
        return StreamsGroupHeartbeatResponse(
            error_code=error.code, error_message=error.message or None, status=[]
        )
    response = await answer(reply, context)
    assert isinstance(response, StreamsGroupHeartbeatResponse)
    for status in response.status or ():
        if status.status_code == StatusCode.MISSING_INTERNAL_TOPICS:
            missing = home.groups.streams.missing_topics(request.group_id)
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


@right("DESCRIBE on every topic of the topology; CREATE on the internal topics that are missing")
async def _describe_topics(
    request: StreamsGroupHeartbeatRequest, rights: "Authorization", serve: Serve
) -> Any:
    names = set(_topics(request.topology)) if request.topology else set()
    if names - await rights.allowed_names(DESCRIBE, TOPIC, names):
        return StreamsGroupHeartbeatResponse(error_code=FAILED[TOPIC], status=[])
    return await serve(request)


RIGHTS = (once(READ, of=GROUP), _describe_topics)
