"""How much a fetch gives: limits of the request and of partitions, soft for one batch."""

import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from compat_tests.raw_batches import batch, record
from compat_tests.raw_client import RawClient
from kwire.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.testing.waiting import wait_until
from tests.support.requests import produce_request

PARTITIONS = 3
BATCH_BYTES = 1000
BATCHES = 10
ALL = BATCHES * BATCH_BYTES


class Sized:
    """A topic whose partitions hold ten batches of a thousand bytes, the last one nothing.

    One broker leads them all.
    """

    def __init__(self, client: RawClient) -> None:
        self.client = client
        self.name = f"sized-{uuid.uuid4().hex[:10]}"

    def create(self) -> None:
        """Create and fill it."""
        node = self.client.ask(MetadataRequest(topics=[]), 12).brokers[0].node_id
        placed = [
            CreatableReplicaAssignment(partition_index=index, broker_ids=[node])
            for index in range(PARTITIONS + 1)
        ]
        topic = CreatableTopic(
            name=self.name, num_partitions=-1, replication_factor=-1, assignments=placed
        )
        answer = self.client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5)
        assert answer.topics[0].error_code == 0
        data = batch([record(0, None, bytes(BATCH_BYTES - 70))], timestamp=int(time.time() * 1000))
        assert len(data) == BATCH_BYTES
        for index in range(PARTITIONS):
            for _ in range(BATCHES):
                wait_until(lambda index=index: self._append(index, data), what="a leader")

    def _append(self, index: int, data: bytes) -> bool:
        request = produce_request(self.name, {index: data})
        answer = self.client.ask(request, 11).responses[0].partition_responses[0]
        return bool(answer.error_code == 0)

    def sizes(self, wanted: list[tuple[int, int, int]], version: int = 12, **fields: Any) -> Any:
        """Bytes of each answer, for (partition, offset, its limit) each."""
        partitions = [
            FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=limit)
            for index, offset, limit in wanted
        ]
        topic = FetchTopic(topic=self.name, partitions=partitions)
        values = {"max_wait_ms": 200, "min_bytes": 1, "max_bytes": 1 << 20} | fields
        answer = self.client.ask(FetchRequest(topics=[topic], **values), version)
        told = answer.responses[0].partitions
        assert [p.error_code for p in told] == [0] * len(wanted)
        return [len(bytes(p.records or b"")) for p in told]


@pytest.fixture(scope="module")
def sized(bootstrap: str) -> Iterator[Sized]:
    """One such topic for all tests."""
    with RawClient(bootstrap) as client:
        made = Sized(client)
        made.create()
        yield made
        client.ask(DeleteTopicsRequest(topic_names=[made.name], timeout_ms=10_000), 5)


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(0, 1000), (1, 1000), (999, 1000), (1000, 1000), (1001, 1001), (2500, 2500), (ALL + 1, ALL)],
)
def test_the_limit_of_a_partition(sized: Sized, limit: int, expected: int) -> None:
    """One whole batch at least; beyond that exactly so many bytes, the last batch cut."""
    assert sized.sizes([(0, 0, limit)]) == [expected]
    assert sized.sizes([(0, 9, limit)]) == [1000]


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (1, [1000, 0, 0]),
        (1000, [1000, 0, 0]),
        (1500, [1500, 0, 0]),
        (ALL + 300, [ALL, 0, 0]),
        (ALL + 1300, [ALL, 1300, 0]),
        (2 * ALL + 2300, [ALL, ALL, 2300]),
        (4 * ALL, [ALL, ALL, ALL]),
    ],
)
def test_the_limit_of_a_request(sized: Sized, limit: int, expected: list[int]) -> None:
    """The partitions share it in the order of the request; only the first one may go beyond, and
    the others give nothing where not one batch fits."""
    wanted = [(index, 0, 1 << 20) for index in range(PARTITIONS)]
    assert sized.sizes(wanted, max_bytes=limit) == expected
    reverse = sized.sizes(wanted[::-1], max_bytes=limit)
    assert reverse == expected


def test_an_empty_partition_takes_nothing_from_the_others(sized: Sized) -> None:
    """The first partition that has something gives a whole batch."""
    assert sized.sizes([(3, 0, 100), (0, 0, 100), (1, 0, 100)]) == [0, 1000, 0]
    assert sized.sizes([(0, 10, 100), (1, 4, 1)], max_bytes=1) == [0, 1000]
    assert sized.sizes([(0, 0, 1500), (1, 0, 1500)], max_bytes=2700) == [1500, 1200]


@pytest.mark.parametrize("version", [4, 7, 11, 12])
def test_every_version_goes_by_them(sized: Sized, version: int) -> None:
    """Old ones too."""
    assert sized.sizes([(0, 0, 1), (1, 0, 1)], version) == [1000, 0]


def test_waiting_for_enough(sized: Sized) -> None:
    """min_bytes that are there are not waited for; those that aren't, for max_wait."""
    started = time.monotonic()
    assert sized.sizes([(0, 0, 1 << 20)], min_bytes=ALL, max_wait_ms=30_000) == [ALL]
    assert time.monotonic() - started < 20
    assert sized.sizes([(0, 0, 1 << 20)], min_bytes=ALL + 1, max_wait_ms=50) == [ALL]
