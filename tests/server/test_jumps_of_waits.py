"""Waits of clients for replicas, intervals of their metrics, and others, under jumps of the clocks.

The promise: what waits for another machine sees neither a new date nor a sleep, because nobody can
answer a broker that sleeps. What only measures an interval is due when its time has passed, in a
sleep too. docs/decisions/0018-two-clocks.md has the table.
"""

from pathlib import Path

import pytest
import trio
import trio.testing

from kwire.broker.client_metrics import Client
from kwire.broker.compaction import PAUSE_S, Compaction
from kwire.broker.controller_lease import ControllerLease
from kwire.config.client_metrics import PUSH_INTERVAL_MS
from kwire.errors import KafkaError
from kwire.metadata.changes import BrokerRegistered
from kwire.metadata.image import BrokerImage
from kwire.metadata.liveness import MARGIN
from kwire.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kwire.record.records import BatchBuilder
from tests.broker.replicated import FOLLOWERS, create_replicated, follow, led
from tests.server.test_clock_jumps import (
    BACK_AN_HOUR,
    HOUR_MS,
    MINUTE_MS,
    SECOND_MS,
    SETTINGS,
    WEEK_MS,
    Bench,
    Fired,
    with_bench,
)
from tests.server.test_jumps_of_other_timers import name_of
from tests.support.requests import produce_request

SESSION_MS = 10 * SECOND_MS


def is_live() -> bool:
    """A client whose connection lasts."""
    return False


async def client_metrics(bench: Bench) -> Fired:
    """interval.ms of client-metrics: a client may ask for its subscription again."""
    metrics = bench.broker.client_metrics
    client = Client("c", "", "", "10.0.0.1", 1, 1, is_live)

    def is_allowed() -> bool:
        try:
            metrics.get(bytes(15) + b"\1", client)
        except KafkaError:
            return False
        return True

    assert is_allowed()
    return is_allowed


class Session:
    """A session that the store has kept until the test began."""

    ttl_ms = SESSION_MS
    is_over = False

    def __init__(self, kept_ms: int) -> None:
        self.kept_ms = kept_ms


async def session_in_etcd(bench: Bench) -> Fired:
    """broker.session.timeout.ms: the broker is cut off, because another one may lead."""
    lease = ControllerLease(bench.broker.clock.steady_ms)
    lease.watch_session(Session(bench.clock.steady_ms()))

    def is_cut_off() -> bool:
        lease.check_deadline()
        return lease.is_cut_off

    return is_cut_off


STEADY = [
    (client_metrics, PUSH_INTERVAL_MS),
    (session_in_etcd, int(SESSION_MS * (1 - MARGIN))),
]
"""Timers that go by the steady clock, and their times."""


@pytest.mark.parametrize("jump", [BACK_AN_HOUR, WEEK_MS, 0], ids=["back", "ahead", "sleep"])
@pytest.mark.parametrize(("begin", "due_ms"), STEADY, ids=name_of)
async def test_what_goes_by_the_steady_clock_sees_no_new_date(
    tmp_path: Path, begin, due_ms: int, jump: int
) -> None:
    """It is due when its time has passed, also while the machine slept."""

    async def test(bench: Bench) -> None:
        fired = await begin(bench)
        bench.clock.set_date(jump)
        bench.clock.pass_time(due_ms - 1)
        assert not fired()
        bench.clock.pass_time(1 if jump else WEEK_MS)
        assert fired()

    await with_bench(tmp_path, test)


@pytest.mark.parametrize("jump", ["back", "ahead", "sleep"])
async def test_the_log_cleaner_looks_soon_after_a_sleep(
    tmp_path: Path, mock_clock: trio.testing.MockClock, jump: str
) -> None:
    """log.cleaner.backoff.ms: a sleep counts, a new date doesn't."""

    async def test(bench: Bench) -> None:
        ended = trio.Event()

        async def wait() -> None:
            await Compaction(bench.broker).wait_backoff()
            ended.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            if jump == "sleep":
                bench.clock.pass_time(WEEK_MS)
            else:
                bench.clock.set_date(BACK_AN_HOUR if jump == "back" else WEEK_MS)
                mock_clock.jump(PAUSE_S)
                await trio.testing.wait_all_tasks_blocked()
                assert not ended.is_set()
                bench.clock.pass_time(HOUR_MS)
            mock_clock.jump(PAUSE_S)
            await ended.wait()

    await with_bench(tmp_path, test, {**SETTINGS, "log.cleaner.backoff.ms": str(HOUR_MS)})


async def followed_topic(bench: Bench) -> bytes:
    """A topic ``followed`` whose followers have a record, and a batch for one more."""
    await create_replicated(bench.broker, "followed")
    active = [BrokerRegistered(BrokerImage(node_id, None, (), epoch=1)) for node_id in FOLLOWERS]
    await bench.broker.commit(lambda _image: active)
    builder = BatchBuilder()
    builder.add(bench.clock.now_ms(), b"k", b"v")
    led(bench.broker, "followed").append(bytes(builder.build()), now_ms=bench.clock.now_ms())
    follow(led(bench.broker, "followed"))
    return bytes(builder.build())


async def acks_of_all(bench: Bench) -> Fired:
    """timeout.ms of a Produce request with acks=all: its client gets REQUEST_TIMED_OUT."""
    batch = await followed_topic(bench)
    raw = await bench.running.connect()
    bench.clients.append(raw)
    await raw.send(produce_request("followed", batch, timeout_ms=MINUTE_MS), 9)
    partition = led(bench.broker, "followed")
    while not len(partition.acks):
        await trio.lowlevel.checkpoint()
    return lambda: not partition.acks.waiting


async def deletion(bench: Bench) -> Fired:
    """timeout.ms of DeleteRecords: its client gets REQUEST_TIMED_OUT."""
    await followed_topic(bench)
    raw = await bench.running.connect()
    bench.clients.append(raw)
    partition = led(bench.broker, "followed")
    before = set(partition.waiters)
    topics = [
        DeleteRecordsTopic(name="followed", partitions=[DeleteRecordsPartition(offset=1)]),
    ]
    await raw.send(DeleteRecordsRequest(topics=topics, timeout_ms=MINUTE_MS), 2)
    while not set(partition.waiters) - before:
        await trio.lowlevel.checkpoint()
    return lambda: not set(partition.waiters) - before


OF_TRIO = [acks_of_all, deletion]
"""Waits of a minute for replicas."""


@pytest.mark.parametrize("jump", ["back", "ahead", "sleep"])
@pytest.mark.parametrize("begin", OF_TRIO, ids=name_of)
async def test_a_wait_for_replicas_sees_no_jump(
    tmp_path: Path, mock_clock: trio.testing.MockClock, begin, jump: str
) -> None:
    """Neither a new date nor a sleep ends it, and it is over when its time has passed."""

    async def test(bench: Bench) -> None:
        fired = await begin(bench)
        if jump == "sleep":
            bench.clock.pass_time(WEEK_MS)
        else:
            bench.clock.set_date(BACK_AN_HOUR if jump == "back" else WEEK_MS)
        await bench.tick()
        mock_clock.jump(0.9 * MINUTE_MS / SECOND_MS)
        await bench.tick()
        assert not fired()
        mock_clock.jump(0.2 * MINUTE_MS / SECOND_MS)
        await bench.tick()
        assert fired()

    settings = {**SETTINGS, "replica.lag.time.max.ms": str(HOUR_MS)}
    await with_bench(tmp_path, test, settings)
