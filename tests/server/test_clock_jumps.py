"""Timers of a running server under every kind of jump of its clocks.

The promise: a date that is set back stops nothing, one that is set ahead ends nothing before its
time, and after the machine's sleep all that has become due is done by the next tick. What Kafka
defines by dates (retention by the records' timestamps) follows the date. What waits for a client is
in ``test_jumps_of_other_timers``. docs/decisions/0018-two-clocks.md.
"""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest
import trio

from kwire.broker.fetch_sessions import EVICTION_MS, SessionLimits
from kwire.coordinator.effects import Effects
from kwire.coordinator.records import OffsetCommitValue, offset_commit
from kwire.coordinator.transaction.state import ProducerIdAndEpoch
from kwire.metadata.controller import delete_topic
from kwire.metadata.image import OFFSETS_TOPIC
from kwire.protocol.messages.fetch import FetchPartition
from kwire.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from kwire.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kwire.record.records import BatchBuilder, ProducerState
from kwire.testing.waiting import until
from tests.support.clock import FakeClock
from tests.support.committed_topics import commit_topic
from tests.support.in_process import RawClient, RunningServer, running_server

SECOND_MS = 1000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
WEEK_MS = 7 * DAY_MS
PRODUCER_ID = 77

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "max.incremental.fetch.session.cache.slots": "1",
    "log.cleaner.enable": "false",
    "log.flush.interval.ms": str(MINUTE_MS),
    "log.segment.delete.delay.ms": str(HOUR_MS),
    "producer.id.expiration.ms": str(DAY_MS),
    "transactional.id.expiration.ms": str(DAY_MS),
    "offsets.retention.minutes": str(DAY_MS // MINUTE_MS),
    "log.retention.ms": "-1",
}


class Bench:
    """A running server with a topic ``t`` and a clock that the test drives."""

    def __init__(self, running: RunningServer, clock: FakeClock, directory: Path) -> None:
        self.running = running
        self.broker = running.broker
        self.clock = clock
        self.directory = directory
        self.clients: list[RawClient] = []

    async def tick(self) -> None:
        """What the housekeeping does every second, and what follows from it."""
        await self.running.server.housekeeping.tick()
        await self.running.server.housekeeping.retain()
        await self.running.server.housekeeping.keep_house()
        await trio.testing.wait_all_tasks_blocked()

    def append(self, producer_id: int = -1) -> None:
        """Append a record of this moment to the topic."""
        producer = ProducerState(producer_id, 0, 0)
        builder = BatchBuilder()
        now_ms = self.clock.now_ms()
        builder.add(now_ms, b"k", b"v")
        batch = builder.build(producer=producer) if producer_id >= 0 else builder.build()
        self.broker.partition("t", 0).append(bytes(batch), now_ms=now_ms)

    def transactions(self):
        """The coordinator of the transactional id ``id``."""
        return self.broker.transactions.of("id")

    async def begin_id(self, timeout_ms: int) -> None:
        """The transactional id ``id`` gets its first epoch."""
        transactions = self.broker.transactions
        await transactions.ensure_topic()
        loaded = transactions.of("id")
        now_ms = self.clock.now_ms()
        decision = loaded.coordinator.init_producer_id("id", timeout_ms, None, PRODUCER_ID, now_ms)
        transactions.carry_out(loaded, decision.effects)

    def groups(self):
        """The coordinator of the group ``g``."""
        return self.broker.groups.coordinator("g")

    def commit(self) -> None:
        """Commit an offset of the topic for the group ``g``."""
        effects = Effects()
        value = OffsetCommitValue(offset=1, commit_timestamp=self.clock.now_ms())
        effects.records.append(offset_commit("g", "t", 0, value))
        self.groups().carry_out(effects)

    async def join(self) -> tuple[str, object]:
        """A member joins the group ``g``: its id and its connection."""
        raw = await self.running.connect()
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=45_000,
            rebalance_timeout_ms=45_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        response = await raw.request(request, 3, JoinGroupResponse)
        return response.member_id, raw


Fired = Callable[[], bool]


async def flush_time(bench: Bench) -> Fired:
    """flush.ms: what was appended is on the disk."""
    log = bench.broker.partition("t", 0).log
    await bench.tick()
    bench.append()
    return lambda: log.recovery_point == 1


