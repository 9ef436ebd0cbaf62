"""Coordinators answer only what is replicated: no failover takes back what a client was told."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from kwire.broker.delayed_response import Replication
from kwire.broker.replica.leader_partition import LeaderPartition
from kwire.broker.replica.replica_sessions import ReplicaPosition, ReplicaSession
from kwire.coordinator.transaction.state import TransactionState
from kwire.errors import ErrorCode
from kwire.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kwire.protocol.messages.offset_commit import (
    OffsetCommitResponse,
)
from kwire.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
)
from kwire.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kwire.testing.waiting import until
from tests.broker.replicated import FOLLOWERS, create_replicated, follow, led, move
from tests.support.in_process import RawClient, RunningServer, running_server
from tests.support.raw_producer import RawProducer
from tests.support.requests import commit_request, offset_fetch_request

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"


@asynccontextmanager
async def replicated(path: Path, *topics: str, **settings: str) -> AsyncIterator[RunningServer]:
    """A broker that leads topics with followers."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    async with running_server(path, named) as server:
        for topic in topics:
            await create_replicated(server.broker, topic)
        yield server


async def commit(client: RawClient, offset: int) -> int:
    """Commit an offset of the group g; the error code."""
    answer = await client.request(commit_request("g", "t", offset), 8, OffsetCommitResponse)
    return answer.topics[0].partitions[0].error_code


async def fetch(client: RawClient) -> tuple[int, list[int]]:
    """The error code of the group g, and its offsets."""
    answer = await client.request(offset_fetch_request("g"), 8, OffsetFetchResponse)
    [group] = answer.groups
    found = [row.committed_offset for topic in group.topics for row in topic.partitions]
    return group.error_code, found


async def test_a_commit_and_who_reads_it_wait_for_the_replicas(tmp_path: Path) -> None:
    """S23: neither the commit nor the value it wrote is told before all in-sync replicas have
    it."""
    async with replicated(tmp_path, OFFSETS, "t") as server:
        writer, reader = await server.connect(), await server.connect()
        partition = led(server.broker, OFFSETS)
        told: list[object] = []

        async def write() -> None:
            told.append(await commit(writer, 5))

        async def read() -> None:
            await until(lambda: partition.log.log_end_offset == 1)
            told.append(await fetch(reader))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            nursery.start_soon(read)
            await until(lambda: _waiting(server) == 2)
            assert not told
            follow(partition)
        assert sorted(told, key=str) == [(0, [5]), 0]
        assert await fetch(reader) == (0, [5])  # everything is replicated: it waits for nobody


def _waiting(server: RunningServer) -> int:
    """What waits for the replication of the groups' partition 0."""
    loaded = server.broker.groups.loaded()
    committed = loaded[0].committed if loaded else None
    return committed.waiting if committed else 0


