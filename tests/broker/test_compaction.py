"""Compaction in a running broker: the process that cleans, and what happens when something ends."""

import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import trio

from kwire.broker import compaction
from kwire.broker.broker import Broker
from kwire.broker.compaction import Compaction, Worker
from kwire.broker.topic_auto_creation import create_if_missing
from kwire.errors import KafkaError
from kwire.log.compaction.job import CompactionJob
from kwire.log.disk import Disk
from kwire.log.partition_log import PartitionLog
from kwire.log.validation import FULL_LIMITS
from kwire.metadata.controller import delete_topic
from kwire.metadata.image import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kwire.record.records import BatchBuilder, records
from kwire.testing.waiting import wait_until
from tests.support.in_process import running_server

SETTINGS = {"log.cleaner.backoff.ms": "10"}
COMPACTED = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01"}


def put(broker: Broker, count: int, topic: str = "t") -> None:
    """Write ``count`` records over two keys, and roll."""
    partition = broker.partition(topic, 0)
    for number in range(count):
        builder = BatchBuilder()
        builder.add(broker.now_ms(), b"k%d" % (number % 2), b"%d" % number)
        partition.append(builder.build(), now_ms=broker.now_ms())
    partition.log.roll(broker.now_ms())


def offsets(broker: Broker, topic: str = "t") -> list[int]:
    """The offsets of the records that are there."""
    return offsets_in(broker.partition(topic, 0).log)


def offsets_in(log: PartitionLog) -> list[int]:
    """The offsets of the records in a log."""
    return [r.offset for s in log.segments for batch in s.batches() for r in records(batch)]


async def until(condition: Callable[[], object]) -> None:
    """Wait until something is so, while the broker runs."""
    looked = partial(trio.from_thread.run_sync, condition)  # between turns, as files come and go
    await trio.to_thread.run_sync(wait_until, looked)


async def compaction_of(broker: Broker) -> Compaction:
    """The broker's compaction, as soon as it has begun: here no log is waited for."""
    broker.compacts.set()
    await until(lambda: hasattr(broker, "compaction"))
    return broker.compaction


async def test_a_dirty_log_is_cleaned_by_a_process_of_its_own(tmp_path: Path) -> None:
    """It is started for that, ends when there is nothing left, and what it did is counted."""
    async with running_server(tmp_path, SETTINGS) as server:
        broker = server.broker
        compaction = await compaction_of(broker)
        await server.topic("t", **COMPACTED)
        put(broker, 10)
        await until(lambda: offsets(broker) == [8, 9])
        await until(lambda: compaction.workers == set())
        assert compaction.manager.metrics.cleans == 1
        assert compaction.manager.metrics.total.messages_written == 2
        assert (tmp_path / "cleaner-offset-checkpoint").read_text() == "0\n1\nt 0 10\n"
        put(broker, 2)
        await until(lambda: offsets(broker) == [10, 11])


async def test_the_death_of_the_process_costs_one_clean(tmp_path: Path, monkeypatch) -> None:
    """Nothing is lost, and the log is tried again after a while."""
    killed = []
    answer = Worker.answer

    async def killing(self: Worker) -> dict:
        if not killed:
            killed.append(self.pid)
            os.kill(self.pid, signal.SIGKILL)
        return await answer(self)

    monkeypatch.setattr(Worker, "answer", killing)
    monkeypatch.setattr("kwire.log.compaction.manager.FIRST_RETRY_MS", 1)
    async with running_server(tmp_path, SETTINGS) as server:
        await server.topic("t", **COMPACTED)
        put(server.broker, 10)
        await until(lambda: offsets(server.broker) == [8, 9])
    assert killed


async def test_a_stop_ends_the_process_and_leaves_no_half_files(tmp_path: Path) -> None:
    """In the middle of a clean, which is made slow by its rate."""
    slow = SETTINGS | {"log.cleaner.io.max.bytes.per.second": "1000"}
    async with running_server(tmp_path, slow) as server:
        compaction = await compaction_of(server.broker)
        await server.topic("t", **COMPACTED)
        put(server.broker, 100)
        await until(lambda: [w for w in compaction.workers if w.pid])
        [worker] = compaction.workers
        pid = worker.pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not list((tmp_path / "t-0").glob("*.cleaned"))
    async with running_server(tmp_path, SETTINGS) as server:
        await until(lambda: offsets(server.broker) == [98, 99])


