"""A member of a share group (KIP-932): joins, acquires records, acknowledges them, and leaves.

Use::

    async with open_share_member(cluster, group, topics) as member:
        deliveries = await member.fetch(10)
        errors = await member.acknowledge({one: ACCEPT for one in deliveries})

Rules:

- Heartbeats are sent by a task of the block. Their answers have the assignment.
- The member has a share session with each leader. It begins anew when its partitions change, and
  after an error. There is one request to each leader at a time.
- Offsets that were acquired and have no record, as after compaction, are acknowledged as gaps.
- Locks are renewed (KIP-1222) while no fetch and no acknowledgement is on its way.
- An acknowledgement isn't sent twice: if it fails, the record will be delivered again.
- At the end of the block the sessions are closed: what isn't acknowledged is available again, and
  doesn't count as delivered.
"""

import uuid
from bisect import bisect_right
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

import trio

from kwire.client.cluster import Cluster
from kwire.client.errors import CannotConnect, ClientError, ConnectionLost, NoSuchBroker
from kwire.client.fetcher import checked_records
from kwire.client.leaders import TopicPartition, find_leaders, first_error
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.share_acknowledge import AcknowledgementBatch as AckBatch
from kwire.protocol.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from kwire.protocol.messages.share_fetch import (
    FetchPartition,
    FetchTopic,
    PartitionData,
    ShareFetchRequest,
    ShareFetchResponse,
)
from kwire.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from kwire.record.batch import complete_batches
from kwire.record.records import Record

GAP, ACCEPT, RELEASE, REJECT, RENEW = 0, 1, 2, 3, 4
"""What a member says of a record; Kafka's numbers."""

WAIT_MS = 500
MAX_BYTES = 16 * 1024 * 1024
LEAVE_TIMEOUT_S = 5.0
FIRST_LOCK_S = 30.0
"""So long locks last as long as no broker has said anything else."""

_FIRST_PAUSE_S = 0.1
_WITHOUT_PARTITIONS_S = 0.1
_JOIN, _LEAVE = 0, -1
_STRICT = 1
_FIRST_EPOCH, _LAST_EPOCH = 0, -1
_THROWN_OUT = {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID}
_OTHER_LEADER = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
}


class Delivery(NamedTuple):
    """A record that the member has acquired; ``number`` says how often it was delivered."""

    partition: TopicPartition
    record: Record
    number: int


class _Session:
    """A share session with one leader."""

    def __init__(self, partitions: Sequence[TopicPartition]) -> None:
        self.partitions = partitions
        self.epoch = _FIRST_EPOCH

    def advance(self) -> None:
        self.epoch = 1 if self.epoch == 0x7FFFFFFF else self.epoch + 1


