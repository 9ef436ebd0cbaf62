"""Produce: appends record batches to partitions.

Behavior:

- acks 0 has no response; an error closes the connection instead, so that the client notices. The
  client may close its connection right after its last record, so kwire carries out its requests
  even if the client is gone.
- With acks 1 a request waits for the append here, with acks=all until the in-sync replicas have it,
  too, at most for the request's timeout. It fails if fewer than ``min.insync.replicas`` are in
  sync.
- If an idempotent producer repeats a batch, the answer is the offset that the batch already has.
- A thread checks and recompresses a batch that has to be opened, if the batch is large or
  decompresses to a large one. Beyond ``kwire.decompressed.max.bytes`` the error is
  MESSAGE_TOO_LARGE. A thread also checks a very large batch that needn't be opened, and such a
  batch is written in pieces (``kwire.log.write_ahead``).
- The producer's coordinator verifies a transactional batch. From version 12 on, the batch adds its
  partition to the transaction (KIP-890). The client gets NOT_ENOUGH_REPLICAS for a temporary error
  of the coordinator, because every client retries after that code.
- Only the broker and the admin client may write to internal topics.
"""

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import trio

from kwire.broker.broker import Broker
from kwire.broker.flusher import Flush
from kwire.broker.partition import ACKS_ALL, Partition
from kwire.broker.verification import Support, Writer, verify
from kwire.budget.work import Work
from kwire.coordinator.transaction.state import ProducerIdAndEpoch, TopicPartition
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.context import RequestContext
from kwire.handlers.opening import full_limits, open_in_thread
from kwire.handlers.slices import in_slices
from kwire.handlers.waiting import Unfinished, at_once_or_later, later
from kwire.log.partition_log import PartitionLog
from kwire.log.prices import AT_ONCE_BYTES
from kwire.log.validation import (
    INLINE_LIMITS,
    AppendInfo,
    CheckedBatch,
    InvalidBatch,
    checked_batch,
    client_batch,
    opening_units,
)
from kwire.metadata.image import INTERNAL_TOPICS
from kwire.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kwire.record.batch import RecordBatch, TooLarge
from kwire.record.streaming_decompressor import BetweenPieces, Limits

if TYPE_CHECKING:
    from kwire.handlers.unacked import Unreplicated

VALID_ACKS = (ACKS_ALL, 0, 1)
ADMIN_CLIENT_ID = "__admin_client"
TOPIC_IDS_SINCE = 13
ZSTD_SINCE = 7
ABORTABLE_SINCE = 11
ADDS_SINCE = 12

ROLL_UNITS = 1000
"""The rough cost of making the files of a new segment; on a busy disk it takes far longer."""

BYTES_PER_UNIT = 2 * 1024
"""How many bytes of a batch are copied, checked and written in one unit of work."""

UNITS = 45
"""The units that each partition after the first one costs, beside the opening of its batch."""

TOPIC_UNITS = 4
"""The units that each topic after the first one costs, in decoding and in the response."""

UNITS_TO_WAIT = 3
"""The units that each wait for a flush or for replicas costs."""

BACKOFF = "add.partitions.to.txn.retry.backoff.ms"
PATIENCE = "add.partitions.to.txn.retry.backoff.max.ms"
"""How long a batch waits for the previous transaction: before each new try, and in all."""

PASSING = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
"""Temporary errors of a coordinator; clients get another code, after which all of them retry."""

WITHOUT_LOG_START = (
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
)
"""Errors for which Kafka leaves out the log start offset."""


def handle(request: ProduceRequest, context: RequestContext) -> ProduceResponse | Unfinished | None:
    """Append every batch, and report the result of each."""
    return at_once_or_later(_handle(request, context))


async def _handle(request: ProduceRequest, context: RequestContext) -> ProduceResponse | None:
    by_id = context.api_version >= TOPIC_IDS_SINCE
    work = context.work
    work.outlives_client = request.acks == 0
    answers_count = 0
    has_error = False
    responses: list[TopicProduceResponse] = []
    answers: list[PartitionProduceResponse] = []
    flushes: list[tuple[PartitionProduceResponse, Flush | Unreplicated]] = []
    together = _Partitions(request, context)
    for topic in request.topic_data:
        if responses and work.spend(TOPIC_UNITS):
            await later(work.next_slice)
        name = _topic_name(context.broker, topic) if by_id else topic.name
        partitions = []
        for data in topic.partition_data:
            if answers_count and work.spend(UNITS):
                await later(work.next_slice)
            answers_count += 1
            response, flush = await _produce(together, name, data)
            if flush is not None:
                flushes.append((response, flush))
            elif response.error_code:
                has_error = True
            partitions.append(response)
        answers += partitions
        responses.append(
            TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=partitions
            )
        )
    if request.acks == 0:
        _check_unanswered(answers)
        return None
    for answer, flush in flushes:
        has_error |= await _wait_for(answer, flush, work)
    told = ProduceResponse(responses=responses)
    if has_error:
        from kwire.handlers.leader_hints import hint_producer

        await in_slices(hint_producer(told, context), work)
    return told


