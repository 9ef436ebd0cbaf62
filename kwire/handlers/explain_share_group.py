"""ExplainShareGroup, an API of kwire's own: which records of a share group are in flight, and why
some came again (``kwire share describe``, ``kwire groups explain``, the page, the test fixtures).
"""

from typing import TYPE_CHECKING, Any

from kwire.broker.share_partitions import ServedShare
from kwire.errors import ErrorCode
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import DESCRIBE, GROUP, TOPIC, Serve, once, right
from kwire.handlers.lib.slices import give_way
from kwire.protocol.messages.explain_share_group import (
    ExplainShareGroupRequest,
    ExplainShareGroupResponse,
    Holder,
    RecordRange,
    ShareCounts,
    ShareEvent,
    SharePartitionData,
)
from kwire.share.run import ACKNOWLEDGED, ACQUIRED, ARCHIVED, ARCHIVING, AVAILABLE, Run

if TYPE_CHECKING:
    from kwire.handlers.lib.authorization import Authorization

BYTES = 60
"""The approximate bytes of a partition, a holder or a range in the response."""


async def handle(
    request: ExplainShareGroupRequest, context: RequestContext
) -> ExplainShareGroupResponse:
    """Tell what this broker knows; it knows nothing of a group that doesn't read here."""
    if not request.group_id:
        return ExplainShareGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    response = ExplainShareGroupResponse()
    manager = context.broker.share_partitions
    for served in manager.loaded_of(request.group_id):
        left = request.max_ranges - sum(len(one.ranges) for one in response.partitions)
        row = await _describe(served, left, context)
        response.has_more |= len(row.ranges) < len(served.share.runs)
        response.partitions.append(row)
    response.partitions.sort(key=lambda one: (one.topic_name, one.partition_index))
    history = manager.history
    for event in history.events_of(request.group_id):
        context.work.answer(len(event.text))
        response.events.append(
            ShareEvent(at_ms=event.at_ms, topic_name=event.topic, text=event.text)
        )
    counts = history.counts_of(request.group_id)
    for field in ShareCounts.FIELDS:
        setattr(response.counts, field.name, getattr(counts, field.name))
    return response


async def _describe(
    served: ServedShare, max_ranges: int, context: RequestContext
) -> SharePartitionData:
    share, partition = served.share, served.partition
    row = SharePartitionData(
        topic_name=partition.topic,
        partition_index=partition.index,
        leader_epoch=share.leader_epoch,
        start_offset=share.start_offset,
        next_offset=share.next_new,
        end_offset=partition.high_watermark,
    )
    context.work.answer(BYTES)
    now_ms, lock_ms = context.broker.share_partitions.now_ms(), share.limits.lock_ms
    holders: dict[str, Holder] = {}
    for run in list(share.runs):
        await give_way(context.work)
        _count(row, run)
        held_ms = max(0, lock_ms - (run.deadline_ms - now_ms)) if run.member else -1
        if run.state is ACQUIRED:
            holder = holders.get(run.member)
            if holder is None:
                context.work.answer(BYTES)
                holder = holders[run.member] = Holder(member_id=run.member)
            holder.records += run.size
            holder.held_ms = max(holder.held_ms, held_ms)
        if len(row.ranges) < max_ranges:
            context.work.answer(BYTES)
            left_ms = max(0, run.deadline_ms - now_ms) if run.member else -1
            row.ranges.append(
                RecordRange(
                    first_offset=run.first,
                    last_offset=run.last,
                    state=run.state,
                    member_id=run.member,
                    delivery_count=run.count,
                    held_ms=held_ms,
                    lock_left_ms=left_ms,
                )
            )
    row.holders = list(holders.values())
    return row


def _count(row: SharePartitionData, run: Run) -> None:
    """Count a run's records by their state."""
    if run.state is AVAILABLE:
        row.available += run.size
        row.redelivered += run.size if run.count else 0
    elif run.state is ACQUIRED:
        row.acquired += run.size
        row.redelivered += run.size if run.count > 1 else 0
    elif run.state is ACKNOWLEDGED:
        row.acknowledged += run.size
    elif run.state in (ARCHIVED, ARCHIVING):  # it is archived after its dead letter is there
        row.archived += run.size


@right("only topics on which the client has DESCRIBE are shown")
async def _seen_topics(
    request: ExplainShareGroupRequest, rights: "Authorization", serve: Serve
) -> Any:
    response: ExplainShareGroupResponse = await serve(request)
    for field in ("partitions", "events"):
        await rights.keep_seen(response, field, DESCRIBE, TOPIC, "topic_name")
    return response


RIGHTS = (once(DESCRIBE, of=GROUP), _seen_topics)
