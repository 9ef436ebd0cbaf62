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

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from kwire.broker.delayed import Delayed
from kwire.broker.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    CachedPartition,
    FetchSession,
    PartitionKey,
    SessionLimits,
    WantedPartition,
)
from kwire.broker.partition import HostedPartition
from kwire.budget.work import Work
from kwire.errors import KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.lookups import look_without_waiting
from kwire.handlers.lib.reading import (
    TOPIC_IDS_SINCE,
    Reading,
    WantedTopic,
    note_allowed,
)
from kwire.handlers.lib.rights import CLUSTER_ACTION, FAILED, TOPIC, Serve, right
from kwire.handlers.lib.slices import PIECE, give_way, in_slices, pieces
from kwire.handlers.lib.waiting import happens, later
from kwire.log.page_cache import ColdPages
from kwire.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kwire.protocol.refusing import refusing_each

if TYPE_CHECKING:
    from kwire.handlers.lib.authorization import Authorization

MANY = 10_000
"""The lists of an answer with so many partitions would take the garbage collector long."""

AT_ONCE = 16
"""So many partitions without news are looked at between two looks at the clock."""

Wanted = Sequence[tuple[PartitionKey, WantedPartition]]


class SessionTopic(NamedTuple):
    """Partitions of one topic of a session, which are neighbors there."""

    topic: str
    topic_id: bytes
    partitions: list[CachedPartition]


async def handle(request: FetchRequest, context: RequestContext) -> FetchResponse:
    """Answer with the records that exist, or wait for more."""
    replica = request.replica_state
    node_id = request.replica_id if replica is None else replica.replica_id
    if node_id >= 0:
        from kwire.handlers.replica_fetch import fetch_by_replica

        context.work.is_exempt = True  # quotas are for clients
        epoch = -1 if replica is None else replica.replica_epoch
        return await fetch_by_replica(request, context, node_id, epoch)
    session, broker = None, context.broker
    if request.session_id or request.session_epoch != FINAL_EPOCH:
        try:
            session = await _session(request, context)
        except KafkaError as error:
            return FetchResponse(error_code=error.code)
        finally:
            if broker.fetch_sessions.ended:
                _free_ended_sessions(context)
    if broker.authorizer is not None and broker.authorizer.notes_allowed:
        topics = request.topics if session is None else await _topics(session, None, context.work)
        await note_allowed(topics, context)
    max_bytes = min(request.max_bytes, broker.integer("fetch.max.bytes"))
    if broker.quotas is not None:  # the client isn't to be throttled for long
        max_bytes = broker.quotas.most_fetched(context.principal, context.client_id, max_bytes)
    reading = await _read_partitions(request, session, max_bytes, context)
    # A minimum above the maximum would always wait in vain.
    min_bytes = min(request.min_bytes, max_bytes)
    if reading.size_bytes < min_bytes and not reading.has_error and reading.partitions:
        reading = await _read_later(reading, min_bytes, max_bytes, request, session, context)
    return await _response(reading, session, request, context)


async def _read_later(
    reading: Reading,
    min_bytes: int,
    max_bytes: int,
    request: FetchRequest,
    session: FetchSession | None,
    context: RequestContext,
) -> Reading:
    """Wait until there is enough to answer, or until the time is up; what was read then."""
    deadline_s = trio.current_time() + max(request.max_wait_ms, 0) / 1000
    change = Delayed(deadline_s, len(reading.partitions))
    watched: list[HostedPartition] = []
    try:
        while reading.size_bytes < min_bytes and not reading.has_error:
            await _watch_partitions(change, reading, watched, context.work)
            if context.broker.is_stopping or not await happens(change):
                break
            reading = await _read_partitions(request, session, max_bytes, context)
    finally:
        for partition in watched:
            partition.waiters.discard(change)
    return reading


async def _watch_partitions(
    change: Delayed, reading: Reading, watched: list[HostedPartition], work: Work
) -> None:
    """Have a change of each partition that was read set ``change``; add them to ``watched``."""
    watched_before = len(watched)
    for piece in pieces(reading.partitions):
        if work.is_due:
            reading.has_waited = True
            await later(work.next_slice)
        for partition in piece:
            waiters = partition.waiters
            if change not in waiters:  # the request may name it many times
                waiters.add(change)
                watched.append(partition)
    if reading.has_waited and len(watched) > watched_before:
        change.set()  # records may have arrived between the read and now


async def _response(
    reading: Reading, session: FetchSession | None, request: FetchRequest, context: RequestContext
) -> FetchResponse:
    """The partitions of the response; in a session, only those with news."""
    work = context.work
    is_incremental = request.session_epoch > INITIAL_EPOCH
    response = FetchResponse(session_id=session.session_id if session else NO_SESSION)
    if context.broker.quotas is not None and not _is_allowed(reading, response, context):
        if not is_incremental:  # as in Kafka, clients begin a new one
            context.broker.fetch_sessions.remove(response.session_id)
            response.session_id = NO_SESSION
        return response
    await _add_topics(response.responses, reading, session, work, is_incremental=is_incremental)
    if reading.has_error:
        from kwire.handlers.lib.leader_hints import hint_consumer

        await in_slices(hint_consumer(response, context), work)
    return response


