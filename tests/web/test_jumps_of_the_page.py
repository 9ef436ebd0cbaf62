"""Durations of the HTTP port under jumps of the broker's clocks.

The promise: they go by the broker's steady clock. The machine's sleep counts, and a new date has no
effect. docs/decisions/0018-two-clocks.md has the table.
"""

from pathlib import Path

import pytest

from kwire.web.metrics import FRESH_S
from kwire.web.page import sampler
from kwire.web.page.sessions import SESSION_S
from tests.support.clock import FakeClock
from tests.support.in_process import RunningServer
from tests.web.conftest import http_server
from tests.web.test_page_admin import administered, csrf_of

HOUR_MS = 3_600_000
WEEK_MS = 7 * 24 * HOUR_MS


async def create_orders(running: RunningServer) -> None:
    """Create the topic ``orders``."""
    client = await running.connect()
    await client.topic("orders")
    await client.aclose()


JUMPS = pytest.mark.parametrize("jump", [-HOUR_MS, WEEK_MS, 0], ids=["back", "ahead", "sleep"])


@JUMPS
async def test_a_login_lasts_no_longer_than_its_time(tmp_path: Path, jump: int) -> None:
    """An administrator is logged out after a night in which the machine slept."""
    clock = FakeClock()
    async with administered(tmp_path, clock) as (_, http, csrf):
        clock.set_date(jump)
        clock.pass_time(SESSION_S * 1000 - 1)
        assert await csrf_of(http) == csrf
        clock.pass_time(1 if jump else WEEK_MS)
        assert not await csrf_of(http)


@JUMPS
async def test_metrics_are_no_older_than_they_may_be(tmp_path: Path, jump: int) -> None:
    """They are gathered anew after their time, and after a sleep."""
    clock = FakeClock()
    async with http_server(tmp_path, clock=clock) as (running, http):
        before = (await http.get("/metrics")).text
        await create_orders(running)
        clock.set_date(jump)
        clock.pass_time(int(FRESH_S * 1000) - 1)
        assert (await http.get("/metrics")).text == before
        clock.pass_time(1 if jump else WEEK_MS)
        assert (await http.get("/metrics")).text != before


@JUMPS
async def test_a_sample_of_the_page_is_no_older_than_it_may_be(tmp_path: Path, jump: int) -> None:
    """A topic is listed as soon as the last sample is too old."""
    clock = FakeClock()
    async with http_server(tmp_path, clock=clock) as (running, http):
        assert "orders" not in (await http.get("/topics")).text
        await create_orders(running)
        clock.set_date(jump)
        clock.pass_time(int(sampler.FRESH_S * 1000) - 1)
        assert "orders" not in (await http.get("/topics")).text
        clock.pass_time(1 if jump else WEEK_MS)
        assert "orders" in (await http.get("/topics")).text