def _check_unanswered(answers: list[PartitionProduceResponse]) -> None:
    """KafkaError, which closes the connection, if a request without a response has failed."""
    for answer in answers:
        if answer.error_code:
            raise KafkaError(ErrorCode(answer.error_code), "with acks=0, which has no response")


async def _wait_for(
    answer: PartitionProduceResponse, flush: "Flush | Unreplicated", work: Work
) -> bool:
    """Wait until the batch is flushed or replicated; if that fails, the answer becomes an error.

    Returns whether another broker may lead the partition by now.
    """
    if work.spend(UNITS_TO_WAIT):
        await later(work.next_slice)
    if not isinstance(flush, Flush):
        return await flush.settle(answer)
    try:
        await later(flush.wait)
    except KafkaError as error:
        answer.error_code, answer.error_message = error.code, error.message
        answer.base_offset = answer.log_append_time_ms = answer.log_start_offset = -1
    return False


def _topic_name(broker: Broker, topic: TopicProduceData) -> str | None:
    found = broker.image.topics_by_id.get(topic.topic_id)
    return found.name if found else None


async def _produce(
    together: "_Partitions", name: str | None, data: PartitionProduceData
) -> "tuple[PartitionProduceResponse, Flush | Unreplicated | None]":
    """Append to one partition; return its answer, and the flush or replication it waits for.

    Only here errors become error codes.
    """
    request, context = together.request, together.context
    log_start_offset = -1
    try:
        partition = _partition(request, context, name, data)
        batch = _batch(request, context, data)
        log_start_offset = partition.log.log_start_offset
        info = await _append(partition, batch, together)
    except KafkaError as error:
        wrong = error.record_errors if isinstance(error, InvalidBatch) else []
        answer = PartitionProduceResponse(
            index=data.index,
            error_code=error.code,
            base_offset=-1,
            log_start_offset=told_log_start(error, log_start_offset),
            record_errors=[
                BatchIndexAndErrorMessage(batch_index=place, batch_index_error_message=message)
                for place, message in wrong
            ],
            error_message=error.message or None,
        )
        return answer, None
    answer = PartitionProduceResponse(
        index=data.index,
        base_offset=info.first_offset,
        log_append_time_ms=info.log_append_time_ms,
        log_start_offset=info.log_start_offset,
    )
    context.broker.flusher.leave_to_handler(partition.flush)
    if request.acks == ACKS_ALL and type(partition) is not Partition:
        from kwire.handlers.unacked import Unreplicated

        return answer, Unreplicated(partition, info.last_offset + 1, request.timeout_ms)
    return answer, partition.flush


def told_log_start(error: KafkaError, log_start_offset: int) -> int:
    """The log start offset in the answer with this error."""
    return -1 if error.code in WITHOUT_LOG_START else log_start_offset


def _batch(
    request: ProduceRequest, context: RequestContext, data: PartitionProduceData
) -> RecordBatch:
    """The batch for one partition; KafkaError if the bytes aren't a valid batch."""
    if data.records is None:
        raise KafkaError(ErrorCode.INVALID_RECORD, "no records")
    assert isinstance(data.records, memoryview)
    batch = client_batch(data.records, knows_zstd=context.api_version >= ZSTD_SINCE)
    if batch.is_transactional and request.transactional_id is None:
        raise KafkaError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "a transactional batch in a request without a transactional id",
        )
    return batch


