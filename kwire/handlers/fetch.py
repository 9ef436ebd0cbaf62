"""Fetch: reads batches from partitions, and waits for them if there are too few.

Behavior:

- A fetch waits until there are ``min_bytes`` or an error, or until ``max_wait_ms`` have passed. An
  append wakes only the fetches that wait for its partition.
- ``max_bytes`` is soft: the first partition with data gives at least one whole batch.
- In a session (KIP-227), the answer holds only partitions with news.
- read_committed stops at the last stable offset. The answer names the aborted transactions that may
  have records in it, by their first offsets.
- Threads read the parts of files that aren't in memory, while the fetch waits.
- ``replica_fetch`` serves the fetches of followers.
- ``nearest_replica`` sends a consumer to a follower in its rack.
"""

from collections.abc import Iterable, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from kwire.broker.broker import Broker
from kwire.broker.delayed import Delayed
from kwire.broker.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchSession,
    PartitionKey,
    SessionLimits,
    WantedPartition,
)
from kwire.broker.replica.partition_registry import Hosted as Readable
from kwire.budget.work import Work
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.fetch_news import add_by_topic, remember
from kwire.handlers.lib.lookups import look_without_waiting
from kwire.handlers.lib.readable import note_allowed, readable_partition
from kwire.handlers.lib.rights import CLUSTER_ACTION, FAILED, TOPIC, Serve, right
from kwire.handlers.lib.slices import PIECE, give_way, in_slices, pieces
from kwire.handlers.lib.waiting import happens, later
from kwire.log.page_cache import ColdPages
from kwire.protocol.file_slice import FileSlice
from kwire.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kwire.protocol.refusing import refusing_each
from kwire.protocol.taking_apart import collect_young

if TYPE_CHECKING:
    from kwire.handlers.lib.authorization import Authorization

READ_COMMITTED = 1
TOPIC_IDS_SINCE = 13

MANY = 10_000
"""The lists of an answer with so many partitions would take the garbage collector long."""

Wanted = Sequence[tuple[PartitionKey, WantedPartition]]


class Answer(NamedTuple):
    """The result of reading all partitions once; a redirect to another replica is an error too."""

    partitions: list[tuple[PartitionKey, PartitionData]]
    size_bytes: int
    has_error: bool


async def handle(request: FetchRequest, context: RequestContext) -> FetchResponse:
    """Answer with the records that exist, or wait for more."""
    replica = request.replica_state
    node_id = request.replica_id if replica is None else replica.replica_id
    if node_id >= 0:
        from kwire.handlers.replica_fetch import fetch_by_replica

        context.work.is_exempt = True  # quotas are for clients
        epoch = -1 if replica is None else replica.replica_epoch
        return await fetch_by_replica(request, context, node_id, epoch)
    return await _fetch_by_client(request, context)


async def _fetch_by_client(request: FetchRequest, context: RequestContext) -> FetchResponse:
    try:
        session, wanted = await _session(request, context)
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    finally:
        if context.broker.fetch_sessions.ended:
            _free_ended_sessions(context)
    if context.broker.authorizer is not None:
        await note_allowed(wanted, context)
    # A minimum above the maximum would always wait in vain.
    max_bytes = min(request.max_bytes, context.broker.integer("fetch.max.bytes"))
    if context.broker.quotas is not None:
        max_bytes = request.max_bytes = _allowed(max_bytes, context)
    min_bytes = min(request.min_bytes, max_bytes)
    waits_before = context.broker.cold_reads.count
    answer = await _read(wanted, session, request, context)
    if answer.size_bytes < min_bytes and not answer.has_error and wanted:
        change = Delayed(trio.current_time() + max(request.max_wait_ms, 0) / 1000, len(wanted))
        partitions: list[Readable] = []
        try:
            await _watch(change, wanted, partitions, request, context)
            if context.work.is_large or context.broker.cold_reads.count > waits_before:
                change.set()  # records may have arrived while the fetch waited for a slice or disk
            while answer.size_bytes < min_bytes and not answer.has_error:
                if context.broker.is_stopping or not await happens(change):
                    break
                answer = await _read(wanted, session, request, context)
        finally:
            for partition in partitions:
                partition.waiters.discard(change)
    return await _response(answer, session, request, context)


def _allowed(max_bytes: int, context: RequestContext) -> int:
    """The most bytes that the client may get in one answer without being throttled for long."""
    quotas = context.broker.quotas
    assert quotas is not None
    return quotas.most_fetched(context.principal, context.client_id, max_bytes)


async def _watch(
    change: Delayed,
    wanted: Wanted,
    partitions: list[Readable],
    request: FetchRequest,
    context: RequestContext,
) -> None:
    """Have an append to a partition set ``change``; add the partitions to ``partitions``."""
    for piece in pieces(wanted):
        await give_way(context.work)
        for key, one in piece:
            try:
                partition = readable_partition(key, one, context)
            except KafkaError:
                change.set()  # the partition was deleted: the next read finds the error
            else:
                if change not in partition.waiters:  # the request may name it many times
                    partition.waiters.add(change)
                    partitions.append(partition)


