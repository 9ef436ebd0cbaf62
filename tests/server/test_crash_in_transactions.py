"""The broker is killed at every write of a transaction, or its machine after every sync.

One run of a transaction leaves a copy of the data directory before each write that it causes: what
a process that is killed there would leave behind. From every copy a broker starts, and

- nothing is left open: the last stable offset reaches the end, and no state is being prepared,
- of the records and the offset all is to be seen, or nothing,
- what the producer was told is true, and so is what it is told when it asks again.
"""

import shutil
import threading
from pathlib import Path
from typing import NamedTuple

import pytest
import trio

from kwire.broker.broker import Broker
from kwire.broker.coordinator_log import CoordinatorLog
from kwire.coordinator.transaction.state import PREPARED
from kwire.errors import ErrorCode, KafkaError
from kwire.log.disk import Disk
from kwire.record.control import ControlType, control_type
from tests.support.asking import error_of
from tests.support.in_process import running_server
from tests.support.raw_producer import RawProducer

TOPIC, GROUP, LEDGER = "ledger", "readers", "writer"
PARTITIONS = 2
OFFSET = 7
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "log.index.size.max.bytes": "1024",
}


class Told(NamedTuple):
    """What the producer knew at a moment: its id and epoch, and what was acknowledged."""

    producer_id: int
    epoch: int
    has_written_all: bool
    has_ended: bool


class CopyingDisk(Disk):
    """A disk that copies the data directory at every write, as long as it is told to."""

    def __init__(self, source: Path, target: Path) -> None:
        self.source = source
        self.target = target
        self.told = Told(-1, -1, has_written_all=False, has_ended=False)
        self.copies: list[tuple[Path, Told]] = []
        self.is_copying = False
        self.one_at_a_time = threading.RLock()  # threads may sync while others do

    def pwrite_all(self, fd, data, position):
        if self.is_copying:
            self.copy()
        super().pwrite_all(fd, data, position)

    def copy(self) -> None:
        """Keep what a process that dies now leaves behind."""
        kept = self.target / str(len(self.copies))
        shutil.copytree(self.source, kept)
        self.copies.append((kept, self.told))


class PowerCutDisk(CopyingDisk):
    """A disk that loses what wasn't synced: a copy has the files as their last sync left them."""

    def __init__(self, source: Path, target: Path) -> None:
        super().__init__(source, target)
        self.paths: dict[int, Path] = {}
        self.synced = target / "synced"

    def open(self, path, *, create=False):
        fd = super().open(path, create=create)
        self.paths[fd] = path
        return fd

    def pwrite_all(self, fd, data, position):
        if self.is_copying and not self.synced.exists():
            shutil.copytree(self.source, self.synced)
        Disk.pwrite_all(self, fd, data, position)

    def sync(self, fd):
        super().sync(fd)
        with self.one_at_a_time:
            if self.is_copying:
                path = self.paths[fd]
                shutil.copyfile(path, self.synced / path.relative_to(self.source))
                self.copy()

    def copy(self) -> None:
        """Keep what a machine that loses its power now leaves behind."""
        kept = self.target / str(len(self.copies))
        shutil.copytree(self.synced, kept)
        self.copies.append((kept, self.told))


async def _copies(
    disk: CopyingDisk, settings: dict[str, str], *, committed: bool, bumps: bool
) -> list[tuple[Path, Told]]:
    """The copies that one transaction leaves behind."""
    async with running_server(disk.source, settings, disk) as server:
        client = await server.connect()
        await client.topic(TOPIC, PARTITIONS)
        await error_of(client.find_coordinator(GROUP))  # its topic is created
        producer = RawProducer(client, LEDGER, bumps=bumps)
        await producer.init()
        disk.told = Told(producer.producer_id, producer.epoch, False, False)
        disk.is_copying = True
        for index in range(PARTITIONS):
            if not bumps:
                await producer.add(TOPIC, index)
            await producer.produce(TOPIC, index, b"entry")
        if not bumps:
            await producer.add_offsets(GROUP)
        await producer.commit_offset(GROUP, TOPIC, 0, OFFSET)
        disk.told = disk.told._replace(has_written_all=True)
        await producer.end(committed=committed)
        disk.told = disk.told._replace(has_ended=True)
        with trio.fail_after(10):
            while server.broker.transactions.all_coordinators()[0].coordinator.unfinished:
                await trio.lowlevel.checkpoint()
        with disk.one_at_a_time:
            disk.copy()
            disk.is_copying = False
        await client.aclose()
    return disk.copies


