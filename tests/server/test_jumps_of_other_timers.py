"""More timers of a running broker under every kind of jump of its clocks.

The promise: a timer that goes by the date does what the new date says, after a sleep too. One that
goes by the steady clock sees no new date, and a sleep counts. A wait for a client sees neither: it
goes by trio's clock. docs/decisions/0018-two-clocks.md has the table; ``test_clock_jumps`` has the
timers that go by the age of a date, and those of the housekeeping.
"""

from pathlib import Path

import pytest
import trio
import trio.testing

from kwire.broker.compaction import Compaction
from kwire.broker.quotas import Quotas
from kwire.connection.connection_rates import ConnectionRates
from kwire.log.compaction.local import run_clean
from kwire.log.compaction.manager import FIRST_RETRY_MS, Failure
from kwire.metadata.quotas import PRODUCE_RATE
from kwire.metadata.tokens import Lifetimes, new_token, without_expired
from kwire.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kwire.record.records import BatchBuilder
from kwire.security.oauth import TokenRules, checked
from kwire.security.principal import ANONYMOUS
from kwire.security.sasl import LoginRefused
from tests.broker.replicated import FOLLOWERS, create_replicated, follow, led
from tests.server.test_clock_jumps import (
    BACK_AN_HOUR,
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    SECOND_MS,
    SETTINGS,
    WEEK_MS,
    Bench,
    Fired,
    idle_connection,
    silent_member,
    with_bench,
)
from tests.support.requests import fetch_request

METADATA = 3
"""An API that a login is needed for."""

COMPACTED = {
    "log.cleanup.policy": "compact",
    "log.cleaner.min.compaction.lag.ms": "0",
    "log.cleaner.delete.retention.ms": str(DAY_MS),
    "log.cleaner.min.cleanable.ratio": "0",
}
"""Topics whose logs are cleaned when the test says so."""


class Cleaning:
    """The compaction of a broker that runs when it is asked."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self._compaction = Compaction(bench.broker)
        self.log = bench.broker.partition("t", 0).log

    @property
    def manager(self):
        """What chooses the log to clean."""
        return self._compaction.manager

    def append(self, key: bytes, value: bytes | None) -> None:
        """Append a record of this moment, in a segment of its own."""
        now_ms = self.bench.clock.now_ms()
        builder = BatchBuilder()
        builder.add(now_ms, key, value)
        self.bench.broker.partition("t", 0).append(bytes(builder.build()), now_ms=now_ms)
        self.log.roll(now_ms)

    def next_clean(self):
        """The clean that would begin now, as the broker asks for it; None if there is none."""
        broker = self.bench.broker
        return self.manager.next_clean(
            broker.stable_offset,
            self._compaction.settings(),
            broker.now_ms(),
            self.bench.clock.steady_ms(),
        )

    def begins(self) -> bool:
        """Whether a clean would begin now."""
        clean = self.next_clean()
        if clean is not None:
            self.manager.in_progress.discard(clean.log)
        return clean is not None

    def clean(self) -> None:
        """Clean the log."""
        clean = self.next_clean()
        assert clean is not None
        disk = self.bench.broker.log_manager.disk
        assert run_clean(self.manager, clean, disk, self.bench.clock.steady_ms())


async def young_records(bench: Bench) -> Fired:
    """min.compaction.lag.ms: records of this age are cleaned."""
    cleaning = Cleaning(bench)
    cleaning.append(b"k", b"v")
    return cleaning.begins


async def overdue_records(bench: Bench) -> Fired:
    """max.compaction.lag.ms: a log with older records is cleaned, however clean it is."""
    cleaning = Cleaning(bench)
    cleaning.append(b"k", b"v")
    return cleaning.begins


async def tombstone(bench: Bench) -> Fired:
    """delete.retention.ms after the first clean: a tombstone goes with the next one."""
    cleaning = Cleaning(bench)
    cleaning.append(b"k", None)
    cleaning.append(b"other", b"v")
    cleaning.clean()

    def is_gone() -> bool:
        cleaning.append(b"another", b"v")
        cleaning.clean()
        return all(header.base_offset != 0 for header in cleaning.log.segments.headers())

    return is_gone


async def delegation_token(bench: Bench) -> Fired:
    """The end of a delegation token: the broker removes it."""
    clock, owner = bench.broker.clock, ("User", "alice")
    token = new_token(owner, owner, (), -1, clock.now_ms(), Lifetimes(WEEK_MS, DAY_MS))
    tokens = {"id": token}
    return lambda: bool(without_expired(tokens, clock.now_ms()))


async def oauth_token(bench: Bench) -> Fired:
    """``exp`` of an OAuth token: a login with it is refused."""
    clock = bench.broker.clock
    claims = {"sub": "alice", "exp": (clock.now_ms() + DAY_MS) / 1000, "iat": 0}

    def is_refused() -> bool:
        try:
            checked(claims, RULES, clock.now_ms() / 1000)
        except LoginRefused:
            return True
        return False

    return is_refused


RULES = TokenRules(skew_s=0)


async def failed_clean(bench: Bench) -> Fired:
    """The pause after a failed compaction: it is tried again."""
    cleaning = Cleaning(bench)
    cleaning.append(b"k", b"v")
    clean = cleaning.next_clean()
    assert clean is not None
    steady_ms = bench.broker.clock.steady_ms()
    cleaning.manager.give_up(clean, Failure("the test says so"), steady_ms)
    return cleaning.begins


async def client_quota(bench: Bench) -> Fired:
    """quota.window.size.seconds: what a client has used doesn't count any more."""
    quotas = Quotas(bench.broker)
    quotas.clients.change({(("user", None),): {PRODUCE_RATE: 1000.0}})

    def wait_ms(size_bytes: int) -> int:
        meter = quotas.of(ANONYMOUS, "c").produce
        assert meter is not None
        return meter.use(size_bytes, quotas.steady_ms())

    assert wait_ms(1_000_000)
    return lambda: not wait_ms(1)