async def _response(
    answer: Answer, session: FetchSession | None, request: FetchRequest, context: RequestContext
) -> FetchResponse:
    """The partitions of the response; in a session, only those with news."""
    incremental = session is not None and request.session_epoch > INITIAL_EPOCH
    topics: list[FetchableTopicResponse] = []
    session_id = session.session_id if session else NO_SESSION
    wait_ms, quotas = 0, context.broker.quotas
    if quotas is not None:
        size_bytes = answer.size_bytes
        wait_ms, is_allowed = quotas.fetched(context.principal, context.client_id, size_bytes)
        if not is_allowed:
            if session is not None and not incremental:  # as in Kafka, clients begin a new one
                context.broker.fetch_sessions.remove(session_id)
                session_id = NO_SESSION
            return FetchResponse(throttle_time_ms=wait_ms, session_id=session_id)
    is_long = len(answer.partitions) > PIECE
    if is_long:
        context.work.doomed.append(answer.partitions)
    for piece in pieces(answer.partitions):
        await give_way(context.work)
        _count(piece, context.broker)
        if session is not None:
            piece = remember(session, piece, incremental=incremental)
        is_first = is_long and not topics
        add_by_topic(topics, piece)
        if is_first and len(answer.partitions) > MANY:
            collect_young()
    told = FetchResponse(session_id=session_id, responses=topics)
    told.throttle_time_ms = wait_ms
    if answer.has_error:
        from kwire.handlers.lib.leader_hints import hint_consumer

        await in_slices(hint_consumer(told, context), context.work)
    return told


def _count(answers: Iterable[tuple[PartitionKey, PartitionData]], broker: Broker) -> None:
    """Count the bytes that leave each partition."""
    for (name, topic_id, index), data in answers:
        if isinstance(data.records, FileSlice):
            topic = broker.image.topics_by_id.get(topic_id)
            partition = broker.partition_if_served(topic.name if topic else name, index)
            if partition is not None:
                partition.bytes_out += data.records.size_bytes


async def _session(
    request: FetchRequest, context: RequestContext
) -> tuple[FetchSession | None, Wanted]:
    """The session of a fetch, if it has one, and the partitions to fetch."""
    work = context.work
    sessions = context.broker.fetch_sessions
    uses_topic_ids = context.api_version >= TOPIC_IDS_SINCE
    steady_ms = context.broker.clock.steady_ms()
    wanted = await _wanted(request, work)
    if len(wanted) > PIECE:
        work.doomed.append(wanted)
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        if request.session_id != NO_SESSION:
            sessions.remove(request.session_id)
        if request.session_epoch == FINAL_EPOCH or not wanted:
            return None, wanted
        first = wanted[:PIECE]
        session = sessions.create(
            first,
            uses_topic_ids=uses_topic_ids,
            limits=_limits(context),
            steady_ms=steady_ms,
            size=len(wanted),
        )
        if session is not None and len(wanted) > PIECE:
            try:
                await _update(session, wanted[PIECE:], context)
            except KafkaError:  # the session no longer fits
                session = None
        return session, wanted
    session = sessions.get(request.session_id, request.session_epoch, uses_topic_ids, steady_ms)
    if wanted or request.forgotten_topics_data:
        await _update(session, wanted, context)
        await _forget(session, request, context)
    return session, await _listed(session, work)


def _free_ended_sessions(context: RequestContext) -> None:
    """Free the partitions of large sessions that have ended, in slices."""
    sessions = context.broker.fetch_sessions
    context.work.is_large = True
    context.work.doomed += sessions.ended
    sessions.ended = []


def _limits(context: RequestContext) -> SessionLimits:
    integer = context.broker.integer
    return SessionLimits(
        integer("max.incremental.fetch.session.cache.slots"),
        integer("kwire.fetch.session.cache.max.partitions"),
    )


async def _wanted(request: FetchRequest, work: Work) -> Wanted:
    """The partitions that a request names."""
    wanted: list[tuple[PartitionKey, WantedPartition]] = []
    for topic in request.topics:
        for piece in pieces(topic.partitions):
            await give_way(work)
            wanted += [((topic.topic, topic.topic_id, one.partition), one) for one in piece]
    return wanted


async def _listed(session: FetchSession, work: Work) -> Wanted:
    """Every partition of a session."""
    if len(session.partitions) > PIECE:
        return await _listed_in_slices(session, work)
    return list(session.partitions.items())


async def _listed_in_slices(session: FetchSession, work: Work) -> Wanted:
    partitions = session.partitions
    listed: list[tuple[PartitionKey, WantedPartition]] = []
    for piece in pieces(list(partitions)):  # another request may change them between two slices
        await give_way(work)
        listed += [(key, partitions[key]) for key in piece if key in partitions]
    work.doomed.append(listed)
    return listed


