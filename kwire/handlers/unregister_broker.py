"""UnregisterBroker: a broker leaves the cluster for good (KIP-631).

Behavior: a broker can be unregistered only if it doesn't run. Kafka also unregisters a broker that
runs, which then stops; in kwire it would register again. The partitions keep the broker in their
lists of replicas, so another broker with its node id can take its place.
"""

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import ALTER, once
from kwire.handlers.lib.waiting import in_task
from kwire.metadata.changes import Change
from kwire.metadata.image import MetadataImage
from kwire.metadata.registration import unregister
from kwire.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)

RIGHTS = (once(ALTER),)


@in_task
async def handle(
    request: UnregisterBrokerRequest, context: RequestContext
) -> UnregisterBrokerResponse:
    """Unregister a fenced broker."""
    # The decision reads every partition, so a thread makes it.
    deciding = context.broker.threads.deciding
    try:
        await context.commit(lambda image: deciding.run(_unregister, image, request.broker_id))
    except KafkaError as error:
        return UnregisterBrokerResponse(error_code=error.code, error_message=error.message or None)
    return UnregisterBrokerResponse(error_message=None)


def _unregister(image: MetadataImage, node_id: int) -> list[Change]:
    broker = image.brokers.get(node_id)
    if broker is not None and not broker.is_fenced:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Broker {node_id} is running. Stop it before it leaves."
        )
    return unregister(image, node_id)
