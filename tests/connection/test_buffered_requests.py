"""Long polls whose memory counts, while they wait and when they go on."""

import pytest

from kwire.broker.partition import Partition
from kwire.budget.buffered_bytes_limit import Buffering
from kwire.dispatch.large_requests import INLINE_ELEMENTS
from kwire.testing.waiting import until
from tests.connection.test_long_polls import (
    VERSIONS,
    append,
    fetch,
    read_what_was_not_read,
    wait_behind_what_is_not_read,
    waiting,
)
from tests.support.in_process import RunningServer

pytestmark = pytest.mark.parametrize("version", VERSIONS)


async def test_a_large_request_that_waits_counts_as_held(
    running: RunningServer, partition: Partition, version: int
) -> None:
    """The memory of a long poll over many partitions is counted, until its response is made."""
    client = await running.connect()
    request = fetch()
    request.topics[0].partitions *= INLINE_ELEMENTS + 1
    await client.send(request, version)
    await waiting(partition, 1)
    poller = running.server.poller
    await until(lambda: poller.buffered.held_bytes)
    assert not poller.turns.large.held_bytes
    append(partition)
    await client.receive_frame()
    await until(lambda: not poller.buffered.held_bytes)
    await client.aclose()


async def test_a_large_request_that_was_woken_in_vain_still_counts(
    running: RunningServer,
    partition: Partition,
    version: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A large long poll holds its memory after an append that doesn't suffice, too."""
    buffered = running.server.poller.buffered
    counted, count = [], buffered.count_bytes

    def noted(connection: Buffering, size_bytes: int, now_s: float) -> None:
        counted.append(size_bytes)
        count(connection, size_bytes, now_s)

    monkeypatch.setattr(buffered, "count_bytes", noted)
    client = await running.connect()
    request = fetch(min_bytes=1_000_000)
    request.topics[0].partitions *= INLINE_ELEMENTS + 1
    await client.send(request, version)
    await until(lambda: len(counted) == 1)
    append(partition)
    await until(lambda: len(counted) == 2)
    assert counted[0] == counted[1] == buffered.held_bytes > 0
    await client.aclose()


async def test_what_the_client_has_read_counts_no_more(
    running: RunningServer, partition: Partition, version: int, all_in_one_turn: None
) -> None:
    """Responses don't rest in memory any more while the next request waits for an append."""
    client = await running.connect()
    await wait_behind_what_is_not_read(client, version)
    buffered = running.server.poller.buffered
    assert buffered.held_bytes
    await read_what_was_not_read(client)
    await until(lambda: not buffered.held_bytes)
    await waiting(partition, 1)
    await client.aclose()