async def connection_rate(bench: Bench) -> Fired:
    """The same window, of the rate of new connections."""
    rates = ConnectionRates(bench.broker, bench.running.server.poller, lambda *_: None)
    while not rates.count("PLAINTEXT", "10.0.0.1")[0]:
        pass
    return lambda: not rates.count("PLAINTEXT", "10.0.0.1")[0]


async def long_poll(bench: Bench) -> Fired:
    """fetch.max.wait.ms: a fetch that waits is answered."""
    raw = await bench.running.connect()
    bench.clients.append(raw)
    await raw.send(fetch_request("t", max_wait_ms=30_000), 12)
    partition = bench.broker.partition("t", 0)
    while not partition.waiters:
        await trio.lowlevel.checkpoint()
    return lambda: not partition.waiters


async def rebalance(bench: Bench) -> Fired:
    """rebalance.timeout.ms: a member that doesn't join again is out."""
    await bench.broker.groups.ensure_topic()
    await bench.join()
    group = bench.groups().coordinator.groups["g"]
    group_state = group.state
    return lambda: bench.groups().coordinator.groups["g"].state is not group_state


async def login(bench: Bench) -> Fired:
    """connections.max.reauth.ms: a client that has logged in has to log in again."""
    raw = await bench.running.connect()
    bench.clients.append(raw)
    await raw.request(SaslHandshakeRequest(mechanism="PLAIN"), 1, SaslHandshakeResponse)
    request = SaslAuthenticateRequest(auth_bytes=b"\0alice\0hush")
    answer = await raw.request(request, 2, SaslAuthenticateResponse)
    assert answer.session_lifetime_ms == MINUTE_MS
    [connection] = bench.running.server.poller.connections
    found = connection.info.login
    assert found is not None
    return lambda: found.refusal(METADATA, trio.current_time()) is not None


async def lagging_replicas(bench: Bench) -> Fired:
    """replica.lag.time.max.ms: followers that don't fetch are out of the ISR."""
    broker = bench.broker
    await create_replicated(broker, "followed")
    partition = led(broker, "followed")
    follow(partition)
    builder = BatchBuilder()
    builder.add(bench.clock.now_ms(), b"k", b"v")
    partition.append(bytes(builder.build()), now_ms=bench.clock.now_ms())
    await trio.testing.wait_all_tasks_blocked()

    def isr() -> tuple[int, ...]:
        return broker.image.topics_by_name["followed"].partitions[0].isr

    assert isr() == (broker.node_id, *FOLLOWERS)
    return lambda: isr() == (broker.node_id,)


DATES = [
    (young_records, {**COMPACTED, "log.cleaner.min.compaction.lag.ms": str(DAY_MS)}),
    (
        overdue_records,
        {
            **COMPACTED,
            "log.cleaner.min.cleanable.ratio": "1",
            "log.cleaner.max.compaction.lag.ms": str(DAY_MS),
        },
    ),
    (tombstone, COMPACTED),
    (delegation_token, {}),
    (oauth_token, {}),
]
"""Timers of a day that go by the date."""

