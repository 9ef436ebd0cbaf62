"""Timers of logins, tokens and the audit log in a running broker under jumps of its clocks.

The promise: what goes by the steady clock isn't late after the machine's sleep, and a new date has
no effect on it. A client that logs in has its whole time after a sleep.
docs/decisions/0018-two-clocks.md has the table.
"""

import gc
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import trio.testing

from kwire.broker.token_expiry import LOOK_EVERY_S
from kwire.config.authorizer import STANDARD_AUTHORIZER
from kwire.connection.unauthenticated_connections import PATIENCE_S
from kwire.metadata.changes import Change
from kwire.metadata.tokens import Lifetimes, TokenChanged, new_token
from kwire.security.audit_limits import WINDOW_S
from kwire.security.jwks import AGAIN_S, Jwks
from tests.security.test_oauth import EC, RSA, jwks_text
from tests.server.test_clock_jumps import (
    BACK_AN_HOUR,
    DAY_MS,
    HOUR_MS,
    SECOND_MS,
    SETTINGS,
    WEEK_MS,
    Bench,
    Fired,
    with_bench,
)
from tests.server.test_jumps_of_other_timers import WITH_LOGIN, name_of

KEYS = "keys.json"


def read_by(bench: Bench) -> Jwks:
    """The keys of the listener, which the broker has read at its start."""
    url = (bench.directory.parent / KEYS).as_uri()
    [known] = [one for one in gc.get_objects() if isinstance(one, Jwks) and one.url == url]
    return known


async def read_keys(bench: Bench, key_id: str) -> Fired:
    """The file of keys has a new key: whether the broker has read it after a look for a key."""
    known = read_by(bench)
    (bench.directory.parent / KEYS).write_text(jwks_text(("r1", RSA), ("e2", EC)))

    def is_read() -> bool:
        known.key(key_id)
        known.wait_read()
        return "e2" in known.key_ids

    return is_read


async def old_keys(bench: Bench) -> Fired:
    """sasl.oauthbearer.jwks.endpoint.refresh.ms: the keys are read again."""
    return await read_keys(bench, "r1")


async def unknown_key(bench: Bench) -> Fired:
    """A token with an unknown key id has the keys read again, if they are a little old."""
    return await read_keys(bench, "e2")


async def denials(bench: Bench) -> Fired:
    """The lines of the audit log for what one client is denied."""
    authorizer = bench.broker.authorizer
    assert authorizer is not None
    while authorizer.denials.has_line("User:eve", "10.0.0.9"):
        pass
    return lambda: authorizer.denials.has_line("User:eve", "10.0.0.9")


async def failed_logins(bench: Bench) -> Fired:
    """The lines of the audit log for the failed logins of one address."""
    lines = bench.broker.login_lines
    assert lines is not None
    while lines.failures.has_line("User:ANONYMOUS", "10.0.0.9"):
        pass
    return lambda: lines.failures.has_line("User:ANONYMOUS", "10.0.0.9")


WITH_TOKENS = {
    "listeners": "LOGIN://127.0.0.1:0",
    "listener.security.protocol.map": "LOGIN:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": str(HOUR_MS),
    "sasl.oauthbearer.allow.unverified.issuer": "true",
    "sasl.oauthbearer.allow.unverified.audience": "true",
}
WITH_ACLS = {"authorizer.class.name": STANDARD_AUTHORIZER}

STEADY = [
    (old_keys, WITH_TOKENS, HOUR_MS),
    (unknown_key, WITH_TOKENS, int(AGAIN_S * SECOND_MS)),
    (denials, WITH_ACLS, int(WINDOW_S * SECOND_MS)),
    (failed_logins, WITH_LOGIN, int(WINDOW_S * SECOND_MS)),
]
"""Timers that go by the steady clock, and their times."""


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    """Readings of keys have ended with the test."""
    yield
    assert not [one for one in threading.enumerate() if one.name == "jwks"]


@pytest.mark.parametrize("jump", [BACK_AN_HOUR, WEEK_MS, 0], ids=["back", "ahead", "sleep"])
@pytest.mark.parametrize(("begin", "settings", "due_ms"), STEADY, ids=name_of)
async def test_what_goes_by_the_steady_clock_sees_no_new_date(
    tmp_path: Path, begin, settings, due_ms: int, jump: int
) -> None:
    """It is due when its time has passed, also while the machine slept."""
    keys = tmp_path / KEYS
    keys.write_text(jwks_text(("r1", RSA)))
    if settings is WITH_TOKENS:
        settings = {**settings, "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri()}

    async def test(bench: Bench) -> None:
        fired = await begin(bench)
        assert not fired()
        bench.clock.set_date(jump)
        bench.clock.pass_time(due_ms - SECOND_MS)
        assert not fired()
        bench.clock.pass_time(SECOND_MS if jump else WEEK_MS)
        assert fired()

    await with_bench(tmp_path / "data", test, {**SETTINGS, **settings})


@pytest.mark.parametrize("jump", ["back", "ahead", "sleep"])
async def test_expired_tokens_are_removed_soon_after_a_sleep(
    tmp_path: Path, mock_clock: trio.testing.MockClock, jump: str
) -> None:
    """delegation.token.expiry.check.interval.ms: an overdue check needs no new interval.

    A new date doesn't move the check. Which tokens it removes is said by the date.
    """

    async def test(bench: Bench) -> None:
        broker, owner = bench.broker, ("User", "alice")
        lifetimes = Lifetimes(8 * WEEK_MS, HOUR_MS)
        token = new_token(owner, owner, (), -1, bench.clock.now_ms(), lifetimes)

        async def decide(_image: object) -> list[Change]:
            return [TokenChanged("id", token)]

        await broker.commit(decide)
        if jump == "sleep":
            bench.clock.pass_time(WEEK_MS)
        else:
            bench.clock.set_date(BACK_AN_HOUR if jump == "back" else WEEK_MS)
            mock_clock.jump(LOOK_EVERY_S)
            await bench.tick()
            assert broker.image.tokens
            bench.clock.pass_time(DAY_MS)
        mock_clock.jump(LOOK_EVERY_S)
        with trio.fail_after(WEEK_MS / SECOND_MS):
            while broker.image.tokens:
                await trio.lowlevel.checkpoint()

    settings = {
        "delegation.token.secret.key": "secret",
        "delegation.token.expiry.check.interval.ms": str(DAY_MS),
    }
    await with_bench(tmp_path, test, {**SETTINGS, **settings})


@pytest.mark.parametrize("jump", ["back", "ahead", "sleep"])
async def test_a_client_that_logs_in_has_its_whole_time(
    tmp_path: Path, mock_clock: trio.testing.MockClock, jump: str
) -> None:
    """Neither a new date nor a sleep ends its connection before its time is up."""

    async def test(bench: Bench) -> None:
        raw = await bench.running.connect()
        bench.clients.append(raw)
        unauthenticated = bench.running.server.poller.unauthenticated
        while not len(unauthenticated):
            await trio.lowlevel.checkpoint()
        if jump == "sleep":
            bench.clock.pass_time(WEEK_MS)
        else:
            bench.clock.set_date(BACK_AN_HOUR if jump == "back" else WEEK_MS)
        mock_clock.jump(PATIENCE_S / 2)
        await bench.tick()
        assert len(unauthenticated) == 1
        mock_clock.jump(PATIENCE_S / 2 + 1)
        await bench.tick()
        assert not len(unauthenticated)

    await with_bench(tmp_path, test, {**SETTINGS, **WITH_LOGIN})
