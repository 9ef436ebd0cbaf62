"""``kafka.clock.advance``: what a broker does in a time that is over at once."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import trio
from confluent_kafka import Consumer, KafkaException, Producer
from kafka import KafkaConsumer

from kwire.errors import ErrorCode
from kwire.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kwire.testing import Kafka
from kwire.testing.asking import Asker
from kwire.testing.clock import LEAST_STEP_MS, steps_ms
from kwire.testing.waiting import wait_until

DAY_MS = 24 * 3600 * 1000
WEEK_MS = 7 * DAY_MS


def group_state(kafka: Kafka, group: str) -> str:
    """The state of a group, as an administrator sees it."""
    request = DescribeGroupsRequest(groups=[group])
    return Asker().ask(kafka.bootstrap, request, 5, DescribeGroupsResponse).groups[0].group_state


def test_the_session_of_a_member_is_over_and_the_member_comes_back() -> None:
    """The client knows nothing of it; it joins again, and goes on where it has committed."""
    with Kafka() as kafka:
        kafka.topic("orders", records=["a", "b"])
        consumer = KafkaConsumer(
            "orders",
            bootstrap_servers=kafka.bootstrap,
            group_id="billing",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=200,
            max_poll_records=1,
        )
        assert next(consumer).value == b"a"
        consumer.commit()
        assert group_state(kafka, "billing") == "Stable"
        kafka.clock.advance(minutes=2)
        assert group_state(kafka, "billing") == "Empty"
        kafka.produce("orders", ["c"])
        read: list[bytes] = []

        def has_come_back() -> bool:
            for records in consumer.poll(timeout_ms=100).values():
                read.extend(record.value for record in records)
            return b"c" in read and group_state(kafka, "billing") == "Stable"

        wait_until(has_come_back, timeout_s=10)
        assert set(read) == {b"b", b"c"}
        consumer.close()


def test_a_transaction_is_aborted() -> None:
    """Readers of committed records get on, and the producer is told when it commits."""
    with Kafka() as kafka:
        kafka.topic("orders")
        producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "billing"})
        producer.init_transactions(10)
        producer.begin_transaction()
        producer.produce("orders", "left open")
        assert producer.flush(10) == 0
        kafka.produce("orders", ["behind it"])
        assert kafka.records("orders") == []
        kafka.clock.advance(minutes=5)
        assert [record.value for record in kafka.records("orders")] == [b"behind it"]
        with pytest.raises(KafkaException, match="fenced"):
            producer.commit_transaction(10)


def test_retention_deletes_and_compaction_cleans() -> None:
    """Both have happened when the call returns."""
    with Kafka() as kafka:
        kafka.topic("orders", records=["a"], configs={"retention.ms": DAY_MS})
        small = {"cleanup.policy": "compact", "segment.ms": 60_000}
        kafka.topic("prices", records=[("k", "1"), ("k", "2")], configs=small)
        kafka.clock.advance(hours=1)
        kafka.produce("prices", [("k", "3")])  # in a segment of its own, and so never cleaned
        assert len(kafka.records("orders")) == 1
        kafka.clock.advance(days=2)
        assert kafka.records("orders") == []
        assert [record.value for record in kafka.records("prices")] == [b"2", b"3"]


def test_offsets_of_a_group_without_members_expire() -> None:
    """After ``offsets.retention.minutes``, and no earlier."""
    with Kafka() as kafka:
        kafka.topic("orders", records=["a"])
        settings = {"bootstrap.servers": kafka.bootstrap, "group.id": "billing"}
        consumer = Consumer(settings | {"auto.offset.reset": "earliest"})
        consumer.subscribe(["orders"])
        assert len(consumer.consume(1, timeout=10)) == 1
        consumer.close()  # commits
        kafka.clock.advance(days=6)
        assert kafka.lag("billing") == 0
        kafka.clock.advance(days=2)
        assert kafka.lag("billing") is None


def test_a_request_that_waits_is_answered() -> None:
    """A fetch that would wait for five minutes."""
    with Kafka() as kafka, ThreadPoolExecutor() as threads:
        kafka.topic("orders")
        topic = FetchTopic(topic="orders", partitions=[FetchPartition(partition=0)])
        fetch = FetchRequest(max_wait_ms=300_000, min_bytes=1, topics=[topic])
        answer = threads.submit(Asker().ask, kafka.bootstrap, fetch, 11, FetchResponse)
        wait_until(lambda: kafka.clock.advance(minutes=8) or answer.done(), timeout_s=5)
        assert answer.result().error_code == ErrorCode.NONE


def test_the_dates_of_the_broker_are_ahead() -> None:
    """Those that it writes; ``reset`` gives the present back, ``restart`` doesn't."""
    with Kafka() as kafka:
        begin_ms = kafka.now_ms()
        kafka.clock.advance(days=7)
        kafka.restart()
        kafka.topic("orders", records=["a"], configs={"message.timestamp.type": "LogAppendTime"})
        [record] = kafka.records("orders")
        assert record.timestamp is not None
        assert 0 <= record.timestamp - begin_ms - WEEK_MS < DAY_MS
        kafka.reset()
        assert 0 <= kafka.now_ms() - begin_ms < DAY_MS
        kafka.topic("orders", records=["a"])


def test_time_passes_for_a_broker_that_is_down() -> None:
    """The next start finds it."""
    with Kafka() as kafka:
        kafka.topic("orders", records=["a"], configs={"retention.ms": DAY_MS})
        kafka.kill()
        kafka.clock.advance(days=2)
        kafka.restart()
        kafka.clock.advance(minutes=10)
        assert kafka.records("orders") == []


def test_other_event_loops_keep_the_present() -> None:
    """A program under test may run trio, in the test's thread or in another."""
    times: list[float] = []

    async def look() -> None:
        times.append(trio.current_time())
        kafka.clock.advance(days=7)
        times.append(trio.current_time())

    with Kafka() as kafka:
        trio.run(look)
    assert times[1] - times[0] < 3600


def test_spans_that_are_none() -> None:
    """Time doesn't go back."""
    with Kafka() as kafka:
        for seconds in (0, -1, 0.0001):
            with pytest.raises(ValueError, match="a millisecond or more"):
                kafka.clock.advance(seconds=seconds)


@pytest.mark.parametrize("span_ms", [1, 999, 1000, 1001, 60_000, WEEK_MS, 365 * DAY_MS])
def test_steps_make_up_the_span(span_ms: int) -> None:
    """Nothing that is due after a time is later than that time again; there are few steps."""
    steps = list(steps_ms(span_ms))
    assert sum(steps) == span_ms
    assert len(steps) < 60
    passed_ms = 0
    for step_ms in steps:
        assert step_ms <= max(LEAST_STEP_MS, passed_ms)
        passed_ms += step_ms
    assert steps[-1] <= LEAST_STEP_MS
