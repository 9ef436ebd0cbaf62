"""The requests about streams groups that cost most; a part of ``bench.worst_requests``."""

from kwire.protocol.messages import streams_group_topology_description_update


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


WORST_OF_STREAMS = {"StreamsGroupTopologyDescriptionUpdate": _describe_topology}
