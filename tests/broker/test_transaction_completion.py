"""Markers of many partitions, and markers whose way to the disk is long."""

import threading
from errno import ENOSPC
from itertools import pairwise
from pathlib import Path

import trio

from kwire.broker.markers import EndMarker
from kwire.coordinator.transaction.state import TransactionState
from kwire.errors import KafkaError
from kwire.log.disk import Disk
from kwire.protocol.messages.end_txn import EndTxnRequest
from kwire.testing.waiting import until
from tests.support.in_process import RunningServer, running_server
from tests.support.raw_producer import RawProducer

TOPIC, LEDGER, OTHER = "orders", "ledger", "second"
MANY = 120
PER_TURN = 50
SETTINGS = {
    "transaction.state.log.num.partitions": "1",
    "log.index.size.max.bytes": "1024",
}


class SlowDisk(Disk):
    """A disk that is full for one partition, and keeps another waiting while ``gate`` is shut."""

    def __init__(self) -> None:
        self.refused = ""
        self.held = ""
        self.gate = threading.Event()
        self.opened: dict[int, Path] = {}

    def open(self, path: Path, *, create: bool = False) -> int:
        fd = super().open(path, create=create)
        self.opened[fd] = path
        return fd

    def pwrite_all(self, fd, data, position):
        if self.opened[fd].parent.name == self.refused:
            raise OSError(ENOSPC, "No space left on device")
        super().pwrite_all(fd, data, position)

    def sync(self, fd):
        if self.opened[fd].parent.name == self.held:
            assert self.gate.wait(10)
        super().sync(fd)


async def begin(server: RunningServer, partitions: int, **options: bool) -> RawProducer:
    """A producer with a topic to write to."""
    client = await server.connect()
    await client.topic(TOPIC, partitions)
    producer = RawProducer(client, LEDGER, **options)
    await producer.init()
    return producer


def state(server: RunningServer, transactional_id: str = LEDGER) -> TransactionState | None:
    """The state of a transactional id, None while it isn't known."""
    try:
        known = server.broker.transactions.of(transactional_id).coordinator.get(transactional_id)
    except KafkaError:
        return None
    return known and known.state


def markers(server: RunningServer) -> int:
    """How many partitions have their marker, which is all that is written to them."""
    return sum(server.broker.partition(TOPIC, i).log.log_end_offset for i in range(MANY))


class Count(trio.abc.Instrument):
    """How many markers there are after each turn of a task."""

    def __init__(self, server: RunningServer) -> None:
        self.server = server
        self.seen = [markers(server)]

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.seen.append(markers(self.server))


async def ask_for_the_end(server: RunningServer) -> None:
    """A transaction with many partitions, whose end is asked for; nobody waits for the answer."""
    producer = await begin(server, MANY, bumps=False)
    for index in range(MANY):
        await producer.add(TOPIC, index)
    request = EndTxnRequest(
        transactional_id=LEDGER,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        committed=True,
    )
    await producer.client.send(request, 4)


async def test_markers_of_many_partitions_leave_turns_for_others(tmp_path):
    """No more than 50 are written in one turn."""
    async with running_server(tmp_path, SETTINGS) as server:
        await ask_for_the_end(server)
        count = Count(server)
        trio.lowlevel.add_instrument(count)
        await until(lambda: state(server) is TransactionState.COMPLETE_COMMIT)
        trio.lowlevel.remove_instrument(count)
    assert count.seen[0] < MANY
    assert count.seen[-1] == MANY
    assert max(after - before for before, after in pairwise(count.seen)) <= PER_TURN


async def test_markers_that_are_cut_short_are_written_after_the_next_start(tmp_path):
    """The broker is cancelled between two turns."""
    with trio.CancelScope() as cut:
        async with running_server(tmp_path, SETTINGS) as server:
            await ask_for_the_end(server)
            with trio.fail_after(10):
                while not markers(server):
                    await trio.lowlevel.checkpoint()
            cut.cancel()
            await trio.lowlevel.checkpoint()
    assert 0 < markers(server) < MANY
    async with running_server(tmp_path, SETTINGS) as server:
        await until(lambda: state(server) is TransactionState.COMPLETE_COMMIT)
        assert all(server.broker.partition(TOPIC, i).log.log_end_offset for i in range(MANY))


async def test_a_marker_counts_when_it_is_on_the_disk(tmp_path):
    """With flush.messages=1: also one that was written before another one had to be tried again.

    The other transaction shows when that was: it has to be tried again for the same partition.
    """
    disk = SlowDisk()
    settings = SETTINGS | {
        "log.flush.interval.messages": "1",
        "log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}",
    }
    async with running_server(tmp_path, settings, disk) as server:
        producer = await begin(server, 2)
        other = RawProducer(producer.client, OTHER)
        await other.init()
        for index in (0, 1):
            await producer.produce(TOPIC, index, b"v")
        await other.produce(TOPIC, 1, b"v")
        disk.refused, disk.held = f"{TOPIC}-1", f"{TOPIC}-0"
        await other.end(committed=True)
        await producer.end(committed=True)
        written = server.broker.partition(TOPIC, 0).log
        await until(lambda: written.log_end_offset == 2)
        disk.refused = ""
        await until(lambda: state(server, OTHER) is TransactionState.COMPLETE_COMMIT)
        for _ in range(10):
            await trio.lowlevel.checkpoint()
        assert state(server) is TransactionState.PREPARE_COMMIT
        disk.gate.set()
        await until(lambda: state(server) is TransactionState.COMPLETE_COMMIT)
        assert written.recovery_point == 2
        assert server.broker.partition(TOPIC, 1).last_stable_offset == 4


def test_a_marker_is_told_in_words():
    """The log names what ends and whose it is."""
    marker = EndMarker(7, 3, 0, False, 2)
    assert str(marker) == "the abort of producer 7, epoch 3"
