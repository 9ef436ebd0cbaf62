"""FindCoordinator: the broker that coordinates a group or a transactional id.

Behavior:

- The coordinator is the leader of the partition of ``__consumer_offsets`` or
  ``__transaction_state`` to which the group or id belongs. The first request creates the topic.
- While a broker is suspected to be dead, the answer waits a moment for the election of a new leader
  (``kwire.broker.failure_detector``).
- The key of a share partition is ``group:topic id:partition``. Its coordinator keeps its state.
"""

from functools import partial
from typing import TYPE_CHECKING, Any

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.advertised_listeners import advertised_address
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import (
    CLUSTER_ACTION,
    DESCRIBE,
    TRANSACTIONAL_ID,
    Serve,
    denied,
    each,
    once,
    right,
)
from kwire.handlers.lib.slices import give_way
from kwire.handlers.lib.waiting import later
from kwire.metadata.acls import ResourceType
from kwire.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kwire.share.key import check_coordinator_key

if TYPE_CHECKING:
    from kwire.handlers.lib.authorization import Authorization

GROUP, TRANSACTION, SHARE = 0, 1, 2
BATCHED_SINCE = 4


async def handle(
    request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse:
    """Answer every key."""
    keys = request.coordinator_keys if context.api_version >= BATCHED_SINCE else [request.key]
    work = context.work
    address = advertised_address(context)
    if context.broker.suspects is not None:
        from kwire.handlers.lib.await_elections import await_elections

        await await_elections(context.broker)
    found: list[Coordinator] = []
    for key in keys:
        await give_way(work)
        found.append(await _find_coordinator(key, request.key_type, address, context))
    if context.api_version >= BATCHED_SINCE:
        return FindCoordinatorResponse(coordinators=found)
    [only] = found
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )


async def _find_coordinator(
    key: str, key_type: int, address: tuple[str, int], context: RequestContext
) -> Coordinator:
    broker = context.broker
    try:
        if key_type == GROUP:
            lookup = broker.groups.lookup
        elif key_type == TRANSACTION:
            lookup = broker.transactions.lookup
        elif key_type == SHARE:
            check_coordinator_key(key)
            lookup = broker.share_states.lookup
        else:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"unknown key type ({key_type})")
        if not lookup.topic_exists:
            await later(lookup.ensure_topic)
        node_id = lookup.leader_for(key)
        if node_id != broker.node_id:
            address = await _elsewhere(key, key_type, node_id, context)
        elif key_type == GROUP:
            broker.groups.announce(key, context.connection.connection_id)
    except KafkaError as error:
        return Coordinator(
            key=key, node_id=-1, port=-1, error_code=error.code, error_message=error.message
        )
    host, port = address
    return Coordinator(key=key, node_id=node_id, host=host, port=port)


async def _elsewhere(
    key: str, key_type: int, node_id: int, context: RequestContext
) -> tuple[str, int]:
    """The address of a coordinator that isn't this broker; KafkaError."""
    from kwire.handlers.lib.coordinators_elsewhere import address_of, announce

    address = address_of(node_id, context)
    if key_type == GROUP:
        await later(partial(announce, key, node_id, context))
    return address


@right("DESCRIBE on each group or transactional id; CLUSTER_ACTION for share partitions")
async def _describe_each(
    request: FindCoordinatorRequest, rights: "Authorization", serve: Serve
) -> Any:
    kind = {GROUP: ResourceType.GROUP, TRANSACTION: TRANSACTIONAL_ID}.get(request.key_type)
    if request.key_type == SHARE:
        return await once(CLUSTER_ACTION, every=True).serve(request, rights, serve)
    if kind is None:
        return await serve(request)
    if rights.context.api_version >= BATCHED_SINCE:
        return await each("coordinator_keys", DESCRIBE, kind).serve(request, rights, serve)
    if rights.may(DESCRIBE, kind, request.key):
        return await serve(request)
    return await rights.refuse(request, denied(kind))


RIGHTS = (_describe_each,)
