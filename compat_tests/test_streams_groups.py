"""What the APIs of streams groups say (KIP-1071), to requests that no Kafka Streams would send."""

from compat_tests.raw_client import RawClient
from kwire.errors import ErrorCode
from kwire.protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)


def test_nobody_keeps_descriptions_of_topologies(bootstrap: str) -> None:
    """Unless the operator has a plugin for it, which comes before all else that may be wrong."""
    for member_id in ("", "m"):
        request = StreamsGroupTopologyDescriptionUpdateRequest(group_id="g", member_id=member_id)
        with RawClient(bootstrap) as raw:
            answer = raw.ask(request, 0)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert answer.error_message == (
            "The broker has no streams group topology description plugin configured."
        )
