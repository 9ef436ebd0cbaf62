"""Fetch by a follower: records up to the log end offset; the request says what the follower has.

Behavior:

- A fetch from an offset means that the follower has all records before it. So before it is
  answered, it may raise the high watermark and bring the follower into the ISR.
- If the epoch of the follower's last record ends earlier in the leader's log, the response has the
  diverging epoch instead of records (KIP-595), and the leader learns nothing from the fetch.
- A fetch is refused for each partition if its broker epoch isn't the registered one (KIP-903), even
  if this broker only doesn't know the epoch yet. A fetch by a broker that isn't a replica gets
  UNKNOWN_LEADER_EPOCH.
- Only registered brokers get sessions.
- In a session, the response has only partitions with news, and costs only as much as has changed
  (``broker.replica.replica_sessions``). The first fetch of a session looks at every partition.
- A fetch waits like a consumer's. A new log start offset is answered at once.
- If a follower reports a high watermark (version 18, KIP-1166) that is older than the leader's, the
  answer comes after ``WATERMARK_DELAY_S`` at the latest. Records that arrive before that bring the
  new one along, so a busy partition costs one fetch for each append, not two.
- A throttle may hold back records from a follower that is out of sync
  (``kwire.broker.replica.throttles``).
- ``max_bytes`` is a soft limit. Partitions that didn't fit come first in the next response.

Source: ReplicaManager.fetchMessages, Partition.fetchRecords and Replica of Kafka.
"""

from contextlib import nullcontext, suppress
from functools import partial
from typing import NamedTuple

import trio

from kwire.broker.broker import Broker
from kwire.broker.delayed import Delayed
from kwire.broker.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, PartitionKey
from kwire.broker.replica.leader_partition import LeaderPartition
from kwire.broker.replica.replica_sessions import UNKNOWN, ReplicaPosition, ReplicaSession, Tail
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.lookups import look_without_waiting
from kwire.handlers.lib.slices import give_way, pieces
from kwire.handlers.lib.waiting import happens, later
from kwire.log.page_cache import ColdPages
from kwire.log.partition_log import PartitionLog
from kwire.protocol.file_slice import FileSlice
from kwire.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

TOPIC_IDS_SINCE = 13


class Wish(NamedTuple):
    """How long a fetch waits, for how many bytes, and whether it wants partitions without news."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    is_full: bool = False


class Answer:
    """The result of reading once: the partitions with news, and whether to answer at once."""

    __slots__ = ("is_urgent", "lacks_watermark", "size_bytes", "told")

    def __init__(self) -> None:
        self.told: list[tuple[ReplicaPosition, PartitionData]] = []
        self.size_bytes = 0
        self.is_urgent = False
        self.lacks_watermark = False


async def fetch_by_replica(
    request: FetchRequest, context: RequestContext, node_id: int, broker_epoch: int
) -> FetchResponse:
    """Answer a follower's fetch, at once or when there is news."""
    sessions = context.broker.replica_sessions
    try:
        session = await _session(request, context, node_id, broker_epoch)
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    watcher = context.broker.watcher
    if watcher is not None:
        watcher.expects_nothing = True  # the follower may need this processor for its next step
    is_full = request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH)
    wish = Wish(request.max_wait_ms, request.min_bytes, request.max_bytes, is_full)
    try:
        answer = await _answer_when_due(session, wish, context)
        is_over = session.session_id != NO_SESSION and session.session_id not in sessions
        if is_over:
            return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        return await _response(answer, session, context)
    finally:
        session.change = None
        if session.session_id not in sessions:
            session.end()


async def _session(
    request: FetchRequest, context: RequestContext, node_id: int, broker_epoch: int
) -> ReplicaSession:
    """The session of a fetch, updated by the fetch; without an id if there is no room."""
    sessions = context.broker.replica_sessions
    by_id = context.api_version >= TOPIC_IDS_SINCE
    is_new = request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH)
    if is_new:
        sessions.remove(request.session_id)
        session = ReplicaSession(node_id, broker_epoch, uses_topic_ids=by_id)
    else:
        session = sessions.get(
            request.session_id, request.session_epoch, node_id, uses_topic_ids=by_id
        )
        if session.broker_epoch != broker_epoch:
            session.renew(broker_epoch)
    before = len(session.positions)
    await _take_wishes(session, request, context)
    if not is_new:
        if len(session.positions) > before:
            sessions.check_room(session)
    elif (
        request.session_epoch == INITIAL_EPOCH
        and session.positions
        and _is_registered(context.broker, node_id, broker_epoch)
    ):
        sessions.keep(session)
    return session


async def _take_wishes(
    session: ReplicaSession, request: FetchRequest, context: RequestContext
) -> None:
    """Note the partitions that a fetch names, and forget those that it leaves out."""
    for topic in request.topics:
        for piece in pieces(topic.partitions):
            for wanted in piece:
                session.want((topic.topic, topic.topic_id, wanted.partition), wanted)
            await give_way(context.work)
    for forgotten in request.forgotten_topics_data:
        for indexes in pieces(forgotten.partitions):
            for index in indexes:
                session.forget((forgotten.topic, forgotten.topic_id, index))
            await give_way(context.work)


