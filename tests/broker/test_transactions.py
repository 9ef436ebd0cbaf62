"""The broker brings transactions to their end by itself: in time, after a restart, in spite of
partitions that can't be written for a while."""

from errno import EIO, ENOSPC
from pathlib import Path

import pytest
import trio

from kwire.broker.coordinator_lookup import partition_for
from kwire.coordinator.transaction.state import TransactionState
from kwire.errors import ErrorCode, KafkaError
from kwire.log.disk import Disk
from kwire.metadata.controller import add_partitions
from kwire.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kwire.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kwire.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from tests.support.in_process import RunningServer, running_server
from tests.support.raw_producer import RawProducer

TOPIC, LEDGER, OTHER = "orders", "ledger", "second"
FAR_MS = 1 << 50
ABORT_MS = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
EXPIRE_MS = "transaction.remove.expired.transaction.cleanup.interval.ms"
SETTINGS = {"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1"}


class FaultyDisk(Disk):
    """A disk that is full as soon as it is about one directory."""

    refused = ""

    def __init__(self) -> None:
        self.opened: dict[int, str] = {}

    def open(self, path: Path, *, create: bool = False) -> int:
        fd = super().open(path, create=create)
        self.opened[fd] = str(path)
        return fd

    def pwrite_all(self, fd, data, position):
        if self.refused and self.refused in self.opened.get(fd, ""):
            raise OSError(ENOSPC, "No space left on device")
        super().pwrite_all(fd, data, position)


class RecordingDisk(Disk):
    """A disk that notes which partition's log is written and synced."""

    def __init__(self) -> None:
        self.logs: dict[int, str] = {}
        self.seen: list[tuple[str, str]] = []

    def open(self, path: Path, *, create: bool = False) -> int:
        fd = super().open(path, create=create)
        if path.suffix == ".log":
            self.logs[fd] = path.parent.name
        return fd

    def close(self, fd):
        self.logs.pop(fd, None)
        super().close(fd)

    def pwrite_all(self, fd, data, position):
        self.note("write", fd)
        super().pwrite_all(fd, data, position)

    def sync(self, fd):
        super().sync(fd)
        self.note("sync", fd)

    def note(self, what: str, fd: int) -> None:
        """Something was done to a file."""
        if fd in self.logs:
            self.seen.append((what, self.logs[fd]))


async def begin(server: RunningServer, **options: int) -> RawProducer:
    """A producer with a topic to write to."""
    client = await server.connect()
    await client.topic(TOPIC, partitions=2)
    producer = RawProducer(client, LEDGER)
    await producer.init(**options)
    return producer


def state(server: RunningServer) -> TransactionState | None:
    """The state of the transactional id."""
    [home] = server.broker.transactions.all_coordinators()
    known = home.coordinator.get(LEDGER)
    return known and known.state


def is_loaded(server: RunningServer) -> bool:
    """Whether the coordinator is ready."""
    try:
        return bool(server.broker.transactions.all_coordinators())
    except KafkaError:
        return False


async def until(server: RunningServer, expected: TransactionState | None) -> None:
    """Wait until the transactional id is in a state."""
    with trio.fail_after(10):
        while not is_loaded(server) or state(server) is not expected:
            await trio.lowlevel.checkpoint()


async def test_a_transaction_that_takes_too_long_is_aborted(tmp_path):
    """Its producer can't commit any more; consumers don't wait for it."""
    async with running_server(tmp_path, SETTINGS | {ABORT_MS: "10"}) as server:
        producer = await begin(server, timeout_ms=1)
        await producer.produce(TOPIC, 0, b"v")
        await until(server, TransactionState.COMPLETE_ABORT)
        assert server.broker.partition(TOPIC, 0).last_stable_offset == 2
        with pytest.raises(KafkaError) as refused:
            await producer.end(committed=True)
        assert refused.value.code is ErrorCode.INVALID_TXN_STATE
        await producer.end(committed=False)