async def test_replicas_that_do_not_come_are_an_error(tmp_path: Path) -> None:
    """After offsets.commit.timeout.ms: COORDINATOR_NOT_AVAILABLE, for reads as well."""
    async with replicated(tmp_path, OFFSETS, "t", offsets_commit_timeout_ms="20") as server:
        client = await server.connect()
        assert await commit(client, 5) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        code, _ = await fetch(client)
        assert code == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_a_coordinator_that_is_cut_off_answers_while_its_followers_fetch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A successor may have newer commits. It is one of the followers, and fetches no more."""
    monkeypatch.setattr("kwire.broker.replica.alter_partition_manager.LATELY_S", 60.0)
    async with replicated(tmp_path, OFFSETS) as server:
        client = await server.connect()
        partition = led(server.broker, OFFSETS)
        assert await fetch(client) == (0, [])
        server.broker.cut_off(True)
        assert await fetch(client) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, [])
        sessions = [ReplicaSession(node_id, 1, uses_topic_ids=True) for node_id in FOLLOWERS]
        for session in sessions:
            position = ReplicaPosition((OFFSETS, partition.topic_id, 0), session)
            position.want(partition.leader_epoch, 0, -1, 0, 100)
            position.bind(partition)
        sessions[0].asked_s = trio.current_time()
        assert await fetch(client) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, [])
        sessions[1].asked_s = trio.current_time()
        assert await fetch(client) == (0, [])
        sessions[0].asked_s -= 61
        assert await fetch(client) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, [])
        server.broker.cut_off(False)
        assert await fetch(client) == (0, [])


@pytest.mark.parametrize("leader", [8, 1])
async def test_a_new_epoch_ends_the_wait(tmp_path: Path, leader: int) -> None:
    """Another leader may not have the record: NOT_COORDINATOR; a new epoch loads it again."""
    async with replicated(tmp_path, OFFSETS, "t", node_id="1") as server:
        client = await server.connect()
        told: list[int] = []

        async def write() -> None:
            told.append(await commit(client, 5))

        groups = server.broker.groups
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            await until(lambda: groups.loaded() and _waiting(server))
            await move(server.broker, OFFSETS, leader)
        assert told == [ErrorCode.NOT_COORDINATOR]
        if leader == 8:
            assert await fetch(client) == (ErrorCode.NOT_COORDINATOR, [])
            await until(lambda: not groups.loaded())
            return
        partition = led(server.broker, OFFSETS)
        assert partition.high_watermark < partition.log.log_end_offset  # it was loaded up to there
        await until(lambda: groups.loaded() and groups.loaded()[0].partition is partition)
        follow(partition)
        assert await fetch(client) == (0, [5])


async def test_one_replica_waits_for_nobody(tmp_path: Path) -> None:
    """At replication factor 1 no demand is noted, and nothing has to be imported."""
    async with running_server(tmp_path) as server:
        client = await server.connect()
        producer = RawProducer(client, "ledger")
        await producer.init()
        [loaded] = [home for home in server.broker.transactions.loaded() if home.partition]
        assert loaded.committed is None
        assert not server.broker.flusher.asked


async def test_what_is_replicated_already_is_not_waited_for(tmp_path: Path) -> None:
    """Nothing would end such a wait before its time is over."""
    async with running_server(tmp_path) as server:
        await server.topic("t")
        partition = server.broker.partition("t", 0)
        assert partition.high_watermark == partition.log.log_end_offset
        with trio.fail_after(5):
            await Replication(partition, lambda _: True, timeout_s=3600.0).wait()


async def test_markers_follow_a_replicated_decision(tmp_path: Path) -> None:
    """A failover may take back a decision that isn't replicated, but no marker. The end is complete
    when the markers are replicated."""
    async with replicated(tmp_path, TRANSACTIONS, "t") as server:
        state, data = led(server.broker, TRANSACTIONS), led(server.broker, "t")
        producer = RawProducer(await server.connect(), "ledger", bumps=False)
        with _following(state):
            await producer.init()
            await producer.add("t", 0)
        with _following(data):
            await producer.produce("t", 0, b"1")
        request = EndTxnRequest(
            transactional_id="ledger",
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=True,
        )
        answers: list[int] = []

        async def end() -> None:
            answer = await producer.client.request(request, 4, EndTxnResponse)
            answers.append(answer.error_code)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(end)
            await until(lambda: _state(server) is TransactionState.PREPARE_COMMIT)
            await trio.testing.wait_all_tasks_blocked()
            assert (data.log.log_end_offset, answers) == (1, [])
            follow(state)
        assert answers == [0]
        await until(lambda: data.log.log_end_offset == 2)
        await trio.testing.wait_all_tasks_blocked()
        assert _state(server) is TransactionState.PREPARE_COMMIT
        follow(data)
        await until(lambda: _state(server) is TransactionState.COMPLETE_COMMIT)


def _state(server: RunningServer) -> TransactionState:
    [home] = server.broker.transactions.loaded()
    return home.coordinator.transactions["ledger"].state


class _Fetches:
    """Followers that have each append at once."""

    def __init__(self, partition: LeaderPartition) -> None:
        self._partition = partition

    def changed(self, is_urgent: bool) -> None:
        """Follow what was appended."""
        if is_urgent:
            follow(self._partition)

    def lost(self) -> None:
        """Do nothing: the test goes on."""


@contextmanager
def _following(partition: LeaderPartition) -> Iterator[None]:
    """Have the followers fetch all the time."""
    fetches = _Fetches(partition)
    partition.replica_waiters[fetches] = None
    follow(partition)
    yield
    del partition.replica_waiters[fetches]


async def test_a_write_waits_until_its_transaction_knows_the_partition(tmp_path: Path) -> None:
    """The added partition is replicated before the first record: no failover leaves a record of a
    transaction that no coordinator knows."""
    async with replicated(tmp_path, TRANSACTIONS, "t") as server:
        state, data = led(server.broker, TRANSACTIONS), led(server.broker, "t")
        producer = RawProducer(await server.connect(), "ledger")
        with _following(state):
            await producer.init()
        with _following(data):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(producer.produce, "t", 0, b"1")
                await until(lambda: state.high_watermark < state.log.log_end_offset)
                await trio.testing.wait_all_tasks_blocked()
                assert data.log.log_end_offset == 0
                follow(state)
        assert data.log.log_end_offset == 1


async def test_a_marker_from_another_broker_is_answered_when_it_is_replicated(
    tmp_path: Path,
) -> None:
    """A marker that only this leader has may be lost: its coordinator has to send it again."""
    async with replicated(tmp_path, "t", offsets_commit_timeout_ms="200") as server:
        client = await server.connect()
        marker = WritableTxnMarker(
            producer_id=7,
            producer_epoch=0,
            transaction_result=True,
            topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
        )
        request = WriteTxnMarkersRequest(markers=[marker])
        assert await _marked(client, request) == ErrorCode.REQUEST_TIMED_OUT
        with _following(led(server.broker, "t")):
            assert await _marked(client, request) == ErrorCode.NONE


async def _marked(client: RawClient, request: WriteTxnMarkersRequest) -> int:
    answer = await client.request(request, 1, WriteTxnMarkersResponse)
    return answer.markers[0].topics[0].partitions[0].error_code