async def checkpoint(bench: Bench) -> Fired:
    """log.flush.offset.checkpoint.interval.ms: the recovery point is written down."""
    bench.clock.pass_time(MINUTE_MS)
    await bench.tick()
    log = bench.broker.partition("t", 0).log
    bench.append()
    bench.append()
    log.flush(bench.clock.steady_ms())
    path = bench.directory / "recovery-point-offset-checkpoint"
    return lambda: path.exists() and "t 0 1" in path.read_text()


async def retention_looks(bench: Bench) -> Fired:
    """log.retention.check.interval.ms: what lies before the log start offset goes."""
    bench.clock.pass_time(MINUTE_MS)
    await bench.tick()
    partition = bench.broker.partition("t", 0)
    bench.append()
    partition.log.roll(bench.clock.now_ms())
    bench.append()
    partition.delete_records(1)
    return lambda: partition.log.segments[0].base_offset == 1


async def deleted_topic(bench: Bench) -> Fired:
    """file.delete.delay.ms: the files of a deleted topic go."""
    await bench.broker.commit(lambda image: delete_topic(image, image.topics_by_name["t"].topic_id))
    return lambda: not list(bench.directory.glob("t-0.*-delete"))


async def deleted_segment(bench: Bench) -> Fired:
    """file.delete.delay.ms: the files of a deleted segment go."""
    await retention_looks(bench)
    bench.clock.pass_time(10 * MINUTE_MS)
    await bench.tick()
    directory = bench.broker.partition("t", 0).log.directory
    assert list(directory.glob("*.deleted"))
    return lambda: not list(directory.glob("*.deleted"))


async def silent_producer(bench: Bench) -> Fired:
    """producer.id.expiration.ms: the producer is forgotten."""
    bench.append(PRODUCER_ID)
    producers = bench.broker.partition("t", 0).log.producers.producers
    assert PRODUCER_ID in producers
    return lambda: PRODUCER_ID not in producers


async def open_transaction(bench: Bench) -> Fired:
    """The transaction's timeout: it is aborted."""
    await bench.begin_id(MINUTE_MS)
    loaded = bench.transactions()
    effects = loaded.coordinator.add_partitions(
        "id", ProducerIdAndEpoch(PRODUCER_ID, 0), [("t", 0)], 0, bench.clock.now_ms()
    )
    bench.broker.transactions.carry_out(loaded, effects)
    return lambda: not loaded.coordinator.transactions["id"].state.name.startswith("ONGOING")


async def unused_id(bench: Bench) -> Fired:
    """transactional.id.expiration.ms: the id is forgotten."""
    await bench.begin_id(MINUTE_MS)
    return lambda: "id" not in bench.transactions().coordinator.transactions


async def old_offset(bench: Bench) -> Fired:
    """offsets.retention.minutes after a commit without a group: the offset goes."""
    await bench.broker.groups.ensure_topic()
    bench.commit()
    return lambda: not bench.groups().coordinator.offsets.has("g")


async def empty_group(bench: Bench) -> Fired:
    """offsets.retention.minutes after the last member left: group and offsets go."""
    await bench.broker.groups.ensure_topic()
    bench.commit()
    member_id, raw = await bench.join()
    request = LeaveGroupRequest(group_id="g", member_id=member_id)
    await raw.request(request, 0, LeaveGroupResponse)
    assert bench.groups().coordinator.state_of("g") == "Empty"
    return lambda: bench.groups().coordinator.state_of("g") is None


async def fetch_session(bench: Bench) -> Fired:
    """More than two minutes without use: a fetch session makes room for another."""

    def is_created() -> bool:
        session = bench.broker.fetch_sessions.create(
            [(("t", b"", 0), FetchPartition())],
            uses_topic_ids=False,
            limits=SessionLimits(slots=1, partitions=10),
            steady_ms=bench.clock.steady_ms(),
        )
        return session is not None

    assert is_created()
    return is_created


async def silent_member(bench: Bench) -> Fired:
    """session.timeout.ms: a member that isn't heard is out."""
    await bench.broker.groups.ensure_topic()
    await bench.join()
    return lambda: bench.groups().coordinator.state_of("g") == "Empty"