async def test_the_broker_lives_on_when_transactions_are_lost(tmp_path):
    """A coordinator whose disk has failed aborts nothing any more; the others do."""
    settings = SETTINGS | {ABORT_MS: "10", "log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}"}
    settings["transaction.state.log.num.partitions"] = "2"
    async with running_server(tmp_path, settings) as server:
        lost = await begin(server, timeout_ms=300)
        other = RawProducer(lost.client, OTHER)
        await other.init(timeout_ms=300)
        transactions = server.broker.transactions
        await lost.add(TOPIC, 0)
        await other.add(TOPIC, 1)
        transactions.of(LEDGER).partition.log.health.fail("a test", OSError(EIO, "broken"))
        with trio.fail_after(10):
            while transactions.of(OTHER).coordinator.timed_out(lambda at_ms: FAR_MS - at_ms):
                await trio.lowlevel.checkpoint()
        assert len(transactions.all_coordinators()) == 1
        with pytest.raises(KafkaError) as refused:
            await lost.end(committed=True)
        assert refused.value.code is ErrorCode.NOT_COORDINATOR


async def test_an_id_that_nobody_uses_is_forgotten(tmp_path):
    """transactional.id.expiration.ms after its last use, also by the next start."""
    settings = SETTINGS | {EXPIRE_MS: "10", "transactional.id.expiration.ms": "1"}
    async with running_server(tmp_path, settings) as server:
        await begin(server)
        await until(server, None)
    async with running_server(tmp_path, SETTINGS) as server:
        await until(server, None)


async def test_a_marker_that_cannot_be_written_is_tried_again(tmp_path):
    """The transaction ends when its partition takes writes again; until then others wait."""
    disk = FaultyDisk()
    async with running_server(tmp_path, SETTINGS, disk) as server:
        producer = await begin(server)
        await producer.produce(TOPIC, 0, b"v")
        await producer.produce(TOPIC, 1, b"v")
        disk.refused = f"{TOPIC}-1"
        await producer.end(committed=True)
        assert state(server) is TransactionState.PREPARE_COMMIT
        with pytest.raises(KafkaError) as refused:
            await producer.produce(TOPIC, 0, b"next")
        assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
        disk.refused = ""
        await until(server, TransactionState.COMPLETE_COMMIT)
        assert server.broker.partition(TOPIC, 1).last_stable_offset == 2
        await producer.produce(TOPIC, 0, b"next")
        await producer.end(committed=True)


async def test_an_end_that_cannot_be_written_is_refused(tmp_path):
    """The client is told to look for the coordinator; the transaction is as it was."""
    disk = FaultyDisk()
    async with running_server(tmp_path, SETTINGS, disk) as server:
        producer = await begin(server)
        await producer.produce(TOPIC, 0, b"v")
        disk.refused = "__transaction_state-0"
        with pytest.raises(KafkaError) as refused:
            await producer.end(committed=True)
        assert refused.value.code is ErrorCode.NOT_COORDINATOR
        disk.refused = ""
        assert state(server) is TransactionState.ONGOING
        await producer.end(committed=True)
        assert state(server) is TransactionState.COMPLETE_COMMIT


async def test_a_topic_that_is_gone_needs_no_marker(tmp_path):
    """Its transaction ends without it."""
    async with running_server(tmp_path, SETTINGS) as server:
        producer = await begin(server)
        await producer.produce(TOPIC, 0, b"v")
        gone = DeleteTopicsRequest(topics=[DeleteTopicState(name=TOPIC)])
        await producer.client.request(gone, 6, DeleteTopicsResponse)
        await producer.end(committed=True)
        assert state(server) is TransactionState.COMPLETE_COMMIT


async def test_transactions_survive_a_clean_restart(tmp_path):
    """Whoever was in the middle of one goes on."""
    async with running_server(tmp_path, SETTINGS) as server:
        producer = await begin(server)
        await producer.produce(TOPIC, 0, b"v")
    async with running_server(tmp_path, SETTINGS) as server:
        producer.client = await server.connect()
        await until(server, TransactionState.ONGOING)
        await producer.end(committed=True)
        assert server.broker.partition(TOPIC, 0).last_stable_offset == 2


