"""ShareFetch: acquires records for a member of a share group, and takes its acknowledgements.

Behavior:

- A share session remembers the partitions of a member, so that requests name only changes. Epoch 0
  begins a session, which acknowledges nothing; -1 ends it, and releases what the member holds.
- The answer has the records that were acquired, and which of them: other records may be between
  them. It waits until there are ``min_bytes`` of them, until an error, or until ``max_wait_ms``
  have passed; nothing is acquired before. What a member acquires, another member doesn't get until
  the lock ends.
- A consumer that has to wait because of its quota acquires nothing. (Kafka acquires records, and
  then sends none.)
- Partitions take turns in being the first, because ``max_records`` may be reached before the last.
  With ``share_acquire_mode`` 1, ``max_records`` is exact. Otherwise the last batch of the log is
  acquired whole.
- Markers are never acquired. If the group's ``share.isolation.level`` is read_committed, neither
  are aborted records, nor those of open transactions.
- Acknowledgements in the request are persistent before the answer. A request with renewals
  (``is_renew_ack``) acquires nothing.

Source: KafkaApis.handleShareFetchRequest, DelayedShareFetch of Kafka.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import trio

from kwire.broker.delayed import Delayed
from kwire.broker.partition import Partition
from kwire.broker.share_partitions import ServedShare
from kwire.broker.share_settings import ShareSettings
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.leader_hints import hint_member
from kwire.handlers.lib.lookups import look_without_waiting
from kwire.handlers.lib.rights import GROUP, READ, once
from kwire.handlers.lib.share_acknowledgements import Acknowledgements, check_may_read
from kwire.handlers.lib.share_groups import check_share_protocol
from kwire.handlers.lib.share_sessions import named_member
from kwire.handlers.lib.slices import give_way, in_slices, pieces
from kwire.handlers.lib.waiting import happens, later
from kwire.log.page_cache import ColdPages
from kwire.log.transaction_index import AbortedTransaction
from kwire.protocol.file_slice import FileSlice
from kwire.protocol.messages.share_fetch import (
    AcquiredRecords,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from kwire.record.batch import CONTROL_MASK, TRANSACTIONAL_MASK
from kwire.record.batch_scan import BatchHeader, scan_headers
from kwire.share.key import SharePartitionKey
from kwire.share.partition import Acquired, FetchedBatch
from kwire.share.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    Client,
    ShareSession,
    TopicPartition,
)

RIGHTS = (once(READ, of=GROUP),)

STRICT = 1
"""The ``share_acquire_mode`` in which ``max_records`` is exact (KIP-1206)."""

MAX_READ_BYTES = 1024 * 1024
"""One partition gives at most so many bytes at a time, or one batch."""

BYTES = 50
"""The approximate bytes of a partition's error in the response."""

_SCAN_BYTES = 16 * 1024

_EXPECTED = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.CORRUPT_MESSAGE,
}
"""The errors of a partition that every client handles (ShareFetchCollector of Kafka)."""


async def handle(request: ShareFetchRequest, context: RequestContext) -> ShareFetchResponse:
    """Acknowledge and acquire."""
    try:
        check_share_protocol(context.broker)
        session = await _session(request, context)
    except KafkaError as error:
        return ShareFetchResponse(error_code=error.code, error_message=error.message or None)
    fetch = _ShareFetch(request, session, context)
    await fetch.acknowledge()
    if request.share_session_epoch == FINAL_EPOCH:
        context.broker.share_partitions.end(session)
    elif request.max_bytes > 0 and request.max_records > 0 and not request.is_renew_ack:
        await fetch.acquire_or_wait()
    await fetch.acknowledgements.end()
    return await fetch.response()


