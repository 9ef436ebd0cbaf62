"""WriteShareGroupState: the leaders of partitions write what groups have acknowledged.

Behavior: a leader that another one has replaced gets FENCED_LEADER_EPOCH. One that read the state
before it was initialized anew gets FENCED_STATE_EPOCH.
"""

from typing import TYPE_CHECKING

from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import CLUSTER_ACTION, once
from kwire.handlers.lib.share_states import answer_rows
from kwire.protocol.messages.write_share_group_state import (
    PartitionData,
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)
from kwire.share.key import SharePartitionKey
from kwire.share.state_batches import StateBatch
from kwire.share.state_coordinator import StateWrite

if TYPE_CHECKING:
    from kwire.broker.share_states import ShareStates

RIGHTS = (once(CLUSTER_ACTION, every=True),)


async def handle(
    request: WriteShareGroupStateRequest, context: RequestContext
) -> WriteShareGroupStateResponse:
    """Write every share partition's state."""
    results = await answer_rows(request, context, WriteStateResult, PartitionResult, _write)
    return WriteShareGroupStateResponse(results=results)


def _write(
    states: "ShareStates", key: SharePartitionKey, wanted: PartitionData, row: PartitionResult
) -> None:
    batches = [
        StateBatch(one.first_offset, one.last_offset, one.delivery_state, one.delivery_count)
        for one in wanted.state_batches
    ]
    states.write(
        key,
        StateWrite(
            wanted.state_epoch,
            wanted.leader_epoch,
            wanted.start_offset,
            wanted.delivery_complete_count,
            batches,
        ),
    )
