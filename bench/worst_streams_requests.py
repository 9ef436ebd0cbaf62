"""The requests about streams groups that cost most; a part of ``bench.worst_requests``."""

from kwire.protocol.messages import (
    streams_group_describe,
    streams_group_heartbeat,
    streams_group_topology_description_update,
)


def _describe_topology(count):
    """Many nodes that read many topics."""
    api = streams_group_topology_description_update
    node = api.TopologyDescriptionNode(name="n", node_type=1, source_topics=["t"])
    parts = [
        api.TopologyDescriptionSubtopology(subtopology_id=str(number), nodes=[node])
        for number in range(count)
    ]
    return api.StreamsGroupTopologyDescriptionUpdateRequest(
        group_id="big",
        member_id="m",
        topology_description=api.TopologyDescription(subtopologies=parts),
    )


def _heartbeat(count):
    """A topology of many parts, none of whose topics exist."""
    api = streams_group_heartbeat
    parts = [
        api.Subtopology(subtopology_id=str(n), source_topics=[f"name-{n}", f"other-{n}"])
        for n in range(0, count, 2)
    ]
    return api.StreamsGroupHeartbeatRequest(
        group_id="big",
        member_id="m",
        rebalance_timeout_ms=1000,
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        topology=api.Topology(subtopologies=parts),
    )


def _describe(count):
    names = [f"name-{n}" for n in range(count)]
    return streams_group_describe.StreamsGroupDescribeRequest(group_ids=names)


WORST_OF_STREAMS = {
    "StreamsGroupDescribe": _describe,
    "StreamsGroupHeartbeat": _heartbeat,
    "StreamsGroupTopologyDescriptionUpdate": _describe_topology,
}
