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

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import trio

from kwire.broker.broker import Broker
from kwire.broker.delayed_produce import DelayedProduce
from kwire.broker.flusher import Flush
from kwire.broker.partition import ACKS_ALL, UNACKED, Partition
from kwire.broker.verification import Support, Writer, verify
from kwire.budget.work import Work
from kwire.coordinator.transaction.state import ProducerIdAndEpoch, TopicPartition
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import ConnectionInfo, RequestContext
from kwire.handlers.lib.opening import full_limits, open_in_thread
from kwire.handlers.lib.rights import TOPIC, TRANSACTIONAL_ID, WRITE, Serve, denied, each, right
from kwire.handlers.lib.slices import give_way, in_slices, pieces
from kwire.handlers.lib.waiting import acknowledged, later
from kwire.log.inline_limits import AT_ONCE_BYTES
from kwire.log.partition_log import PartitionLog
from kwire.log.plain_batch import is_plain, plain_batch
from kwire.log.validation import (
    INLINE_LIMITS,
    AppendInfo,
    CheckedBatch,
    InvalidBatch,
    checked_batch,
    client_batch,
    is_checked_inline,
)
from kwire.metadata.image import INTERNAL_TOPICS
from kwire.protocol.frame import RequestHeader
from kwire.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kwire.protocol.single import single_decoder, single_encoder
from kwire.record.batch import MAGIC, NO_TIMESTAMP, TRANSACTIONAL_MASK, RecordBatch, TooLarge
from kwire.record.compression import Compression
from kwire.record.streaming_decompressor import BetweenPieces, Limits

if TYPE_CHECKING:
    from kwire.broker.replica.leader_partition import LeaderPartition
    from kwire.handlers.lib.authorization import Authorization

VALID_ACKS = (ACKS_ALL, 0, 1)
_ANSWERED = (ACKS_ALL, 1)
ADMIN_CLIENT_ID = "__admin_client"
TOPIC_IDS_SINCE = 13
ZSTD_SINCE = 7
ABORTABLE_SINCE = 11
ADDS_SINCE = 12

_MAGIC_AT, _ATTRIBUTES_AT = 16, 22
"""A batch's format, and the second byte of its attributes."""

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


async def handle(request: ProduceRequest, context: RequestContext) -> ProduceResponse | None:
    """Append every batch, and report the result of each."""
    by_id, work = context.api_version >= TOPIC_IDS_SINCE, context.work
    work.outlives_client = request.acks == 0
    topic: TopicProduceData | None
    data: PartitionProduceData | None
    appends = _Appends(request, context)
    responses: list[TopicProduceResponse] = []
    is_begun = False
    for topic in request.topic_data:
        if responses and work.is_due:
            await later(work.next_slice)
        name = _topic_name(context.broker, topic) if by_id else topic.name
        takes_plain = request.acks in VALID_ACKS
        partitions = []
        for data in topic.partition_data:
            if is_begun and work.is_due:
                await later(work.next_slice)
            is_begun = True
            answer = append_plain(appends, name, data) if takes_plain else None
            partitions.append(answer or await _produce(appends, name, data))
        responses.append(
            TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=partitions
            )
        )
    response = ProduceResponse(responses=responses)
    if request.acks == 0:
        if appends.refused:
            raise KafkaError(ErrorCode(appends.refused), "with acks=0, which has no response")
        return None
    if appends.flushes or appends.unreplicated:
        if not work.held_bytes:  # else it was decoded in slices, and is taken apart in slices
            request.topic_data, topic, data = [], None, None  # views would keep the frame's buffer
        await appends.wait()
    if appends.refused:
        from kwire.handlers.lib.leader_hints import hint_producer

        await in_slices(hint_producer(response, context), work)
    return response


