"""UnregisterController: would remove a controller (KIP-1312); kwire has none beside its brokers.

Behavior: always an error; that of a broker says how it leaves the cluster (``lib.voters``).
"""

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import ALTER, once
from kwire.handlers.lib.voters import stays
from kwire.protocol.messages.unregister_controller import (
    UnregisterControllerRequest,
    UnregisterControllerResponse,
)

RIGHTS = (once(ALTER),)


def handle(
    request: UnregisterControllerRequest, context: RequestContext
) -> UnregisterControllerResponse:
    """Say why no controller is removed."""
    node_id = request.controller_id
    if node_id in context.broker.image.brokers:
        error = stays(node_id)
    else:
        error = KafkaError(
            ErrorCode.CONTROLLER_ID_NOT_REGISTERED,
            f"Controller ID {node_id} is not currently registered.",
        )
    return UnregisterControllerResponse(error_code=error.code, error_message=error.message)
