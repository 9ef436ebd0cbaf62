"""What a running server does of itself, each thing at its interval, by the broker's clock."""

import os
from itertools import pairwise
from pathlib import Path

import trio

from kwire.housekeeping import FIRST_TASKS_MS
from kwire.log.checkpoints import HIGH_WATERMARKS, write_offsets
from kwire.log.disk import Disk
from kwire.metadata.controller import delete_topic
from kwire.record.records import BatchBuilder
from kwire.testing.faulty_disk import FaultyDisk
from tests.support.clock import FakeClock
from tests.support.in_process import running_server

MINUTE_MS = 60_000
WEEK_MS = 7 * 24 * 60 * MINUTE_MS


def record(timestamp_ms: int) -> bytes:
    """A batch of one record."""
    builder = BatchBuilder()
    builder.add(timestamp_ms, b"k", b"v")
    return bytes(builder.build())


def content(path: Path) -> str:
    """The text of a file, empty where there is none: a checkpoint without news isn't written."""
    return path.read_text(encoding="utf-8") if path.exists() else ""


async def test_a_week_passes(tmp_path: Path) -> None:
    """Retention looks every log.retention.check.interval.ms; then what is older than a week goes,
    its files after file.delete.delay.ms; nothing happens in the first half minute."""
    clock = FakeClock()
    async with running_server(tmp_path, clock=clock) as running:
        broker, housekeeping = running.broker, running.server.housekeeping

        async def keep_house() -> None:
            await housekeeping.retain()
            await housekeeping.keep_house()

        await running.topic("t")
        partition = broker.partition("t", 0)
        start_ms = broker.now_ms()
        partition.append(record(start_ms - WEEK_MS), now_ms=start_ms)
        partition.log.roll(start_ms)
        partition.append(record(start_ms), now_ms=start_ms)
        await keep_house()
        assert partition.log.log_start_offset == 0
        clock.pass_time(FIRST_TASKS_MS + 1000)
        await keep_house()
        assert partition.log.log_start_offset == 1
        names = {path.name for path in partition.log.directory.iterdir()}
        assert f"{0:020d}.log.deleted" in names
        partition.log.roll(start_ms)
        clock.pass_time(MINUTE_MS - 1)
        await keep_house()
        assert f"{0:020d}.log.deleted" in {p.name for p in partition.log.directory.iterdir()}
        clock.pass_time(1)
        await keep_house()
        names = {path.name for path in partition.log.directory.iterdir()}
        assert not any(name.endswith(".deleted") for name in names)
        clock.pass_time(WEEK_MS)
        await keep_house()
        assert partition.log.log_start_offset == 2


async def test_a_log_that_is_not_served_keeps_what_may_not_be_replicated(tmp_path: Path) -> None:
    """Its role failed on a full disk, perhaps. Retention goes by what an earlier process knew, and
    so makes room."""
    clock = FakeClock()
    async with running_server(tmp_path, clock=clock) as running:
        broker = running.broker
        await running.topic("t", 2)
        for index in range(2):
            partition = broker.partition("t", index)
            for _ in range(3):
                partition.append(record(broker.now_ms()), now_ms=broker.now_ms())
                partition.log.roll(broker.now_ms())
    write_offsets(tmp_path / HIGH_WATERMARKS, {("t", 1): 2}, Disk())
    clock.pass_time(2 * WEEK_MS)
    async with running_server(tmp_path, clock=clock) as running:
        logs, served = running.broker.log_manager.logs, running.broker.replica_manager
        for index in range(2):
            served.end_role(("t", index))
        clock.pass_time(MINUTE_MS)
        await running.server.housekeeping.retain()
        assert [logs["t", index].log_start_offset for index in range(2)] == [0, 2]


async def test_a_checkpoint_looks_high_watermarks_up_when_it_writes_them(tmp_path: Path) -> None:
    """A thread may have to wait before that; the log of a follower may be cut meanwhile."""
    clock, disk = FakeClock(), FaultyDisk()
    async with running_server(tmp_path, clock=clock, disk=disk) as running:
        broker = running.broker
        await running.topic("t")
        partition = broker.partition("t", 0)
        for _ in range(9):
            partition.append(record(broker.now_ms()), now_ms=broker.now_ms())
        partition.log.roll(broker.now_ms())
        clock.pass_time(MINUTE_MS)
        disk.before_sync = lambda path: setattr(partition, "high_watermark", 5)
        await running.server.housekeeping.keep_house()
        assert content(tmp_path / HIGH_WATERMARKS).endswith("\nt 0 5\n")


