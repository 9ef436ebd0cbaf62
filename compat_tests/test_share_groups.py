"""Share groups with stock clients: each record goes to one worker, until one is done with it.

The clients are confluent-kafka's ``ShareConsumer`` and Kafka's own console share consumer.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import AcknowledgeType, ShareConsumer

from compat_tests import secured_clients
from compat_tests.conftest import Names
from compat_tests.java_tools import run_tool
from compat_tests.raw_client import RawClient
from compat_tests.test_stock_suites import alter
from kwire.testing.waiting import wait_until
from tests.support.topics import create_topics

pytestmark = pytest.mark.skipif(secured_clients.IS_ON, reason="the consumer has no login here")

RECORDS = 200
GROUP_RESOURCE = 32
ACCEPT, RELEASE, REJECT = (
    *(AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE),
    AcknowledgeType.REJECT,
)
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"


@pytest.fixture
def topic(bootstrap: str, names: Names) -> str:
    """A topic of two partitions with records."""
    topic = names.topic("queue")
    create_topics(bootstrap, topic, partitions=2)
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    for number in range(RECORDS):
        producer.produce(topic, str(number), partition=number % 2)
    producer.flush()
    return topic


@pytest.fixture
def group(bootstrap: str, names: Names) -> str:
    """A share group that begins with the earliest record."""
    group = names.group("workers")
    with RawClient(bootstrap) as client:
        earliest = {"share.auto.offset.reset": "earliest"}
        assert alter(client, GROUP_RESOURCE, group, **earliest) == "NONE"
    return group


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    """Closes consumers after the test."""
    with ExitStack() as stack:
        yield stack


def worker(opened: ExitStack, bootstrap: str, group: str, topic: str, **config: Any) -> Any:
    """A consumer of the group."""
    consumer = ShareConsumer({"bootstrap.servers": bootstrap, "group.id": group, **config})
    opened.callback(consumer.close)
    consumer.subscribe([topic])
    return consumer


def poll(consumer: Any) -> list[Any]:
    """The next records."""
    found = list(consumer.poll(0.5) or [])
    assert not any(one.error() for one in found)
    return found


def test_workers_settle_each_record_once(
    bootstrap: str, topic: str, group: str, opened: ExitStack
) -> None:
    """Two workers accept, reject, and release: only what is released comes again, to either."""
    mode = {"share.acknowledgement.mode": "explicit"}
    workers = [worker(opened, bootstrap, group, topic, **mode) for _ in range(2)]
    seen: Counter[int] = Counter()
    released = {7, 8, 101}

    def is_done() -> bool:
        for one in workers:
            for message in poll(one):
                number = int(message.value())
                seen[number] += 1
                is_first = seen[number] == 1
                kind = RELEASE if number in released and is_first else ACCEPT
                one.acknowledge(message, REJECT if number == 9 else kind)
            one.commit_sync()
        return len(seen) == RECORDS and all(seen[number] == 2 for number in released)

    wait_until(is_done, timeout_s=60, what="all records to be settled")
    assert seen == Counter(range(RECORDS)) + Counter(released)


def test_who_comes_later_gets_what_is_left(
    bootstrap: str, topic: str, group: str, opened: ExitStack
) -> None:
    """Records are accepted by the next poll; what a closed consumer held goes to the next one."""
    first = worker(ExitStack(), bootstrap, group, topic)
    seen: list[int] = []
    wait_until(
        lambda: bool(seen) or seen.extend(int(one.value()) for one in poll(first)),
        timeout_s=60,
        what="the first records",
    )
    first.commit_sync()
    first.close()
    second = worker(opened, bootstrap, group, topic)

    def has_rest() -> bool:
        seen.extend(int(one.value()) for one in poll(second))
        return len(seen) >= RECORDS

    if len(seen) < RECORDS:
        wait_until(has_rest, timeout_s=60, what="the rest")
    assert sorted(seen) == list(range(RECORDS))


def test_kafkas_console_share_consumer(bootstrap: str, topic: str, group: str) -> None:
    server = ("--bootstrap-server", bootstrap, "--topic", topic, "--group", group)
    said = run_tool(CONSOLE, *server, "--max-messages", str(RECORDS), "--timeout-ms", "30000")
    numbers = [int(line) for line in said.splitlines() if line.isdecimal()]
    assert sorted(numbers) == list(range(RECORDS))
