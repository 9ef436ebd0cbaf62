"""What clients make and remove leaves nothing in memory, however often they do it.

Everything that a client can make is made, used and removed, each time under other names; then days
pass. After that the heap is what it was: a few bytes for each cycle are allowed, for numbers that
have grown and files that have.

What is kept on purpose, up to a bound, is bounded tightly here: otherwise it would grow during the
whole test. ``make soak CYCLES=1000`` looks longer.
"""

import gc
import logging
import os
import tracemalloc
from collections import Counter

import pytest
import re2
import trio
from trio.testing import wait_all_tasks_blocked

from kwire.broker.partition import Partition
from kwire.clock import Clock
from kwire.coordinator import initial_rebalance_delay, rebalance_history
from kwire.coordinator.consumer import regexes
from kwire.log import producer_state
from kwire.log.partition_log import PartitionLog
from kwire.log.producer_entry import ProducerEntry
from kwire.metadata import embedded
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.security import authorizer
from tests.performance.answers import error_codes
from tests.soak import things, things_of_access
from tests.support.in_process import RawClient, running_server

CYCLES = int(os.environ.get("KWIRE_SOAK_CYCLES", "3"))
WARM_UP = 2
ROUNDS = 2
BYTES_ALLOWED = 1500
"""For each cycle; the smallest thing that is made leaves more if it is kept with its name."""

ONCE_ALLOWED = 6000
"""In all cycles together: the interpreter and trio grow their own tables now and then."""

DAY_S = 24 * 60 * 60
DAYS = 9
"""Longer than transactional ids and committed offsets are kept without use, a week."""

NOW_MS = 1_700_000_000_000
SETTINGS = things_of_access.SETTINGS | {
    "delegation.token.expiry.check.interval.ms": "60000",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.enable": "false",
    "log.roll.hours": "1000000",
    "max.incremental.fetch.session.cache.slots": "2",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
COUNTED = Partition, PartitionLog, ProducerEntry
BOUNDS = (
    (authorizer, "ANSWERS_PER_CLIENT", 2),
    (rebalance_history, "GROUPS_KEPT", 2),
    (initial_rebalance_delay, "ANNOUNCED_AT_MOST", 2),
    (producer_state, "AWAITED_KEPT", 2),
    (embedded, "RECENT_BYTES", 100),
    (regexes, "FOUND_AT_MOST", 2),
    (regexes, "NAMES_AT_MOST", 2),
)


class Soak:
    """A broker, the clock it goes by, and the clients of each cycle."""

    def __init__(self, server, clock, others):
        """``others`` are counted objects of before: pytest keeps those of tests that failed."""
        self._others = others
        self.server = server
        self.broker = server.broker
        self._clock = clock
        self._cycles = 0

    async def begin(self):
        """Make what is there all the time, and wait for the coordinators."""
        client = await self._connect("first", things_of_access.SUPER_USER)
        await client.topic(things.LASTING, things.PARTITIONS)
        for kind in (0, 1):
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=["any"])
            while any(error_codes(await things.ask_anyhow(client, request, 4))):
                await self._pass_s(1)
        await client.aclose()

    async def cycle(self):
        """Make, use and remove everything once, by a client with a name of its own."""
        self._cycles += 1
        client = await self._connect(f"client-{self._cycles}", things_of_access.SUPER_USER)
        for make in (*things.ALL, *things_of_access.ALL):
            await make(client, self._cycles)
        await client.aclose()
        eve = await self._connect(f"eve-{self._cycles}", things_of_access.DENIED_USER)
        await things_of_access.denied(eve, self._cycles)
        await eve.aclose()
        for _ in range(3):
            await self._pass_s(DAYS * DAY_S)
        while not self._is_settled():
            await self._pass_s(60)
        regexes.compiled.cache_clear()
        re2.purge()

    async def _connect(self, client_id, user):
        connection = await trio.open_tcp_stream(self.server.host, self.server.port)
        client = RawClient(connection, client_id)
        await things_of_access.log_in(client, user)
        return client

    def _is_settled(self):
        """Whether what takes time has been done: files are removed, connections are closed."""
        manager = self.broker.log_manager
        names = [
            name
            for directory in manager.directories
            for _, directories, files in os.walk(directory)
            for name in (*directories, *files)
        ]
        return not (
            any(name.endswith(("-delete", ".deleted")) for name in names)
            or self.server.server.poller.connections
            or self.broker.threads.housekeeping.running
            or self.broker.image.tokens
            or self.broker.transactions.of("any").coordinator.transactions
        )

    async def _pass_s(self, seconds):
        self._clock.jump(seconds)
        await wait_all_tasks_blocked(0.001)

    def count(self):
        """How many objects of each counted type the broker has made that are still there."""
        others = set(map(id, self._others))
        return Counter(type(one) for one in objects() if id(one) not in others)

    async def heap(self):
        """The bytes in use, while no thread works on a flush."""
        while self.broker.threads.syncing.running:
            await trio.lowlevel.checkpoint()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]


def objects():
    """The objects of ``COUNTED``, whoever has them."""
    gc.collect()
    return [one for one in gc.get_objects() if type(one) in COUNTED]


@pytest.fixture
async def soak(tmp_path, mock_clock, monkeypatch):
    """A broker in which caches are small, and whose time only the test moves.

    It logs nothing: pytest would keep each line.
    """
    monkeypatch.setattr(logging.root.manager, "disable", logging.CRITICAL)
    for module, name, value in BOUNDS:
        monkeypatch.setattr(module, name, value)

    def now_ms():
        return NOW_MS + int(mock_clock.current_time() * 1000)

    others = objects()
    async with running_server(tmp_path, SETTINGS, clock=Clock(now_ms, now_ms)) as server:
        begun = Soak(server, mock_clock, others)
        await begun.begin()
        yield begun


async def test_what_clients_make_and_remove_leaves_nothing(soak, mock_clock):
    """The heap is what it was after each cycle, and no partition outlives its topic."""
    tracemalloc.start()
    try:
        for _ in range(WARM_UP):
            await soak.cycle()
        # What is made once, such as a thread that waits for more work, isn't made again; what stays
        # of each cycle stays in both rounds.
        for _ in range(ROUNDS):
            before, first = await soak.heap(), tracemalloc.take_snapshot()
            for _ in range(CYCLES):
                await soak.cycle()
            grown = (await soak.heap() - before) / CYCLES
            largest = tracemalloc.take_snapshot().compare_to(first, "lineno")[:15]
            if grown <= BYTES_ALLOWED + ONCE_ALLOWED / CYCLES:
                break
        else:
            where = "\n".join(str(line) for line in largest)
            pytest.fail(f"{grown:.0f} bytes stay of each cycle:\n{where}")
    finally:
        tracemalloc.stop()
    found = soak.count()
    served = len(soak.broker.partitions())
    assert found[Partition] == found[PartitionLog] == served
    assert found[ProducerEntry] == 0
