"""ReadShareGroupStateSummary: how far share groups are in partitions, for those who describe them.

Behavior: nobody is fenced. A share partition without a state has start offset -1.
"""

from typing import TYPE_CHECKING

from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import CLUSTER_ACTION, once
from kwire.handlers.lib.share_states import answer_rows
from kwire.protocol.messages.read_share_group_state_summary import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)
from kwire.share.key import SharePartitionKey
from kwire.share.state_coordinator import summary_of

if TYPE_CHECKING:
    from kwire.broker.share_states import ShareStates

RIGHTS = (once(CLUSTER_ACTION, every=True),)


async def handle(
    request: ReadShareGroupStateSummaryRequest, context: RequestContext
) -> ReadShareGroupStateSummaryResponse:
    """Read every share partition's summary."""
    results = await answer_rows(
        request, context, ReadStateSummaryResult, PartitionResult, _read_summary
    )
    return ReadShareGroupStateSummaryResponse(results=results)


def _read_summary(
    states: "ShareStates", key: SharePartitionKey, wanted: PartitionData, row: PartitionResult
) -> None:
    summary = summary_of(states.summary(key))
    row.state_epoch, row.leader_epoch = summary.state_epoch, summary.leader_epoch
    row.start_offset = summary.start_offset
    row.delivery_complete_count = summary.delivery_complete_count
