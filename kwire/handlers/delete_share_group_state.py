"""DeleteShareGroupState: ends the state of share partitions.

Behavior: the sender is the group's coordinator, when a group or its offsets of a topic are deleted.
A share partition without a state needs no deletion, which is no error.
"""

from typing import TYPE_CHECKING

from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import CLUSTER_ACTION, once
from kwire.handlers.lib.share_states import answer_rows
from kwire.protocol.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionData,
    PartitionResult,
)
from kwire.share.key import SharePartitionKey

if TYPE_CHECKING:
    from kwire.broker.share_states import ShareStates

RIGHTS = (once(CLUSTER_ACTION, every=True),)


async def handle(
    request: DeleteShareGroupStateRequest, context: RequestContext
) -> DeleteShareGroupStateResponse:
    """Delete every share partition's state."""
    results = await answer_rows(request, context, DeleteStateResult, PartitionResult, _delete)
    return DeleteShareGroupStateResponse(results=results)


def _delete(
    states: "ShareStates", key: SharePartitionKey, wanted: PartitionData, row: PartitionResult
) -> None:
    states.delete(key)
