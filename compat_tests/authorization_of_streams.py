"""What the APIs of streams groups need; see ``authorization_cases``."""

from compat_tests.authorization_cases import NO_GROUP, Case, G, R, Things
from kwire.protocol.messages import streams_group_topology_description_update
from kwire.protocol.types import Request


def _describe_topology(m: Things) -> Request:
    api = streams_group_topology_description_update
    return api.StreamsGroupTopologyDescriptionUpdateRequest(group_id=m.group, member_id="m")


CASES = (
    Case(
        "StreamsGroupTopologyDescriptionUpdate",
        *(_describe_topology, 0, ((G, R),), NO_GROUP, NO_GROUP),
    ),
)
