"""ReadShareGroupState: the state of share partitions, for a leader that begins to serve them.

Behavior: a read fences the leaders of earlier epochs: they get FENCED_LEADER_EPOCH from then on. A
share partition that nobody has initialized is INVALID_REQUEST.
"""

from typing import TYPE_CHECKING

from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import CLUSTER_ACTION, once
from kwire.handlers.lib.share_states import answer_rows
from kwire.protocol.messages.read_share_group_state import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
    StateBatch,
)
from kwire.share.key import SharePartitionKey

if TYPE_CHECKING:
    from kwire.broker.share_states import ShareStates

RIGHTS = (once(CLUSTER_ACTION, every=True),)


async def handle(
    request: ReadShareGroupStateRequest, context: RequestContext
) -> ReadShareGroupStateResponse:
    """Read every share partition's state."""
    results = await answer_rows(request, context, ReadStateResult, PartitionResult, _read)
    return ReadShareGroupStateResponse(results=results)


def _read(
    states: "ShareStates", key: SharePartitionKey, wanted: PartitionData, row: PartitionResult
) -> None:
    state = states.read(key, wanted.leader_epoch)
    row.state_epoch = state.state_epoch
    row.start_offset = state.start_offset
    row.state_batches = [StateBatch(**one._asdict()) for one in state.batches]
