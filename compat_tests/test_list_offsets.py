"""Looking up offsets: by time, whatever the order of the times and the codec, and by special times.

What is compared with is a list of every record's timestamp.
"""

import random
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from compat_tests.raw_batches import batch, record
from compat_tests.raw_client import RawClient
from kwire.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest
from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.testing.waiting import wait_until
from tests.support.requests import create_topics_request, produce_request

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = range(-1, -7, -1)
UNSUPPORTED_VERSION = 35
SPAN_MS = 1000
SETTINGS = {"segment.bytes": "1048576", "index.interval.bytes": "300"}


class Times:
    """A topic of one partition in several segments, and the timestamp of each of its records."""

    def __init__(self, client: RawClient, name: str) -> None:
        self.client = client
        self.name = name
        self.start_ms = int(time.time() * 1000) - 10 * SPAN_MS
        self.times: list[int] = []

    def create(self) -> None:
        """Create it, and wait until it can be written to."""
        answer = self.client.ask(create_topics_request(self.name, **SETTINGS), 5)
        assert answer.topics[0].error_code == 0
        wait_until(lambda: self.look_up(LATEST).error_code == 0, what="a leader")

    def append(self, times: list[int], codec: int, value: bytes) -> None:
        """Append one batch."""
        records = [
            record(n, b"k", value, timestamp_delta=moment - times[0])
            for n, moment in enumerate(times)
        ]
        largest = max(times)
        data = batch(records, codec=codec, timestamp=times[0], max_timestamp=largest)
        answer = (
            self.client.ask(produce_request(self.name, data), 11)
            .responses[0]
            .partition_responses[0]
        )
        assert (answer.error_code, answer.base_offset) == (0, len(self.times))
        self.times += times

    def fill(self, codecs: list[int], seed: int) -> None:
        """Two segments and more of batches with times in any order."""
        chance = random.Random(seed)
        for _ in range(40):
            spread = chance.choice((0, 5, SPAN_MS))
            base = self.start_ms + chance.randrange(SPAN_MS)
            times = [base + chance.randint(0, spread) for _ in range(chance.randint(1, 9))]
            self.append(times, chance.choice(codecs), chance.randbytes(60_000 // len(times)))

    def look_up(self, timestamp: int, version: int = 11) -> Any:
        """What the broker says."""
        wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        topic = ListOffsetsTopic(name=self.name, partitions=[wanted])
        answer = self.client.ask(ListOffsetsRequest(topics=[topic], timeout_ms=10_000), version)
        return answer.topics[0].partitions[0]

    def delete_before(self, offset: int) -> None:
        """Let the log start later."""
        wanted = DeleteRecordsPartition(partition_index=0, offset=offset)
        topic = DeleteRecordsTopic(name=self.name, partitions=[wanted])
        answer = self.client.ask(DeleteRecordsRequest(topics=[topic], timeout_ms=10_000), 2)
        assert answer.topics[0].partitions[0].low_watermark == offset


@pytest.fixture
def times(bootstrap: str) -> Iterator[Times]:
    """An empty topic."""
    with RawClient(bootstrap) as client:
        made = Times(client, f"times-{uuid.uuid4().hex[:10]}")
        made.create()
        yield made
        client.ask(DeleteTopicsRequest(topic_names=[made.name], timeout_ms=10_000), 5)


@pytest.mark.parametrize("codecs", [[0], [1], [2], [3], [4], [0, 1, 2, 3, 4]], ids=str)
def test_by_time(times: Times, codecs: list[int]) -> None:
    """The first record whose timestamp is not smaller, inside its batch, or none."""
    times.fill(codecs, seed=len(codecs) * 10 + codecs[0])
    for moment in range(times.start_ms - 20, times.start_ms + 2 * SPAN_MS + 20, 17):
        expected = next(
            ((n, found) for n, found in enumerate(times.times) if found >= moment), (-1, -1)
        )
        answer = times.look_up(moment)
        assert (answer.error_code, answer.offset, answer.timestamp) == (0, *expected)
        assert answer.leader_epoch == (0 if answer.offset >= 0 else -1)
    largest = max(times.times)
    answer = times.look_up(MAX_TIMESTAMP)
    assert (answer.offset, answer.timestamp) == (times.times.index(largest), largest)


def test_by_time_in_a_log_that_starts_later(times: Times) -> None:
    """Records before the log start offset are not found."""
    times.fill([0, 3], seed=5)
    start = len(times.times) // 4
    times.delete_before(start)
    for moment in range(times.start_ms, times.start_ms + 2 * SPAN_MS, 31):
        rest = list(enumerate(times.times))[start:]
        expected = next(((n, found) for n, found in rest if found >= moment), (-1, -1))
        answer = times.look_up(moment)
        assert (answer.error_code, answer.offset, answer.timestamp) == (0, *expected), moment
    answer = times.look_up(EARLIEST)
    assert (answer.offset, answer.timestamp, answer.leader_epoch) == (start, -1, 0)


def test_special_times(times: Times) -> None:
    """The ends of the log, also where it is empty; nothing is in tiered storage."""
    for moment, offset in ((LATEST, 0), (EARLIEST, 0), (MAX_TIMESTAMP, -1), (0, -1)):
        answer = times.look_up(moment)
        assert (answer.error_code, answer.offset, answer.timestamp) == (0, offset, -1)
    times.append([times.start_ms + n for n in (3, 9, 1, 9)], 0, b"value")
    expected = {
        LATEST: (4, -1, 0),
        EARLIEST: (0, -1, 0),
        MAX_TIMESTAMP: (1, times.start_ms + 9, 0),
        EARLIEST_LOCAL: (0, -1, 0),
        LATEST_TIERED: (-1, -1, -1),
        EARLIEST_PENDING: (-1, -1, -1),
    }
    for moment, told in expected.items():
        answer = times.look_up(moment)
        assert answer.error_code == 0
        assert (answer.offset, answer.timestamp, answer.leader_epoch) == told, moment


@pytest.mark.parametrize(
    ("moment", "since"),
    [(MAX_TIMESTAMP, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9), (EARLIEST_PENDING, 11)],
)
def test_special_times_since(times: Times, moment: int, since: int) -> None:
    """A version that doesn't know one is told so."""
    times.append([times.start_ms], 0, b"value")
    for version in range(1, 12):
        answer = times.look_up(moment, version)
        assert answer.error_code == (0 if version >= since else UNSUPPORTED_VERSION), version
