"""StreamsGroupTopologyDescriptionUpdate: a member tells what its topology looks like (KIP-1331).

Behavior: always UNSUPPORTED_VERSION, as the brokers of Kafka answer unless the operator has a
plugin: Kafka itself keeps no descriptions, it hands them to the class of the setting
``group.streams.topology.description.plugin.class``. Members aren't asked for descriptions then, for
no answer to a heartbeat has ``topology_description_required``.

Skipped: plugins, which are Java classes.
"""

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import GROUP, READ, once
from kwire.handlers.lib.streams_groups import check_streams_protocol
from kwire.protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)

NO_PLUGIN = "The broker has no streams group topology description plugin configured."


def handle(
    request: StreamsGroupTopologyDescriptionUpdateRequest, context: RequestContext
) -> StreamsGroupTopologyDescriptionUpdateResponse:
    """Say that nobody keeps the description."""
    error = KafkaError(ErrorCode.UNSUPPORTED_VERSION, NO_PLUGIN)
    try:
        check_streams_protocol(context.broker)
    except KafkaError as switched_off:
        error = switched_off
    return StreamsGroupTopologyDescriptionUpdateResponse(
        error_code=error.code, error_message=error.message
    )


RIGHTS = (once(READ, of=GROUP),)