def append_plain(
    appends: "_Appends", name: str | None, data: PartitionProduceData
) -> PartitionProduceResponse | None:
    """Append a plain batch to one partition in one step; None, with nothing done, if it isn't so.

    Most batches are plain (``kwire.log.plain_batch``). ``_produce`` appends any batch, and says
    what is wrong with it.
    """
    context, records = appends.context, data.records
    if type(records) is not memoryview:
        return None
    acks, knows_zstd = appends.request.acks, context.api_version >= ZSTD_SINCE
    appended = append_in_one_step(
        context.broker, name, data.index, records, acks, knows_zstd=knows_zstd
    )
    if appended is None:
        return None
    partition, batch, offset = appended
    is_replicated = offset >= 0
    if not is_replicated:
        offset = UNACKED - offset
    start_offset = partition.log.log_start_offset
    answer = PartitionProduceResponse(
        index=data.index, base_offset=offset, log_start_offset=start_offset
    )
    if not is_replicated:
        led = cast("LeaderPartition", partition)
        appends.unreplicated.append((led, offset + batch.records_count, answer))
    return answer


def append_in_one_step(
    broker: Broker,
    name: str | None,
    index: int,
    records: memoryview,
    acks: int,
    *,
    knows_zstd: bool = True,
    may_wait: bool = True,
) -> tuple[Partition, RecordBatch, int] | None:
    """Append a plain batch; the partition, the batch and what ``append_plain`` gives.

    None, with nothing done, if the batch isn't plain, or the partition can't take it as it is.
    Unless the response ``may_wait``, also if other replicas have to acknowledge the batch.
    """
    if name is None or name in INTERNAL_TOPICS or len(records) > AT_ONCE_BYTES:
        return None
    partition = broker.partition_if_served(name, index)
    if partition is None or partition.writing is not None:
        return None
    if acks == ACKS_ALL and not may_wait and type(partition) is not Partition:
        return None
    batch = plain_batch(records, partition.log.config, broker.now_ms())
    if batch is None or (batch.attributes == Compression.ZSTD and not knows_zstd):
        return None
    offset = partition.append_plain(batch, acks)
    return None if UNACKED < offset < 0 else (partition, batch, offset)


def single(
    version: int,
) -> Callable[[memoryview, int, RequestHeader, Broker, ConnectionInfo], bytes | None] | None:
    """What serves a request for one partition as values, not as objects (``protocol.single``).

    It gives the whole response, or None, with nothing done, if ``handle`` has to serve the request:
    also if the response comes later, or if there is an error to tell. The function is None for a
    version without such requests.
    """
    decode = single_decoder(ProduceRequest, version)
    if decode is None:
        return None
    by_id = version >= TOPIC_IDS_SINCE
    told = ("topic_id" if by_id else "name", "index", "base_offset", "log_start_offset")
    encode = single_encoder(ProduceResponse, version, told)

    def serve(
        frame: memoryview,
        position: int,
        header: RequestHeader,
        broker: Broker,
        client: ConnectionInfo,
    ) -> bytes | None:
        values = decode(frame, position)
        if values is None:
            return None
        acks, _, topic, index, records = values
        name = topic
        if by_id:
            image = broker.image.topics_by_id.get(topic)
            name = None if image is None else image.name
        if name is None or acks not in _ANSWERED:
            return None
        authorizer = broker.authorizer
        if authorizer is not None and (
            authorizer.notes_allowed or not authorizer.allows(client, WRITE, TOPIC, name)
        ):
            return None
        appended = append_in_one_step(broker, name, index, records, acks, may_wait=False)
        if appended is None:
            return None
        partition, _, offset = appended
        return encode(header.correlation_id, topic, index, offset, partition.log.log_start_offset)

    return serve


def _topic_name(broker: Broker, topic: TopicProduceData) -> str | None:
    found = broker.image.topics_by_id.get(topic.topic_id)
    return found.name if found else None