def _is_allowed(reading: Reading, response: FetchResponse, context: RequestContext) -> bool:
    """Count the bytes of a response for the client's quota; False if it has to do without them."""
    quotas = context.broker.quotas
    assert quotas is not None
    response.throttle_time_ms, is_allowed = quotas.fetched(
        context.principal, context.client_id, reading.size_bytes
    )
    return is_allowed


async def _add_topics(
    topics: list[FetchableTopicResponse],
    reading: Reading,
    session: FetchSession | None,
    work: Work,
    *,
    is_incremental: bool,
) -> None:
    """Add what was read to a response, and count the bytes that leave each partition."""
    for piece in pieces(reading.answers):
        if topics:
            await give_way(work)
        for topic, answers in piece:
            if session is not None:
                answers = await _news(session, topic, answers, work, is_incremental=is_incremental)
            _add_topic(topics, topic, answers)
    if len(reading.answers) > PIECE:
        work.doomed.append(reading.answers)
    for some in pieces(reading.read):
        for partition, size_bytes in some:
            partition.bytes_out += size_bytes
        await give_way(work)


def _add_topic(
    topics: list[FetchableTopicResponse], topic: WantedTopic, answers: list[PartitionData]
) -> None:
    """Add a topic to a response; neighbors of the same topic share one entry."""
    last = topics[-1] if topics else None
    if last is not None and last.topic == topic.topic and last.topic_id == topic.topic_id:
        last.partitions += answers
    elif answers:
        topics.append(
            FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=answers)
        )


async def _news(
    session: FetchSession,
    topic: WantedTopic,
    answers: list[PartitionData],
    work: Work,
    *,
    is_incremental: bool,
) -> list[PartitionData]:
    """The answers for a topic of a session; if it is incremental, only those with news.

    The session remembers them. A partition that had records comes after the others next time.
    """
    kept: list[PartitionData] = []
    pairs = list(zip(topic.partitions, answers, strict=True))
    for piece in pieces(pairs):
        await give_way(work)
        for cached, data in piece:
            assert isinstance(cached, CachedPartition)
            if cached.is_news(data) or not is_incremental:
                kept.append(data)
            if data.records:
                session.move_to_end(cached)
    return kept


async def _session(request: FetchRequest, context: RequestContext) -> FetchSession | None:
    """The session of a fetch, updated by the fetch; None if it has none."""
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
            return None
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
        return session
    session = sessions.get(request.session_id, request.session_epoch, uses_topic_ids, steady_ms)
    if wanted or request.forgotten_topics_data:
        await _update(session, wanted, context)
        await _forget(session, request, context)
    return session


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
    """The partitions that a request names, for its session."""
    wanted: list[tuple[PartitionKey, WantedPartition]] = []
    for topic in request.topics:
        for piece in pieces(topic.partitions):
            await give_way(work)
            wanted += [((topic.topic, topic.topic_id, one.partition), one) for one in piece]
    return wanted


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


async def _topics(
    session: FetchSession, reading: Reading | None, work: Work
) -> Sequence[SessionTopic]:
    """The partitions of a session to look at.

    With ``reading``, those that are quiet are left out; it notes that they were looked at.
    """
    topics: list[SessionTopic] = []
    last: CachedPartition | None = None
    for piece in pieces(list(session.partitions.values())):
        if work.is_due:
            await later(work.next_slice)
            if reading is not None:
                reading.has_waited = True
        for cached in piece:
            if reading is not None and cached.is_quiet:
                partition = cached.reference.partition
                assert partition is not None
                reading.partitions.append(partition)
                continue
            if last is None or last.topic != cached.topic or last.topic_id != cached.topic_id:
                topics.append(SessionTopic(cached.topic, cached.topic_id, []))
                last = cached
            topics[-1].partitions.append(cached)
    if len(session.partitions) > PIECE:
        work.doomed.append(topics)
    return topics


async def _read_partitions(
    request: FetchRequest, session: FetchSession | None, max_bytes: int, context: RequestContext
) -> Reading:
    """Look once at each partition that isn't quiet; a thread reads pages that aren't in memory."""
    work = context.work
    reading = Reading(request, session is not None, max_bytes, context)
    topics: Sequence[WantedTopic] = request.topics
    if session is not None:
        is_incremental = request.session_epoch > INITIAL_EPOCH
        topics = await _topics(session, reading if is_incremental else None, work)
    left = 0  # partitions until the next look at the clock
    for topic in topics:
        reading.open_topic(topic)
        answers: list[PartitionData] = []
        reading.answers.append((topic, answers))
        for wanted in topic.partitions:
            if not left:
                left = AT_ONCE
                if work.is_due:
                    await later(work.next_slice)
                    reading.reopen_topic()
            left -= 1
            try:
                data = reading.read_partition(wanted)
            except ColdPages:
                look = partial(reading.read_partition_again, wanted)
                data = await look_without_waiting(context.broker, look)
                reading.reopen_topic()
            if data.records:
                left = 0
            answers.append(data)
    return reading


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
