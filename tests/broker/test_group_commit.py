"""flush.messages and flush.ms: when an append is acknowledged, and that the syncs are shared."""

import errno
import shutil
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from kwire.broker.flusher import LOGS_AT_ONCE
from kwire.clock import Clock
from kwire.dispatch.pending_request import held
from kwire.errors import ErrorCode
from kwire.handlers.lib.waiting import at_once_or_later, later
from kwire.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kwire.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
)
from kwire.testing.faulty_disk import FaultyDisk
from kwire.testing.waiting import until
from tests.support.clock import FakeClock
from tests.support.in_process import RawClient, RunningServer, running_server
from tests.support.records import batch
from tests.support.requests import produce_request


class Gate:
    """Lets syncs of segments through while it is open."""

    def __init__(self, disk: FaultyDisk) -> None:
        self.is_open = threading.Event()
        self.waiting = 0
        disk.before_sync = self._pass

    def _pass(self, path: Path) -> None:
        if path.suffix == ".log":
            self.waiting += 1
            assert self.is_open.wait(10)


def record() -> bytes:
    """A batch of one record."""
    return batch(b"v", key=b"k")


async def produce(raw: RawClient, acks: int = -1) -> PartitionProduceResponse:
    """Append one record to t-0."""
    response = await raw.request(produce_request("t", record(), acks=acks), 9, ProduceResponse)
    return response.responses[0].partition_responses[0]


async def fetched_bytes(raw: RawClient) -> int:
    """How much of t-0 a consumer sees."""
    return len((await raw.fetch("t")).records)


@asynccontextmanager
async def broker_with(
    path: Path, disk: FaultyDisk, clock: Clock | None = None, **settings: str
) -> AsyncIterator[RunningServer]:
    """A broker with the topic t, with these settings of its own."""
    async with running_server(path, disk=disk, clock=clock) as running:
        await running.topic("t", **settings)
        yield running


async def test_an_append_is_acknowledged_after_the_sync_that_covers_it(tmp_path: Path) -> None:
    """flush.messages=1: until then there is no answer, and consumers see nothing; other requests
    are served meanwhile."""
    disk = FaultyDisk()
    async with broker_with(tmp_path, disk, flush_messages="1") as running:
        gate = Gate(disk)
        raw, other = await running.connect(), await running.connect()
        answers: list[PartitionProduceResponse] = []

        async def append() -> None:
            answers.append(await produce(raw))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(append)
            await until(lambda: gate.waiting == 1)
            assert not answers
            assert await fetched_bytes(other) == 0
            gate.is_open.set()
        assert [(answer.error_code, answer.base_offset) for answer in answers] == [(0, 0)]
        assert await fetched_bytes(other) == len(record())


async def test_many_connections_share_a_sync(tmp_path: Path) -> None:
    """Appends that come while a run of syncs is under way wait for one more run, all together."""
    disk = FaultyDisk()
    async with broker_with(tmp_path, disk, flush_messages="1") as running:
        gate = Gate(disk)
        log = running.broker.partition("t", 0).log
        answers: list[PartitionProduceResponse] = []

        async def append() -> None:
            raw = await running.connect()
            answers.append(await produce(raw))
            await raw.aclose()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(append)
            await until(lambda: gate.waiting == 1)
            for _ in range(20):
                nursery.start_soon(append)
            await until(lambda: log.log_end_offset == 21)
            before = disk.syncs
            gate.is_open.set()
        assert sorted(answer.base_offset for answer in answers) == list(range(21))
        assert disk.syncs - before == 2
        assert log.recovery_point == 21


