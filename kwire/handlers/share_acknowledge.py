"""ShareAcknowledge: a member says what became of records that it has acquired.

Behavior:

- The request belongs to a share session, with its next epoch. Epoch -1 ends the session, which
  releases what the member still holds; epoch 0 is INVALID_SHARE_SESSION_EPOCH.
- The answer comes when the acknowledgements are persistent. Each partition has its own error.
- A renewal (``is_renew_ack``) begins the lock of the records anew, if the group allows it.
"""

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.leader_hints import hint_member
from kwire.handlers.lib.rights import GROUP, READ, once
from kwire.handlers.lib.share_acknowledgements import Acknowledgements
from kwire.handlers.lib.share_groups import check_share_protocol
from kwire.handlers.lib.share_sessions import named_member
from kwire.handlers.lib.slices import give_way, in_slices
from kwire.protocol.messages.share_acknowledge import (
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from kwire.share.key import SharePartitionKey
from kwire.share.sessions import FINAL_EPOCH, INITIAL_EPOCH

RIGHTS = (once(READ, of=GROUP),)


async def handle(
    request: ShareAcknowledgeRequest, context: RequestContext
) -> ShareAcknowledgeResponse:
    """Acknowledge the records of every partition."""
    manager = context.broker.share_partitions
    try:
        check_share_protocol(context.broker)
        group_id, member_id = named_member(request.group_id, request.member_id)
        epoch = request.share_session_epoch
        if epoch == INITIAL_EPOCH:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session = manager.sessions.next(group_id, member_id, epoch)
    except KafkaError as error:
        return ShareAcknowledgeResponse(error_code=error.code, error_message=error.message or None)
    settings = manager.settings(group_id)
    renews = request.is_renew_ack and settings.renews
    done = Acknowledgements()
    for topic in request.topics:
        for one in topic.partitions:
            await give_way(context.work)
            key = SharePartitionKey(group_id, topic.topic_id, one.partition_index)
            batches = one.acknowledgement_batches
            await done.begin(key, member_id, batches, context, settings, renews=renews)
    if epoch == FINAL_EPOCH:
        manager.sessions.remove(group_id, member_id)
        manager.end(session)
    await done.end()
    response = ShareAcknowledgeResponse(acquisition_lock_timeout_ms=settings.limits.lock_ms)
    for topic in request.topics:
        rows: list[PartitionData] = []
        for one in topic.partitions:
            row = PartitionData(partition_index=one.partition_index)
            refusal = done.errors.get((topic.topic_id, one.partition_index))
            if refusal is not None:
                row.error_code, row.error_message = refusal.code, refusal.message or None
            rows.append(row)
        answer = ShareAcknowledgeTopicResponse(topic_id=topic.topic_id, partitions=rows)
        response.responses.append(answer)
    if done.errors:
        await in_slices(hint_member(response, context), context.work)
    return response
