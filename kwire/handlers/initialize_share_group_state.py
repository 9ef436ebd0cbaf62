"""InitializeShareGroupState: begins share partitions anew, each at an offset.

Behavior: the sender is the group's coordinator, when the group subscribes to a topic for the first
time, or when an operator changes its offsets. An older state epoch is FENCED_STATE_EPOCH.
"""

from typing import TYPE_CHECKING

from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import CLUSTER_ACTION, once
from kwire.handlers.lib.share_states import answer_rows
from kwire.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionData,
    PartitionResult,
)
from kwire.share.key import SharePartitionKey

if TYPE_CHECKING:
    from kwire.broker.share_states import ShareStates

RIGHTS = (once(CLUSTER_ACTION, every=True),)


async def handle(
    request: InitializeShareGroupStateRequest, context: RequestContext
) -> InitializeShareGroupStateResponse:
    """Initialize every share partition."""
    results = await answer_rows(
        request, context, InitializeStateResult, PartitionResult, _initialize
    )
    return InitializeShareGroupStateResponse(results=results)


def _initialize(
    states: "ShareStates", key: SharePartitionKey, wanted: PartitionData, row: PartitionResult
) -> None:
    states.initialize(key, wanted.state_epoch, wanted.start_offset)