async def test_a_sync_that_fails_acknowledges_nothing(tmp_path: Path) -> None:
    """Whoever waited for it gets KAFKA_STORAGE_ERROR, and so does the next one."""
    disk = FaultyDisk()
    async with broker_with(tmp_path, disk, flush_messages="1") as running:
        raw = await running.connect()

        def fail(path: Path) -> None:
            raise OSError(errno.EIO, "Input/output error")

        disk.before_sync = fail
        assert (await produce(raw)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        answer = await produce(raw)
        assert (answer.error_code, answer.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
        assert running.broker.is_offline("t", 0)


async def test_a_record_that_came_during_a_failing_sync_is_not_acknowledged(
    tmp_path: Path,
) -> None:
    """The system reports lost pages once: the next sync of the same file succeeds."""
    disk = FaultyDisk()
    async with broker_with(tmp_path, disk, flush_messages="1") as running:
        first, second = await running.connect(), await running.connect()
        has_begun, may_fail = threading.Event(), threading.Event()

        def fail_once(path: Path) -> None:
            if path.suffix == ".log" and not has_begun.is_set():
                has_begun.set()
                assert may_fail.wait(10)
                raise OSError(errno.EIO, "Input/output error")

        disk.before_sync = fail_once
        codes: list[int] = []

        async def append(raw: RawClient) -> None:
            codes.append((await produce(raw)).error_code)

        log = running.broker.partition("t", 0).log
        async with trio.open_nursery() as nursery:
            nursery.start_soon(append, first)
            await until(has_begun.is_set)
            nursery.start_soon(append, second)
            await until(lambda: log.log_end_offset == 2)
            may_fail.set()
        assert codes == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
        assert log.recovery_point == 0


async def test_every_so_many_messages(tmp_path: Path) -> None:
    """flush.messages=3: two are acknowledged at once, the third when all three are on the disk."""
    disk = FaultyDisk()
    async with broker_with(tmp_path, disk, flush_messages="3") as running:
        raw = await running.connect()
        log = running.broker.partition("t", 0).log
        points = []
        for _ in range(4):
            await produce(raw)
            points.append(log.recovery_point)
        assert points == [0, 0, 3, 3]


async def test_a_partition_nobody_appends_to_is_flushed_in_time(tmp_path: Path) -> None:
    """flush.ms goes by the clock of the broker, and a rolled segment is flushed at once."""
    disk = FaultyDisk()
    clock = FakeClock()
    async with broker_with(tmp_path, disk, clock, flush_ms="60000") as running:
        raw = await running.connect()
        partition = running.broker.partition("t", 0)
        await produce(raw)
        running.server.housekeeping.flush_due()
        assert partition.log.recovery_point == 0
        clock.pass_time(60_000)
        running.server.housekeeping.flush_due()
        await until(lambda: partition.log.recovery_point == 1)
        await produce(raw)
        partition.log.roll(clock.now_ms())
        running.server.housekeeping.flush_due()
        await until(lambda: partition.log.recovery_point == 2)
        assert not partition.log.unflushed


async def test_a_producer_waits_for_few_of_the_flushes_that_nobody_waits_for(
    tmp_path: Path,
) -> None:
    """Its flush is in the next run, however many partitions have rolled segments."""
    disk = FaultyDisk()
    count = 10 * LOGS_AT_ONCE
    async with broker_with(tmp_path, disk, flush_messages="1") as running:
        broker = running.broker
        await running.topic("many", count)
        many = [broker.partition("many", index) for index in range(count)]
        for partition in many:
            partition.append(record(), now_ms=broker.now_ms())
            partition.log.roll(broker.now_ms())
        raw = await running.connect()
        gate = Gate(disk)
        running.server.housekeeping.flush_due()
        await until(lambda: gate.waiting > 0)
        flushed = []

        async def wait() -> None:
            await produce(raw)
            flushed.append(sum(not partition.log.unflushed for partition in many))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await until(lambda: broker.partition("t", 0).log.log_end_offset == 1)
            gate.is_open.set()
        assert 0 < flushed[0] <= 2 * LOGS_AT_ONCE
        await until(lambda: not any(partition.log.unflushed for partition in many))


async def test_committed_offsets_are_on_the_disk_before_the_answer(tmp_path: Path) -> None:
    """log.flush.interval.messages=1 holds for the coordinators' records as well."""
    disk = FaultyDisk()
    settings = {"log.flush.interval.messages": "1", "offsets.topic.num.partitions": "1"}
    async with running_server(tmp_path, settings, disk=disk) as running:
        broker = running.broker
        await running.topic("t")
        raw = await running.connect()
        await raw.request(
            FindCoordinatorRequest(coordinator_keys=["g"]), 4, FindCoordinatorResponse
        )
        gate = Gate(disk)
        answers: list[OffsetCommitResponse] = []

        async def commit() -> None:
            partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
            topic = OffsetCommitRequestTopic(name="t", partitions=[partition])
            request = OffsetCommitRequest(group_id="g", topics=[topic])
            answers.append(await raw.request(request, 8, OffsetCommitResponse))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(commit)
            await until(lambda: gate.waiting == 1)
            assert not answers
            gate.is_open.set()
        assert answers[0].topics[0].partitions[0].error_code == 0
        assert broker.partition("__consumer_offsets", 0).log.recovery_point == 1


async def test_what_was_flushed_is_forgotten(tmp_path: Path) -> None:
    """Who has flushes done and answers nobody doesn't keep them."""
    async with broker_with(tmp_path, FaultyDisk(), flush_ms="0") as running:
        raw = await running.connect()
        log = running.broker.partition("t", 0).log
        for number in range(5):
            await produce(raw)
            running.server.housekeeping.flush_due()
            running.broker.flusher.demand(running.broker.partition("t", 0))
            await until(lambda end=number + 1: log.recovery_point == end)
        await until(lambda: not running.broker.flusher.asked)


async def test_nobody_reads_after_a_crash_what_is_not_on_the_disk(tmp_path: Path) -> None:
    """flush.messages=1: what was recovered is synced before it is served."""
    async with broker_with(tmp_path / "old", FaultyDisk()) as running:
        raw = await running.connect()
        await produce(raw)
        shutil.copytree(tmp_path / "old", tmp_path / "new")  # as a crash leaves it
    settings = {"log.flush.interval.messages": "1"}
    async with running_server(tmp_path / "new", settings, disk=FaultyDisk()) as running:
        partition = running.broker.partition("t", 0)
        assert (partition.high_watermark, partition.log.recovery_point) == (1, 1)


async def test_what_an_early_slice_wrote_is_on_the_disk_before_the_answer(tmp_path: Path) -> None:
    """A commit of many offsets is written in slices, and goes on in another task: it is answered
    when the first slice is on the disk, too."""
    disk = FaultyDisk()
    settings = {"log.flush.interval.messages": "1", "offsets.topic.num.partitions": "1"}
    async with running_server(tmp_path, settings, disk=disk) as running:
        broker = running.broker
        await running.topic("t")
        raw = await running.connect()
        await raw.request(
            FindCoordinatorRequest(coordinator_keys=["g"]), 4, FindCoordinatorResponse
        )
        gate = Gate(disk)
        answers: list[OffsetCommitResponse] = []
        log = broker.partition("__consumer_offsets", 0).log

        async def commit() -> None:
            first = OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
            unknown = [
                OffsetCommitRequestPartition(partition_index=index, committed_offset=7)
                for index in range(1, 1500)
            ]
            topics = [
                OffsetCommitRequestTopic(name="t", partitions=[first] * 150),
                OffsetCommitRequestTopic(name="t", partitions=unknown),
            ]
            request = OffsetCommitRequest(group_id="g", topics=topics)
            answers.append(await raw.request(request, 8, OffsetCommitResponse))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(commit)
            await until(lambda: gate.waiting == 1)
            await until(lambda: log.log_end_offset == 150)
            assert not answers
            gate.is_open.set()
        assert not any(partition.error_code for partition in answers[0].topics[0].partitions)
        assert log.recovery_point == 150


async def test_demands_go_along_with_a_request_into_another_task(tmp_path: Path) -> None:
    """What a handler demands before it waits holds its response back when it goes on elsewhere."""
    async with broker_with(tmp_path, FaultyDisk(), flush_ms="0") as running:
        flusher = running.broker.flusher
        partition = running.broker.partition("t", 0)
        flushes = []

        async def handler() -> str:
            flushes.append(flusher.demand(partition))
            await later(trio.lowlevel.checkpoint)
            return "answer"

        unfinished = held(at_once_or_later(handler()), flusher)
        assert unfinished.demands == set(flushes)
        flusher.forget()  # the next request of this task
        response = await unfinished.work()
        held_back = held(response, flusher, unfinished.demands)
        assert held_back != "answer"
        assert await held_back == "answer"
