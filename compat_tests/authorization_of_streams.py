"""What the APIs of streams groups need; see ``authorization_cases``."""

from compat_tests.authorization_cases import NO_GROUP, NO_TOPIC, NONE, Case, D, G, R, T, Things
from kwire.protocol.messages import (
    streams_group_describe,
    streams_group_heartbeat,
    streams_group_topology_description_update,
)
from kwire.protocol.types import Request


def _describe_topology(m: Things) -> Request:
    api = streams_group_topology_description_update
    return api.StreamsGroupTopologyDescriptionUpdateRequest(group_id=m.group, member_id="m")


def _heartbeat(m: Things) -> Request:
    api = streams_group_heartbeat
    part = api.Subtopology(subtopology_id="0", source_topics=[m.topic])
    return api.StreamsGroupHeartbeatRequest(
        group_id=m.group,
        member_id="VDdqRwIyRk6fPpCwVHJwmQ",
        rebalance_timeout_ms=1000,
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        topology=api.Topology(subtopologies=[part]),
    )


def _describe(m: Things) -> Request:
    return streams_group_describe.StreamsGroupDescribeRequest(group_ids=[m.group])


CASES = (
    Case("StreamsGroupHeartbeat", _heartbeat, 1, ((G, R), (T, D)), NO_GROUP, NO_GROUP),
    Case("a topology's topics", _heartbeat, 1, ((T, D),), NO_TOPIC, NONE, ((G, R),)),
    Case("StreamsGroupDescribe", _describe, 1, ((G, D),), NO_GROUP, NONE),
    Case(
        "StreamsGroupTopologyDescriptionUpdate",
        *(_describe_topology, 0, ((G, R),), NO_GROUP, NO_GROUP),
    ),
)
