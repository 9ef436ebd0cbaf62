"""TxnOffsetCommit: a group's next offsets to read, as part of a producer's transaction.

Behavior: the offsets are pending until the transaction ends. From version 5 on, this request also
adds the group to the transaction; before that, the client must have added it (KIP-890). From
version 3 on, a member of the group names itself, and gets the errors of OffsetCommit (KIP-447),
except that a stale epoch is ILLEGAL_GENERATION before version 6. From version 6 on, the request
names topics by id (KIP-1319). Versions before 2 have no COORDINATOR_LOAD_IN_PROGRESS. Offsets of
more than ``PIECE`` partitions are written in pieces.
"""

from collections.abc import Sequence

from kwire.broker.flusher import Flush
from kwire.broker.verification import Support, Writer, verify
from kwire.coordinator.effects import Effects
from kwire.coordinator.records import OffsetCommitValue
from kwire.coordinator.transaction.state import ProducerIdAndEpoch
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.offset_writes import write_offsets
from kwire.handlers.lib.rights import GROUP, READ, TRANSACTIONAL_ID, WRITE, each, once
from kwire.handlers.lib.slices import free_in_slices, give_way, pieces
from kwire.handlers.lib.waiting import later
from kwire.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kwire.record.records import ProducerState

ABORTABLE_SINCE = 4
ADDS_SINCE = 5
LOADING_SINCE = 2
TOPIC_IDS_SINCE = 6


AcceptedOffset = tuple[TxnOffsetCommitResponsePartition, str, OffsetCommitValue]
Accepted = list[AcceptedOffset]


RIGHTS = (
    once(WRITE, of=TRANSACTIONAL_ID),
    once(READ, of=GROUP),
    each("topics", READ, ids_since=TOPIC_IDS_SINCE),
)


async def handle(
    request: TxnOffsetCommitRequest, context: RequestContext
) -> TxnOffsetCommitResponse:
    """Write every offset that the group accepts."""
    accepted: Accepted = []
    topics: list[TxnOffsetCommitResponseTopic] = []
    work = context.work
    for topic in request.topics:
        await give_way(work)
        answers: list[TxnOffsetCommitResponsePartition] = []
        for partition in topic.partitions:
            await give_way(work)
            answers.append(_check_partition(topic, partition, context, accepted))
        topics.append(
            TxnOffsetCommitResponseTopic(
                name=topic.name, topic_id=topic.topic_id, partitions=answers
            )
        )
    free_in_slices(accepted, work)
    for piece in pieces(accepted):
        await give_way(work)
        if not piece:
            break
        try:
            await _commit(request, context, piece)
        except KafkaError as error:
            # The response has no field for an error of the whole request.
            for answer, _, _ in piece:
                answer.error_code = _code_for_client(error, context.api_version)
    return TxnOffsetCommitResponse(topics=topics)


def _check_partition(
    topic: TxnOffsetCommitRequestTopic,
    partition: TxnOffsetCommitRequestPartition,
    context: RequestContext,
    accepted: Accepted,
) -> TxnOffsetCommitResponsePartition:
    """The answer for a partition; an offset in a known partition is added to ``accepted``."""
    broker = context.broker
    answer = TxnOffsetCommitResponsePartition(partition_index=partition.partition_index)
    if context.api_version >= TOPIC_IDS_SINCE:
        found, missing = broker.image.topics_by_id.get(topic.topic_id), ErrorCode.UNKNOWN_TOPIC_ID
    else:
        found = broker.image.topics_by_name.get(topic.name)
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if found is None:
        answer.error_code = missing
        return answer
    if not 0 <= partition.partition_index < len(found.partitions):
        answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return answer
    value = OffsetCommitValue(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_timestamp=broker.now_ms(),
        topic_id=found.topic_id,
    )
    accepted.append((answer, found.name, value))
    return answer


async def _commit(
    request: TxnOffsetCommitRequest, context: RequestContext, accepted: Sequence[AcceptedOffset]
) -> None:
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    writer = Writer(request.transactional_id, producer, _support(context.api_version))
    home = context.broker.groups.coordinator(request.group_id)
    while (awaited := verify(context.broker, writer, home.partition)) is not None:
        if isinstance(awaited, Flush):
            context.broker.flusher.leave_to_handler(awaited)
        await later(awaited.wait)
        home = context.broker.groups.coordinator(request.group_id)
    home.partition.log.producers.check_epoch(*producer)
    effects = Effects(producer=ProducerState(request.producer_id, request.producer_epoch))
    write_offsets(request, context, home, accepted, effects, is_transactional=True)


def _support(version: int) -> Support:
    if version >= ADDS_SINCE:
        return Support.ADDS
    return Support.ABORTABLE if version >= ABORTABLE_SINCE else Support.BASIC


def _code_for_client(error: KafkaError, version: int) -> ErrorCode:
    if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < LOADING_SINCE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error.code is ErrorCode.STALE_MEMBER_EPOCH and version < TOPIC_IDS_SINCE:
        return ErrorCode.ILLEGAL_GENERATION
    return error.code