def _is_settled(broker: Broker) -> bool:
    """Whether no transaction is open or about to end."""
    [home] = broker.transactions.all_coordinators()
    known = home.coordinator.get(LEDGER)
    assert known is None or known.state not in PREPARED
    return all(p.last_stable_offset == p.high_watermark for p in broker.partitions())


def _visible(broker: Broker) -> list[bool]:
    """For both partitions and the group: whether a read_committed client sees the transaction."""
    seen = []
    for index in range(PARTITIONS):
        found = list(CoordinatorLog(broker.partition(TOPIC, index), lambda _: True))
        markers = [control_type(batch) for batch in found if batch.is_control]
        has_records = any(not batch.is_control for batch in found)
        seen.append(has_records and bool(markers) and markers[0] == ControlType.COMMIT)
    home = broker.groups.coordinator(GROUP)
    assert not home.coordinator.offsets.is_pending(GROUP, TOPIC, 0)
    committed = home.coordinator.offsets.of(GROUP).get(TOPIC, 0)
    return [*seen, committed is not None and committed.offset == OFFSET]


async def _ask_again(producer: RawProducer, *, committed: bool) -> ErrorCode:
    """The producer asks for the end again until it gets an answer that is one."""
    while True:
        try:
            await producer.end(committed=committed)
        except KafkaError as error:
            if error.code in (
                ErrorCode.CONCURRENT_TRANSACTIONS,
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ):
                continue
            return error.code
        return ErrorCode.NONE


async def _take_over(producer: RawProducer) -> None:
    """Another producer of the same transactional id begins."""
    while True:
        try:
            await producer.init()
        except KafkaError as error:
            if error.code not in (
                ErrorCode.CONCURRENT_TRANSACTIONS,
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ):
                raise
            continue
        return


@pytest.mark.parametrize("bumps", [True, False], ids=["newer", "first"])
@pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
async def test_killed_at_every_write(tmp_path: Path, committed: bool, bumps: bool) -> None:
    """All or nothing, nothing left open, and the truth told.

    Who comes next is the same producer after one step and another one after the next, and the other
    way round where the end or the protocol is another.
    """
    disk = CopyingDisk(tmp_path / "data", tmp_path / "copies")
    copies = await _copies(disk, SETTINGS, committed=committed, bumps=bumps)
    assert len(copies) > 10
    await _check_all(copies, SETTINGS, committed=committed, bumps=bumps)


@pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
async def test_power_is_cut_after_every_sync(tmp_path: Path, committed: bool) -> None:
    """With flush.messages=1 the same holds for a machine that dies with its page cache."""
    settings = SETTINGS | {"log.flush.interval.messages": "1"}
    disk = PowerCutDisk(tmp_path / "data", tmp_path / "copies")
    copies = await _copies(disk, settings, committed=committed, bumps=True)
    assert len(copies) > 8
    await _check_all(copies, settings, committed=committed, bumps=True)


async def _check_all(
    copies: list[tuple[Path, Told]], settings: dict[str, str], *, committed: bool, bumps: bool
) -> None:
    """Start a broker on every copy."""
    for number, (directory, told) in enumerate(copies):
        async with running_server(directory, settings) as server:
            client = await server.connect()
            producer = RawProducer(client, LEDGER, bumps=bumps)
            producer.producer_id, producer.epoch = told.producer_id, told.epoch
            if told.has_written_all and (number + committed + bumps) % 2:
                answer = await _ask_again(producer, committed=committed)
                assert answer is ErrorCode.NONE, f"copy {number}"
                expected = [committed]
            else:
                await _take_over(producer)
                expected = [committed] if told.has_ended else [committed, False]
            visible = _visible(server.broker)
            assert _is_settled(server.broker), f"copy {number}"
            assert visible in [[seen] * (PARTITIONS + 1) for seen in expected], f"copy {number}"
            await client.aclose()