class _Appends:
    """The appends of one request: what its response waits for.

    ``unreplicated`` has the partitions whose replicas must have the records below an offset, with
    their answers. ``refused`` is the first error, 0 if nothing has failed.
    """

    __slots__ = (
        *("context", "flushes", "refused", "request"),
        *("together", "unreplicated"),
    )

    def __init__(self, request: ProduceRequest, context: RequestContext) -> None:
        self.request = request
        self.context = context
        self.flushes: list[tuple[PartitionProduceResponse, Flush]] = []
        self.unreplicated: list[tuple[LeaderPartition, int, PartitionProduceResponse]] = []
        self.refused = 0
        self.together: _Partitions | None = None

    def note(
        self, partition: Partition, info: AppendInfo, answer: PartitionProduceResponse
    ) -> None:
        """Note an append, whose answer may have to wait for the disk or for the replicas.

        If the replicas are waited for, the high watermark waits for the disk.
        """
        flush = partition.flush
        if flush is not None:
            self.context.broker.flusher.leave_to_handler(flush)
        if self.request.acks == ACKS_ALL and type(partition) is not Partition:
            led = cast("LeaderPartition", partition)
            self.unreplicated.append((led, info.last_offset + 1, answer))
        elif flush is not None:
            self.flushes.append((answer, flush))

    def fail(self, code: int) -> None:
        """Note an error."""
        self.refused = self.refused or code

    async def wait(self) -> None:
        """Wait for the disk and the replicas; where that fails, the answer becomes an error.

        The records stay in the log, as in Kafka: they may be acknowledged to another request.
        """
        work = self.context.work
        for answer, flush in self.flushes:
            await give_way(work)
            try:
                await later(flush.wait)
            except KafkaError as error:
                self.fail(error.code)
                answer.error_code, answer.error_message = error.code, error.message
                answer.base_offset = answer.log_append_time_ms = answer.log_start_offset = -1
        if self.unreplicated:
            acks = DelayedProduce(trio.current_time() + self.request.timeout_ms / 1000)
            for slot, (partition, end_offset, _) in enumerate(self.unreplicated):
                partition.wait_for(end_offset, acks, slot)
            await acknowledged(acks)
            for slot, code in acks.errors.items():
                self.unreplicated[slot][2].error_code = code
                self.fail(code)


async def _produce(
    appends: _Appends, name: str | None, data: PartitionProduceData
) -> PartitionProduceResponse:
    """Append to one partition; return its answer. Only here errors become error codes."""
    log_start_offset = -1
    try:
        partition = _partition(appends, name, data)
        batch = _batch(appends, data)
        log_start_offset = partition.log.log_start_offset
        info = await _append(partition, batch, appends)
    except KafkaError as error:
        appends.fail(error.code)
        wrong = error.record_errors if isinstance(error, InvalidBatch) else []
        return PartitionProduceResponse(
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
    answer = PartitionProduceResponse(
        index=data.index,
        base_offset=info.first_offset,
        log_append_time_ms=info.log_append_time_ms,
        log_start_offset=info.log_start_offset,
    )
    if appends.request.acks == ACKS_ALL or partition.flush is not None:
        appends.note(partition, info, answer)
    return answer


def told_log_start(error: KafkaError, log_start_offset: int) -> int:
    """The log start offset in the answer with this error."""
    return -1 if error.code in WITHOUT_LOG_START else log_start_offset


def _batch(appends: _Appends, data: PartitionProduceData) -> RecordBatch:
    """The batch for one partition; KafkaError if the bytes aren't a valid batch."""
    if data.records is None:
        raise KafkaError(ErrorCode.INVALID_RECORD, "no records")
    assert isinstance(data.records, memoryview)
    batch = client_batch(data.records, knows_zstd=appends.context.api_version >= ZSTD_SINCE)
    if batch.attributes & TRANSACTIONAL_MASK and appends.request.transactional_id is None:
        raise KafkaError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "a transactional batch in a request without a transactional id",
        )
    return batch


async def _append(partition: Partition, batch: RecordBatch, appends: _Appends) -> AppendInfo:
    """Check a batch and append it."""
    context = appends.context
    await give_way(context.work)
    log, acks = partition.log, appends.request.acks
    now_ms = context.broker.now_ms()
    if batch.size_bytes <= AT_ONCE_BYTES and is_plain(batch, log.config, now_ms):
        checked = CheckedBatch(batch, NO_TIMESTAMP)
    else:
        checked = await _check(batch, log, context)
        now_ms = context.broker.now_ms()
    if batch.attributes & TRANSACTIONAL_MASK and not log.producers.has_open_transaction(
        batch.producer_id, batch.producer_epoch
    ):
        await _verify(partition, batch, appends)
    if partition.writing is not None or checked.batch.size_bytes > AT_ONCE_BYTES:
        from kwire.handlers.lib.large_batches import append_in_turn

        verify = partial(_verify, partition, batch, appends)
        return await append_in_turn(partition, checked, acks, context, verify)
    return partition.append_checked(checked, now_ms=now_ms, required_acks=acks)