async def _answer_when_due(session: ReplicaSession, wish: Wish, context: RequestContext) -> Answer:
    """The answer, when there are enough bytes, urgent news, or no time left."""
    broker = context.broker
    max_bytes = min(wish.max_bytes, broker.integer("fetch.max.bytes"))
    min_bytes = min(wish.min_bytes, max_bytes)
    now_s = trio.current_time()
    deadline_s = session.arrives(now_s, wish.max_wait_ms)
    is_late = deadline_s <= now_s
    while True:
        session.change = change = Delayed(deadline_s)
        answer = await _read_dirty(session, max_bytes, context, is_full=wish.is_full)
        if not session.dirty:
            change.is_set = False  # it happened before its partition was looked at
        is_enough = answer.size_bytes >= min_bytes or answer.is_urgent
        if is_enough or is_late or broker.is_stopping or not session.positions:
            return answer
        if answer.lacks_watermark:
            session.hasten()
        is_late = not await happens(change)
        if not session.positions:
            return answer  # the session has ended: nothing may be bound to its partitions again
        deadline_s = change.deadline_s
        for position, _ in answer.told:
            session.dirty[position] = None
        if wish.is_full:
            session.dirty.update(dict.fromkeys(session.positions.values()))


async def _read_dirty(
    session: ReplicaSession, max_bytes: int, context: RequestContext, *, is_full: bool
) -> Answer:
    """Read each dirty partition once; a thread reads pages that aren't in memory."""
    answer = Answer()
    broker, work = context.broker, context.work
    for position in list(session.dirty):
        if work.is_due:
            await later(work.next_slice)
        left = max_bytes - answer.size_bytes
        is_first = not answer.size_bytes
        must_wait = left <= 0 and not (is_first or position.is_new or is_full)
        if position not in session.dirty or must_wait:
            continue  # it was forgotten meanwhile, or has to wait for the next answer
        try:
            data = _read_partition(position, broker, max(left, 0), first=is_first, hurry=True)
        except ColdPages:
            read = partial(_read_partition, position, broker, max(left, 0), first=is_first)
            data = await look_without_waiting(broker, read)
        _add_partition(answer, position, data, is_full=is_full)
    return answer


def _add_partition(
    answer: Answer, position: ReplicaPosition, data: PartitionData, *, is_full: bool
) -> None:
    """Add a partition with news to an answer; it stays dirty if more is left to read."""
    session, partition = position.session, position.partition
    if position not in session.dirty:
        return
    is_error = bool(data.error_code) or data.diverging_epoch is not None
    has_records = isinstance(data.records, FileSlice)
    is_new_start = data.log_start_offset != position.told_log_start_offset
    if has_records or is_error:
        session.move_to_end(position)
    elif partition is None or position.fetch_offset >= partition.log.log_end_offset:
        del session.dirty[position]
    is_news = (
        *(has_records, is_error, is_new_start),
        data.high_watermark != position.told_high_watermark,
    )
    if is_full or any(is_news):
        answer.told.append((position, data))
    if isinstance(data.records, FileSlice):
        answer.size_bytes += data.records.size_bytes
    if is_error:
        answer.is_urgent = True
    if position.lacks_watermark:
        answer.lacks_watermark = True
    if is_new_start and position.told_log_start_offset != UNKNOWN:
        answer.is_urgent = True


def _read_partition(
    position: ReplicaPosition, broker: Broker, left: int, *, first: bool, hurry: bool
) -> PartitionData:
    """One partition's answer. Only here errors become error codes. Raises ColdPages."""
    partition: LeaderPartition | None = None
    try:
        partition = _led_partition(position, broker)
        log = partition.log
        diverging = _diverging(partition, position)
        if diverging is None:
            _record_position(partition, position)
            records = None
            if broker.throttles is None or not _is_held_back(partition, position, broker):
                records = _read_to_end(position, log, min(left, position.max_bytes), first, hurry)
                _count(partition, records, broker)
    except KafkaError as error:
        is_outside = error.code is ErrorCode.OFFSET_OUT_OF_RANGE and partition is not None
        return PartitionData(
            partition_index=position.key[2],
            error_code=error.code,
            high_watermark=-1,
            log_start_offset=partition.log.log_start_offset if is_outside and partition else -1,
            aborted_transactions=None,
            records=b"",
        )
    return PartitionData(
        partition_index=partition.index,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=log.log_start_offset,
        diverging_epoch=diverging,
        aborted_transactions=None,
        records=b"" if diverging is not None or records is None else records,
    )


def _is_held_back(partition: LeaderPartition, position: ReplicaPosition, broker: Broker) -> bool:
    """Whether a follower out of sync gets no records now (``kwire.broker.replica.throttles``)."""
    assert broker.throttles is not None
    throttle, follower = broker.throttles.leader, position.session.node_id
    return (
        follower not in partition.in_sync
        and throttle.pause_s(trio.current_time()) > 0
        and throttle.names(partition.topic, partition.index)
    )