async def test_other_tasks_have_a_turn_after_each_deleted_segment(tmp_path: Path) -> None:
    """Thousands of segments may become too old in the same moment; clients don't wait for all.

    trio runs the tasks of a pass in any order: so two segments may go between two turns of a task.
    """
    clock = FakeClock()
    async with running_server(tmp_path, clock=clock) as running:
        broker = running.broker
        await running.topic("t", 5)
        logs = [broker.partition("t", index).log for index in range(5)]
        for index in range(5):
            broker.partition("t", index).append(record(broker.now_ms()), now_ms=broker.now_ms())
        clock.pass_time(2 * WEEK_MS)
        seen = [0]

        async def look() -> None:
            while seen[-1] < 5:
                await trio.lowlevel.checkpoint()
                seen.append(sum(log.log_start_offset for log in logs))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(look)
            await running.server.housekeeping.retain()
        assert max(after - before for before, after in pairwise(seen)) <= 2


async def test_checkpoints_do_not_wait_for_retention(tmp_path: Path) -> None:
    """Retention of many segments may take minutes beside other work."""
    clock = FakeClock()
    async with running_server(tmp_path, clock=clock) as running:
        broker, housekeeping = running.broker, running.server.housekeeping
        await running.topic("t")
        partition = broker.partition("t", 0)
        for _ in range(9):
            partition.append(record(broker.now_ms()), now_ms=broker.now_ms())
            partition.log.roll(broker.now_ms())
        clock.pass_time(2 * WEEK_MS)
        await housekeeping.keep_house()
        partition.append(record(broker.now_ms()), now_ms=broker.now_ms())
        clock.pass_time(MINUTE_MS)
        retention = housekeeping.retain()
        retention.send(None)  # one turn, and no more while the checkpoints are written
        await housekeeping.keep_house()
        assert content(tmp_path / "replication-offset-checkpoint").endswith("\nt 0 10\n")
        assert partition.log.log_start_offset < 9
        retention.close()


async def test_the_files_of_a_deleted_topic_go_when_their_time_has_come(tmp_path: Path) -> None:
    """After file.delete.delay.ms, however seldom retention looks."""
    settings = {"log.segment.delete.delay.ms": str(WEEK_MS)}
    clock = FakeClock()
    async with running_server(tmp_path, settings, clock=clock) as running:
        broker, keep_house = running.broker, running.server.housekeeping.keep_house
        await running.topic("t")
        await broker.commit(lambda image: delete_topic(image, image.topics_by_name["t"].topic_id))
        clock.pass_time(WEEK_MS - 1)
        await keep_house()
        assert [name for name in os.listdir(tmp_path) if name.startswith("t-0.")]
        clock.pass_time(1)
        await keep_house()
        assert not [name for name in os.listdir(tmp_path) if name.startswith("t-0")]


async def test_each_checkpoint_has_its_interval(tmp_path: Path) -> None:
    """High watermarks, recovery points and log start offsets are written when they are due."""
    settings = {
        "log.flush.offset.checkpoint.interval.ms": "20000",
        "log.flush.start.offset.checkpoint.interval.ms": "30000",
        "replica.high.watermark.checkpoint.interval.ms": "10000",
    }
    clock = FakeClock()
    async with running_server(tmp_path, settings, clock=clock) as running:
        broker, keep_house = running.broker, running.server.housekeeping.keep_house
        await running.topic("t")
        partition = broker.partition("t", 0)
        files = {
            10: tmp_path / "replication-offset-checkpoint",
            20: tmp_path / "recovery-point-offset-checkpoint",
            30: tmp_path / "log-start-offset-checkpoint",
        }
        partition.append(record(broker.now_ms()), now_ms=broker.now_ms())
        clock.pass_time(1000)
        await keep_house()
        assert content(files[10]).endswith("\nt 0 1\n"), "high watermarks don't wait at the start"
        assert not content(files[20])
        clock.pass_time(FIRST_TASKS_MS + 1000)
        await keep_house()
        first_ms = broker.now_ms()
        for _ in range(3):
            partition.append(record(first_ms), now_ms=first_ms)
        partition.log.flush(clock.steady_ms())
        partition.delete_records(2)
        before = {path: content(path) for path in files.values()}
        for seconds, passed in ((5, 5), (10, 5), (20, 10), (30, 10)):
            clock.pass_time(passed * 1000)
            await keep_house()
            news = [due for due, path in files.items() if content(path) != before[path]]
            assert news == [due for due in files if due <= seconds]