async def _forget(session: FetchSession, request: FetchRequest, context: RequestContext) -> None:
    """Remove partitions from a session; KafkaError if the session has ended meanwhile."""
    for topic in request.forgotten_topics_data:
        for piece in pieces(topic.partitions):
            await give_way(context.work)
            forgotten = [(topic.topic, topic.topic_id, index) for index in piece]
            context.broker.fetch_sessions.update(session, (), forgotten, _limits(context))


async def _update(session: FetchSession, wanted: Wanted, context: RequestContext) -> None:
    """Add or change partitions of a session; KafkaError if the session ends."""
    for piece in pieces(wanted):
        await give_way(context.work)
        context.broker.fetch_sessions.update(session, piece, (), _limits(context))


async def _read(
    wanted: Wanted, session: FetchSession | None, request: FetchRequest, context: RequestContext
) -> Answer:
    """Look once at each partition that isn't quiet; a thread reads pages that aren't in memory."""
    incremental = session is not None and request.session_epoch > INITIAL_EPOCH
    left = min(request.max_bytes, context.broker.integer("fetch.max.bytes"))
    total = 0
    has_error = False
    partitions: list[tuple[PartitionKey, PartitionData]] = []
    work = context.work
    broker = context.broker
    for place, (key, partition) in enumerate(wanted):
        cached = session.partitions.get(key) if session is not None else None
        if cached is not None and incremental and cached.is_quiet:
            if not place % PIECE:  # a look at the clock would take longer than this partition
                await give_way(work)
            continue
        if work.is_due:
            await later(work.next_slice)
        is_first = not total
        try:
            data = _read_partition(
                key, partition, request, context, left, first=is_first, hurry=True
            )
        except ColdPages:
            read = partial(_read_partition, key, partition, request, context, left, first=is_first)
            data = await look_without_waiting(broker, read)
        if isinstance(data.records, FileSlice):
            total += data.records.size_bytes
            left = max(0, left - data.records.size_bytes)
        elif data.error_code or data.preferred_read_replica >= 0:
            has_error = True
        if cached is not None and not data.error_code:
            with suppress(KafkaError):  # the partition was deleted meanwhile
                cached.answered_by(readable_partition(key, partition, context))
        partitions.append((key, data))
    return Answer(partitions, total, has_error)


def _read_partition(
    key: PartitionKey,
    wanted: WantedPartition,
    request: FetchRequest,
    context: RequestContext,
    left: int,
    *,
    first: bool,
    hurry: bool,
) -> PartitionData:
    """One partition's answer. Only here errors become error codes. Raises ColdPages."""
    partition: Readable | None = None
    read_committed = request.isolation_level == READ_COMMITTED
    try:
        partition = readable_partition(key, wanted, context)
        if request.rack_id and context.broker.selects_nearest:
            from kwire.handlers.lib.nearest_replica import nearer

            elsewhere = nearer(partition, wanted.fetch_offset, request, context)
            if elsewhere is not None:
                return elsewhere
        max_bytes = min(left, wanted.partition_max_bytes)
        with partition.log.hurry if hurry else nullcontext():
            records = partition.read(
                wanted.fetch_offset, max_bytes, read_committed=read_committed, min_one_batch=first
            )
            aborted = _aborted(partition, wanted, records) if read_committed else None
    except KafkaError as error:
        out_of_range = error.code is ErrorCode.OFFSET_OUT_OF_RANGE and partition is not None
        return PartitionData(
            partition_index=key[2],
            error_code=error.code,
            high_watermark=-1,
            log_start_offset=partition.log.log_start_offset if out_of_range and partition else -1,
            records=b"",
        )
    return PartitionData(
        partition_index=key[2],
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=partition.log.log_start_offset,
        aborted_transactions=aborted,
        records=b"" if records is None else records,
    )


def _aborted(
    partition: Readable, wanted: WantedPartition, records: FileSlice | None
) -> list[AbortedTransaction]:
    """The aborted transactions whose records a read_committed consumer leaves out."""
    if records is None:
        return []
    found = partition.log.aborted_transactions(
        wanted.fetch_offset, partition.last_stable_offset, records
    )
    return [
        AbortedTransaction(producer_id=entry.producer_id, first_offset=entry.first_offset)
        for entry in found
    ]


@right("READ on each topic for clients, which the handler checks; CLUSTER_ACTION for brokers")
async def _cluster_action(request: FetchRequest, rights: "Authorization", serve: Serve) -> Any:
    # A fetch session also has topics of earlier requests, so the handler checks the topics.
    replica_id = request.replica_state.replica_id if request.replica_state else request.replica_id
    if replica_id < 0 or rights.may_on_cluster(CLUSTER_ACTION):
        return await serve(request)
    kinds, error = (FetchTopic, FetchableTopicResponse), KafkaError(FAILED[TOPIC])
    refused = refusing_each(request.topics, *kinds, error, rights.context.api_version)
    return FetchResponse(responses=await rights.made(refused, error))


RIGHTS = (_cluster_action,)