async def idle_connection(bench: Bench) -> Fired:
    """connections.max.idle.ms: a connection that is quiet is closed."""
    bench.clients.append(await bench.running.connect())
    poller = bench.running.server.poller
    await until(lambda: bool(poller.connections))
    return lambda: not poller.connections


DURATIONS = [
    (flush_time, MINUTE_MS, 0),
    (checkpoint, MINUTE_MS, 0),
    (retention_looks, 5 * MINUTE_MS, 0),
    (deleted_topic, HOUR_MS, 0),
    (deleted_segment, HOUR_MS, 0),
    (silent_producer, DAY_MS, HOUR_MS + 5 * MINUTE_MS),
    (open_transaction, MINUTE_MS, 10 * SECOND_MS),
    (unused_id, DAY_MS, 2 * HOUR_MS),
    (old_offset, DAY_MS, HOUR_MS + 10 * MINUTE_MS),
    (empty_group, DAY_MS, HOUR_MS + 10 * MINUTE_MS),
    (fetch_session, EVICTION_MS, 1),
]
"""Each timer, its time, and how much later it may fire.

Later by the interval at which somebody looks; and what is told by a date in a file by as much as
the date was set back: the same dates come twice, and the second time counts.
"""

BACK_AN_HOUR, AHEAD_A_WEEK = -HOUR_MS, WEEK_MS

Begin = Callable[[Bench], Awaitable[Fired]]


async def with_bench(
    tmp_path: Path, test: Callable[[Bench], Awaitable[None]], settings: Mapping[str, str] = SETTINGS
) -> None:
    """Run a test with a server of its own."""
    clock = FakeClock()
    async with running_server(tmp_path, settings, clock=clock) as running:
        await commit_topic(running.broker, "t")
        await test(Bench(running, clock, tmp_path))


async def ticks_until(bench: Bench, fired: Fired) -> None:
    """Tick until a timer has fired."""
    with trio.fail_after(10):
        while not fired():
            await bench.tick()


@pytest.mark.parametrize("step_ms", [BACK_AN_HOUR, AHEAD_A_WEEK], ids=["back", "ahead"])
@pytest.mark.parametrize(
    ("begin", "due_ms", "later_ms"), DURATIONS, ids=lambda value: getattr(value, "__name__", "")
)
async def test_a_date_that_is_set_ends_nothing_early_and_stops_nothing(
    tmp_path: Path, begin: Begin, due_ms: int, later_ms: int, step_ms: int
) -> None:
    """A timer fires when its time has passed, whatever the date is meanwhile."""

    async def test(bench: Bench) -> None:
        fired = await begin(bench)
        bench.clock.set_date(step_ms)
        await bench.tick()
        bench.clock.pass_time(due_ms - SECOND_MS)
        await bench.tick()
        assert not fired()
        bench.clock.pass_time(SECOND_MS + later_ms)
        await ticks_until(bench, fired)

    await with_bench(tmp_path, test)


@pytest.mark.parametrize(
    ("begin", "due_ms", "later_ms"), DURATIONS, ids=lambda value: getattr(value, "__name__", "")
)
async def test_after_the_machines_sleep_the_next_tick_does_what_is_due(
    tmp_path: Path, begin: Begin, due_ms: int, later_ms: int
) -> None:
    """A week of sleep is a week for every timer, and none has to wait for its own alarm."""

    async def test(bench: Bench) -> None:
        fired = await begin(bench)
        assert not fired()
        bench.clock.pass_time(WEEK_MS)
        await ticks_until(bench, fired)

    await with_bench(tmp_path, test)


async def test_what_groups_write_down_are_dates(tmp_path: Path) -> None:
    """Also after the date was set: the age of offsets is told by it after the next start."""

    async def test(bench: Bench) -> None:
        await bench.broker.groups.ensure_topic()
        bench.clock.set_date(AHEAD_A_WEEK)
        await empty_group(bench)
        group = bench.groups().coordinator.groups["g"]
        assert group.state_date_ms == bench.clock.now_ms()
        assert group.state_record().current_state_timestamp == bench.clock.now_ms()
        log = bench.broker.partition(OFFSETS_TOPIC, 0).log
        assert {header.max_timestamp for header in log.segments.headers()} == {bench.clock.now_ms()}

    await with_bench(tmp_path, test)
