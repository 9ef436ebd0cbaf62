"""An executor's work for the kind ``topic``: one transaction for each source partition.

Rows come sorted by topic, partition and offset, so the rows of a source partition follow each
other. See ``topic`` for why this writes each row once.
"""

import time
from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from kwire.spark.rows import PARTITION, TOPIC

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer, TopicPartition

TIMEOUT_S = 60.0
TRANSACTION_TIMEOUT_MS = 900_000
"""The most that brokers allow by default (transaction.max.timeout.ms)."""
ASK_AGAIN_S = 0.1
"""The pause before the group's offset is requested again."""


class Job(NamedTuple):
    """The data that all tasks of a batch need; ``ends`` are the ends of the batch's ranges."""

    group: str
    topic: str
    client: dict[str, str]
    ends: dict[tuple[str, int], int]


def send(batches: Iterator[Any], job: Job) -> Iterator[Any]:
    """Send the rows of a task; yields how many were sent, as Arrow."""
    import pyarrow as pa

    rows = (row for batch in batches for row in batch.to_pylist())
    for (topic, partition), mine in groupby(rows, key=lambda row: (row[TOPIC], row[PARTITION])):
        if (topic, partition) not in job.ends:
            raise ValueError(f"a row of {topic}-{partition}, which the batch doesn't cover")
        sent = _send_partition(job, topic, partition, mine)
        yield pa.RecordBatch.from_pydict({"sent": pa.array([sent], pa.int64())})


def _send_partition(job: Job, topic: str, partition: int, rows: Iterator[dict[str, Any]]) -> int:
    """Send the rows of a source partition in one transaction, unless they are already written."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    end = job.ends[topic, partition]
    identity = identity_of(job.group, topic, partition)
    # Offsets can be committed only of a topic that the cluster has, which the source may not be.
    place = TopicPartition(job.topic, 0)
    producer = Producer(
        {
            "partitioner": "murmur2_random",  # as Java's clients place keys
            "linger.ms": 20,
            **job.client,
            "transactional.id": identity,
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
        }
    )
    # This fences a task that was given up, and ends its transaction. The group's offset is read
    # afterwards, so that no other task can change it any more.
    producer.init_transactions(TIMEOUT_S)
    consumer = Consumer({**job.client, "group.id": identity, "enable.auto.commit": False})
    try:
        if committed_offset(consumer, place) >= end:
            for _ in rows:
                pass
            return 0
        producer.begin_transaction()
        try:
            sent = _produce(producer, job.topic, rows)
            place.offset = end
            producer.send_offsets_to_transaction(
                [place], consumer.consumer_group_metadata(), TIMEOUT_S
            )
            _commit(producer)
        except BaseException:
            producer.abort_transaction(TIMEOUT_S)
            raise
        return sent
    finally:
        consumer.close()


def identity_of(group: str, topic: str, partition: int) -> str:
    """The transactional id for a source partition, and the consumer group of its offset."""
    return f"{group}-{topic}-{partition}"


def committed_offset(consumer: "Consumer", place: "TopicPartition") -> int:
    """A group's offset of a partition, negative if there is none; KafkaException after a minute.

    A group's coordinator may be moving or loading. For the first group of a cluster, Apache Kafka
    first creates ``__consumer_offsets``. librdkafka itself asks only once.
    """
    from confluent_kafka import KafkaError, KafkaException

    passing = {
        *(KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE),
        *(KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.UNSTABLE_OFFSET_COMMIT),
        *(KafkaError._TRANSPORT, KafkaError._WAIT_COORD),
    }
    deadline_s = time.monotonic() + TIMEOUT_S
    while True:
        try:
            [found] = consumer.committed([place], TIMEOUT_S)
            if found.error is None:
                return int(found.offset)
            error = found.error
        except KafkaException as raised:
            error = raised.args[0]
        if error.code() not in passing or time.monotonic() >= deadline_s:
            raise KafkaException(error)
        time.sleep(ASK_AGAIN_S)


def _produce(producer: "Producer", topic: str, rows: Iterator[dict[str, Any]]) -> int:
    """Send rows and wait until the broker has them all; the first error is raised."""
    from confluent_kafka import KafkaException

    failures: list[Any] = []

    def delivered(error: Any, _message: Any) -> None:
        if error is not None:
            failures.append(error)

    sent = 0
    for row in rows:
        headers = [(one["key"], one["value"]) for one in row["headers"] or ()]
        while True:
            try:
                producer.produce(
                    topic,
                    row["value"],
                    row["key"],
                    headers=headers,
                    timestamp=row["time_ms"] or 0,
                    on_delivery=delivered,
                )
                break
            except BufferError:  # the queue is full until the broker has taken some
                producer.poll(1)
        producer.poll(0)
        sent += 1
        if failures:
            raise KafkaException(failures[0])
    producer.flush(TIMEOUT_S)
    if failures:
        raise KafkaException(failures[0])
    return sent


def _commit(producer: "Producer") -> None:
    """Commit, again after errors that librdkafka says may pass."""
    from confluent_kafka import KafkaException

    while True:
        try:
            producer.commit_transaction(TIMEOUT_S)
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
        else:
            return