def _count(partition: LeaderPartition, records: FileSlice | None, broker: Broker) -> None:
    if broker.throttles is not None and records is not None:
        throttle = broker.throttles.leader
        if throttle.names(partition.topic, partition.index):
            throttle.record(records.size_bytes, trio.current_time())


def _read_to_end(
    position: ReplicaPosition, log: PartitionLog, max_bytes: int, first: bool, hurry: bool
) -> FileSlice | None:
    """Batches up to the log's end; KafkaError, ColdPages.

    A follower that had read to the end continues there, without a search for the position.
    """
    offset, segment, tail = position.fetch_offset, log.active, position.tail
    records: FileSlice | None = None
    if (
        tail is not None
        and tail.segment is segment
        and tail.offset == offset
        and 0 < segment.size_bytes - tail.position <= max_bytes
    ):
        with suppress(OSError):  # reading by the log meets the same error, and reports it
            records = segment.slice(tail.position, segment.size_bytes - tail.position)
    if records is None:
        with log.hurry if hurry else nullcontext():
            records = log.read(
                offset, max_bytes, end_offset=log.log_end_offset, min_one_batch=first
            )
    if records is not None and records.position + records.size_bytes == segment.size_bytes:
        is_active = segment.holds(records)
        position.tail = Tail(segment, log.log_end_offset, segment.size_bytes) if is_active else None
    return records


def _led_partition(position: ReplicaPosition, broker: Broker) -> LeaderPartition:
    """The partition. From now on it tells the session about changes. KafkaError."""
    session, partition = position.session, position.partition
    epoch = position.current_leader_epoch
    is_registered = _is_registered(broker, session.node_id, session.broker_epoch)
    if (
        partition is not None
        and is_registered
        and epoch in (UNKNOWN, partition.leader_epoch)
        and not partition.is_deleted
        and partition.log.health.failure is None
        and session.node_id in partition.followers
    ):
        return partition  # nothing has changed since it was found
    if session.positions.get(position.key) is not position:
        raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)  # it ended while a thread read pages
    name, topic_id, index = position.key
    found = (
        broker.partition_by_id(topic_id, index)
        if session.uses_topic_ids
        else broker.partition(name, index)
    )
    found.check_leader_epoch(epoch)
    if not isinstance(found, LeaderPartition):
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER if epoch == UNKNOWN else _NOT_YET
        raise KafkaError(code, f"{found.topic}-{found.index} has no followers")
    found.follower(session.node_id, names_epoch=epoch != UNKNOWN)
    if not is_registered:
        raise KafkaError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"a fetch of broker {session.node_id} from before or after its registration",
        )
    position.bind(found)
    return found


def _is_registered(broker: Broker, node_id: int, broker_epoch: int) -> bool:
    """Whether a broker is registered with this epoch; old versions of Fetch name none (-1)."""
    registered = broker.image.brokers.get(node_id)
    return registered is not None and broker_epoch in (UNKNOWN, registered.epoch)


def _diverging(partition: LeaderPartition, position: ReplicaPosition) -> EpochEndOffset | None:
    """The end of the follower's newest epoch in this log, if it lies before the follower's end.

    Raises KafkaError (OFFSET_OUT_OF_RANGE) if this log doesn't know the epoch.
    """
    epoch, offset = position.last_fetched_epoch, position.fetch_offset
    log = partition.log
    if epoch == UNKNOWN or not position.is_new:
        return None
    found, end_offset = log.end_offset_for_epoch(epoch)
    if found == UNKNOWN or offset < log.log_start_offset:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {offset} of leader epoch {epoch} isn't in {log.name}",
        )
    if found < epoch or end_offset < offset:
        return EpochEndOffset(epoch=found, end_offset=end_offset)
    return None


def _record_position(partition: LeaderPartition, position: ReplicaPosition) -> None:
    """Note the position in a fetch, once; KafkaError, first of all OFFSET_OUT_OF_RANGE."""
    if not position.is_new:
        return
    log, offset, session = partition.log, position.fetch_offset, position.session
    if not log.log_start_offset <= offset <= log.log_end_offset:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} isn't in {log.name}")
    follower = partition.follower(session.node_id, names_epoch=True)
    partition.followed(follower, offset, position.log_start_offset, session.broker_epoch)
    position.is_new = False


async def _response(
    answer: Answer, session: ReplicaSession, context: RequestContext
) -> FetchResponse:
    """The response; the session remembers its content, to leave out what has not changed."""
    topics: list[FetchableTopicResponse] = []
    last: PartitionKey = ("", b"", UNKNOWN)
    for piece in pieces(answer.told):
        for position, data in piece:
            position.record_answer(data)
            key = position.key
            if not topics or key[:2] != last[:2]:
                topics.append(FetchableTopicResponse(topic=key[0], topic_id=key[1], partitions=[]))
                last = key
            topics[-1].partitions.append(data)
        await give_way(context.work)
    return FetchResponse(session_id=session.session_id, responses=topics)


_NOT_YET = ErrorCode.UNKNOWN_LEADER_EPOCH