class ShareMember:
    """One member; see ``open_share_member``."""

    def __init__(self, cluster: Cluster, group: str, topics: Sequence[str]) -> None:
        self.partitions: list[TopicPartition] = []
        """The assignment; other members have the same partitions."""
        self.lock_s = FIRST_LOCK_S
        """How long the locks of acquired records last."""
        self._cluster = cluster
        self._group = group
        self._topics = list(topics)
        # By the cluster's chance, which a simulation repeats.
        self._member_id = str(uuid.UUID(int=cluster.random.getrandbits(128), version=4))
        self._epoch = _JOIN
        self._pause_s = _FIRST_PAUSE_S
        self._ids: dict[str, bytes] = {}
        self._sessions: dict[int, _Session] = {}
        self._is_placed = False

    # Heartbeats

    async def join(self) -> None:
        """Join; KafkaError."""
        self._ids = {
            name: topic.topic_id
            for name, topic in (await self._cluster.topics(self._topics)).items()
        }
        await self._heartbeat()

    async def keep_alive(self) -> None:
        """Send heartbeats as often as the coordinator asks for, until cancelled; KafkaError."""
        while True:
            await trio.sleep(self._pause_s if self.partitions else _FIRST_PAUSE_S)
            try:
                await self._heartbeat()
            except ClientError:
                continue  # the fetches notice a broker that stays away
            except KafkaError as error:
                if not error.retriable:
                    raise

    async def leave(self) -> None:
        """Close the sessions, and leave the group."""
        for node, session in self._sessions.items():
            session.epoch = _LAST_EPOCH
            with suppress(ClientError, KafkaError):
                await self._ask_to_acknowledge(node, session, {})
        request = ShareGroupHeartbeatRequest(
            group_id=self._group, member_id=self._member_id, member_epoch=_LEAVE
        )
        with suppress(ClientError, KafkaError):
            await self._beat(request)

    async def _heartbeat(self) -> None:
        joins = self._epoch == _JOIN
        answer = await self._beat(
            ShareGroupHeartbeatRequest(
                group_id=self._group,
                member_id=self._member_id,
                member_epoch=self._epoch,
                subscribed_topic_names=self._topics if joins else None,
            )
        )
        code = ErrorCode(answer.error_code)
        if code in _THROWN_OUT:
            self._epoch = _JOIN
            return
        if answer.error_code:
            raise KafkaError(code, answer.error_message or f"group {self._group}")
        self._epoch = answer.member_epoch
        self._pause_s = answer.heartbeat_interval_ms / 1000
        if answer.assignment is not None:
            names = {topic_id: name for name, topic_id in self._ids.items()}
            self.partitions = sorted(
                TopicPartition(names[bytes(topic.topic_id)], index)
                for topic in answer.assignment.topic_partitions
                for index in topic.partitions
                if bytes(topic.topic_id) in names
            )
            self._is_placed = False

    async def _beat(self, request: ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse:
        return await self._cluster.ask_coordinator(
            self._group, request, ShareGroupHeartbeatResponse, lambda answer: [answer.error_code]
        )

    # Acquiring

    async def fetch(self, max_records: int) -> list[Delivery]:
        """Acquire about so many records; none if there are none now. KafkaError."""
        if not self.partitions:
            await trio.sleep(_WITHOUT_PARTITIONS_S)
            return []
        found: list[Delivery] = []

        async def attempt() -> None:
            await self._place_sessions()
            most = max(1, max_records // max(1, len(self._sessions)))
            try:
                async with trio.open_nursery() as nursery:
                    for node in self._sessions:
                        nursery.start_soon(self._fetch_from, node, most, found)
            except BaseExceptionGroup as errors:
                error = first_error(errors)
                if not (found and isinstance(error, KafkaError)):
                    raise error from errors

        await self._cluster.retrying(attempt, _OTHER_LEADER)
        return found

    async def _place_sessions(self) -> None:
        """Have a session with the leader of each partition; KafkaError if one has no leader."""
        if self._is_placed:
            return
        self._is_placed = True  # an assignment that comes meanwhile makes it false again
        try:
            by_node: dict[int, list[TopicPartition]] = {}
            for one, leader in (await find_leaders(self._cluster, self.partitions)).items():
                if isinstance(leader, KafkaError):
                    raise leader
                by_node.setdefault(leader, []).append(one)
        except BaseException:
            self._is_placed = False
            raise
        kept = {
            node: session
            for node, session in self._sessions.items()
            if session.partitions == by_node.get(node)
        }
        self._sessions = {node: kept.get(node) or _Session(mine) for node, mine in by_node.items()}

    async def _fetch_from(self, node: int, max_records: int, found: list[Delivery]) -> None:
        """Acquire records from one leader; KafkaError."""
        session = self._sessions[node]
        named = session.partitions if session.epoch == _FIRST_EPOCH else ()
        by_id: dict[bytes, list[FetchPartition]] = {}
        for one in named:
            row = FetchPartition(partition_index=one.partition)
            by_id.setdefault(self._ids[one.topic], []).append(row)
        request = ShareFetchRequest(
            group_id=self._group,
            member_id=self._member_id,
            share_session_epoch=session.epoch,
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=MAX_BYTES,
            max_records=max_records,
            batch_size=max_records,
            share_acquire_mode=_STRICT,
            topics=[
                FetchTopic(topic_id=topic_id, partitions=rows) for topic_id, rows in by_id.items()
            ],
        )
        timeout_s = self._cluster.settings.request_timeout_s + WAIT_MS / 1000
        try:
            answer = await self._cluster.ask(
                request, ShareFetchResponse, node=node, timeout_s=timeout_s
            )
        except (ConnectionLost, CannotConnect, NoSuchBroker) as error:
            self._forget(node)
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, str(error)) from error
        if answer.error_code:
            self._forget(node)
            text = answer.error_message or f"group {self._group}, broker {node}"
            raise KafkaError(ErrorCode(answer.error_code), text)
        session.advance()
        self.lock_s = answer.acquisition_lock_timeout_ms / 1000 or self.lock_s
        names = {topic_id: name for name, topic_id in self._ids.items()}
        gaps: dict[TopicPartition, list[AckBatch]] = {}
        failure: KafkaError | None = None
        for topic in answer.responses:
            for data in topic.partitions:
                one = TopicPartition(names[bytes(topic.topic_id)], data.partition_index)
                if data.error_code:
                    failure = KafkaError(ErrorCode(data.error_code), str(one))
                    continue
                missing = _take(one, data, found)
                if missing:
                    gaps[one] = missing
        if gaps:
            await self._ask_to_acknowledge(node, session, gaps)
        if failure is not None:
            self._forget(node)
            raise failure

    def _forget(self, node: int) -> None:
        """Begin a new session, and look for the leaders again."""
        session = self._sessions.get(node)
        if session is not None:
            self._sessions[node] = _Session(session.partitions)
        self._is_placed = False

    # Acknowledging

    async def renew(self, deliveries: Sequence[Delivery]) -> dict[Delivery, KafkaError]:
        """Begin the locks of records anew (KIP-1222); those for which that failed."""
        return await self._tell(dict.fromkeys(deliveries, RENEW), renews=True)

    async def acknowledge(self, outcomes: Mapping[Delivery, int]) -> dict[Delivery, KafkaError]:
        """Acknowledge records; those for which that failed, which will be delivered again."""
        return await self._tell(outcomes, renews=False)

    async def _tell(
        self, outcomes: Mapping[Delivery, int], *, renews: bool
    ) -> dict[Delivery, KafkaError]:
        told: dict[TopicPartition, list[tuple[Delivery, int]]] = {}
        for delivery, kind in outcomes.items():
            told.setdefault(delivery.partition, []).append((delivery, kind))
        errors: dict[Delivery, KafkaError] = {}
        for node, session in list(self._sessions.items()):
            mine = {one: told.pop(one) for one in session.partitions if one in told}
            if not mine:
                continue
            batches = {
                one: [
                    AckBatch(
                        first_offset=delivery.record.offset,
                        last_offset=delivery.record.offset,
                        acknowledge_types=[kind],
                    )
                    for delivery, kind in sorted(rows, key=lambda row: row[0].record.offset)
                ]
                for one, rows in mine.items()
            }
            failed = await self._acknowledge(node, session, batches, renews=renews)
            for one, error in failed.items():
                errors.update((delivery, error) for delivery, _ in mine[one])
        for one, rows in told.items():  # another member may have it by now
            gone = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{one} has moved")
            errors.update((delivery, gone) for delivery, _ in rows)
        return errors

    async def _acknowledge(
        self,
        node: int,
        session: _Session,
        batches: Mapping[TopicPartition, list[AckBatch]],
        *,
        renews: bool,
    ) -> dict[TopicPartition, KafkaError]:
        """Acknowledge to one leader; the error of each partition that has one."""
        try:
            answer = await self._ask_to_acknowledge(node, session, batches, renews=renews)
        except (KafkaError, ClientError) as error:
            self._forget(node)
            code = error.code if isinstance(error, KafkaError) else ErrorCode.NETWORK_EXCEPTION
            return dict.fromkeys(batches, KafkaError(code, str(error)))
        names = {topic_id: name for name, topic_id in self._ids.items()}
        return {
            TopicPartition(names[bytes(topic.topic_id)], row.partition_index): KafkaError(
                ErrorCode(row.error_code), row.error_message or f"group {self._group}"
            )
            for topic in answer.responses
            for row in topic.partitions
            if row.error_code
        }

    async def _ask_to_acknowledge(
        self,
        node: int,
        session: _Session,
        batches: Mapping[TopicPartition, list[AckBatch]],
        *,
        renews: bool = False,
    ) -> ShareAcknowledgeResponse:
        by_id: dict[bytes, list[AcknowledgePartition]] = {}
        for one, mine in batches.items():
            row = AcknowledgePartition(partition_index=one.partition, acknowledgement_batches=mine)
            by_id.setdefault(self._ids[one.topic], []).append(row)
        request = ShareAcknowledgeRequest(
            group_id=self._group,
            member_id=self._member_id,
            share_session_epoch=session.epoch,
            is_renew_ack=renews,
            topics=[
                AcknowledgeTopic(topic_id=topic_id, partitions=rows)
                for topic_id, rows in by_id.items()
            ],
        )
        answer = await self._cluster.ask(request, ShareAcknowledgeResponse, node=node)
        if answer.error_code:
            text = answer.error_message or f"group {self._group}, broker {node}"
            raise KafkaError(ErrorCode(answer.error_code), text)
        if session.epoch != _LAST_EPOCH:
            session.advance()
        return answer


def _take(partition: TopicPartition, data: PartitionData, found: list[Delivery]) -> list[AckBatch]:
    """Add the acquired records of an answer; returns the acquired offsets without a record."""
    ranges = [(one.first_offset, one.last_offset) for one in data.acquired_records]
    counts = [one.delivery_count for one in data.acquired_records]
    nexts = [first for first, _ in ranges]
    gaps: list[AckBatch] = []
    assert data.records is None or isinstance(data.records, bytes | bytearray | memoryview)
    for batch in complete_batches(data.records if data.records is not None else b""):
        if batch.is_control:
            continue
        for record in checked_records(batch):
            at = bisect_right(ranges, (record.offset, 1 << 63)) - 1
            if at < 0 or not nexts[at] <= record.offset <= ranges[at][1]:
                continue
            if nexts[at] < record.offset:
                gaps.append(_gap(nexts[at], record.offset - 1))
            nexts[at] = record.offset + 1
            found.append(Delivery(partition, record, counts[at]))
    for next_offset, (_, last) in zip(nexts, ranges, strict=True):
        if next_offset <= last:
            gaps.append(_gap(next_offset, last))
    return sorted(gaps, key=lambda one: one.first_offset)


def _gap(first: int, last: int) -> AckBatch:
    return AckBatch(first_offset=first, last_offset=last, acknowledge_types=[GAP])


@asynccontextmanager
async def open_share_member(
    cluster: Cluster, group: str, topics: Sequence[str]
) -> AsyncIterator[ShareMember]:
    """A member of ``group`` for the time of a block; KafkaError."""
    member = ShareMember(cluster, group, topics)
    await member.join()
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(member.keep_alive)
            try:
                yield member
            finally:
                with trio.move_on_after(LEAVE_TIMEOUT_S, shield=True):
                    await member.leave()
                nursery.cancel_scope.cancel()
    except BaseExceptionGroup as errors:
        raise first_error(errors) from errors
