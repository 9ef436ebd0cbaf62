"""Clients that write down what a broker promises them: the load of the crash test.

Rules: what is in doubt (no answer before the broker died) may have happened or not; what was
answered has to be so ever after. Each partition has one writer, so that its order is known.
"""

import time
from random import Random
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from compat_tests.clients import QUIET
from kwire.testing.waiting import wait_until

TIMEOUT_S = 30
ADMIN_TIMEOUT_S = 3.0
PAUSE_S = 0.001


class Writer:
    """One producer and its partition: record ``n`` has the value ``n`` and some padding.

    With ``exactly_once`` it is idempotent and tries until it is told; else it asks once (acks=1).
    """

    def __init__(
        self, bootstrap: str, topic: str, partition: int, *, exactly_once: bool, **options: Any
    ) -> None:
        self.topic, self.partition, self.exactly_once = topic, partition, exactly_once
        self.acknowledged: dict[int, int] = {}
        self.answered_s: list[float] = []
        """When each answer came, by time.monotonic."""
        self.latencies_s: list[float] = []
        """For each of these, how long its record had been on its way."""
        self.errors: list[str] = []
        """What the client has told its application instead of an answer."""
        self.sent = 0
        self.next_offset = self.next_number = 0
        config = {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": exactly_once,
            "acks": "all" if exactly_once else "1",
            "message.timeout.ms": 120_000 if exactly_once else 2_000,
            "retries": 1_000_000 if exactly_once else 0,
            "reconnect.backoff.max.ms": 200,
            "linger.ms": 5,
            **options,
        }
        self._producer = Producer(config, logger=QUIET)

    def send(self, count: int, size_bytes: int) -> None:
        """Send some records, take in answers that are there, and pause a little."""
        for _ in range(count):
            number = self.sent

            def answered(error: Any, message: Any, number: int = number) -> None:
                if error is None:
                    self.acknowledged[message.offset()] = number
                    self.latencies_s.append(message.latency())
                    self.answered_s.append(time.monotonic())
                else:
                    self.errors.append(error.str())

            value = b"%d " % number + b"v" * size_bytes
            try:
                self._producer.produce(
                    self.topic, value, partition=self.partition, on_delivery=answered
                )
            except BufferError:
                break
            self.sent += 1
        self._producer.poll(PAUSE_S)

    def settle(self) -> None:
        """Wait for every answer."""
        left = self._producer.flush(TIMEOUT_S)
        assert not left, f"{left} records of {self.topic} are without an answer"

    def give_up(self) -> None:
        """Forget what is without an answer, and send nothing more."""
        self._producer.purge()
        self.settle()

    def check(self, rows: list[tuple[int, int]]) -> None:
        """What a consumer read on from ``next_offset``, as (offset, number), keeps all promises."""
        where = f"{self.topic}-{self.partition}"
        for offset, number in rows:
            assert offset >= self.next_offset, f"{where}: offset {offset} twice"
            wanted = self.acknowledged.get(offset, number)
            assert number == wanted, f"{where}: {number} at {offset}, not {wanted}"
            follows = (
                number == self.next_number if self.exactly_once else number >= self.next_number
            )
            assert follows, f"{where}: {number} at {offset} after {self.next_number - 1}"
            self.next_offset, self.next_number = offset + 1, number + 1
        start = rows[0][0] if rows else self.next_offset  # retention may have moved it
        lost = sorted(self.acknowledged.keys() - {offset for offset, _ in rows})
        lost = [offset for offset in lost if offset >= start]
        assert not lost, f"{where}: {len(lost)} records are lost, {lost[:5]} among them"
        self.acknowledged.clear()


def read_all(consumer: Consumer, topic: str, partition: int, offset: int) -> list[tuple[int, int]]:
    """Offset and number of every record from ``offset`` on."""
    place = TopicPartition(topic, partition, offset if offset else OFFSET_BEGINNING)
    low, high = _bounds(consumer, place)
    rows: list[tuple[int, int]] = []
    position = max(low, offset)
    consumer.assign([TopicPartition(topic, partition, position)])
    heard_s = time.monotonic()
    while position < high:
        messages = consumer.consume(min(high - position, 10_000), timeout=0.5)
        if messages:
            heard_s = time.monotonic()
        silent = time.monotonic() - heard_s > TIMEOUT_S
        assert not silent, f"{topic}-{partition} ends at {position}, not at {high}"
        for message in messages:
            assert message.error() is None, message.error()
            rows.append((message.offset(), int(message.value().split(b" ", 1)[0])))
            position = message.offset() + 1
    return rows


