"""StreamsGroupTopologyDescriptionUpdate (API key 93): describes a topology (KIP-1331).

Version 0, flexible.
"""

from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    int8,
    int16,
    int32,
    string,
    struct,
)


class TopologyDescriptionNode(Nested):
    """An element of ``nodes``, or the ``source`` or ``processor`` of a global store."""

    name: str = string()
    node_type: int = int8()
    source_topics: list[str] = array(string)
    sink_topic: str | None = string(nullable=True, default=None)
    stores: list[str] = array(string)
    successors: list[str] = array(string)


class TopologyDescriptionSubtopology(Nested):
    """An element of ``subtopologies`` in ``TopologyDescription``."""

    subtopology_id: str = string()
    nodes: list[TopologyDescriptionNode] = array(TopologyDescriptionNode)


class TopologyDescriptionGlobalStore(Nested):
    """An element of ``global_stores`` in ``TopologyDescription``."""

    source: TopologyDescriptionNode = struct(TopologyDescriptionNode)
    processor: TopologyDescriptionNode = struct(TopologyDescriptionNode)


class TopologyDescription(Nested):
    """The ``topology_description`` in ``StreamsGroupTopologyDescriptionUpdateRequest``."""

    subtopologies: list[TopologyDescriptionSubtopology] = array(TopologyDescriptionSubtopology)
    global_stores: list[TopologyDescriptionGlobalStore] = array(TopologyDescriptionGlobalStore)


class StreamsGroupTopologyDescriptionUpdateRequest(Request, key=93, versions=(0, 0), flexible=0):
    """Tells what a streams group's topology is (KIP-1331)."""

    group_id: str = string()
    member_id: str = string()
    topology_epoch: int = int32()
    topology_description: TopologyDescription = struct(TopologyDescription)


class StreamsGroupTopologyDescriptionUpdateResponse(Response, key=93, versions=(0, 0), flexible=0):
    """The answer to ``StreamsGroupTopologyDescriptionUpdateRequest``."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