async def _session(request: ShareFetchRequest, context: RequestContext) -> ShareSession:
    """The session of a request, with the changes that it makes; KafkaError."""
    manager = context.broker.share_partitions
    sessions, limits = manager.sessions, manager.limits()
    group_id, member_id = named_member(request.group_id, request.member_id)
    epoch = request.share_session_epoch
    if epoch == INITIAL_EPOCH:
        if await _acknowledges(request, context):
            text = "the first request of a session acknowledges nothing"
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        connection = context.connection
        client = Client(connection.connection_id, str(connection.principal), connection.is_gone)
        session = sessions.begin(group_id, member_id, limits, client)
    else:
        session = sessions.next(group_id, member_id, epoch)
        if epoch == FINAL_EPOCH:
            sessions.remove(group_id, member_id)
            return session
    for topic in request.topics:
        for piece in pieces(topic.partitions):
            await give_way(context.work)
            added = [(topic.topic_id, one.partition_index) for one in piece]
            sessions.add(session, added, limits)
    for forgotten in request.forgotten_topics_data:
        for some in pieces(forgotten.partitions):
            await give_way(context.work)
            sessions.forget(session, [(forgotten.topic_id, index) for index in some])
    return session


async def _acknowledges(request: ShareFetchRequest, context: RequestContext) -> bool:
    for topic in request.topics:
        for one in topic.partitions:
            await give_way(context.work)
            if one.acknowledgement_batches:
                return True
    return False