async def _append(partition: Partition, batch: RecordBatch, together: "_Partitions") -> AppendInfo:
    """Check a batch and append it."""
    context = together.context
    if context.work.spend(batch.size_bytes // BYTES_PER_UNIT):
        await later(context.work.next_slice)
    checked = await _check(batch, partition.log, context)
    if batch.is_transactional and not partition.log.producers.has_open_transaction(
        batch.producer_id, batch.producer_epoch
    ):
        await _verify(partition, batch, together)
    acks = together.request.acks
    if partition.writing is not None or checked.batch.size_bytes > AT_ONCE_BYTES:
        from kwire.handlers.large_batches import append_in_turn

        verify = partial(_verify, partition, batch, together)
        return await append_in_turn(partition, checked, acks, context, verify)
    now_ms = context.broker.now_ms()
    segments = partition.log.segments
    active = segments.active
    info = partition.append_checked(checked, now_ms=now_ms, required_acks=acks)
    if segments.active is not active:
        context.work.spend(ROLL_UNITS)  # the next partition waits for a slice
    return info


async def _check(batch: RecordBatch, log: PartitionLog, context: RequestContext) -> CheckedBatch:
    """Check a batch, in a thread if that takes long.

    The time of ``LogAppendTime`` is that of the check, not of the beginning of a wait before it.
    """
    broker = context.broker
    units = opening_units(batch, log.config, broker.now_ms())
    if units is not None and batch.size_bytes <= AT_ONCE_BYTES:
        if units and context.work.spend(units):
            await later(context.work.next_slice)
        with suppress(TooLarge):
            return checked_batch(batch, log.config, broker.now_ms(), INLINE_LIMITS)

    def in_thread(limits: Limits, between: BetweenPieces) -> CheckedBatch:
        return checked_batch(batch, log.config, broker.now_ms(), limits, between)

    return await open_in_thread(in_thread, batch, full_limits(broker, log.config), context)


async def _verify(partition: Partition, batch: RecordBatch, together: "_Partitions") -> None:
    """Check that a transactional batch belongs to its producer's transaction; KafkaError.

    From version 12 on, the batch waits while the previous transaction is being completed.
    """
    broker = together.context.broker
    writer = Writer(
        together.request.transactional_id,
        ProducerIdAndEpoch(batch.producer_id, batch.producer_epoch),
        _support(together.context.api_version),
        together,
    )
    give_up_at = trio.current_time() + broker.integer(PATIENCE) / 1000
    while True:
        try:
            awaited = verify(broker, writer, partition, batch.base_sequence)
            if awaited is None:
                return
            if isinstance(awaited, Flush):
                broker.flusher.leave_to_handler(awaited)
            together.are_asked = True
            await later(awaited.wait)
            continue
        except KafkaError as error:
            is_busy = error.code is ErrorCode.CONCURRENT_TRANSACTIONS
            if not is_busy or writer.support < Support.ADDS or trio.current_time() >= give_up_at:
                raise _client_error(error) from error
        together.are_asked = False
        await later(partial(trio.sleep, broker.integer(BACKOFF) / 1000))


class _Partitions:
    """A request's existing partitions: they are added to a transaction, or verified, together.

    That is done once, and ``are_asked`` is true afterwards. Then each partition is checked by
    itself, so that a request with many refused partitions costs no more than its size.
    """

    def __init__(self, request: ProduceRequest, context: RequestContext) -> None:
        self.request = request
        self.context = context
        self.are_asked = False

    def __iter__(self) -> Iterator[TopicPartition]:
        if self.are_asked:
            return
        broker = self.context.broker
        by_id = self.context.api_version >= TOPIC_IDS_SINCE
        for topic in self.request.topic_data:
            name = _topic_name(broker, topic) if by_id else topic.name
            for data in topic.partition_data if name else ():
                if name and broker.image.partition(name, data.index):
                    yield name, data.index


def _client_error(error: KafkaError) -> KafkaError:
    if error.code not in PASSING:
        return error
    return KafkaError(
        ErrorCode.NOT_ENOUGH_REPLICAS,
        "Unable to verify the partition has been added to the transaction. Underlying error: "
        f"{error.code.name}",
    )


def _support(version: int) -> Support:
    if version >= ADDS_SINCE:
        return Support.ADDS
    return Support.ABORTABLE if version >= ABORTABLE_SINCE else Support.BASIC


def _partition(
    request: ProduceRequest, context: RequestContext, name: str | None, data: PartitionProduceData
) -> Partition:
    """The partition to append to; KafkaError if the client may not write to it."""
    if request.acks not in VALID_ACKS:
        raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={request.acks}")
    if name is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    if name in INTERNAL_TOPICS and context.client_id != ADMIN_CLIENT_ID:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {name}"
        )
    return context.broker.partition(name, data.index)