async def _check(batch: RecordBatch, log: PartitionLog, context: RequestContext) -> CheckedBatch:
    """Check a batch, in a thread if that takes long.

    The time of ``LogAppendTime`` is that of the check, not of the beginning of a wait before it.
    """
    broker = context.broker
    if batch.size_bytes <= AT_ONCE_BYTES and is_checked_inline(batch, log.config, broker.now_ms()):
        await give_way(context.work)
        with suppress(TooLarge):
            return checked_batch(batch, log.config, broker.now_ms(), INLINE_LIMITS)

    def in_thread(limits: Limits, between: BetweenPieces) -> CheckedBatch:
        return checked_batch(batch, log.config, broker.now_ms(), limits, between)

    return await open_in_thread(in_thread, batch, full_limits(broker, log.config), context)


async def _verify(partition: Partition, batch: RecordBatch, appends: _Appends) -> None:
    """Check that a transactional batch belongs to its producer's transaction; KafkaError.

    From version 12 on, the batch waits while the previous transaction is being completed.
    """
    broker, together = appends.context.broker, appends.together
    if together is None:
        together = appends.together = _Partitions(appends.request, appends.context)
    writer = Writer(
        appends.request.transactional_id,
        ProducerIdAndEpoch(batch.producer_id, batch.producer_epoch),
        _support(appends.context.api_version),
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
            if not name:
                continue
            for data in topic.partition_data:
                if broker.image.partition(name, data.index):
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


def _partition(appends: _Appends, name: str | None, data: PartitionProduceData) -> Partition:
    """The partition to append to; KafkaError if the client may not write to it."""
    request, context = appends.request, appends.context
    if request.acks not in VALID_ACKS:
        raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={request.acks}")
    if name is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    if name in INTERNAL_TOPICS and context.client_id != ADMIN_CLIENT_ID:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {name}"
        )
    return context.broker.partition(name, data.index)


@right("with records of a transaction, WRITE on its transactional id")
async def _write_transaction(request: ProduceRequest, rights: "Authorization", serve: Serve) -> Any:
    transactional_id = request.transactional_id
    if await _is_transactional(request, rights.context.work) and not (
        transactional_id is not None and rights.may(WRITE, TRANSACTIONAL_ID, transactional_id)
    ):
        if not request.acks:
            raise denied(TRANSACTIONAL_ID)
        return await rights.refuse(request, denied(TRANSACTIONAL_ID))
    return await serve(request)


async def _is_transactional(request: ProduceRequest, work: Work) -> bool:
    """Whether a partition's first batch belongs to a transaction."""
    for topic in request.topic_data:
        for piece in pieces(topic.partition_data):
            await give_way(work)
            if any(_of_transaction(one) for one in piece):
                return True
    return False


def _of_transaction(data: PartitionProduceData) -> bool:
    records = data.records
    if not isinstance(records, bytes | bytearray | memoryview) or len(records) <= _ATTRIBUTES_AT:
        return False
    return records[_MAGIC_AT] == MAGIC and bool(records[_ATTRIBUTES_AT] & TRANSACTIONAL_MASK)


@right("")
async def _end_without_answer(
    request: ProduceRequest, rights: "Authorization", serve: Serve
) -> Any:
    # With acks=0, the end of the connection is the error.
    count = len(request.topic_data)
    response = await serve(request)
    if response is None and len(request.topic_data) < count:
        raise denied(TOPIC)
    return response


RIGHTS = (
    _write_transaction,
    _end_without_answer,
    each("topic_data", WRITE, ids_since=TOPIC_IDS_SINCE, asks_for_none=True),
)