class _ShareFetch:
    """One request: what it acknowledges, and what it acquires."""

    def __init__(
        self, request: ShareFetchRequest, session: ShareSession, context: RequestContext
    ) -> None:
        self._request = request
        self._session = session
        self._context = context
        self._manager = context.broker.share_partitions
        self._settings: ShareSettings = self._manager.settings(session.group_id)
        self._rows: dict[TopicPartition, PartitionData] = {}
        self._left_records = request.max_records
        self._left_bytes = min(request.max_bytes, context.broker.integer("fetch.max.bytes"))
        self._least_bytes = request.min_bytes
        self._wait_ms = 0
        self._has_error = self._lacks_coordinator = False
        self.acknowledgements = Acknowledgements()

    async def acknowledge(self) -> None:
        """Begin the acknowledgements."""
        renews = self._request.is_renew_ack and self._settings.renews
        for topic in self._request.topics:
            for one in topic.partitions:
                await give_way(self._context.work)
                if one.acknowledgement_batches:
                    await self.acknowledgements.begin(
                        self._key((topic.topic_id, one.partition_index)),
                        self._session.member_id,
                        one.acknowledgement_batches,
                        self._context,
                        self._settings,
                        renews=renews,
                    )

    async def acquire_or_wait(self) -> None:
        """Acquire records; wait for them if there are none."""
        quotas, context = self._context.broker.quotas, self._context
        if quotas is not None:
            principal, client_id = context.principal, context.client_id
            self._wait_ms = quotas.acquired(principal, client_id, 0)
            if self._wait_ms:
                return
            self._left_bytes = quotas.most_fetched(principal, client_id, self._left_bytes)
        wait_s = self._request.max_wait_ms / 1000
        if wait_s <= 0:
            self._least_bytes = 0
        await self._acquire()
        if not self._rows and wait_s > 0 and self._session.partitions:
            await self._wait(wait_s)

    async def _wait(self, wait_s: float) -> None:
        """Wait for records, and acquire them."""
        context = self._context
        change = Delayed(trio.current_time() + wait_s, len(self._session.partitions))
        watched: list[set[Any]] = []
        try:
            await self._watch(change, watched)
            if context.work.is_large:
                change.set()  # records may have arrived while the request waited for a slice
            is_over = False
            while not (self._rows or is_over or context.broker.is_stopping):
                if not await happens(change):
                    if self._least_bytes <= 1:
                        return
                    is_over = True
                    self._least_bytes = 0  # what there is has to be enough now
                await self._acquire()
        finally:
            for waiters in watched:
                waiters.discard(change)

    async def _watch(self, change: Delayed, watched: list[set[Any]]) -> None:
        """Have new records, and records that become available, set ``change``."""
        for place in list(self._session.partitions):
            await give_way(self._context.work)
            try:
                served = self._manager.served(self._key(place))
            except KafkaError:
                served = None
            if served is None:
                change.set()  # the next look loads it, or finds the error
                continue
            for waiters in (served.waiters, served.partition.waiters):
                waiters.add(change)
                watched.append(waiters)

    async def _acquire(self) -> None:
        """Look once at every partition of the session, if there may be records enough."""
        if self._least_bytes > 1 and not await self._has_enough():
            return
        places = list(self._session.partitions)
        turn = self._session.epoch % len(places) if places else 0
        for place in (*places[turn:], *places[:turn]):
            await give_way(self._context.work)
            if self._left_records <= 0 or self._left_bytes <= 0:
                break
            try:
                row = await self._acquire_from(place)
            except KafkaError as error:
                row = PartitionData(partition_index=place[1], error_code=_told(error.code))
                row.error_message = error.message or None
                self._has_error = True
                self._lacks_coordinator |= error.code is ErrorCode.LEADER_NOT_AVAILABLE
                self._context.work.answer(BYTES)
            if row is not None:
                self._rows[place] = row

    async def _has_enough(self) -> bool:
        """Whether there are ``min_bytes`` to acquire; True also if a partition fails.

        As in Kafka, the whole batches count from the first record that can be acquired on.
        """
        left = min(self._least_bytes, self._left_bytes)
        commits = self._settings.reads_committed
        for place in list(self._session.partitions):
            await give_way(self._context.work)
            try:
                served = await self._served(place)
                share, partition = served.share, served.partition
                at = max(share.next_fetch_offset, partition.log.log_start_offset)
                if share.can_acquire and at < partition.high_watermark:
                    read = partition.read(at, left, read_committed=commits, min_one_batch=True)
                    left -= 0 if read is None else read.size_bytes
            except (KafkaError, ColdPages):
                return True
            if left <= 0:
                return True
        return False

    async def _served(self, place: TopicPartition) -> ServedShare:
        """A share partition, which is loaded if it isn't yet; KafkaError."""
        check_may_read(place[0], self._context)
        key = self._key(place)
        served = self._manager.served(key)
        if served is None:
            await later(partial(self._manager.load, key))
            served = self._manager.served(key)
            if served is None:
                raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
        return served

    async def _acquire_from(self, place: TopicPartition) -> PartitionData | None:
        """One partition's records, None if there are none now; KafkaError."""
        if self._lacks_coordinator and self._manager.served(self._key(place)) is None:
            return None  # the next request tries, which begins with another partition
        served = await self._served(place)
        found, at = None, -1
        while found is None and served.share.next_fetch_offset > at:
            # A look that gives nothing may have gone past markers or aborted records.
            at = served.share.next_fetch_offset
            await give_way(self._context.work)
            try:
                found = self._look(served, hurry=True)
            except ColdPages:
                look = partial(self._look, served)
                found = await look_without_waiting(self._context.broker, look)
        self._manager.write(served)  # a fetch may find that records no longer exist
        if found is None:
            return None
        records, acquired = found
        self._left_bytes -= records.size_bytes
        served.partition.bytes_out += records.size_bytes
        rows = [AcquiredRecords(**one._asdict()) for one in acquired]
        return PartitionData(partition_index=place[1], records=records, acquired_records=rows)

    def _look(self, served: ServedShare, *, hurry: bool) -> tuple[FileSlice, list[Acquired]] | None:
        """Read and acquire; None if there is nothing to acquire. KafkaError, ColdPages."""
        share, partition = served.share, served.partition
        if self._manager.served(share.key) is not served:  # replaced while the request waited
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
        share.limits = self._settings.limits
        share.begin_at(partition.log.log_start_offset)
        if not share.can_acquire:
            return None
        at = share.next_fetch_offset
        commits = self._settings.reads_committed
        if at >= partition.high_watermark:
            return None
        most = min(self._left_bytes, MAX_READ_BYTES)
        with partition.log.hurry if hurry else nullcontext():
            read = partition.read(at, most, read_committed=commits, min_one_batch=True)
            if read is None:
                return None
            aborted = _aborted(partition, at, read) if commits else ()
            headers = list(_headers(read, self._left_records))
        acquired = share.acquire(
            self._session.member_id,
            at,
            [
                FetchedBatch(one.base_offset, one.last_offset, _is_seen(one, aborted))
                for one in headers
            ],
            self._left_records,
            self._manager.now_ms(),
            batch_size=self._request.batch_size,
            is_strict=self._request.share_acquire_mode == STRICT,
        )
        if not acquired:
            return None
        self._manager.history.acquired(share, acquired)
        self._left_records -= sum(one.last_offset - one.first_offset + 1 for one in acquired)
        first, last = acquired[0].first_offset, acquired[-1].last_offset
        kept = [one for one in headers if one.last_offset >= first and one.base_offset <= last]
        begin, end = kept[0].position, kept[-1].position + kept[-1].size_bytes
        return FileSlice(read.fd, begin, end - begin, read.owner), acquired

    async def response(self) -> ShareFetchResponse:
        """The answer: partitions with records, errors or acknowledgements."""
        told = ShareFetchResponse(acquisition_lock_timeout_ms=self._settings.limits.lock_ms)
        places = dict.fromkeys(self._rows)
        for topic in self._request.topics:
            for one in topic.partitions:
                await give_way(self._context.work)
                if one.acknowledgement_batches:
                    places[topic.topic_id, one.partition_index] = None
        topics: dict[bytes, ShareFetchableTopicResponse] = {}
        size_bytes = 0
        for place in places:
            await give_way(self._context.work)
            row = self._rows.get(place) or PartitionData(partition_index=place[1])
            error = self.acknowledgements.errors.get(place)
            if error is not None:
                row.acknowledge_error_code = error.code
                row.acknowledge_error_message = error.message or None
            answer = topics.get(place[0])
            if answer is None:
                topics[place[0]] = answer = ShareFetchableTopicResponse(topic_id=place[0])
                told.responses.append(answer)
            answer.partitions.append(row)
            if isinstance(row.records, FileSlice):
                size_bytes += row.records.size_bytes
        quotas = self._context.broker.quotas
        if quotas is not None and size_bytes:
            principal, client_id = self._context.principal, self._context.client_id
            self._wait_ms = quotas.acquired(principal, client_id, size_bytes)
        told.throttle_time_ms = self._wait_ms
        if self._has_error or self.acknowledgements.errors:
            await in_slices(hint_member(told, self._context), self._context.work)
        return told

    def _key(self, place: TopicPartition) -> SharePartitionKey:
        return SharePartitionKey(self._session.group_id, *place)