def _bounds(consumer: Consumer, place: TopicPartition) -> tuple[int, int]:
    """The first offset of a partition and the one after its last; asked until they are known."""

    def ask() -> tuple[int, int] | None:
        try:
            found: tuple[int, int] = consumer.get_watermark_offsets(place, timeout=TIMEOUT_S)
        except KafkaException:  # librdkafka has not found the broker again
            return None
        return found

    found = wait_until(ask, timeout_s=TIMEOUT_S)
    assert found is not None
    return found


class Churn:
    """Topics made, changed and deleted and offsets committed, one after the other.

    ``topics`` gives each name the value of its retention.ms, or None where it was deleted;
    ``doubtful`` are those whose last change was not answered.
    """

    def __init__(self, bootstrap: str, group: str, topic: str, random: Random) -> None:
        self.topics: dict[str, str | None] = {}
        self.doubtful: set[str] = set()
        self.committed = -1
        self.attempted = -1
        self._made = 0
        self._topic, self._random = topic, random
        common = {"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 200}
        self.admin = AdminClient(common, logger=QUIET)
        self.consumer = Consumer(
            {**common, "group.id": group, "enable.auto.commit": False, "socket.timeout.ms": 3000},
            logger=QUIET,
        )

    def step(self) -> None:
        """Do one thing and note what was answered."""
        alive = sorted(
            n for n, v in self.topics.items() if v is not None and n not in self.doubtful
        )
        action = self._random.choice(("commit", "commit", "create", "alter", "delete"))
        if action == "commit":
            self._commit()
        elif action == "create" or not alive:
            self._made += 1
            name = f"churn-{self._made}"
            made = self.admin.create_topics(
                [NewTopic(name, 2, config={"retention.ms": "1000000"})],
                request_timeout=ADMIN_TIMEOUT_S,
                operation_timeout=ADMIN_TIMEOUT_S,
            )
            self._note(name, "1000000", made[name])
        elif action == "alter":
            name, value = self._random.choice(alive), str(self._random.randrange(10**6, 10**9))
            entry = ConfigEntry("retention.ms", value, incremental_operation=AlterConfigOpType.SET)
            resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
            changed = self.admin.incremental_alter_configs(
                [resource], request_timeout=ADMIN_TIMEOUT_S
            )
            self._note(name, value, changed[resource])
        else:
            name = self._random.choice(alive)
            deleted = self.admin.delete_topics(
                [name], request_timeout=ADMIN_TIMEOUT_S, operation_timeout=ADMIN_TIMEOUT_S
            )
            self._note(name, None, deleted[name])

    def _note(self, name: str, value: str | None, answer: Any) -> None:
        try:
            answer.result(TIMEOUT_S)
        except KafkaException:
            self.doubtful.add(name)
        else:
            self.topics[name] = value

    def _commit(self) -> None:
        self.attempted += 1
        place = TopicPartition(self._topic, 0, self.attempted)
        try:
            (answer,) = self.consumer.commit(offsets=[place], asynchronous=False)
        except KafkaException:
            return
        if answer.error is None:
            self.committed = self.attempted

    def check(self) -> None:
        """Topics, configs and the committed offset are what was answered."""
        there = set(self.admin.list_topics(timeout=TIMEOUT_S).topics)
        for name, value in self.topics.items():
            if name not in self.doubtful:
                assert (name in there) == (value is not None), f"{name}: {value}"
        alive = [n for n, v in self.topics.items() if v is not None and n not in self.doubtful]
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in alive]
        described = self.admin.describe_configs(resources) if resources else {}
        for resource, answer in described.items():
            found = answer.result(TIMEOUT_S)["retention.ms"].value
            assert found == self.topics[resource.name], f"{resource.name}: {found}"
        (place,) = self.consumer.committed([TopicPartition(self._topic, 0)], timeout=TIMEOUT_S)
        found = place.offset if place.offset >= 0 else -1
        assert self.committed <= found <= self.attempted, (self.committed, found, self.attempted)
        self.committed = found
