"""The records of a trial: written while the pipeline runs, read back from the broker afterwards.

What is written:

- The numbers from 0 on, each once, by an idempotent producer or in transactions of another one.
- Of the transactions some are aborted; their records have the number ``ABORTED``, which no sink may
  ever show.
- Every 997th value isn't JSON, and becomes a dead letter.
- Keys come again, and with ``tombstones`` some records have no value: for upserts.
"""

import json
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

TIMEOUT_S = 60
QUIET = logging.getLogger("spark_tests.chaos")
"""librdkafka tells of each connection that it can't make; here that happens by design."""
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False
CHUNK = 400
CHUNKS_AT_MOST = 1000
"""Of a long stream: what is flushed or committed together is larger there."""
ABORTED = -1
GARBAGE_EVERY = 997
TOMBSTONE_EVERY = 101
REPLACED_KEYS = 5
"""How often a key comes again, on average."""


class Stream:
    """Writes records in a thread, as many as it is allowed to; brokers may die meanwhile."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        count: int,
        random: Random,
        *,
        tombstones: bool = False,
    ) -> None:
        self.count = count
        self.sent = 0
        self.aborted = 0
        self._size = max(CHUNK, count // CHUNKS_AT_MOST)
        self._topic = topic
        self._partitions = partitions
        self._keys = max(count // REPLACED_KEYS, 1)
        self._tombstones = tombstones
        self._random = random
        self._allowed = 0
        self._changed = threading.Condition()
        self._failure: BaseException | None = None
        common = {"bootstrap.servers": bootstrap, "linger.ms": 5, "reconnect.backoff.max.ms": 500}
        # 0: never given up, however long the broker is away.
        plain = common | {"enable.idempotence": True, "message.timeout.ms": 0}
        self._plain = Producer(plain, logger=QUIET)
        transactional = common | {"transactional.id": f"chaos-{topic}"}
        self._transactional = Producer(transactional, logger=QUIET)
        self._thread = threading.Thread(target=self._run, name="stream", daemon=True)

    def start(self) -> None:
        """Begin; nothing is written before ``allow``."""
        self._thread.start()

    def allow(self, count: int) -> None:
        """Let the stream come up to a number of records."""
        with self._changed:
            self._allowed = min(count, self.count)
            self._changed.notify_all()

    def allow_more(self) -> bool:
        """Let the stream write a chunk beyond what it has; False if it has written everything."""
        self.allow(max(self._allowed, self.sent + self._size))
        return self.sent < self.count

    def finish(self, timeout_s: float) -> None:
        """Wait until everything is written; what has failed is raised."""
        self.allow(self.count)
        self._thread.join(timeout_s)
        self.raise_failure()
        assert not self._thread.is_alive(), f"{self.sent} of {self.count} records were written"

    def raise_failure(self) -> None:
        """Raise what has stopped the stream."""
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            persist(self._transactional.init_transactions, TIMEOUT_S)
            while self.sent < self.count:
                with self._changed:
                    self._changed.wait_for(lambda: self._allowed > self.sent)
                    end = min(self.sent + self._size, self._allowed)
                self._chunk(range(self.sent, end))
                self.sent = end
        except BaseException as error:
            self._failure = error

    def _chunk(self, numbers: range) -> None:
        if self._random.random() >= 0.3:
            self._produce(self._plain, numbers)
            while self._plain.flush(TIMEOUT_S):
                pass
            return
        if self._random.random() < 0.3:
            self._transaction(numbers, aborts=True)
            self.aborted += len(numbers)
        self._transaction(numbers, aborts=False)

    def _transaction(self, numbers: range, *, aborts: bool) -> None:
        """A transaction with the records of the numbers; again, if the broker's death aborts it."""
        producer = self._transactional
        while True:
            try:
                producer.begin_transaction()
                self._produce(producer, numbers, ABORTED if aborts else None)
                if aborts:
                    producer.flush(TIMEOUT_S)
                    persist(producer.abort_transaction, TIMEOUT_S)
                else:
                    persist(producer.commit_transaction, TIMEOUT_S)
            except KafkaException as error:
                if not error.args[0].txn_requires_abort():
                    raise
                persist(producer.abort_transaction, TIMEOUT_S)
            else:
                return

    def _produce(self, producer: Producer, numbers: range, instead: int | None = None) -> None:
        for n in numbers:
            key = n % self._keys
            value = self._value(n) if instead is None else json.dumps({"n": instead}).encode()
            while True:
                try:
                    producer.produce(self._topic, value, b"%d" % key, key % self._partitions)
                    break
                except BufferError:
                    producer.poll(1)
            producer.poll(0)

    def _value(self, n: int) -> bytes | None:
        if n % GARBAGE_EVERY == 0:
            return b"not JSON: %d" % n
        if self._tombstones and n % TOMBSTONE_EVERY == 7:
            return None
        return json.dumps({"n": n, "name": f"name {n}"}).encode()


def persist(call: Callable[[float], Any], timeout_s: float) -> None:
    """Call again after errors that librdkafka says may pass."""
    while True:
        try:
            call(timeout_s)
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
        else:
            return


@dataclass(slots=True)
class Written:
    """What a consumer with ``read_committed`` finds in the source."""

    numbers: list[int] = field(default_factory=list)
    garbage: list[bytes] = field(default_factory=list)
    tombstones: int = 0
    newest: dict[bytes, int] = field(default_factory=dict)
    """The number of the newest row of each key that wasn't deleted after it."""


def read_back(bootstrap: str, topic: str, partitions: int) -> Written:
    """Read the source of a trial."""
    found = Written()

    def take(key: bytes, value: bytes | None) -> None:
        if value is None:
            found.tombstones += 1
            found.newest.pop(key, None)
        elif value.startswith(b"{"):
            n = json.loads(value)["n"]
            found.numbers.append(n)
            found.newest[key] = n
        else:
            found.garbage.append(value)

    read_topic(bootstrap, topic, partitions, take)
    return found


def read_topic(
    bootstrap: str,
    topic: str,
    partitions: int,
    take: Callable[[bytes, bytes | None], object],
    starts: dict[int, int] | None = None,
) -> None:
    """Give key and value of each committed record to ``take``, in each partition's order.

    It begins at the offsets of ``starts``, and leaves there where it has ended.
    """
    from confluent_kafka import TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "chaos-reader",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        },
        logger=QUIET,
    )
    try:
        next_offsets = {} if starts is None else starts
        consumer.assign(
            [TopicPartition(topic, one, next_offsets.get(one, 0)) for one in range(partitions)]
        )
        ended: set[int] = set()
        deadline_s = time.monotonic() + TIMEOUT_S
        while len(ended) < partitions:
            # It waits until it has as many as are asked for, or for the whole time.
            messages = consumer.consume(10_000, 0.2)
            if messages:
                deadline_s = time.monotonic() + TIMEOUT_S
            assert time.monotonic() < deadline_s, f"nothing comes from {topic}"
            for message in messages:
                error = message.error()
                if error is None:
                    take(message.key(), message.value())
                    next_offsets[message.partition()] = message.offset() + 1
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
                else:
                    raise KafkaException(error)
    finally:
        consumer.close()
