"""What the broker says to batches of every kind, well-formed and not, and what it keeps of them.

Compared are the error, the places of wrong records and that there are messages, the offset, the
time and the log start offset of the answer, and the batch that is stored.
"""

import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from compat_tests.batch_cases import CASES, TOPICS, Case, Kept, Refused, Repeated
from compat_tests.raw_client import RawClient
from compat_tests.time_cases import TIMES
from kwire.protocol.messages.create_topics import (
    CreateTopicsRequest,
)
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest
from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.record.batch import RecordBatch
from kwire.record.records import records
from kwire.testing.waiting import wait_until
from tests.support.requests import create_topics_request, fetch_request, produce_request

ERROR_MESSAGES_SINCE = 8
LOG_START_SINCE = 5
SOON_MS = 60_000


class Topics:
    """The topics of the cases, and a connection to the broker."""

    def __init__(self, client: RawClient) -> None:
        self.client = client
        self.names = {kind: f"{kind}-{uuid.uuid4().hex[:10]}" for kind in TOPICS}

    def create(self) -> None:
        """Create them all, and wait until they can be written to."""
        topics = [
            create_topics_request(self.names[kind], **settings).topics[0]
            for kind, settings in TOPICS.items()
        ]
        answer = self.client.ask(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 5)
        assert [topic.error_code for topic in answer.topics] == [0] * len(topics)
        for kind in TOPICS:
            wait_until(lambda kind=kind: self.end_offset(kind) == 0, what="a leader")

    def delete(self) -> None:
        """Delete them all."""
        names = list(self.names.values())
        self.client.ask(DeleteTopicsRequest(topic_names=names, timeout_ms=10_000), 5)

    def end_offset(self, kind: str) -> int:
        """Where a topic's only partition ends."""
        wanted = ListOffsetsPartition(partition_index=0, timestamp=-1)
        topic = ListOffsetsTopic(name=self.names[kind], partitions=[wanted])
        answer = self.client.ask(ListOffsetsRequest(topics=[topic]), 4)
        return int(answer.topics[0].partitions[0].offset)

    def produce(self, kind: str, data: bytes, version: int) -> Any:
        """Send a batch with acks=all; the answer for the partition."""
        request = produce_request(self.names[kind], data)
        return self.client.ask(request, version).responses[0].partition_responses[0]

    def stored(self, kind: str, offset: int) -> RecordBatch:
        """The batch at an offset."""
        limits = {"max_bytes": 1 << 22, "partition_max_bytes": 1 << 22}
        request = fetch_request(self.names[kind], offset, max_wait_ms=1000, **limits)
        data = self.client.ask(request, 12).responses[0].partitions[0].records
        return RecordBatch(bytes(data))


@pytest.fixture(scope="module")
def topics(bootstrap: str) -> Iterator[Topics]:
    """One set of topics for all cases."""
    with RawClient(bootstrap) as client:
        made = Topics(client)
        made.create()
        yield made
        made.delete()


@pytest.mark.parametrize("case", [*CASES, *TIMES], ids=lambda case: case.name)
def test_a_batch(topics: Topics, case: Case) -> None:
    """The answer and what is stored are those of Apache Kafka."""
    now = int(time.time() * 1000)
    if isinstance(case.answer, Repeated):
        now = topics.stored(case.topic, topics.end_offset(case.topic) - 1).base_timestamp
    before = topics.end_offset(case.topic)
    answer = topics.produce(case.topic, case.data(now), case.version)
    after = topics.end_offset(case.topic)
    if isinstance(case.answer, Refused):
        assert after == before
        check_refused(answer, case.answer, case.version)
        return
    assert (answer.error_code, answer.record_errors) == (0, [])
    assert answer.log_start_offset == (0 if case.version >= LOG_START_SINCE else -1)
    if isinstance(case.answer, Repeated):
        assert (after, answer.base_offset) == (before, before - case.answer.records_back)
        if case.answer.is_stamped:
            assert abs(answer.log_append_time_ms - time.time() * 1000) < SOON_MS
        else:
            assert answer.log_append_time_ms == now
        return
    assert answer.base_offset == before
    batch = topics.stored(case.topic, before)
    assert after == batch.next_offset
    check_kept(batch, case.answer, now, answer.log_append_time_ms)


def check_refused(answer: Any, expected: Refused, version: int) -> None:
    """The error, and which records are to blame."""
    assert answer.error_code == expected.code
    assert (answer.base_offset, answer.log_append_time_ms) == (-1, -1)
    tells_start = expected.tells_start and version >= LOG_START_SINCE
    assert answer.log_start_offset == (0 if tells_start else -1)
    assert [error.batch_index for error in answer.record_errors] == list(expected.places)
    if expected.places:
        assert version >= ERROR_MESSAGES_SINCE
        assert answer.error_message
        assert all(error.batch_index_error_message for error in answer.record_errors)


def check_kept(batch: RecordBatch, expected: Kept, now: int, log_append_time_ms: int) -> None:
    """The stored batch, as the case wants it."""
    batch.verify_crc()
    assert batch.partition_leader_epoch >= 0
    assert batch.attributes == expected.attributes
    if expected.max_timestamp is None:
        assert log_append_time_ms == batch.max_timestamp
        assert abs(log_append_time_ms - time.time() * 1000) < SOON_MS
    else:
        assert log_append_time_ms == -1

    def as_expected(timestamp: int, wanted: int | str | None) -> int | str | None:
        if wanted is None:
            return None if timestamp == log_append_time_ms else timestamp
        return str(timestamp) if isinstance(wanted, str) else timestamp - now

    assert as_expected(batch.max_timestamp, expected.max_timestamp) == expected.max_timestamp
    found = list(records(batch))
    assert batch.records_count == batch.last_offset_delta + 1 == len(found)
    if expected.count:
        assert len(found) == expected.count
        assert [record.offset - batch.base_offset for record in found] == list(range(len(found)))
        return
    assert [
        (record.offset - batch.base_offset, as_expected(record.timestamp, wanted))
        for record, (_, wanted) in zip(found, expected.records, strict=True)
    ] == list(expected.records)