async def test_more_partitions_move_no_transaction(tmp_path):
    """Its coordinator ends it after a restart too, and the producer before it is fenced."""
    assert partition_for(LEDGER, 5) != 0
    async with running_server(tmp_path, SETTINGS) as server:
        zombie = await begin(server)
        producer = RawProducer(await server.connect(), LEDGER)
        await producer.init()
        await producer.produce(TOPIC, 0, b"v")
        random = server.broker.random
        await server.broker.commit(
            lambda image: add_partitions(image, "__transaction_state", 5, None, random)
        )
        assert len(server.broker.image.topics_by_name["__transaction_state"].partitions) == 5
        with pytest.raises(KafkaError) as fenced:
            await zombie.produce(TOPIC, 1, b"v")
        assert fenced.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    async with running_server(tmp_path, SETTINGS) as server:
        producer.client = await server.connect()
        with trio.fail_after(10):
            while not is_loaded(server):
                await trio.lowlevel.checkpoint()
        await producer.end(committed=True)
        home = server.broker.transactions.of(LEDGER).coordinator
        with trio.fail_after(10):
            while home.get(LEDGER).state is not TransactionState.COMPLETE_COMMIT:
                await trio.lowlevel.checkpoint()
        assert server.broker.partition(TOPIC, 0).last_stable_offset == 2


async def test_a_damaged_partition_loses_its_own_ids(tmp_path, caplog):
    """They are told to look elsewhere; the ids of other partitions are there, and listed."""
    settings = SETTINGS | {"transaction.state.log.num.partitions": "2"}
    ids = {partition_for(f"id-{n}", 2): f"id-{n}" for n in range(9)}
    async with running_server(tmp_path, settings) as server:
        client = await server.connect()
        producers = [RawProducer(client, ids[index]) for index in (0, 1)]
        for producer in producers:
            await producer.init()
    [damaged] = (tmp_path / "__transaction_state-1").glob("*.log")
    content = bytearray(damaged.read_bytes())
    content[-3] ^= 0xFF
    damaged.write_bytes(content)
    caplog.clear()
    async with running_server(tmp_path, settings) as server:
        client = await server.connect()
        with trio.fail_after(10):
            while not is_loaded(server):
                await trio.lowlevel.checkpoint()
        asked = FindCoordinatorRequest(key_type=1, coordinator_keys=[ids[0], ids[1]])
        found = await client.request(asked, 4, FindCoordinatorResponse)
        assert [one.error_code for one in found.coordinators] == [
            ErrorCode.NONE,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ]
        producers[1].client = client
        with pytest.raises(KafkaError) as refused:
            await producers[1].end(committed=False)
        assert refused.value.code is ErrorCode.NOT_COORDINATOR
        listed = await client.request(ListTransactionsRequest(), 1, ListTransactionsResponse)
        assert listed.error_code == ErrorCode.NONE
        assert [one.transactional_id for one in listed.transaction_states] == [ids[0]]
    assert len([text for text in caplog.messages if "__transaction_state-1" in text]) == 1


async def test_each_step_is_on_the_disk_before_the_next(tmp_path):
    """With flush.messages=1: a partition is added, then written; an end is decided, then come the
    markers, then that they are all there."""
    disk = RecordingDisk()
    settings = SETTINGS | {"log.flush.interval.messages": "1"}
    async with running_server(tmp_path, settings, disk) as server:
        producer = await begin(server)
        for index in (0, 1):
            disk.seen.clear()
            await producer.produce(TOPIC, index, b"v")
            first = disk.seen.index(("write", f"{TOPIC}-{index}"))
            assert ("sync", "__transaction_state-0") in disk.seen[:first]
        disk.seen.clear()
        await producer.end(committed=True)
        await until(server, TransactionState.COMPLETE_COMMIT)
        seen = list(disk.seen)
        await producer.produce(TOPIC, 0, b"next")
        await producer.end(committed=False)
    state_log, markers = "__transaction_state-0", {f"{TOPIC}-0", f"{TOPIC}-1"}
    first_marker = min(seen.index(("write", name)) for name in markers)
    assert ("sync", state_log) in seen[:first_marker]
    completed = len(seen) - 1 - seen[::-1].index(("write", state_log))
    assert completed > first_marker
    assert {("sync", name) for name in markers} <= set(seen[first_marker:completed])