async def test_a_topic_that_is_deleted_meanwhile_is_no_trouble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clean comes to nothing; the next topic of the name is another one."""
    cleaned, deleted = trio.Event(), trio.Event()
    answer = Worker.answer

    async def late(self: Worker) -> dict:
        found = await answer(self)
        cleaned.set()
        await deleted.wait()
        return found

    monkeypatch.setattr(Worker, "answer", late)
    async with running_server(tmp_path, SETTINGS) as server:
        broker = server.broker
        compaction = await compaction_of(broker)
        await server.topic("t", **COMPACTED)
        put(broker, 100)
        await cleaned.wait()
        topic_id = broker.image.topics_by_name["t"].topic_id
        await broker.commit(lambda image: delete_topic(image, topic_id))
        await server.topic("t", **COMPACTED)
        put(broker, 10)
        deleted.set()
        await until(lambda: offsets(broker) == [8, 9])
        await until(lambda: compaction.manager.metrics.cleans == 1)


async def test_a_log_that_is_cut_meanwhile_keeps_its_segments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A follower is cut while a thread syncs the cleaned segment, which has what was cut."""
    cuts: list[int] = []
    undo = compaction.undo_swap

    class CuttingDisk(Disk):
        def sync_directory(self, path: Path) -> None:
            if not cuts and [name for name in self.names(path) if name.endswith(".swap")]:
                log = server.broker.partition("t", 0).log
                cuts.append(len(offsets_in(log)))
                log.truncations += 1
            super().sync_directory(path)

    def undone(log: PartitionLog, *arguments: object) -> None:
        undo(log, *arguments)
        cuts.append(len(offsets_in(log)))

    monkeypatch.setattr(compaction, "undo_swap", undone)
    monkeypatch.setattr("kwire.log.compaction.manager.FIRST_RETRY_MS", 1)
    async with running_server(tmp_path, SETTINGS, CuttingDisk()) as server:
        await server.topic("t", **COMPACTED)
        put(server.broker, 10)
        await until(lambda: offsets(server.broker) == [8, 9])
    assert cuts == [10, 10]


async def test_what_can_t_be_cleaned_is_reported_and_the_rest_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A damaged record: its log is left alone, and served as before."""
    async with running_server(tmp_path, SETTINGS) as server:
        broker = server.broker
        compaction = await compaction_of(broker)
        await server.topic("bad", **COMPACTED, min_compaction_lag_ms=1_000_000)
        put(broker, 10, "bad")
        path = broker.partition("bad", 0).log.segments[0].path(".log")
        path.write_bytes(path.read_bytes()[:-1] + b"?")
        log = broker.partition("bad", 0).log
        log.update_config(log.config.__class__(compact=True, min_cleanable_dirty_ratio=0.01))
        await until(lambda: compaction.manager.uncleanable)
        assert "bad-0 can't be compacted" in caplog.text
        await server.topic("t", **COMPACTED)
        put(broker, 10)
        await until(lambda: offsets(broker) == [8, 9])
        with pytest.raises(KafkaError):
            offsets(broker, "bad")


async def test_several_cleaners_share_the_memory(tmp_path: Path) -> None:
    """log.cleaner.threads of them, each with its part; no log is cleaned by two."""
    settings = SETTINGS | {"log.cleaner.threads": "3", "log.cleaner.dedupe.buffer.size": "3000000"}
    async with running_server(tmp_path, settings) as server:
        broker = server.broker
        compaction = await compaction_of(broker)
        for name in ("t", "u", "v"):
            await server.topic(name, **COMPACTED)
            put(broker, 50, name)
        for name in ("t", "u", "v"):
            await until(lambda name=name: offsets(broker, name) == [48, 49])
        await until(lambda: compaction.manager.metrics.cleans == 3)
        assert compaction.settings().map_bytes == 1_000_000


@pytest.mark.parametrize("topic", [OFFSETS_TOPIC, TRANSACTIONS_TOPIC])
async def test_the_brokers_own_topics_are_compacted(tmp_path: Path, topic: str) -> None:
    """Without anybody setting that: they would grow for ever."""
    async with running_server(tmp_path, SETTINGS) as server:
        await create_if_missing(server.broker, topic)
        put(server.broker, 10, topic)
        await until(lambda: offsets(server.broker, topic) == [8, 9])


async def test_a_broker_without_a_cleaner_cleans_nothing(tmp_path: Path) -> None:
    """log.cleaner.enable."""
    async with running_server(tmp_path, SETTINGS | {"log.cleaner.enable": "false"}) as server:
        compaction = await compaction_of(server.broker)
        await server.topic("t", **COMPACTED)
        put(server.broker, 10)
        await trio.testing.wait_all_tasks_blocked()
        assert compaction.manager.metrics.last_run_ms == -1


def test_a_job_is_the_same_after_its_way_to_the_process() -> None:
    """As JSON."""
    job = CompactionJob(
        name="t-0",
        directory="/t-0",
        segments=(),
        first_dirty_offset=1,
        first_uncleanable_offset=2,
        producers=(),
        now_ms=3,
        delete_retention_ms=4,
        segment_bytes=5,
        index_bytes=6,
        index_interval_bytes=7,
        buffer_bytes=8,
        map_bytes=9,
        map_load_factor=0.9,
        max_bytes_per_second=float("inf"),
        limits=FULL_LIMITS,
    )
    assert CompactionJob.from_json(job.to_json()) == job