STEADY = [
    (failed_clean, COMPACTED, FIRST_RETRY_MS),
    (client_quota, {}, 2_000 * SECOND_MS),
    (connection_rate, {"max.connection.creation.rate": "1"}, HOUR_MS),
]
"""Timers that go by the steady clock, and their times."""

CLIENTS = [silent_member, idle_connection, long_poll, rebalance]
"""Waits for a client."""

WITH_LOGIN = {
    "listeners": "LOGIN://127.0.0.1:0",
    "listener.security.protocol.map": "LOGIN:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.login.plain.sasl.jaas.config": 'x.PlainLoginModule required user_alice="hush";',
    "connections.max.reauth.ms": str(MINUTE_MS),
}

OF_TRIO = [(login, WITH_LOGIN), (lagging_replicas, {"replica.lag.time.max.ms": str(MINUTE_MS)})]
"""Timers of a minute that go by trio's clock and that a test can see through to their end."""


def name_of(value: object) -> str:
    """The name of a timer, for its test."""
    return getattr(value, "__name__", "")


@pytest.mark.parametrize("jump", ["back", "ahead", "sleep"])
@pytest.mark.parametrize(("begin", "settings"), DATES, ids=name_of)
async def test_what_goes_by_the_date_does_as_the_date_says(
    tmp_path: Path, begin, settings, jump: str
) -> None:
    """Set ahead, or after a sleep, it is due; set back, it is due as much later."""

    async def test(bench: Bench) -> None:
        fired = await begin(bench)
        assert not fired()
        if jump == "back":
            bench.clock.set_date(BACK_AN_HOUR)
            bench.clock.pass_time(DAY_MS)
            assert not fired()
            bench.clock.pass_time(HOUR_MS + 10 * MINUTE_MS)
        elif jump == "ahead":
            bench.clock.set_date(WEEK_MS)
        else:
            bench.clock.pass_time(WEEK_MS)
        assert fired()

    await with_bench(tmp_path, test, {**SETTINGS, **settings})


@pytest.mark.parametrize("jump", [BACK_AN_HOUR, WEEK_MS, 0], ids=["back", "ahead", "sleep"])
@pytest.mark.parametrize(("begin", "settings", "due_ms"), STEADY, ids=name_of)
async def test_what_goes_by_the_steady_clock_sees_no_new_date(
    tmp_path: Path, begin, settings, due_ms: int, jump: int
) -> None:
    """It is due when its time has passed, also while the machine slept."""

    async def test(bench: Bench) -> None:
        fired = await begin(bench)
        assert not fired()
        bench.clock.set_date(jump)
        assert not fired()
        bench.clock.pass_time(due_ms)
        assert fired()

    await with_bench(tmp_path, test, {**SETTINGS, **settings})


@pytest.mark.parametrize("jump", ["back", "ahead", "sleep"])
@pytest.mark.parametrize("begin", CLIENTS, ids=name_of)
async def test_no_jump_ends_a_wait_for_a_client(tmp_path: Path, begin, jump: str) -> None:
    """A client can't be heard while the machine sleeps: it has its whole time after it."""

    async def test(bench: Bench) -> None:
        fired = await begin(bench)
        if jump == "sleep":
            bench.clock.pass_time(WEEK_MS)
        else:
            bench.clock.set_date(BACK_AN_HOUR if jump == "back" else WEEK_MS)
        await bench.tick()
        assert not fired()

    await with_bench(tmp_path, test)


@pytest.mark.parametrize("jump", ["back", "ahead", "sleep"])
@pytest.mark.parametrize(("begin", "settings"), OF_TRIO, ids=name_of)
async def test_what_goes_by_trios_clock_sees_no_jump(
    tmp_path: Path, mock_clock: trio.testing.MockClock, begin, settings, jump: str
) -> None:
    """Neither a new date nor a sleep ends it, and it is due when its time has passed."""

    async def test(bench: Bench) -> None:
        fired = await begin(bench)
        if jump == "sleep":
            bench.clock.pass_time(WEEK_MS)
        else:
            bench.clock.set_date(BACK_AN_HOUR if jump == "back" else WEEK_MS)
        await bench.tick()
        mock_clock.jump(0.4 * MINUTE_MS / 1000)
        await bench.tick()
        assert not fired()
        with trio.fail_after(10 * MINUTE_MS / 1000):
            while not fired():
                mock_clock.jump(0.3 * MINUTE_MS / 1000)
                await bench.tick()
                await bench.broker.commit(lambda _: [])  # real time: the store may not seem slow

    await with_bench(tmp_path, test, {**SETTINGS, **settings})