def _told(code: ErrorCode) -> ErrorCode:
    """A partition's error as clients expect it in a fetch: Java's consumer throws at others."""
    if code is ErrorCode.LEADER_NOT_AVAILABLE:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER  # clients try again, with new metadata
    return code if code in _EXPECTED else ErrorCode.UNKNOWN_SERVER_ERROR


def _headers(read: FileSlice, most: int) -> Iterator[BatchHeader]:
    """The headers of the batches that were read, until there are records enough."""
    end = read.position + read.size_bytes
    for header in scan_headers(
        lambda at, size: os.pread(read.fd, size, at), read.position, end, _SCAN_BYTES
    ):
        yield header
        most -= 1
        if most < 0:
            return


def _aborted(partition: Partition, offset: int, read: FileSlice) -> Sequence[AbortedTransaction]:
    return partition.log.aborted_transactions(offset, partition.last_stable_offset, read)


def _is_seen(header: BatchHeader, aborted: Sequence[AbortedTransaction]) -> bool:
    """Whether members may have a batch: no marker, and not aborted."""
    if header.attributes & CONTROL_MASK:
        return False
    return not header.attributes & TRANSACTIONAL_MASK or not any(
        one.producer_id == header.producer_id
        and one.first_offset <= header.base_offset <= one.last_offset
        for one in aborted
    )
